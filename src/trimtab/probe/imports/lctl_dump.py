"""Reads saved output of ``lctl get_param`` from a server, as snapshots.

Lustre's counters have the time at which they were read, so a file with any of them needs no
``--at``. A file is from one server and does not show which targets others serve, so its snapshot is
never complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from trimtab.base.error import DataError
from trimtab.base.plain import time_since_1970
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.base.units import format_bytes, format_value
from trimtab.base.visible import visible
from trimtab.formats.source import OutputFile
from trimtab.probe.imports import lfs_df_dump
from trimtab.reach.lustre.lustre_device import TargetName, parse_name
from trimtab.reach.lustre.lustre_setting import histograms
from trimtab.reach.lustre.lustre_telemetry import counted_bytes, counted_operations
from trimtab.reach.lustre.parameter import Parameters, parse_parameters
from trimtab.reach.lustre.statistic import Stats, parse_brw_stats, parse_job_stats, parse_stats

KIND: Final = "lctl-get-param"

_NAMED: Final = re.compile(
    r"^(?:obdfilter|mdt|osd-[a-z]{1,16})\.[A-Za-z0-9_-]{1,8}-(?:OST|MDT)[0-9a-fA-F]{4}\."
    r"(?:stats|md_stats|brw_stats|job_stats|kbytes(?:total|free|avail)|files(?:total|free)|degraded)=",
    re.MULTILINE,
)
_NAMELESS: Final = re.compile(r"\s*(?:snapshot_time:?\s+\d+\.\d+|job_stats:\s*\n- job_id:)")
_TIME: Final = re.compile(r"^\s*snapshot_time:?\s+([0-9]{10}(?:\.[0-9]{1,9})?)\b", re.MULTILINE)
_KIB: Final = 1024
_TARGETS_SHOWN: Final = 6
_JOBS_SHOWN: Final = 8
_BUCKETS_SHOWN: Final = 4


def recognises(source: OutputFile) -> bool:
    """Return whether a content has parameters of targets, or counters whose name is missing."""
    head = source.head.replace("\r", "")
    return _NAMED.search(head) is not None or _NAMELESS.match(head) is not None


def snapshots(source: OutputFile, at: datetime) -> tuple[tuple[str, Snapshot], ...]:
    """Return Lustre's name of each file system with the snapshot of its targets.

    Parameters
    ----------
    at
        Of a file without a time.

    Raises
    ------
    DataError
        No target has a reading, or the file is of two times.
    """
    parameters = _parameters(_text(source))
    by_system: dict[str, list[TargetSnapshot]] = {}
    for target in _targets(parameters):
        readings = tuple(_readings(parameters, target))
        settings = dict(
            histograms(parameters, f"{target.file_system}-{target.target}", "in the file")
        )
        if readings or settings:
            snapshot = TargetSnapshot(Target(target.target, target.kind), readings, settings)
            by_system.setdefault(target.file_system, []).append(snapshot)
    if not by_system and not shown(source):
        raise DataError("no target has a value in it", code="no-target", line=1)
    moment = _moment(_text(source)) or at
    return tuple(
        (name, Snapshot(moment, "lustre", complete=False, targets=tuple(targets)))
        for name, targets in by_system.items()
    )


def problems(source: OutputFile) -> tuple[str, ...]:
    """Return what is missing in it, in words."""
    if _parameters(_text(source)).complete:
        return ()
    return ("its last line has no end: it may have been cut, and what stood there is not used",)


def shown(source: OutputFile) -> tuple[str, ...]:
    """Return what it says, a line for each of the first targets and of the busiest jobs."""
    parameters = _parameters(_text(source))
    named = [(target.target, _target_facts(parameters, target)) for target in _targets(parameters)]
    lines = [f"{name}: {', '.join(facts)}" for name, facts in named if facts]
    more = len(lines) - _TARGETS_SHOWN
    jobs = _jobs(parameters)
    if not parameters.names:
        text = _text(source).replace("\r\n", "\n")
        lines, jobs = list(_size_facts(text)), _totals({"obdfilter": [text]})
        lines += ["it names no target (lctl get_param -n): shown, and not kept"]
    return (
        *lines[:_TARGETS_SHOWN],
        *([f"... {more} more targets"] if more > 0 else []),
        *_job_texts(jobs),
    )


def _text(source: OutputFile) -> str:
    """Return the content, bytes that are not UTF-8 kept: names of jobs may differ in them."""
    return source.content.decode("utf-8-sig", "surrogateescape")


@lru_cache(maxsize=1)
def _parameters(text: str) -> Parameters:
    """Return the parameters of a file.

    Raises
    ------
    DataError
        The same counters stand there twice, which is of two times.
    """
    text = text.replace("\r\n", "\n")
    names = re.findall(
        r"^((?:obdfilter|mdt)\.[^.=\s]+\.(?:stats|md_stats|job_stats))=", text, re.MULTILINE
    )
    twice = next((name for name in dict.fromkeys(names) if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"{twice} appears twice: the file holds more than one time",
            code="parameters-repeated",
            hint="import a file for each time",
        )
    return parse_parameters(text)


def _targets(parameters: Parameters) -> Iterator[TargetName]:
    """Yield every target that a parameter is of, in the order of printing."""
    seen: set[str] = set()
    for name in parameters.names:
        parts = name.split(".")
        of_target = len(parts) == 3 and parts[0].startswith(("obdfilter", "mdt", "osd-"))
        target = parse_name(parts[1]) if of_target else None
        if (
            target is not None
            and target.by is None
            and target.device is None
            and parts[1] not in seen
        ):
            seen.add(parts[1])
            yield target


def _first(parameters: Parameters, target: TargetName, leaf: str) -> tuple[str, str] | None:
    """Return name and value of a parameter of a target, of whichever tree has it."""
    device = f"{target.file_system}-{target.target}"
    for tree in ("osd-ldiskfs", "osd-zfs", "osd-wbcfs", "obdfilter", "mdt"):
        name = f"{tree}.{device}.{leaf}"
        if (value := parameters.get(name)) is not None:
            return name, value
    return None


def _number(parameters: Parameters, target: TargetName, leaf: str) -> tuple[str, int] | None:
    first = _first(parameters, target, leaf)
    number = None if first is None else parameters.number(first[0])
    return None if first is None or number is None else (first[0], number)


def _readings(parameters: Parameters, target: TargetName) -> Iterator[Reading]:
    total, free, available = (
        _number(parameters, target, f"kbytes{leaf}") for leaf in ("total", "free", "avail")
    )
    if total is not None:
        yield Reading("capacity_bytes", total[1] * _KIB, source=total[0])
    if total is not None and free is not None and free[1] <= total[1]:
        yield Reading("used_bytes", (total[1] - free[1]) * _KIB, source=f"{total[0]} - {free[0]}")
    if available is not None:
        yield Reading("available_bytes", available[1] * _KIB, source=available[0])
    for name, leaf in (("inodes_total", "filestotal"), ("inodes_free", "filesfree")):
        if (number := _number(parameters, target, leaf)) is not None:
            yield Reading(name, number[1], source=number[0])
    if (degraded := _number(parameters, target, "degraded")) is not None:
        yield Reading("degraded", degraded[1] != 0, source=f"{degraded[0]}={degraded[1]}")
    yield from _traffic(parameters, target)


def _traffic(parameters: Parameters, target: TargetName) -> Iterator[Reading]:
    device = f"{target.file_system}-{target.target}"
    name = f"mdt.{device}.md_stats" if target.kind == "mdt" else f"obdfilter.{device}.stats"
    stats = _stats(parameters, name)
    if stats is None:
        return
    last = name == parameters.names[-1]
    if target.kind == "mdt" and (stats.counters or not last):
        yield Reading("metadata_operations_total", counted_operations(stats), source=name)
    for reading, counter in (
        ("client_bytes_written_total", "write_bytes"),
        ("client_bytes_read_total", "read_bytes"),
    ):
        if counter in stats.counters:
            yield counted_bytes(reading, stats, counter, name)
        elif target.kind == "ost" and last:
            reason = f"{name} stands last, and may have been cut before its {counter}"
            yield Reading(reading, reason=reason)
        elif target.kind == "ost":
            yield counted_bytes(reading, stats, counter, name)


def _stats(parameters: Parameters, name: str) -> Stats | None:
    text = parameters.get(name)
    return None if text is None else parse_stats(text)


def _moment(text: str) -> datetime | None:
    """Return when the last counter was read; never of one in seconds since boot."""
    times = [time for match in _TIME.findall(text) if (time := time_since_1970(float(match)))]
    return max(times, default=None)


def _target_facts(parameters: Parameters, target: TargetName) -> list[str]:
    """Return how full a target is, what it moved, and in what sizes its drives were asked."""
    seen = TargetSnapshot(Target(target.target, target.kind), tuple(_readings(parameters, target)))
    facts = []
    if (fullness := seen.fullness()) is not None:
        facts.append(f"{fullness * 100:.0f} % full")
    for name, word in (
        ("client_bytes_written_total", "written"),
        ("client_bytes_read_total", "read"),
    ):
        if (moved := seen.value(name)) is not None:
            facts.append(f"{format_value(moved, 'B')} {word}")
    if (operations := seen.number("metadata_operations_total")) is not None:
        facts.append(f"{operations:,.0f} metadata operations")
    sizes = _first(parameters, target, "brw_stats")
    return facts if sizes is None else [*facts, *_size_facts(sizes[1])]


def _size_facts(brw_stats: str) -> Iterator[str]:
    """Yield the commonest sizes of what reached the drives."""
    histogram = parse_brw_stats(brw_stats).get("disk I/O size")
    if histogram is None:
        return
    for word, total, counts in (
        ("writes", histogram.writes, [(row.writes, row.start) for row in histogram.buckets]),
        ("reads", histogram.reads, [(row.reads, row.start) for row in histogram.buckets]),
    ):
        often = [
            (count, start)
            for count, start in sorted(counts, reverse=True)
            if 100 * count >= total > 0
        ]
        sizes = [f"{format_bytes(start)} {count / total * 100:.0f} %" for count, start in often]
        if sizes:
            yield f"{word} to its drives from {', '.join(sizes[:_BUCKETS_SHOWN])}"


@dataclass(slots=True)
class _JobTotal:
    """One job on all targets of the file."""

    written: int = 0
    read: int = 0
    operations: int = 0


def _jobs(parameters: Parameters) -> Mapping[str, _JobTotal]:
    """Return what each job did on all targets of the file."""
    return _totals(
        {tree: parameters.matching(f"{tree}.*.job_stats").values() for tree in ("obdfilter", "mdt")}
    )


def _totals(texts: Mapping[str, Iterable[str]]) -> Mapping[str, _JobTotal]:
    totals: dict[str, _JobTotal] = {}
    jobs = (
        (tree, name, job)
        for tree, of_tree in texts.items()
        for text in of_tree
        for name, job in parse_job_stats(text).items()
    )
    for tree, name, job in jobs:
        total = totals.setdefault(name, _JobTotal())
        total.written += job.sums.get("write_bytes", 0)
        total.read += job.sums.get("read_bytes", 0)
        if tree == "mdt":
            total.operations += sum(
                count for counter, count in job.samples.items() if counter not in _MOVED
            )
    return totals


_MOVED: Final = ("write_bytes", "read_bytes")


def _job_texts(jobs: Mapping[str, _JobTotal]) -> Iterator[str]:
    order = sorted(
        jobs.items(), key=lambda job: -(job[1].written + job[1].read + job[1].operations)
    )
    for name, total in order[:_JOBS_SHOWN]:
        parts = [
            f"{format_value(total.written, 'B')} written",
            f"{format_value(total.read, 'B')} read",
        ]
        parts += [f"{total.operations:,} metadata operations"] if total.operations else []
        yield f"job {visible(name)}: {', '.join(parts)}"
    if len(jobs) > _JOBS_SHOWN:
        yield f"... {len(jobs) - _JOBS_SHOWN} more jobs"
    if jobs:
        yield "jobs are shown, and not kept"


class TargetDump(NamedTuple):
    """How a text about targets is recognised and read; ``shown`` are lines for people."""

    recognises: Callable[[OutputFile], bool]
    snapshots: Callable[[OutputFile, datetime], tuple[tuple[str, Snapshot], ...]]
    problems: Callable[[OutputFile], tuple[str, ...]]
    shown: Callable[[OutputFile], tuple[str, ...]] = lambda source: ()


TARGET_DUMPS: Final = {
    lfs_df_dump.KIND: TargetDump(
        lfs_df_dump.recognises, lfs_df_dump.snapshots, lfs_df_dump.problems
    ),
    KIND: TargetDump(recognises, snapshots, problems, shown),
}
"""Kind to what reads it: no benchmark's output, becomes snapshots. In the order of asking."""
