"""Completion latency of a run's operations, from submission to completion.

fio 3 counts nanoseconds under ``clat_ns``, fio 2 microseconds under ``clat``. Percentiles of
several jobs cannot be merged, but the buckets of ``json+`` can: their quantiles equal what fio
would print for the jobs as one group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trimtab.measure.fio.figures import QUANTILES, Entry, is_decimal
from trimtab.measure.fio.options import is_set, options_of
from trimtab.measure.plain import as_dict, as_number
from trimtab.message import Message

_LIKE_ANOTHER: Final = 1.02
"""A percentile is a bucket's value, and a bucket is 1/64 of its octave wide."""


_ROUNDED_MAXIMUM: Final = 0.01
"""A figure is doubted if rounding may hide more than this fraction of it."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latency of one direction.

    Attributes
    ----------
    values_s
        Statistic to value and line.
    counts
        Bucket in nanoseconds, as fio names it, to its operations.
    missing
        Why there is no distribution.
    reason
        Why the values are not credible.
    coarse
        Statistic to the reason why it alone is not: too much rounding.
    """

    values_s: dict[str, tuple[float, int]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    missing: str | None = None
    reason: str | None = None
    coarse: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reported:
    """The latency object of one entry."""

    values: dict[str, Any]
    unit_s: float
    path: tuple[str, str]
    percentiles: dict[float, tuple[float, str]]
    bins: dict[int, int]
    operations: float

    @property
    def units(self) -> dict[str, float]:
        """Statistic to one unit of its last digit, for human-readable output."""
        return as_dict(self.values.get("units"))


def latencies(entries: Sequence[Entry]) -> Latencies:
    """Return the latency of entries that ran together."""
    reported = [_reported(entry) for entry in entries]
    if not all(entry.operations for entry in reported):
        return Latencies(missing=Message("no-latency", "fio printed no latency"))
    if len(reported) == 1:
        return _of_one(entries[0], reported[0])
    if not all(entry.bins and sum(entry.bins.values()) == entry.operations for entry in reported):
        text = "fio printed a distribution for each job; use group_reporting or json+"
        return Latencies(missing=Message("latency-per-job", text))
    return _of_several(entries, reported)


def upper_edges(counts: dict[int, int]) -> dict[int, int]:
    """Return upper edge in ns to count, with eight buckets per power of two.

    fio names a bucket by its middle and has 64 per power of two (FIO_IO_U_PLAT_BITS = 6 in stat.h);
    eight are enough for charts and for finding stalls, and limit a run to about 100 rows.
    """
    edges: dict[int, int] = {}
    for middle, count in counts.items():
        shift = max(middle.bit_length() - 4, 0)
        edge = ((middle >> shift) + 1) << shift
        edges[edge] = edges.get(edge, 0) + count
    return edges


def _of_one(entry: Entry, reported: _Reported) -> Latencies:
    values: dict[str, tuple[float, int]] = {}
    for name, share in QUANTILES.items():
        if share in reported.percentiles:
            value, key = reported.percentiles[share]
            line = entry.document.line_of(entry.index, *reported.path, "percentile", key)
            values[name] = value * reported.unit_s, line
    for name in ("mean", "max"):
        value = as_number(reported.values.get(name))
        if value is not None:
            line = entry.document.line_of(entry.index, *reported.path, name)
            values[name] = value * reported.unit_s, line
    missing = Message("no-percentiles", "fio printed no percentiles of the completion latency")
    reason = _disorder(reported)
    gap = None if reported.percentiles else missing
    return Latencies(values, _in_ns(reported), gap, reason, _coarse(reported, values))


def _coarse(reported: _Reported, values: dict[str, tuple[float, int]]) -> dict[str, str]:
    """Return a reason for each statistic with too few digits."""
    coarse: dict[str, str] = {}
    for name, (value_s, _) in values.items():
        unit = reported.units.get("percentile" if name in QUANTILES else name, 0.0)
        # Percentiles are rounded up, the others down or to nearest: up to a full unit is hidden.
        if unit * reported.unit_s > _ROUNDED_MAXIMUM * value_s:
            text = f"fio printed {name} of the latency with too few digits: {value_s:.3g} s"
            coarse[name] = Message("too-few-digits", text)
    return coarse


def _of_several(entries: Sequence[Entry], reported: Sequence[_Reported]) -> Latencies:
    counts: dict[int, int] = {}
    for latency in reported:
        for bucket, count in _in_ns(latency).items():
            counts[bucket] = counts.get(bucket, 0) + count
    line = entries[0].bandwidth_line
    operations = sum(counts.values())
    values = {
        name: (_quantile(counts, share / 100 * operations) / 1e9, line)
        for name, share in QUANTILES.items()
    }
    means = [as_number(entry.values.get("mean")) for entry in reported]
    greatest = [as_number(entry.values.get("max")) for entry in reported]
    if None not in means:
        weighted = sum(
            (mean or 0.0) * entry.operations * entry.unit_s
            for mean, entry in zip(means, reported, strict=True)
        )
        values["mean"] = weighted / operations, line
    if None not in greatest:
        values["max"] = max((value or 0.0) * reported[0].unit_s for value in greatest), line
    return Latencies(values, counts, reason=next(filter(None, map(_disorder, reported)), None))


def _quantile(counts: dict[int, int], wanted: float) -> int:
    """Return the first bucket that reaches a quantile, as fio's percentiles do."""
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= wanted:
            return bucket
    return max(counts)


def _reported(entry: Entry) -> _Reported:
    figures = entry.figures
    key, unit_s = ("clat_ns", 1e-9) if "clat_ns" in figures else ("clat", 1e-6)
    values = as_dict(figures.get(key))
    whole = as_dict(figures.get("lat_ns" if key == "clat_ns" else "lat"))
    percentiles = {
        float(share): (value, share)
        for share, percentile in as_dict(values.get("percentile")).items()
        if is_decimal(share) and (value := as_number(percentile)) is not None
    }
    # Up to 3.17 lat_percentiles=1 replaces them by those of the total latency.
    options = options_of(entry.document, entry.job)
    if is_set(options, "lat_percentiles") and "percentile" not in whole:
        percentiles = {}
    bins = _bins(values)
    # Not total_ios, which excludes operations in progress when a ramp ended. Before 3.19 only the
    # buckets give their number; without buckets it is enough that there were operations.
    operations = as_number(values.get("N", sum(bins.values()) or as_number(values.get("max"))))
    return _Reported(values, unit_s, (entry.access, key), percentiles, bins, operations or 0.0)


def _bins(values: dict[str, Any]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for key, value in as_dict(values.get("bins")).items():
        count = as_number(value)
        if key.isascii() and key.isdecimal() and len(key) <= 18 and count:
            counts[int(key)] = counts.get(int(key), 0) + int(count)
    return counts


def _in_ns(reported: _Reported) -> dict[int, int]:
    factor = round(reported.unit_s * 1e9)
    return {bucket * factor: count for bucket, count in reported.bins.items()}


def _disorder(reported: _Reported) -> str | None:
    """Return why the figures are impossible: they must rise and be within the extremes."""
    rising = [value for _, (value, _) in sorted(reported.percentiles.items()) if value]
    least, mean, greatest = (as_number(reported.values.get(key)) for key in ("min", "mean", "max"))
    ordered = rising == sorted(rising)
    if greatest is not None and least is not None:
        slack = 1 + sum(reported.units.values())
        ordered &= least - slack <= (least if mean is None else mean) <= greatest + slack
        if rising:
            ordered &= rising[-1] <= greatest * _LIKE_ANOTHER + slack
            ordered &= rising[0] >= math.floor(least / _LIKE_ANOTHER) - slack
    return None if ordered else Message("figures-disagree", "fio's latencies are inconsistent")
