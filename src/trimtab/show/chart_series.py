"""The arithmetic behind the charts: plain values in, points to draw out."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from typing import Final

from trimtab.base.run import LatencyHistogram, Timeline

STALL_FRACTION: Final = 0.1
"""An interval that moved less than this part of its repetition's median interval is a stall."""

_BANDWIDTH_UNITS: Final = (
    (1e15, "PB/s"),
    (1e12, "TB/s"),
    (1e9, "GB/s"),
    (1e6, "MB/s"),
    (1e3, "KB/s"),
)
_TIME_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit of an axis: divide base SI by ``divisor`` to get ``unit``."""

    divisor: float
    unit: str


@dataclass(frozen=True, slots=True)
class Stalls:
    """Intervals in which almost nothing moved: count, total, and the longest stretch."""

    count: int
    of: int
    longest_s: float
    longest_repetition: int | None


@dataclass(frozen=True, slots=True)
class Tail:
    """The latency distribution: the fraction of operations that took ``latency_s`` or longer.

    Attributes
    ----------
    latency_s, fraction
        The points of the curve, latency ascending, fraction descending from 1; a latency is the
        upper bound of its bucket.
    marks
        Name to latency: ``p50``, ``p99``, ``p99.9`` if there are enough operations, ``max``.
    operations
        Number of operations behind the curve.
    """

    latency_s: tuple[float, ...]
    fraction: tuple[float, ...]
    marks: tuple[tuple[str, float, float], ...]
    operations: int


def bandwidth_scale(largest_bytes_per_s: float) -> Scale:
    """Return the decimal unit in which ``largest_bytes_per_s`` reads well."""
    for divisor, unit in _BANDWIDTH_UNITS:
        if largest_bytes_per_s >= divisor * 0.9995:
            return Scale(divisor, unit)
    return Scale(1.0, "B/s")


def value_scale(largest: float, unit: str) -> Scale:
    """Return the unit in which values up to ``largest`` read well."""
    if unit == "B/s":
        return bandwidth_scale(largest)
    if unit == "s":
        for divisor, name in _TIME_UNITS:
            if largest >= divisor:
                return Scale(divisor, name)
    return Scale(1.0, unit)


def size_scale(largest_bytes: float) -> Scale:
    """Return the binary unit in which sizes up to ``largest_bytes`` read well."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = next((power for power in (5, 4, 3, 2, 1) if largest_bytes >= 1024.0**power), 0)
    return Scale(1024.0**power, units[power])


def round_top(value: float) -> float:
    """Return the next round figure at or above ``value``: the top of an axis.

    Examples
    --------
    >>> round_top(1.94), round_top(0.63), round_top(8.2)
    (2.0, 0.8, 10.0)
    """
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0):
        # The power is a float: rounding must not exclude 1.1 * 10**n itself.
        if value <= step * power * (1 + 1e-12):
            return round(step * power, 12)
    return round(10.0 * power, 12)


def stalls_of(timelines: Sequence[Timeline]) -> Stalls:
    """Return the stalls in all repetitions, without each one's last interval, which is cut."""
    count = of = 0
    longest_s, longest_repetition = 0.0, None
    for timeline in timelines:
        stretch = 0
        for stalled in stalled_intervals(timeline):
            of += 1
            count += stalled
            stretch = stretch + 1 if stalled else 0
            if stretch * timeline.interval_s > longest_s:
                longest_s, longest_repetition = stretch * timeline.interval_s, timeline.repetition
    return Stalls(count, of, longest_s, longest_repetition)


def stalled_intervals(timeline: Timeline) -> tuple[bool, ...]:
    """Return for each interval but the last whether almost nothing moved in it."""
    whole = timeline.moved_bytes[:-1]
    if not whole:
        return ()
    limit = STALL_FRACTION * median(whole)
    # With a median of 0 the repetition stalled for most of its time: all of it is a stall.
    return tuple(moved < limit or moved == 0 for moved in whole)


def merged(timeline: Timeline, intervals_max: int) -> Timeline:
    """Return the timeline with neighbouring intervals summed until there are few enough."""
    factor = math.ceil(len(timeline.moved_bytes) / intervals_max)
    if factor <= 1:
        return timeline
    moved = timeline.moved_bytes
    sums = tuple(sum(moved[start : start + factor]) for start in range(0, len(moved), factor))
    return Timeline(timeline.access, timeline.repetition, timeline.interval_s * factor, sums)


def tail_of(histograms: Sequence[LatencyHistogram], points_max: int = 300) -> Tail | None:
    """Return the latency tail over all histograms together, ``None`` if nothing was counted.

    Notes
    -----
    A quantile is the upper bound of its bucket, so it is never too small; the rank of quantile q
    among n operations is ceil(q n).
    """
    buckets = _pooled(histograms)
    if not buckets:
        return None
    latencies = [upper for upper, _ in buckets]
    upto = list(accumulate(count for _, count in buckets))
    total = upto[-1]
    slower = [(total - before) / total for before in [0, *upto[:-1]]]
    marks = tuple(
        (name, latencies[index], slower[index]) for name, index in _mark_indices(upto, total)
    )
    chosen = _thinned(latencies, points_max, keep={latency for _, latency, _ in marks})
    return Tail(
        tuple(latencies[index] for index in chosen),
        tuple(slower[index] for index in chosen),
        marks,
        total,
    )


def _pooled(histograms: Sequence[LatencyHistogram]) -> list[tuple[float, int]]:
    counts: dict[float, int] = {}
    for histogram in histograms:
        for upper_s, count in zip(histogram.upper_s, histogram.count, strict=True):
            # A logarithmic axis has no zero; no real operation takes none.
            if count > 0 and upper_s > 0 and math.isfinite(upper_s):
                counts[upper_s] = counts.get(upper_s, 0) + count
    return sorted(counts.items())


def _mark_indices(upto: list[int], total: int) -> list[tuple[str, int]]:
    quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)]
    marks = [
        (name, bisect_left(upto, math.ceil(quantile * total)))
        for name, quantile in quantiles
        # A quantile beyond the slowest operation would be that operation under another name.
        if total * (1 - quantile) >= 1
    ]
    return [*marks, ("max", len(upto) - 1)]


def _thinned(latencies: list[float], points_max: int, *, keep: set[float]) -> list[int]:
    if len(latencies) <= points_max:
        return list(range(len(latencies)))
    span = math.log(latencies[-1] / latencies[0])
    cells = [int(math.log(latency / latencies[0]) / span * points_max) for latency in latencies]
    new_cell = [True, *(left != right for left, right in pairwise(cells))]
    return [index for index, latency in enumerate(latencies) if new_cell[index] or latency in keep]
