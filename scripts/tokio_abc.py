"""The public year of daily probes on Edison and Mira, as runs: a map of its columns and its rules.

The tables are those of "A Year in the Life of a Parallel File System" (Lockwood et al., SC18). A
row is one run of a benchmark as Darshan saw it, with what was known of the file system then. Two
traps: ``_datetime_start`` is of a wrong zone in both tables, so `TIME` is Darshan's; and ``_pct``
is a percentage on Edison and a fraction on Mira.

The tables do not say what was asked of a probe, but hold hundreds of its runs: what most of them
moved is its workload, and a run that moved something else says nothing about the file system.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from statistics import median
from typing import Final

from trimtab.base.run import BANDWIDTH, Access, RunStatus
from trimtab.base.units import format_bytes
from trimtab.formats.measurement import agrees

TIME: Final = "darshan_start_time"
VALUE: Final = "darshan_agg_perf_by_slowest_posix"
"""In MiB/s."""
SITE: Final = "_file_system"
PROBE: Final = "darshan_app"
TELEMETRY: Final = {
    "mds_cpu_mean_fraction": ("fs_ave_mds_cpu", 0.01),
    "job_radius_mean": ("topology_job_avg_radius", 1.0),
}
FULLNESS: Final = {
    "fullest_target_fraction": "fshealth_ost_most_full_pct",
    "mean_fullness_fraction": "fshealth_ost_avg_full_pct",
}
_OPERATIONS: Final = (
    *("close", "getattr", "getxattr", "link", "mkdir", "mknod", "open", "rename", "rmdir"),
    *("setattr", "statfs", "unlink", "readdir", "inode_updates"),
)
_MIB: Final = 2**20
# HDF5 writes a few hundred bytes more or less of its own; one run of HACC-IO on Mira wrote 0.4 %
# less in the usual time.
_TOLERANCE: Final = 5e-3
_RUNS_MINIMUM: Final = 10
_SHARE_MINIMUM: Final = 0.25
_LASTING: Final = timedelta(days=30)
_MUCH_LONGER: Final = 2.0
"""Times the median: no smaller workload explains that."""
_CANDIDATES: Final = 20
_PRINTED: Final = 1e-3
"""Figures have twelve digits; both of bandwidth and time are Darshan's own."""
_STALE_S: Final = 3600.0
"""``lfs df`` of an hour before is of the run's moment, of a day before is not."""
_SEEN_LEAST: Final = 0.5
"""Counters of servers that saw less of a run than that were not all recorded."""

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run did: bytes moved, files that Darshan recorded, opens of all tasks together."""

    access: Access
    tasks: int
    files: int
    opens: int
    moved_bytes: float

    def is_as(self, other: Workload) -> bool:
        """Return whether both did the same, but for the bytes that a library adds of its own."""
        alike = replace(self, moved_bytes=0.0) == replace(other, moved_bytes=0.0)
        return alike and abs(self.moved_bytes - other.moved_bytes) <= (
            _TOLERANCE * other.moved_bytes
        )

    @property
    def comparable(self) -> Workload:
        """What makes two runs comparable: its bytes to the MiB."""
        return replace(self, moved_bytes=round(self.moved_bytes / _MIB) * _MIB)


@dataclass(frozen=True, slots=True)
class TableRun:
    """One row of a table.

    Attributes
    ----------
    series
        Runs of one series have equal ones; ``None`` where the row has no figures.
    value
        Bandwidth in B/s, as printed.
    telemetry
        What the table tells of the file system at its moment, by name.
    """

    at: datetime
    site: str
    probe: str
    status: RunStatus
    problem: str | None = None
    series: tuple[str, Workload] | None = None
    value: float | None = None
    walltime_s: float | None = None
    telemetry: Mapping[str, float] | None = None

    @property
    def metric(self) -> str:
        """Its metric."""
        return "" if self.series is None else BANDWIDTH[self.series[1].access]


@dataclass(frozen=True, slots=True)
class Failover:
    """A server stood in for another, from the first run that met it to the last."""

    at: datetime
    until: datetime


def read(path: Path) -> tuple[tuple[TableRun, ...], dict[str, tuple[Failover, ...]]]:
    """Return the runs of a table, and the failovers of each file system."""
    with gzip.open(path, "rt") as file:
        head, *rows = csv.reader(file)
    unnamed = len(rows[0]) - len(head)  # Edison's have an index first, which the head does not name
    table = [dict(zip(head, row[unnamed:], strict=True)) for row in rows]
    # A row without figures names no file system: it is where the rest of its job was.
    places = {row["_jobid"]: row[SITE] for row in table if row[SITE]}
    for row in table:
        row[SITE] = row[SITE] or places[row["_jobid"]]
    workloads = [_workload_of(row) for row in table]
    kinds = [_kind_of(row, workload) for row, workload in zip(table, workloads, strict=True)]
    members = defaultdict(list)
    for row, workload, kind in zip(table, workloads, kinds, strict=True):
        if workload is not None:
            # Builds for other nodes do other amounts of work.
            members[kind, row[PROBE]].append((row, workload))
    usual = {program: tuple(_usual(runs)) for program, runs in members.items()}
    percent = max((_number(row, FULLNESS["fullest_target_fraction"]) or 0) for row in table) > 1
    runs = tuple(
        _run(row, workload, kind, usual, percent=percent)
        for row, workload, kind in zip(table, workloads, kinds, strict=True)
    )
    sites = defaultdict(list)
    for row, (site, _) in zip(table, kinds, strict=True):
        sites[site].append(row)
    return runs, {site: tuple(_failovers(of_site)) for site, of_site in sites.items()}


def _number(row: Row, column: str) -> float | None:
    """Return a field as a number of zero or more, ``None`` where it is none."""
    try:
        value = float(row.get(column, ""))
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _time(row: Row) -> datetime:
    return datetime.fromtimestamp(float(row[TIME]), UTC)


def _workload_of(row: Row) -> Workload | None:
    """Return what a row did; ``None`` where Darshan recorded no open file."""
    read, written = (
        _number(row, f"darshan_tot_bytes_{verb}_posix") for verb in ("read", "written")
    )
    counts = [
        _number(row, f"darshan_{name}") for name in ("nprocs", "num_opens_posix", "tot_opens_posix")
    ]
    if read is None or written is None or None in counts or (read > 0) == (written > 0):
        return None
    tasks, files, opens = (int(count or 0) for count in counts)
    return Workload("read" if read else "write", tasks, files, opens, read or written)


def _kind_of(row: Row, workload: Workload | None) -> tuple[str, str]:
    """Return file system and probe; IOR's are of four, by file count and direction."""
    system = re.search(r"/bin\.(\w+)/[^/]*$", row[PROBE])
    site = f"{system[1]}-{row[SITE]}" if system else row[SITE]
    application = PurePosixPath(row[PROBE]).name
    if application != "ior" or workload is None:
        return site, application
    return site, f"ior-{'shared' if workload.files == 1 else 'fpp'}-{workload.access}"


def _usual(members: Sequence[tuple[Row, Workload]]) -> Iterator[tuple[Workload, float]]:
    """Yield the workload that most rows of a probe have, then others that lasted; their walltimes.

    Another one lasts where it has at least ten runs over thirty days that are a quarter of all
    runs of their time: a probe that was changed on purpose.
    """
    counts = Counter(workload for _, workload in members)
    # Those that differ by a library's own bytes count together, or one probe would have two.
    together = {
        workload: sum(count for other, count in counts.items() if other.is_as(workload))
        for workload, _ in counts.most_common(_CANDIDATES)
    }
    chosen: list[Workload] = []
    for option in sorted(
        together, key=lambda one: (-together[one], -counts[one], -one.moved_bytes)
    ):
        rows = [row for row, workload in members if workload.is_as(option)]
        if any(option.is_as(other) for other in chosen) or (chosen and not _lasts(rows, members)):
            continue
        chosen.append(option)
        yield option, median(float(row["darshan_walltime"]) for row in rows)


def _lasts(rows: Sequence[Row], members: Iterable[tuple[Row, Workload]]) -> bool:
    times = [_time(row) for row in rows]
    low, high = min(times), max(times)
    within = sum(low <= _time(row) <= high for row, _ in members)
    return (
        len(rows) >= max(_RUNS_MINIMUM, _SHARE_MINIMUM * within) and high - low >= _LASTING
    )  # fmt: skip


def _run(
    row: Row,
    workload: Workload | None,
    kind: tuple[str, str],
    usual: Mapping[object, Sequence[tuple[Workload, float]]],
    *,
    percent: bool,
) -> TableRun:
    at, walltime_s = _time(row), _number(row, "darshan_walltime")
    if workload is None:
        return TableRun(at, *kind, RunStatus.FAILED, "the row has no figures")
    rule = usual[kind, row[PROBE]]
    expected = next((one for one in rule if workload.is_as(one[0])), rule[0])
    status, problem = _difference(workload, walltime_s or 0.0, *expected)
    value, time_s = (_number(row, VALUE) or 0.0) * _MIB, _number(row, "darshan_io_time")
    # The time of the slowest rank is of files of its own alone: 0 where all share one file.
    own_files = bool(time_s) and workload.files > 1
    disagree = own_files and not agrees(
        value, workload.moved_bytes, time_s or 0.0, tolerance=_PRINTED
    )
    if status is RunStatus.OK and (disagree or not value):
        status, problem = RunStatus.FAILED, "bandwidth, bytes and time are inconsistent"
    series = (PurePosixPath(row[PROBE]).name, expected[0].comparable)
    telemetry = dict(_telemetry(row, workload, percent=percent))
    return TableRun(at, *kind, status, problem, series, value, walltime_s, telemetry)


def _difference(
    workload: Workload, took_s: float, expected: Workload, usually_s: float
) -> tuple[RunStatus, str | None]:
    """Return how a run counts, and in what it differs where it did not do what its probe does."""
    if workload.is_as(expected):
        return RunStatus.OK, None
    differences = ", ".join(_differing(workload, expected))
    if workload.moved_bytes < expected.moved_bytes and took_s > _MUCH_LONGER * usually_s:
        # The slowest runs of all would go uncounted if they passed for another workload.
        return RunStatus.UNFINISHED, (
            f"{differences}, and took {took_s:.0f} s where complete runs take {usually_s:.0f} s: "
            "it did not finish"
        )
    return RunStatus.INVALID_WORKLOAD, f"{differences}: not the probe's workload"


def _differing(workload: Workload, expected: Workload) -> Iterator[str]:
    if abs(workload.moved_bytes - expected.moved_bytes) > _TOLERANCE * expected.moved_bytes:
        moved, usually = (format_bytes(side.moved_bytes) for side in (workload, expected))
        verb = "wrote" if workload.access == "write" else "read"
        yield f"{verb} {moved} instead of {usually}"
    for name in ("tasks", "files", "opens"):
        mine, its = getattr(workload, name), getattr(expected, name)
        if mine != its:
            yield f"{mine:,} {name} instead of {its:,}"


def _telemetry(row: Row, workload: Workload, *, percent: bool) -> Iterator[tuple[str, float]]:
    """Yield name and figure of what the row tells of its moment; what is not known is left out."""
    if (_number(row, "fshealth_ost_fullness_lead_secs") or 0.0) <= _STALE_S:
        for name, column in FULLNESS.items():
            if (share := _number(row, column)) is not None:
                yield name, share * (0.01 if percent else 1.0)
    # From 6 February 2018 on there are 0 jobs for every run: nothing was looked up.
    if jobs := _number(row, "jobsdb_concurrent_jobs"):
        yield "concurrent_jobs", jobs
    recorded = _are_recorded(row, workload)
    for name, (column, factor) in TELEMETRY.items():
        if (recorded or not column.startswith("fs_")) and (
            value := _number(row, column)
        ) is not None:
            yield name, value * factor
    if recorded:
        yield from _of_servers(row, workload)


def _are_recorded(row: Row, workload: Workload) -> bool:
    """Return whether the servers' counters saw the run: all are 0 on 9 January 2018."""
    verb = "read" if workload.access == "read" else "written"
    both = [_number(row, f"fs_tot_bytes_{way}") for way in ("read", "written")]
    seen = _number(row, f"fs_tot_bytes_{verb}") or 0.0
    return (
        None not in both
        and _number(row, "fs_monitoring_samples") != 0
        and seen >= _SEEN_LEAST * workload.moved_bytes
    )


def _of_servers(row: Row, workload: Workload) -> Iterator[tuple[str, float]]:
    for way, access in (("read", "read"), ("written", "write")):
        total = _number(row, f"fs_tot_bytes_{way}") or 0.0
        mine = workload.moved_bytes if workload.access == access else 0.0
        # The last bytes of a run may be counted after it.
        yield f"other_bytes_{way}", max(0.0, total - mine)
    counts = [_number(row, f"fs_tot_{one}{'' if '_' in one else '_ops'}") for one in _OPERATIONS]
    if known := [count for count in counts if count is not None]:
        yield "metadata_operations", sum(known)


def _failovers(rows: Sequence[Row]) -> Iterator[Failover]:
    """Yield stretches of runs during which an OSS had more OSTs than the others."""
    column = "fshealth_ost_overloaded_ost_count"
    looked = sorted(
        (_time(row), count) for row in rows if (count := _number(row, column)) is not None
    )
    stretch: list[datetime] = []
    for at, count in [*looked, (datetime.max.replace(tzinfo=UTC), 0.0)]:
        if count:
            stretch.append(at)
        elif stretch:
            yield Failover(stretch[0], stretch[-1])
            stretch = []
