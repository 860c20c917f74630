"""Darshan: bytes and times of an application's own I/O, by module, rank and OST.

Darshan logs are binary and only PyDarshan reads them (the extra ``darshan``). `dump_command`
returns the command that converts one to JSON lines, which this format reads; see
`trimtab.formats.darshan_dump` for the reason.

Each Darshan module that moved bytes is a separate result: ``posix``, ``mpi-io`` and ``stdio``.
MPI-IO calls POSIX, so their bytes are the same and must not be added.

Bandwidth is bytes over the time of the slowest rank, as Darshan's own ``agg_perf_by_slowest``
(darshan-util/darshan-logutils-accumulator.c): the longest time that any rank spent in its own files
(reading, writing, metadata), plus, for each shared file, the time of its slowest rank. Darshan adds
reading and writing, so this is the bandwidth of a job that did only one of them (``total``). The
bandwidth of each alone (``data``) excludes metadata, and is missing if a shared file was both read
and written, as Darshan has no separate times.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from trimtab.base.error import DataError, Message, install_command
from trimtab.base.finding import Missing
from trimtab.base.name_set import ost_name
from trimtab.base.plain import as_dict, as_number, as_text, as_whole, present, time_since_1970
from trimtab.base.run import BANDWIDTH, Access, RunStatus, Sample
from trimtab.formats.measurement import ACCESSES, Measurement, OutputFile, OutputFormat, missing

TIMES: Final = ("read_s", "write_s", "metadata_s")
SUMS: Final = ("bytes_read", "bytes_written", *TIMES)


@dataclass(frozen=True, slots=True)
class DarshanGroup:
    """I/O of one process to all files with the same location, or of all to one shared file.

    A time that is damaged in the log (negative or invalid) is NaN, and so is everything computed
    from it.

    Attributes
    ----------
    rank
        ``None`` for a file that several processes share.
    mount, type
        Mount point and type of the file system; ``None`` if missing in the log.
    targets
        Indices of the OSTs that hold the files; empty if missing in the log.
    read_s, write_s, metadata_s
        For a shared file, the times of all processes together.
    slowest_s
        For a shared file, the total time of its slowest process; otherwise 0.
    """

    rank: int | None
    mount: str | None
    type: str | None
    targets: tuple[int, ...]
    files: int
    bytes_read: float
    bytes_written: float
    read_s: float
    write_s: float
    metadata_s: float
    slowest_s: float
    line: int

    def moved(self, access: Access) -> float:
        """Return the bytes of one access."""
        return self.bytes_written if access == "write" else self.bytes_read

    def spent_s(self, access: Access) -> float:
        """Return the seconds of one access, all processes of the group together."""
        return self.write_s if access == "write" else self.read_s


@dataclass(frozen=True, slots=True)
class Module:
    """A module of Darshan: its sums and its groups."""

    name: str
    partial: bool
    line: int
    sums: dict[str, float]
    groups: tuple[DarshanGroup, ...]

    def own_s(self) -> dict[int, float]:
        """Return rank to seconds in its own files: reading, writing and metadata."""
        times: dict[int, float] = {}
        for group in self.groups:
            if group.rank is not None:
                busy_s = group.read_s + group.write_s + group.metadata_s
                times[group.rank] = times.get(group.rank, 0.0) + busy_s
        return times

    def slowest_s(self) -> float:
        """Return Darshan's ``agg_time_by_slowest``."""
        shared = sum(group.slowest_s for group in self.groups if group.rank is None)
        return _longest(self.own_s().values()) + shared


def slowest_of(
    groups: tuple[DarshanGroup, ...] | list[DarshanGroup], access: Access
) -> float | None:
    """Return the slowest rank's time for one access to these files, without metadata.

    For a shared file it is the total time of its slowest process, including metadata, as there is
    no other. ``None`` if a shared file was both read and written.
    """
    seconds: dict[int, float] = {}
    shared = 0.0
    for group in groups:
        if not group.moved(access):
            continue
        if group.rank is not None:
            seconds[group.rank] = seconds.get(group.rank, 0.0) + group.spent_s(access)
        elif group.bytes_read and group.bytes_written:
            return None
        else:
            shared += group.slowest_s
    return _longest(seconds.values()) + shared


def _longest(seconds: Iterable[float]) -> float:
    """Return the longest time, NaN if one is unknown, 0 if there are none."""
    times = list(seconds)
    return math.nan if any(map(math.isnan, times)) else max(times, default=0.0)


def time_of(value: object) -> float:
    """Return a time of the dump, NaN if it is invalid: an endian or clock error."""
    seconds = as_number(value)
    return math.nan if seconds is None else seconds


def group_of(value: dict[str, Any], line: int) -> DarshanGroup | None:
    """Return a group of the dump, ``None`` if a value is impossible."""
    rank, files = value.get("rank"), as_whole(value.get("files"))
    moved = [as_number(value.get(key)) for key in SUMS[: -len(TIMES)]]
    times = [time_of(value.get(key)) for key in TIMES if key in value]
    known = [figure for figure in moved if figure is not None]
    held = value.get("targets")
    indices = [as_whole(index) for index in held] if isinstance(held, list) else []
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < -1:
        return None
    if files is None or files < 1 or len(known) < len(moved) or len(times) < len(TIMES):
        return None
    if any(index is None or not 0 <= index <= 0xFFFF for index in indices):
        return None
    if rank < 0 and "slowest_s" not in value:
        return None
    return DarshanGroup(
        None if rank < 0 else rank,
        as_text(value.get("mount")),
        as_text(value.get("type")),
        tuple(index for index in indices if index is not None),
        files,
        *known,
        *times,
        slowest_s=time_of(value["slowest_s"]) if rank < 0 else 0.0,
        line=line,
    )


BYTES: Final = {"write": "bytes_written", "read": "bytes_read"}
NO_TIME: Final = Message("no-time", "Darshan recorded no time")
DAMAGED: Final = Message("time-damaged", "a time in the log is negative or not a number")
_SHARED_FILE: Final = Message(
    "shared-file-no-time", "a shared file was read and written: Darshan has no separate times"
)
SLOW_RATIO: Final = 3.0
"""An OST is reported if a byte takes at least this much longer than on the median OST: in a healthy
job on 24 OSTs the slowest took 1.6 times as long, a slowly failing OST 49 times."""
_TARGETS_MINIMUM: Final = 4
_SHARE_MINIMUM: Final = 0.1


@dataclass(frozen=True, slots=True)
class ByTarget:
    """Samples of each OST, the outlier, and what is missing."""

    samples: tuple[Sample, ...]
    reported: dict[str, object]
    missing: tuple[Missing, ...]


def by_target(module: Module) -> ByTarget:
    """Return bytes, times and bandwidth of each OST, and the one far slower than the others.

    ``read_time`` and ``write_time`` are summed over all processes; the bandwidth is bytes over the
    time of the slowest process. For a file striped over several OSTs Darshan has no time of each:
    such files are counted and excluded.
    """
    single, gaps = _single(module)
    if not single:
        return ByTarget((), {}, tuple(gaps))
    mount, held = single
    samples = [s for index in sorted(held) for s in _samples(ost_name(index), held[index])]
    reported = {"targets": len(held), "mount": mount, **_slowest(held)}
    return ByTarget(tuple(samples), reported, tuple(gaps))


def rate_of(moved: float, slowest_s: float | None) -> tuple[float | None, str | None]:
    """Return the bandwidth over the time of the slowest process, or why there is none."""
    if slowest_s is None:
        return None, _SHARED_FILE
    if math.isnan(slowest_s):
        return None, DAMAGED
    return (moved / slowest_s, None) if slowest_s > 0 else (None, NO_TIME)


def seconds(value_s: float) -> tuple[float | None, str | None]:
    """Return a time, or why there is none."""
    return (None, DAMAGED) if math.isnan(value_s) else (value_s, None)


def _single(
    module: Module,
) -> tuple[tuple[str, dict[int, list[DarshanGroup]]] | None, list[Missing]]:
    """Return the groups on single OSTs, by OST index, of the mount with the most bytes."""
    mounts: dict[str, dict[int, list[DarshanGroup]]] = {}
    gaps: list[Missing] = []
    striped = 0
    for group in module.groups:
        if len(group.targets) == 1:
            held = mounts.setdefault(group.mount or "", {})
            held.setdefault(group.targets[0], []).append(group)
        elif group.targets:
            striped += group.files
    if striped:
        reason = "the files span several OSTs, and Darshan has no time for each"
        gaps.append(missing(f"{striped} files per OST", "several-osts", reason))
    elif not mounts:
        reason = "no Lustre records: another file system, or Darshan without its Lustre module"
        gaps.append(missing("figures per OST", "no-lustre-record", reason))
    if not mounts:
        return None, gaps
    # OSTs of two file systems have the same indices: report only one file system.
    mount = max(mounts, key=lambda mount: (_bytes(mounts[mount]), mount))
    for other in sorted(set(mounts) - {mount}):
        reason = f"most bytes are on {mount}"
        gaps.append(missing(f"figures per OST of {other}", "other-mount", reason))
    return (mount, mounts[mount]), gaps


def _bytes(held: dict[int, list[DarshanGroup]]) -> float:
    return sum(
        group.bytes_read + group.bytes_written for groups in held.values() for group in groups
    )


def _samples(target: str, groups: list[DarshanGroup]) -> list[Sample]:
    samples: list[Sample] = []
    line = groups[0].line
    for access in ACCESSES:
        moved = sum(group.moved(access) for group in groups)
        if not moved:
            continue
        rate, reason = rate_of(moved, slowest_of(groups, access))
        spent, why = seconds(sum(group.spent_s(access) for group in groups))
        samples += [
            Sample(BANDWIDTH[access], rate, 0, target, "total", 0, line, reason),
            Sample(BYTES[access], moved, 0, target, "total", 0, line),
            Sample(f"{access}_time", spent, 0, target, "sum", 0, line, why),
        ]
    return samples


def _slowest(held: dict[int, list[DarshanGroup]]) -> dict[str, object]:
    """Return the OST on which a byte takes far longer than on the others, if any.

    Compares seconds of all processes per byte, of the access that moved more bytes. OSTs with few
    bytes are excluded, as opening a small file takes as long as a large one.
    """
    written = sum(group.bytes_written for groups in held.values() for group in groups)
    access: Access = "write" if 2 * written >= _bytes(held) else "read"
    moved = {index: sum(group.moved(access) for group in groups) for index, groups in held.items()}
    enough = _SHARE_MINIMUM * statistics.median(moved.values())
    costs = {
        index: sum(group.spent_s(access) for group in held[index]) / size
        for index, size in moved.items()
        if size and size >= enough
    }
    if len(costs) < _TARGETS_MINIMUM or any(map(math.isnan, costs.values())):
        return {}
    median = statistics.median(costs.values())
    worst = max(costs, key=lambda index: (costs[index], -index))
    if median <= 0 or costs[worst] < SLOW_RATIO * median:
        return {}
    return {
        "slowest_target": ost_name(worst),
        "slowest_target_access": access,
        "slowest_target_ratio": costs[worst] / median,
    }


KIND: Final = "darshan"

# DARSHAN_MAGIC_NR, eight bytes after the version, in the byte order of the writing machine.
_MAGIC: Final = (6567223).to_bytes(8, "little")
_MAGIC_AT: Final = 8
# Sums of doubles differ with the order of addition.
_TOLERANCE: Final = 1e-9


def is_log(content: bytes) -> bool:
    """Return whether the content is a binary log, to be converted with `dump_command`."""
    magic = content[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)]
    return magic in (_MAGIC, _MAGIC[::-1])


def dump_command(path: str) -> tuple[str, ...]:
    """Return the command that prints the log at ``path`` in this format.

    Run it with a deadline. Exit code 1 and an ``{"error": ...}`` in the last line mean that
    PyDarshan is missing or cannot read the log; `read` raises the reason.
    """
    # -P: files in the current directory must not shadow modules (Python 3.11).
    return (sys.executable, "-P", "-m", "trimtab.formats.darshan_dump", path)


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return a result for each module that moved bytes; see `trimtab.formats.measurement`.

    Line numbers refer to the dump. Figures per OST cover the files on a single OST.

    Raises
    ------
    DataError
        The dump is incomplete, PyDarshan could not read the log, or the figures do not add up.
    """
    if is_log(source.content):
        raise DataError(
            "a Darshan log is binary",
            code="darshan-log-binary",
            hint=f"install PyDarshan to read it: {install_command('darshan')}",
        )
    header, job, modules = _parts(source)
    moving = [
        module for module in modules if module.sums["bytes_read"] + module.sums["bytes_written"]
    ]
    if not moving:
        return (_measurement(header, job, Module("posix", False, 3, dict.fromkeys(SUMS, 0.0), ())),)
    return tuple(_measurement(header, job, module) for module in moving)


def _recognises(source: OutputFile) -> bool:
    return is_log(source.content[:64]) or source.head.startswith('{"darshan_dump":')


FORMAT: Final = OutputFormat(KIND, _recognises, read)


@dataclass(frozen=True, slots=True)
class _DarshanJob:
    identifier: int | None
    processes: int
    began: datetime | None
    ended: datetime | None
    elapsed_s: float | None
    executable: str
    arguments: str
    line: int


def _parts(source: OutputFile) -> tuple[dict[str, Any], _DarshanJob, list[Module]]:
    lines = _objects(source)
    number, header = next(lines, (1, {}))
    if as_whole(header.get("darshan_dump")) != 1:
        _refuse(header, number)
    number, second = next(lines, (2, {}))
    job = _job(as_dict(second.get("job")), number, second)
    modules: list[Module] = []
    for number, line in lines:
        if "module" in line:
            modules.append(_module(line, number, lines))
        elif line == {"end": True}:
            if (more := next(lines, None)) is not None:
                raise DataError(
                    "the dump continues after its end", code="dump-damaged", line=more[0]
                )
            return header, job, modules
        else:
            _refuse(line, number)
    raise DataError("the dump of a Darshan log was cut", code="dump-cut", line=number)


def _objects(source: OutputFile) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(source.text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise DataError(
                "this line of the dump is damaged or was cut", code="dump-damaged", line=number
            )
        yield number, value


def _refuse(line: dict[str, Any], number: int) -> None:
    if isinstance(line.get("error"), str):
        raise DataError(line["error"], code="dump-refused", line=number)
    raise DataError("this line of the dump has no context", code="dump-damaged", line=number)


def _job(value: dict[str, Any], number: int, line: dict[str, Any]) -> _DarshanJob:
    processes = as_whole(value.get("processes"))
    if processes is None or processes <= 0:
        _refuse(line, number)
    return _DarshanJob(
        identifier=as_whole(value.get("id")),
        processes=processes or 0,
        began=time_since_1970(as_number(value.get("start_s"))),
        ended=time_since_1970(as_number(value.get("end_s"))),
        elapsed_s=as_number(value.get("elapsed_s")),
        executable=str(value.get("executable", "")),
        arguments=str(value.get("arguments", "")),
        line=number,
    )


def _module(
    line: dict[str, Any], number: int, lines: Iterable[tuple[int, dict[str, Any]]]
) -> Module:
    """Return a module with the groups that follow it, which must add up to its sums."""
    name, count = line["module"], as_whole(line.get("groups"))
    sums = {key: as_number(line.get(key)) for key in SUMS if key not in TIMES}
    known = {key: value for key, value in sums.items() if value is not None}
    known |= {key: time_of(line.get(key)) for key in TIMES if key in line}
    sums |= dict.fromkeys(TIMES)
    if not isinstance(name, str) or count is None or count < 0 or len(known) < len(sums):
        raise DataError("the sums of a module are damaged", code="dump-damaged", line=number)
    groups: list[DarshanGroup] = []
    last = number
    while len(groups) < count:
        last, value = next(iter(lines), (last, {}))
        group = group_of(value, last)
        if group is None:
            _refuse(value, last)
        else:
            groups.append(group)
    for key in SUMS:
        total = math.fsum(getattr(group, key) for group in groups)
        if math.isnan(total):
            known[key] = total
        elif not math.isclose(total, known[key], rel_tol=_TOLERANCE, abs_tol=1e-6):
            problem = f"{key} of {name} is {known[key]:g}, but its files add up to {total:g}"
            problem += ": a line was lost or altered"
            raise DataError(problem, code="sum-mismatch", line=number)
    return Module(name.lower(), line.get("partial") is True, number, known, tuple(groups))


def _measurement(header: dict[str, Any], job: _DarshanJob, module: Module) -> Measurement:
    samples = [*_totals(module)]
    reported: dict[str, object] = {
        "job": job.identifier,
        "elapsed_s": job.elapsed_s,
        "metadata_s": seconds(module.sums["metadata_s"])[0],
        **_slowest_rank(module),
    }
    missing: list[Missing] = []
    if module.name == "posix":
        if job.elapsed_s is not None:
            samples.append(Sample("elapsed", job.elapsed_s, 0, output=0, line=job.line))
        on_targets = by_target(module)
        samples += on_targets.samples
        reported |= on_targets.reported
        missing += on_targets.missing
    problem = None
    status = RunStatus.OK
    if not module.groups:
        status = RunStatus.FAILED
        problem = Message("no-bytes", "Darshan recorded no bytes read or written")
    elif damaged := [sample for sample in samples if sample.reason == DAMAGED]:
        status, problem = RunStatus.PARTIAL, damaged[0].reason
    elif module.partial:
        status = RunStatus.PARTIAL
        text = "Darshan ran out of memory for its records: some files are missing in the log"
        problem = Message("records-incomplete", text)
    return Measurement(
        kind=KIND,
        status=status,
        problems=() if problem is None else (problem,),
        tool_version=as_text(header.get("library_version")),
        name=module.name,
        layer="application",
        began=job.began,
        ended=job.ended,
        requested={
            "tasks": job.processes,
            "application": job.executable,
            "arguments": job.arguments,
        },
        reported=present(reported),
        samples=tuple(samples),
        missing=tuple(missing),
    )


def _totals(module: Module) -> Iterator[Sample]:
    """Yield the bandwidths, then bytes and times over all ranks."""
    moved = {access: module.sums[BYTES[access]] for access in ACCESSES}
    sample = partial(Sample, repetition=0, output=0, line=module.line)
    slowest = module.slowest_s()
    for access in ACCESSES:
        if not moved[access]:
            continue
        total, reason = rate_of(moved[access], slowest)
        if all(moved.values()):
            text = "the job read and wrote, and Darshan's slowest-rank time covers both"
            reason = Message("time-of-both", text)
        yield sample(BANDWIDTH[access], None if reason else total, reason=reason)
        rate, reason = rate_of(moved[access], slowest_of(module.groups, access))
        yield sample(BANDWIDTH[access], rate, statistic="data", reason=reason)
    for access in ACCESSES:
        yield sample(BYTES[access], moved[access])
        if moved[access]:
            spent, reason = seconds(module.sums[f"{access}_s"])
            yield sample(f"{access}_time", spent, statistic="sum", reason=reason)
    spent, reason = seconds(module.sums["metadata_s"])
    yield sample("metadata_time", spent, statistic="sum", reason=reason)


def _slowest_rank(module: Module) -> dict[str, object]:
    """Return the rank that spent the longest time in its own files, and that time."""
    times = module.own_s()
    if not times or any(map(math.isnan, times.values())):
        return {}
    rank = max(times, key=lambda candidate: (times[candidate], -candidate))
    return {"slowest_rank": rank, "slowest_rank_s": times[rank]}
