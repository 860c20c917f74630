"""What each row ran, and whether that is what its probe runs.

A probe is a benchmark in one mode on one file system. The table does not say what was asked of it,
but it holds hundreds of its runs: what most of them moved is the probe's workload. A run that
moved something else says nothing about the file system, whatever its bandwidth.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from statistics import median
from typing import Final

from trimtab.measure.tokio_abc.rows import TableRow
from trimtab.message import Message
from trimtab.model.run import Access, RunStatus
from trimtab.units import format_bytes

_MIB: Final = 2**20
# As `trimtab.judge.validity` has it. HDF5 writes a few hundred bytes more or less of its own
# (VPIC-IO, 4e-11 of 2 TiB); one run of HACC-IO on Mira wrote 0.4 % less in the usual time.
_TOLERANCE: Final = 5e-3
# Another workload that lasts is a probe that was changed on purpose; as there.
_LASTING_S: Final = 30 * 86400.0
_RUNS_MINIMUM: Final = 10
_SHARE_MINIMUM: Final = 0.25
# How much longer than the median a run took that moved less: no smaller workload explains that.
_MUCH_LONGER: Final = 2.0
# Among so many of the most frequent workloads the usual one is looked for.
_CANDIDATES: Final = 20
_DATAWARP: Final = re.compile(r"/var/opt/cray/dws/mounts/batch/[0-9]+[_/]([A-Za-z0-9_]{1,40})/?")
_SYSTEM: Final = re.compile(r"/bin\.([A-Za-z0-9_]{1,40})/[^/]*$")


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run did.

    Attributes
    ----------
    moved_bytes
        Written or read, by ``access``.
    files
        That Darshan kept a record of.
    opens
        Of all tasks together.
    """

    access: Access
    tasks: int
    files: int
    opens: int
    moved_bytes: float

    def is_as(self, other: Workload) -> bool:
        """Return whether both did the same, but for the bytes that a library adds of its own."""
        mine, its = (
            (workload.access, workload.tasks, workload.files, workload.opens)
            for workload in (self, other)
        )
        limit = _TOLERANCE * other.moved_bytes
        return mine == its and abs(self.moved_bytes - other.moved_bytes) <= limit

    def requested(self) -> dict[str, object]:
        """Return what makes two runs comparable; bytes to the MiB, see `is_as`."""
        return {
            "accesses": [self.access],
            "tasks": self.tasks,
            "files": self.files,
            "opens": self.opens,
            "moved_bytes": round(self.moved_bytes / _MIB) * _MIB,
        }


@dataclass(frozen=True, slots=True)
class Kind:
    """Which series a row belongs to.

    Attributes
    ----------
    site
        File system, with the system that it is of where its own name does not say.
    probe
        Application and, for IOR, mode.
    """

    site: str
    probe: str


def workload_of(row: TableRow) -> Workload | str:
    """Return what a row did, or why that cannot be told."""
    read, written = (row.number(f"darshan_tot_bytes_{verb}_posix") for verb in ("read", "written"))
    counts = (
        row.whole("darshan_nprocs"),
        row.whole("darshan_num_opens_posix"),
        row.whole("darshan_tot_opens_posix"),
    )
    if read is None or written is None or None in counts:
        return Message("no-files-opened", "Darshan recorded no open file: the table has no figures")
    if (read > 0) == (written > 0):
        return "it read and wrote" if read else "it moved nothing"
    tasks, files, opens = (count or 0 for count in counts)
    return Workload("read" if read else "write", tasks, files, opens, read or written)


def kind_of(row: TableRow, workload: Workload | None, file_system: str) -> Kind:
    """Return the file system and the probe of a row.

    IOR's rows are of four probes: one file for each task or one for all of them, written or read.
    """
    path = row.text("darshan_app") or "unknown"
    application = PurePosixPath(path).name
    system = _SYSTEM.search(path)
    site = file_system
    if system is not None and not file_system.startswith(system.group(1)):
        site = f"{system.group(1)}-{file_system}"
    if application != "ior" or workload is None:
        return Kind(site, application)
    mode = "shared" if workload.files == 1 else "fpp"
    return Kind(site, f"ior-{mode}-{workload.access}")


@dataclass(frozen=True, slots=True)
class Places:
    """Where runs worked whose rows name no file system, as far as the table proves it.

    Attributes
    ----------
    mounts
        Mount point to file system, of those that rows with a name have.
    jobs
        Job to file system, of jobs whose rows are all known to be in one.
    """

    mounts: Mapping[str, str]
    jobs: Mapping[str, str]

    def of(self, row: TableRow, workload: Workload | str) -> str | None:
        """Return the file system of a row; ``None`` where nothing proves it.

        A run that moved bytes is where Darshan saw them move, and nowhere else: others of its job
        may have worked elsewhere, in a burst buffer for instance. A run that opened nothing is
        where its job was.
        """
        if name := row.text("_file_system"):
            return name
        if isinstance(workload, str):
            return self.jobs.get(row.text("_jobid") or "")
        mount = _mount_of(row, workload)
        return None if mount is None else self.mounts.get(mount) or _burst_buffer(mount)


def places_of(rows: Iterable[TableRow]) -> Places:
    """Return what the rows of a table prove about where they worked."""
    described = [(row, workload_of(row)) for row in rows if row.damage is None]
    names: dict[str, set[str]] = {}
    for row, workload in described:
        name = row.text("_file_system")
        mount = None if isinstance(workload, str) else _mount_of(row, workload)
        if name and mount:
            names.setdefault(mount, set()).add(name)
    mounts = {mount: next(iter(those)) for mount, those in names.items() if len(those) == 1}
    known = Places(mounts, {})
    jobs: dict[str, set[str | None]] = {}
    for row, workload in described:
        if (job := row.text("_jobid")) and (row.text("_file_system") or not _is_text(workload)):
            jobs.setdefault(job, set()).add(known.of(row, workload))
    alone = {job: places.pop() for job, places in jobs.items() if len(places) == 1}
    return Places(mounts, {job: place for job, place in alone.items() if place is not None})


def _is_text(workload: Workload | str) -> bool:
    return isinstance(workload, str)


def _mount_of(row: TableRow, workload: Workload) -> str | None:
    """Return the mount point of the bytes that a run moved; ``None`` where they are of several."""
    verb = workload.access
    mount = row.text(f"darshan_biggest_{verb}_fs")
    held = row.number(f"darshan_biggest_{verb}_fs_bytes")
    if mount is None or not mount.startswith("/"):
        return None
    if held is not None and held < (1 - _TOLERANCE) * workload.moved_bytes:
        return None
    return mount


def _burst_buffer(mount: str) -> str | None:
    """Return the name of a Cray DataWarp allocation, without the number of its job."""
    match = _DATAWARP.fullmatch(mount)
    return None if match is None else f"datawarp-{match[1]}"


@dataclass(frozen=True, slots=True)
class Usual:
    """What the runs of a probe do as a rule.

    Attributes
    ----------
    runs
        That did so.
    walltime_s
        Their median; ``None`` where the table has none.
    """

    workload: Workload
    runs: int
    walltime_s: float | None


def usual(members: Iterable[tuple[TableRow, Workload]]) -> tuple[Usual, ...]:
    """Return the workload that most rows of a probe have, then others that lasted.

    Of equally many the larger comes first. Another one lasts where it has at least ten runs over
    thirty days that are a quarter of all runs of their time: a probe that was changed on purpose.
    """
    candidates = list(members)
    counts = Counter(workload for _, workload in candidates)
    # Those that differ by a library's own bytes count together, or one probe would have two.
    together = {
        workload: sum(count for other, count in counts.items() if other.is_as(workload))
        for workload, _ in counts.most_common(_CANDIDATES)
    }
    order = sorted(
        together,
        key=lambda workload: (-together[workload], -counts[workload], -workload.moved_bytes),
    )
    chosen: list[Usual] = []
    for option in order:
        if any(option.is_as(other.workload) for other in chosen):
            continue
        rows = [row for row, workload in candidates if workload.is_as(option)]
        if not chosen or _lasts(rows, candidates):
            times = [row.number("darshan_walltime") for row in rows]
            known = [time for time in times if time is not None]
            chosen.append(Usual(option, len(rows), median(known) if known else None))
    return tuple(chosen)


def _lasts(rows: Sequence[TableRow], members: Sequence[tuple[TableRow, Workload]]) -> bool:
    times = [row.number("darshan_start_time") or 0.0 for row in rows]
    low, high = min(times), max(times)
    if len(rows) < _RUNS_MINIMUM or high - low < _LASTING_S:
        return False
    within = sum(low <= (row.number("darshan_start_time") or 0.0) <= high for row, _ in members)
    return len(rows) >= _SHARE_MINIMUM * within


def spec_of(workload: Workload, rule: Sequence[Usual]) -> Usual:
    """Return which of a probe's workloads a run had; where it had none, the usual one."""
    return next((candidate for candidate in rule if workload.is_as(candidate.workload)), rule[0])


def difference(row: TableRow, workload: Workload, as_a_rule: Usual) -> tuple[RunStatus, str | None]:
    """Return how a run counts, and where it did not do what its probe does: in what it differs."""
    expected = as_a_rule.workload
    if workload.is_as(expected):
        return RunStatus.OK, None
    differences = ", ".join(_differing(workload, expected))
    walltime_s = row.number("darshan_walltime")
    took, usually = walltime_s or 0.0, as_a_rule.walltime_s or math.inf
    if workload.moved_bytes < expected.moved_bytes and took > _MUCH_LONGER * usually:
        # The slowest runs of all would go uncounted if they passed for another workload.
        text = f"{differences}, and took {took:.0f} s where complete runs take {usually:.0f} s:"
        return RunStatus.UNFINISHED, Message("run-unfinished", f"{text} it did not finish")
    problem = Message("workload-mismatch", f"{differences}: not the probe's workload")
    return RunStatus.INVALID_WORKLOAD, problem


def _differing(workload: Workload, expected: Workload) -> list[str]:
    """Return each difference in words, the bytes first."""
    verb = "wrote" if workload.access == "write" else "read"
    differences = []
    if abs(workload.moved_bytes - expected.moved_bytes) > _TOLERANCE * expected.moved_bytes:
        moved, usually = (format_bytes(side.moved_bytes) for side in (workload, expected))
        differences.append(f"{verb} {moved} instead of {usually}")
    for name in ("tasks", "files", "opens"):
        mine, its = getattr(workload, name), getattr(expected, name)
        if mine != its:
            differences.append(f"{mine:,} {name} instead of {its:,}")
    return differences
