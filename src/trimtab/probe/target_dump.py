"""Reads saved output of ``lfs df``, and of ``lctl get_param`` from a server, as snapshots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from trimtab.base.error import DataError, Message, visible
from trimtab.base.plain import time_since_1970, whole_lines
from trimtab.base.snapshot import ROUNDED, Reading, Snapshot, Target, TargetSnapshot
from trimtab.base.units import format_bytes, format_value
from trimtab.formats.measurement import OutputFile
from trimtab.reach.lustre.lustre_setting import histograms
from trimtab.reach.lustre.lustre_target import (
    Column,
    LfsDf,
    LfsDfLine,
    TargetName,
    parse_lfs_df,
    parse_name,
)
from trimtab.reach.lustre.lustre_telemetry import counted_bytes, counted_operations
from trimtab.reach.lustre.parameter import (
    Parameters,
    Stats,
    parse_brw_stats,
    parse_job_stats,
    parse_parameters,
    parse_stats,
)

LFS_DF_KIND: Final = "lfs-df"

_HEADER: Final = re.compile(r"^UUID[ \t]+(?:1K-blocks|bytes|Inodes)[ \t]", re.MULTILINE)
_TARGET: Final = re.compile(r"_UUID[ \t].{1,200}\[(?:OST|MDT):[0-9]{1,5}\]")
_FLAGS: Final = {"D": ("degraded", True), "R": ("read_only", True), "N": ("create_enabled", False)}
_SPACE: Final = ("capacity_bytes", "used_bytes", "available_bytes")
_INODES: Final = ("inodes_total", "inodes_free")
_SUMMARY_MISSING: Final = "the summary is missing: the output was cut"
_SIZE: Final = r"\s+([0-9]{1,6}(?:\.[0-9]{1,3})?)([KMGTPEZY])"
_SIZES: Final = rf"{_SIZE}{_SIZE}{_SIZE}\s+(?:[0-9]{{1,3}}%|-)\s+\S"
_BYTES: Final = re.compile(r"UUID\s+bytes\s")
_ROUNDED: Final = re.compile(rf"([!-~]{{1,200}}_UUID){_SIZES}.*\[(?:OST|MDT):([0-9]{{1,5}})\].*")
_ROUNDED_SUM: Final = re.compile(rf"filesystem[_ ]summary:{_SIZES}.*")


def is_lfs_df_dump(source: OutputFile) -> bool:
    """Return whether a content is output of ``lfs df``, in any unit."""
    return _HEADER.search(source.head) is not None and _TARGET.search(source.head) is not None


def lfs_df_snapshots(source: OutputFile, at: datetime) -> tuple[tuple[str, Snapshot], ...]:
    """Return Lustre's name of each file system with the snapshot of it.

    A snapshot is incomplete if a target did not answer or the text ends before the summary.
    Missing values have a reason; a flag is known only where it is set, because older versions
    print none.

    The text has no time, so the caller gives one. A file may hold several file systems, and bytes
    and inodes (``lfs df; lfs df -i``). Rounded values of ``lfs df -h`` are kept with the label
    `ROUNDED` where nothing better is known.

    Parameters
    ----------
    at
        When it was printed, aware.

    Raises
    ------
    DataError
        Nothing in it can be used, the lines contradict their summary (one was lost or altered),
        or it has one file system twice, from two different times.
    """
    spaces, inodes = (_by_name(source, inodes=inodes) for inodes in (False, True))
    rounded = {name: block for name, block in _rounded(source).items() if name not in spaces}
    names = tuple(dict.fromkeys((*spaces, *rounded, *inodes)))
    if not names:
        complaints = "; ".join(dict.fromkeys(_complaints(source)))
        raise DataError(
            f"no file system of lfs df can be used: {complaints or 'there is none'}",
            code="lfs-df-unusable",
            line=1,
        )
    return tuple(
        (
            name,
            rounded[name].snapshot(at, inodes.get(name))
            if name in rounded
            else _snapshot(at, spaces.get(name), inodes.get(name)),
        )
        for name in names
    )


@dataclass(slots=True)
class _Rounded:
    """Sizes that ``lfs df -h`` printed for one file system, each with half of its last digit."""

    file_system: str
    targets: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    complete: bool = False

    def close(self, sums: tuple[tuple[float, float], ...], line: int) -> None:
        """Take the summary; raise DataError if the lines do not add up to it."""
        for place, (total, half) in enumerate(sums):
            of_osts = [
                sizes[place] for name, sizes in self.targets.items() if name.startswith("OST")
            ]
            slack = half + sum(error for _, error in of_osts)
            if abs(sum(size for size, _ in of_osts) - total) > 1.01 * slack:
                text = f"{self.file_system}: a line is missing or was altered"
                raise DataError(text, code="lfs-df-unusable", line=line)
        self.complete = True

    def snapshot(self, at: datetime, inodes: LfsDf | None) -> Snapshot:
        """Return it with the label that nothing judges; what is not labelled is missing."""
        why = Message("figures-rounded", "lfs df -h prints it rounded")
        inode_lines = {} if inodes is None else inodes.lines
        targets = []
        for name, sizes in self.targets.items():
            source = f"lfs df -h, line {self.lines[name]}"
            readings = [
                reading
                for column, (size, _) in zip(_SPACE, sizes, strict=True)
                for reading in (
                    Reading(column, reason=why),
                    Reading(column, size, source=source, label=ROUNDED),
                )
            ]
            line = inode_lines.get(name)
            readings += _lfs_df_readings("lfs df -i", line, _INODES, ("total", "available"))
            kind = "mdt" if name.startswith("MDT") else "ost"
            targets.append(TargetSnapshot(Target(name, kind), tuple(readings)))
        complete = self.complete and (inodes is None or inodes.complete)
        return Snapshot(at, "lustre", complete, tuple(targets))


def _rounded(source: OutputFile) -> dict[str, _Rounded]:
    """Return the file systems of ``lfs df -h`` by name."""
    blocks: dict[str, _Rounded] = {}
    block, is_rounded = None, False
    for number, line in whole_lines(source.text):
        if line.startswith("UUID"):
            block, is_rounded = None, _BYTES.match(line) is not None
        elif not is_rounded:
            continue
        elif match := _ROUNDED.fullmatch(line):
            name = parse_name(match[1])
            if name is None or name.file_system is None or name.index != int(match[8]):
                continue
            if block is None:
                if name.file_system in blocks:
                    raise _twice(name.file_system, number)
                block = blocks[name.file_system] = _Rounded(name.file_system)
            if name.file_system == block.file_system:
                block.targets[name.target] = _sizes(match, 2)
                block.lines[name.target] = number
        elif block is not None and (match := _ROUNDED_SUM.fullmatch(line)):
            block.close(_sizes(match, 1), number)
            block = None
    return blocks


def _sizes(match: re.Match[str], first: int) -> tuple[tuple[float, float], ...]:
    """Return three sizes in bytes, each with half a unit of its last digit."""
    sizes = []
    for place in range(first, first + 6, 2):
        unit = 1024.0 ** ("KMGTPEZY".index(match[place + 1]) + 1)
        decimals = len(match[place].partition(".")[2])
        sizes.append((float(match[place]) * unit, 0.5 * 10.0**-decimals * unit))
    return tuple(sizes)


def _twice(file_system: str, line: int | None) -> DataError:
    return DataError(
        f"{file_system} appears twice: the file holds more than one time",
        code="lfs-df-repeated",
        line=line,
        hint="import a file for each time",
    )


def why_not_judged(snapshot: Snapshot) -> Message | None:
    """Return why nothing judges a snapshot; ``None`` if its figures are exact."""
    labels = {reading.label for target in snapshot.targets for reading in target.readings}
    if ROUNDED not in labels:
        return None
    text = "lfs df -h prints rounded figures: they are shown and never judged; import lfs df"
    return Message("figures-rounded", text)


def lfs_df_problems(source: OutputFile) -> tuple[str, ...]:
    """Return, as text, what is missing or odd: targets that did not answer, lost lines."""
    cut = [block for block in _rounded(source).values() if not block.complete]
    problems_found = [_SUMMARY_MISSING for _ in cut] + [
        problem for df in _parsed(source, inodes=False) if df.lines for problem in df.problems
    ]
    return tuple(dict.fromkeys(problems_found))


def _parsed(source: OutputFile, *, inodes: bool) -> list[LfsDf]:
    return parse_lfs_df(source.text.replace("\r\n", "\n"), inodes=inodes)


def _complaints(source: OutputFile) -> Iterator[str]:
    for df in _parsed(source, inodes=False):
        yield from df.problems


def _by_name(source: OutputFile, *, inodes: bool) -> dict[str, LfsDf]:
    """Return the file systems that have lines in the requested unit."""
    by_name: dict[str, LfsDf] = {}
    for df in _parsed(source, inodes=inodes):
        if df.file_system is None or not df.lines:
            continue
        if df.file_system in by_name:
            raise _twice(df.file_system, next(iter(df.lines.values())).line or None)
        if df.summary is not None and not df.complete:
            problem_text = next(
                (problem for problem in df.problems if "altered" in problem), df.problems[0]
            )
            raise DataError(
                f"{df.file_system}: {problem_text}", code="lfs-df-unusable", line=df.summary.line
            )
        by_name[df.file_system] = df
    return by_name


def _snapshot(at: datetime, space: LfsDf | None, inodes: LfsDf | None) -> Snapshot:
    listings = [df for df in (space, inodes) if df is not None]
    by_target = [{} if df is None else df.lines for df in (space, inodes)]
    names = dict.fromkeys(target for df in listings for target in df.lines)
    targets = tuple(_target(name, *(lines.get(name) for lines in by_target)) for name in names)
    answered = all(line.problem is None for df in listings for line in df.lines.values())
    whole = all(df.complete for df in listings) and answered
    return Snapshot(at, "lustre", whole, targets)


def _target(name: str, space: LfsDfLine | None, inodes: LfsDfLine | None) -> TargetSnapshot:
    readings = [
        *_lfs_df_readings("lfs df", space, _SPACE, ("total", "used", "available")),
        *_lfs_df_readings("lfs df -i", inodes, _INODES, ("total", "available")),
    ]
    for flag, (reading, value) in _FLAGS.items():
        if space is not None and flag in space.flags:
            readings.append(Reading(reading, value, source=f"lfs df, line {space.line}"))
    kind = "mdt" if name.startswith("MDT") else "ost"
    return TargetSnapshot(Target(name, kind), tuple(readings))


def _lfs_df_readings(
    command: str, line: LfsDfLine | None, names: Sequence[str], columns: Sequence[Column]
) -> Iterator[Reading]:
    for name, column in zip(names, columns, strict=True):
        value = None if line is None else getattr(line, column)
        if line is None:
            yield Reading(name, reason=f"{command} has no line for it in the file")
        elif value is None:
            problem = line.problem or "the line has no number"
            yield Reading(name, reason=f"{command}: {problem}")
        else:
            yield Reading(name, value, source=f"{command}, line {line.line}")


LCTL_KIND: Final = "lctl-get-param"

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


def is_lctl_dump(source: OutputFile) -> bool:
    """Return whether a content has parameters of targets, or counters whose name is missing."""
    head = source.head.replace("\r", "")
    return _NAMED.search(head) is not None or _NAMELESS.match(head) is not None


def lctl_snapshots(source: OutputFile, at: datetime) -> tuple[tuple[str, Snapshot], ...]:
    """Return Lustre's name of each file system with the snapshot of its targets.

    Lustre's counters have the time at which they were read, so a file with any of them needs no
    ``--at``. A file is from one server and does not show which targets others serve, so its
    snapshot is never complete.

    Parameters
    ----------
    at
        Time of a file that has none itself.

    Raises
    ------
    DataError
        No target has a reading, or the file is from two times.
    """
    parameters = _parameters(_text(source))
    by_system: dict[str, list[TargetSnapshot]] = {}
    for target in _targets(parameters):
        readings = tuple(_lctl_readings(parameters, target))
        settings = dict(
            histograms(parameters, f"{target.file_system}-{target.target}", "in the file")
        )
        if readings or settings:
            snapshot = TargetSnapshot(Target(target.target, target.kind), readings, settings)
            by_system.setdefault(target.file_system, []).append(snapshot)
    if not by_system and not lctl_shown(source):
        raise DataError("no target has a value in it", code="no-target", line=1)
    moment = _moment(_text(source)) or at
    return tuple(
        (name, Snapshot(moment, "lustre", complete=False, targets=tuple(targets)))
        for name, targets in by_system.items()
    )


def lctl_problems(source: OutputFile) -> tuple[str, ...]:
    """Return, as text, what is missing in it."""
    if _parameters(_text(source)).complete:
        return ()
    return ("its last line has no end: it may have been cut, and is not used",)


def lctl_shown(source: OutputFile) -> tuple[str, ...]:
    """Return lines for readers, one for each of the first targets and of the busiest jobs."""
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
    """Return the content, with bytes that are not UTF-8: names of jobs may differ in them."""
    return source.content.decode("utf-8-sig", "surrogateescape")


@lru_cache(maxsize=1)
def _parameters(text: str) -> Parameters:
    """Return the parameters of a file.

    Raises
    ------
    DataError
        The same counters appear twice, from two different times.
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
    """Yield every target with a parameter, in the order of printing."""
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
    """Return name and value of a parameter of a target, from whichever tree has it."""
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


def _lctl_readings(parameters: Parameters, target: TargetName) -> Iterator[Reading]:
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
            reason = f"{name} is the last entry, and may have been cut before its {counter}"
            yield Reading(reading, reason=reason)
        elif target.kind == "ost":
            yield counted_bytes(reading, stats, counter, name)


def _stats(parameters: Parameters, name: str) -> Stats | None:
    text = parameters.get(name)
    return None if text is None else parse_stats(text)


def _moment(text: str) -> datetime | None:
    """Return when the last counter was read; counters in seconds since boot do not count."""
    times = [time for match in _TIME.findall(text) if (time := time_since_1970(float(match)))]
    return max(times, default=None)


def _target_facts(parameters: Parameters, target: TargetName) -> list[str]:
    """Return the fullness of a target, its moved bytes, and the sizes of I/O to its drives."""
    seen = TargetSnapshot(
        Target(target.target, target.kind), tuple(_lctl_readings(parameters, target))
    )
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
    """Yield the commonest sizes of I/O that reached the drives."""
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
    """Return the activity of each job on all targets of the file."""
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
    """Functions that recognise and read a text about targets; ``shown`` gives readable lines."""

    recognises: Callable[[OutputFile], bool]
    snapshots: Callable[[OutputFile, datetime], tuple[tuple[str, Snapshot], ...]]
    problems: Callable[[OutputFile], tuple[str, ...]]
    shown: Callable[[OutputFile], tuple[str, ...]] = lambda source: ()


TARGET_DUMPS: Final = {
    LFS_DF_KIND: TargetDump(is_lfs_df_dump, lfs_df_snapshots, lfs_df_problems),
    LCTL_KIND: TargetDump(is_lctl_dump, lctl_snapshots, lctl_problems, lctl_shown),
}
"""Kind to its reader, in the order of recognition: not a benchmark's output, but snapshots."""
