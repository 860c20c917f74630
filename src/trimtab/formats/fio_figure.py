"""Figures of fio jobs that ran together: phases, rates, latencies, in SI units for every version.

| | before 2.21 | 2.21 to 3.1 | since 3.2 |
|---|---|---|---|
| ``io_bytes`` | KiB, rounded down | bytes, and ``io_kbytes`` | the same |
| ``bw`` | KiB/s, rounded down | the same | the same, and ``bw_bytes`` |
| ``iops`` | whole before 2.2 | | |
| ``total_ios`` | since 2.1.14 | | |
| latency | ``clat`` in microseconds | ``clat_ns`` since 2.99 | |

Source: ``add_ddir_status_json`` in stat.c of those versions. ``runtime`` is always in milliseconds.
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trimtab.base.error import Message
from trimtab.base.finding import Missing
from trimtab.base.plain import as_dict, as_number, size_of
from trimtab.base.run import Access, LatencyHistogram, Sample
from trimtab.base.units import KIB
from trimtab.formats.fio_document import FioDocument, file_names, is_set, options_of, tasks_of
from trimtab.formats.measurement import (
    ACCESSES,
    IOPS,
    LATENCY,
    MeasuredPhase,
    MeasurementDraft,
    agrees,
)

QUANTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


@dataclass(frozen=True, slots=True)
class FioEntry:
    """One direction of an entry of ``jobs``: a job, or a group with ``group_reporting``."""

    document: FioDocument
    index: int
    access: Access

    @property
    def job(self) -> dict[str, Any]:
        """The entry."""
        return self.document.jobs[self.index]

    @property
    def figures(self) -> dict[str, Any]:
        """The JSON object of this direction."""
        return as_dict(self.job.get(self.access))

    @property
    def in_kib(self) -> bool:
        """Whether ``io_bytes`` is in KiB, as before 2.21; then there is no ``io_kbytes``."""
        return "io_kbytes" not in self.figures and "bw_bytes" not in self.figures

    @property
    def moved_bytes(self) -> float | None:
        """Bytes written or read."""
        moved = as_number(self.figures.get("io_bytes"))
        return moved * KIB if moved is not None and self.in_kib else moved

    @property
    def elapsed_s(self) -> float | None:
        """Runtime of this direction."""
        time_ms = as_number(self.figures.get("runtime"))
        return None if time_ms is None else time_ms / 1000

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """The printed bandwidth, in bytes per second."""
        if "bw_bytes" in self.figures:
            return as_number(self.figures["bw_bytes"])
        in_kib_per_s = as_number(self.figures.get("bw"))
        return None if in_kib_per_s is None else in_kib_per_s * KIB

    @property
    def operations(self) -> float | None:
        """Number of operations; 2.1 prints only their rate."""
        if "total_ios" in self.figures:
            return as_number(self.figures["total_ios"])
        rate, elapsed_s = as_number(self.figures.get("iops")), self.elapsed_s
        return None if rate is None or elapsed_s is None else rate * elapsed_s

    @property
    def bandwidth_line(self) -> int:
        """Line of the bandwidth in the output."""
        key = "bw_bytes" if "bw_bytes" in self.figures else "bw"
        return self.document.line_of(self.index, self.access, key)

    @property
    def bandwidth_step_bytes_per_s(self) -> int:
        """Unit to which the bandwidth was rounded down."""
        return 1 if "bw_bytes" in self.figures else KIB


@dataclass(frozen=True, slots=True)
class Together:
    """Figures of entries that ran at the same time.

    Bytes over the longest of their times, as fio computes groups (``agg`` in its stat.c).
    """

    moved_bytes: float | None
    elapsed_s: float | None
    bandwidth_bytes_per_s: float | None
    iops: float | None
    reason: str | None


def together(entries: Sequence[FioEntry]) -> Together:
    """Return the figures of entries that ran at the same time, with any doubts."""
    moved = total(entry.moved_bytes for entry in entries)
    times = [entry.elapsed_s for entry in entries]
    elapsed_s = None if None in times else max(filter(None, times), default=0.0)
    operations = total(entry.operations for entry in entries)
    iops = operations / elapsed_s if operations is not None and elapsed_s else None
    if len(entries) == 1:
        bandwidth = entries[0].bandwidth_bytes_per_s
        iops = as_number(entries[0].figures.get("iops"))
        reason = _disagreement(entries[0])
    else:
        bandwidth = moved / elapsed_s if moved and elapsed_s else None
        reason = next(filter(None, map(_disagreement, entries)), None)
    return Together(moved, elapsed_s, bandwidth, iops, reason)


def iops_reason(entry: FioEntry) -> str | None:
    """Return why fio's IOPS are not credible."""
    printed, counted = as_number(entry.figures.get("iops")), entry.operations
    if printed is None or counted is None or not entry.elapsed_s:
        return Message("figures-incomplete", "fio's output lacks operations, runtime or their rate")
    expected = counted / entry.elapsed_s
    # Before 2.2 it is an integer, before about 2.16 it has two decimals.
    step = 1.0 if isinstance(entry.figures.get("iops"), int) else 0.01
    if abs(printed - expected) <= step + expected * 1e-6:
        return None
    text = f"fio printed {printed:g} IOPS, but {counted:.0f} in {entry.elapsed_s:g} s do not match"
    return Message("figures-disagree", text)


def _disagreement(entry: FioEntry) -> str | None:
    if not entry.document.echoes_options:  # human-readable and rounded: checked when it was read
        return entry.document.doubt(entry.index, entry.access)
    moved, elapsed_s = entry.moved_bytes, entry.elapsed_s
    bandwidth = entry.bandwidth_bytes_per_s
    if moved is None or elapsed_s is None or bandwidth is None:
        return Message("figures-incomplete", "fio's output lacks bytes, runtime or bandwidth")
    if elapsed_s <= 0:
        return Message("too-short", "fio's runtime is below its resolution of 1 ms")
    # fio divides by whole milliseconds and truncates: half a unit of each.
    tolerance = 0.0005 / elapsed_s + entry.bandwidth_step_bytes_per_s / max(bandwidth, 1.0)
    tolerance += KIB / max(moved, 1.0) if entry.in_kib else 0.0
    if agrees(bandwidth, moved, elapsed_s, tolerance=min(tolerance, 0.5)):
        return None
    text = f"fio printed {bandwidth:.0f} B/s, but {moved:.0f} bytes in {elapsed_s:g} s do not match"
    return Message("figures-disagree", text)


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum, ``None`` if a value is unknown."""
    numbers = list(values)
    return None if None in numbers else sum(filter(None, numbers))


def is_decimal(text: str) -> bool:
    """Return whether a JSON key is a plain number."""
    return re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text) is not None


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


def latencies(entries: Sequence[FioEntry]) -> Latencies:
    """Return the completion latency of entries that ran together: from submission to completion.

    Percentiles of several jobs cannot be merged, but the buckets of ``json+`` can: their quantiles
    equal what fio would print for the jobs as one group.
    """
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


def _of_one(entry: FioEntry, reported: _Reported) -> Latencies:
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


def _of_several(entries: Sequence[FioEntry], reported: Sequence[_Reported]) -> Latencies:
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


def _reported(entry: FioEntry) -> _Reported:
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


def moving(document: FioDocument, run: Sequence[int], access: Access) -> list[FioEntry]:
    """Return the entries of a run that moved bytes in one direction."""
    entries = [FioEntry(document, index, access) for index in run]
    return [
        entry
        for entry in entries
        if as_number(entry.figures.get("total_ios", entry.figures.get("io_bytes")))
    ]


def read_jobs(
    draft: MeasurementDraft, document: FioDocument, run: Sequence[int], repetition: int
) -> bool:
    """Add errors, phases and latencies of jobs that ran together.

    Returns whether data was corrupt.
    """
    integrity_lost = False
    draft.tool_version = str(document.value.get("fio version", "")).removeprefix("fio-") or None
    for index in run:
        error = as_number(document.jobs[index].get("error"))
        if error == errno.EILSEQ:  # from its verify.c
            integrity_lost = True
            draft.problems.add("data-corrupt", "fio: data read is not what was written (error 84)")
        elif error:
            code = min(
                int(error), 10**9
            )  # larger values are no errno, and os.strerror refuses them
            draft.problems.add("tool-error", f"fio: {os.strerror(code)} (error {code})")
    if document.mixed:
        text = f"fio's output has {document.mixed[0]} twice: two outputs are mixed"
        draft.problems.add("outputs-mixed", text)
    for access in ACCESSES:
        entries = moving(document, run, access)
        if entries:
            draft.phases.append(_phase(entries, repetition))
            _read_latencies(draft, entries, repetition, None)
    return integrity_lost


def _phase(entries: Sequence[FioEntry], repetition: int) -> MeasuredPhase:
    figures = together(entries)
    first = entries[0]
    options = options_of(first.document, first.job)
    is_told = bool(options) and first.document.echoes_options
    mixed = Message("outputs-mixed", "two outputs are mixed") if first.document.mixed else None
    return MeasuredPhase(
        access=first.access,
        repetition=repetition,
        moved_bytes=None if figures.moved_bytes is None else int(figures.moved_bytes),
        elapsed_s=figures.elapsed_s,
        bandwidth_bytes_per_s=figures.bandwidth_bytes_per_s,
        tasks=_tasks(entries),
        transfer_size_bytes=size_of(str(options.get("bs"))),
        block_size_bytes=size_of(str(options.get("size"))),
        cpu_user_s=_processor_time(entries, "usr_cpu"),
        cpu_system_s=_processor_time(entries, "sys_cpu"),
        direct=options.get("direct", "0") == "1" if is_told else None,
        caches_dropped=options.get("invalidate", "1") == "1" if is_told else None,
        line=first.bandwidth_line,
        reason=mixed or figures.reason,
    )


def _tasks(entries: Sequence[FioEntry]) -> int | None:
    """Return the threads of entries: one each, or all of a section that reports as a group.

    Detects groups by their number, as fio does not always echo ``group_reporting``. The
    human-readable form has it for each.
    """
    if not entries[0].document.echoes_options:
        each_of = [tasks_of(entry.document, entry.job) for entry in entries]
        return None if None in each_of else sum(filter(None, each_of))
    sections: dict[tuple[str, ...], list[FioEntry]] = {}
    for entry in entries:
        key = tuple(str(entry.job.get(key)) for key in ("hostname", "port", "groupid", "jobname"))
        sections.setdefault(key, []).append(entry)
    tasks = 0
    for section in sections.values():
        each = tasks_of(section[0].document, section[0].job)
        if each is None or len(section) not in (1, each):
            return None
        tasks += each
    return tasks


def _processor_time(entries: Sequence[FioEntry], key: str) -> float | None:
    """Return CPU seconds: fio prints percent of ``job_runtime``, which is summed over threads."""
    total_s = 0.0
    for entry in entries:
        share, time_ms = as_number(entry.job.get(key)), as_number(entry.job.get("job_runtime"))
        if share is None or time_ms is None:
            return None
        total_s += share / 100 * time_ms / 1000
    return total_s


def _read_latencies(
    draft: MeasurementDraft, entries: Sequence[FioEntry], repetition: int, target: str | None
) -> None:
    access, read = entries[0].access, latencies(entries)
    metric, output = LATENCY[access], draft.output
    doubt = entries[0].document.doubt(entries[0].index, access)
    draft.latencies += [
        Sample(
            metric,
            value_s,
            repetition,
            target,
            name,
            output,
            line,
            read.reason or read.coarse.get(name) or doubt,
        )
        for name, (value_s, line) in read.values_s.items()
    ]
    if target is not None:
        return
    if read.missing is not None:
        draft.missing.append(Missing("latency distribution", read.missing))
    edges = upper_edges(read.counts)
    if edges:
        order = sorted(edges)
        upper_s = tuple(edge / 1e9 for edge in order)
        counts = tuple(edges[edge] for edge in order)
        draft.histograms.append(LatencyHistogram(access, repetition, upper_s, counts))


def read_operations(
    draft: MeasurementDraft, entries: Sequence[FioEntry], target: str | None
) -> None:
    """Add the IOPS of entries that ran together, in total or of one device."""
    figures = together(entries)
    if figures.iops is None:
        return
    reason = figures.reason or next(filter(None, map(iops_reason, entries)), None)
    first = entries[0]
    metric, output = IOPS[first.access], draft.output
    line = first.document.line_of(first.index, first.access, "iops")
    sample = Sample(metric, figures.iops, 0, target, output=output, line=line, reason=reason)
    draft.latencies.append(sample)


def read_targets(draft: MeasurementDraft, entries: Sequence[FioEntry], *, hidden: bool) -> None:
    """Add the figures of each file or device, if every job has its own."""
    targets: dict[str, list[FioEntry]] = {}
    for entry in entries:
        names = file_names(options_of(entry.document, entry.job))
        if len(names) != 1:
            return
        host = entry.job.get("hostname")
        targets.setdefault(names[0] if host is None else f"{host}:{names[0]}", []).append(entry)
    if len(targets) < 2 or hidden:
        return
    for target, of_it in targets.items():
        phase = _phase(of_it, 0)
        draft.latencies.append(replace(phase.sample(draft.output), target=target))
        read_operations(draft, of_it, target)
        _read_latencies(draft, of_it, 0, target)
