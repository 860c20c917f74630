"""What a row tells of the file system at the time of its run.

Two kinds of figures. Readings of a moment, or means over the run, that are exactly one of the
telemetry names become a snapshot. Amounts over the run (bytes that the servers moved, operations)
are no counters, and none is made up from them: they stay with the run, see `amounts`.

Where they come from (tokio-abcutils, README of the data): ``fshealth_*`` is ``lfs df`` and
``lctl dl -t``, run every quarter of an hour or hour; ``fs_*`` is LMT on Edison and GPFS's
``mmpmon`` (ggiostat) on Mira; ``jobsdb_*`` the batch system's records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trimtab.measure.measurement import Happening
from trimtab.measure.tokio_abc.rows import TableRow
from trimtab.measure.tokio_abc.workload import Workload
from trimtab.message import Message
from trimtab.model.event import EventKind
from trimtab.model.telemetry import HostSnapshot, Reading, Snapshot, Target, TargetSnapshot

_KIB: Final = 1024
# Fullness moves by a per cent a day: an hour before the run is its moment, a day before is not.
_STALE_S: Final = 3600.0
# The servers count what the run itself moves: median 1.003, 1 % of rows under 0.897 (Edison).
# Counters that saw less than half of it were not all recorded.
_SEEN_LEAST: Final = 0.5
_OPERATIONS: Final = (
    *("close", "getattr", "getxattr", "link", "mkdir", "mknod", "open", "rename", "rmdir"),
    *("setattr", "statfs", "unlink", "readdir", "inode_updates"),
)
AMOUNTS: Final = frozenset(
    {
        *("server_bytes_read", "server_bytes_written", "other_bytes_read", "other_bytes_written"),
        "metadata_operations",
    }
)
"""Figures of `amounts` that grow with the length of the run."""
_CPU: Final = {"oss": "every OSS", "mds": "the MDS"}
_AS_FRACTION: Final = (
    ("fullest_target_fraction", "fshealth_ost_most_full_pct"),
    ("emptiest_target_fraction", "fshealth_ost_least_full_pct"),
    ("mean_fullness_fraction", "fshealth_ost_avg_full_pct"),
)
_OF_SERVERS: Final = (
    ("oss_cpu_mean_fraction", "fs_ave_oss_cpu"),
    ("oss_cpu_maximum_fraction", "fs_max_oss_cpu"),
    ("mds_cpu_mean_fraction", "fs_ave_mds_cpu"),
    ("mds_cpu_maximum_fraction", "fs_max_mds_cpu"),
)
_PLAIN: Final = (
    ("overloaded_targets", "fshealth_ost_overloaded_ost_count"),
    ("overloaded_servers", "fshealth_ost_overloaded_oss_count"),
    ("job_radius_mean", "topology_job_avg_radius"),
)


def is_percent(rows: Sequence[TableRow]) -> bool:
    """Return whether ``*_pct`` is a percentage in this table; in ALCF's it is a fraction.

    No file system that is used is at most 1 % full in every row of a year.
    """
    values = [row.number("fshealth_ost_most_full_pct") for row in rows]
    return max((value for value in values if value is not None), default=0.0) > 1.0


def counters_problem(row: TableRow, workload: Workload | None) -> str | None:
    """Return why the servers' figures of a row are not to be used; ``None`` where they are."""
    read, written = row.number("fs_tot_bytes_read"), row.number("fs_tot_bytes_written")
    if read is None or written is None:
        text = "the table has no figures of the servers for this run"
        return Message("servers-not-in-table", text)
    if row.number("fs_monitoring_samples") == 0:
        text = "the servers' counters were not recorded (no sample during the run)"
        return Message("counters-not-recorded", text)
    if workload is None:
        return None
    seen = read if workload.access == "read" else written
    if seen >= _SEEN_LEAST * workload.moved_bytes:
        return None
    text = "the servers' counters show less than half of the bytes that the run moved"
    return Message("counters-incomplete", text)


def jobs(row: TableRow) -> int | None:
    """Return the jobs that ran at the time of the run, ``None`` where the table does not tell.

    From 6 February 2018 on it has 0 jobs on 0 nodes for every run: nothing was looked up.
    """
    return row.whole("jobsdb_concurrent_jobs") or None


def amounts(row: TableRow, workload: Workload | None, *, percent: bool) -> dict[str, float]:
    """Return what the row tells of the time of its run, by name; what is not known is left out.

    Fractions and bytes over the run; see ``docs/benchmarks/tokio-abc.md`` for each.
    """
    scale = 100.0 if percent else 1.0
    values: dict[str, float | None] = {}
    if not _is_stale(row):
        for name, column in _AS_FRACTION:
            values[name] = _scaled(row.number(column), 1 / scale)
    values |= {name: row.number(column) for name, column in _PLAIN}
    values["concurrent_jobs"] = jobs(row)
    if values["concurrent_jobs"] is not None:
        values["concurrent_nodes"] = row.number("jobsdb_concurrent_nodes")
    if counters_problem(row, workload) is None:
        values |= _of_servers(row, workload)
    return {name: value for name, value in values.items() if value is not None}


def _of_servers(row: TableRow, workload: Workload | None) -> dict[str, float | None]:
    values: dict[str, float | None] = {
        name: _scaled(row.number(column), 0.01) for name, column in _OF_SERVERS
    }
    moved = {"read": 0.0, "written": 0.0}
    if workload is not None:
        moved["read" if workload.access == "read" else "written"] = workload.moved_bytes
    for way, mine in moved.items():
        total = row.number(f"fs_tot_bytes_{way}")
        values[f"server_bytes_{way}"] = total
        if total is not None:
            # The last bytes of a run may be counted after it.
            values[f"other_bytes_{way}"] = max(0.0, total - mine)
    counts = [
        row.number(f"fs_tot_{operation}{'' if '_' in operation else '_ops'}")
        for operation in _OPERATIONS
    ]
    known = [count for count in counts if count is not None]
    values["metadata_operations"] = sum(known) if known else None
    values["counters_missing_fraction"] = row.number("fs_frac_missing")
    return values


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _is_stale(row: TableRow) -> bool:
    return (row.number("fshealth_ost_fullness_lead_secs") or 0.0) > _STALE_S


def snapshot_of(
    row: TableRow, workload: Workload | None, site: str, *, percent: bool
) -> Snapshot | None:
    """Return what is known of targets and servers, ``None`` where a row tells nothing of them.

    It is never complete: of the OSTs only the fullest and the emptiest are told by name. The
    whole file system is a target of kind ``file-system`` with the name of the site.
    """
    at = row.time("darshan_start_time")
    hosts = tuple(_hosts(row, counters_problem(row, workload)))
    targets = [*_named_targets(row)] if percent else []
    whole = [*_whole(row)]
    if at is None or not (targets or hosts or any(reading.value is not None for reading in whole)):
        return None
    if hosts:
        targets.append(TargetSnapshot(Target("MDT0000", "mdt", "mds"), ()))
    targets.append(TargetSnapshot(Target(site, "file-system"), tuple(whole)))
    return Snapshot(at, "lustre", False, tuple(targets), hosts)


def _named_targets(row: TableRow) -> Iterator[TargetSnapshot]:
    named: dict[str, TargetSnapshot] = {}
    for which in ("most", "least"):
        name = row.text(f"fshealth_ost_{which}_full_name")
        if name is not None:
            used = row.number(f"fshealth_ost_{which}_full_kib")
            share = row.number(f"fshealth_ost_{which}_full_pct")
            column = f"fshealth_ost_{which}_full"
            reason = Message("column-missing", "the table has no column of it")
            available = Reading("available_bytes", None, reason=reason)
            readings = (*_space(row, column, used, share, times=1), available)
            named[name] = TargetSnapshot(Target(name, "ost"), readings)
    yield from named.values()


def _space(
    row: TableRow, column: str, used_kib: float | None, percent: float | None, *, times: int
) -> Iterator[Reading]:
    """Yield capacity and used space of so many OSTs, from their (mean) use in KiB and per cent."""
    lead = row.number("fshealth_ost_fullness_lead_secs")
    if used_kib is None or not percent:
        reason = Message("column-missing", f"the table has no {column}")
    elif _is_stale(row):
        text = f"lfs df was last run {lead or 0:.0f} s before this run"
        reason = Message("reading-too-old", text)
    else:
        source = f"lfs df, {lead or 0:.0f} s before: {column}_kib"
        # Per cent has 12 digits: 90,767,651,352 KiB comes out whole, as Edison's lfs df prints it.
        capacity = round(100.0 * used_kib / percent) * _KIB * times
        yield Reading("capacity_bytes", capacity, source=f"{source} over {column}_pct")
        yield Reading("used_bytes", round(used_kib * times) * _KIB, source=source)
        return
    for name in ("capacity_bytes", "used_bytes"):
        yield Reading(name, None, reason=reason)


def _whole(row: TableRow) -> Iterator[Reading]:
    """Yield what is of the whole file system: space, whether a server stands in for another."""
    count = row.whole("fshealth_ost_count")
    if count:
        used, percent = (row.number(f"fshealth_ost_avg_full_{unit}") for unit in ("kib", "pct"))
        yield from _space(row, "fshealth_ost_avg_full", used, percent, times=count)
    overloaded = row.whole("fshealth_ost_overloaded_ost_count")
    if overloaded is not None:
        source = f"fshealth_ost_overloaded_ost_count {overloaded} (lctl dl -t)"
        yield Reading("failover_active", overloaded > 0, source=source)
    running = jobs(row)
    if running is not None:
        source = "jobsdb_concurrent_jobs: of the whole machine, during the run"
        yield Reading("concurrent_jobs", running, source=source)


def _hosts(row: TableRow, problem: str | None) -> Iterator[HostSnapshot]:
    """Yield the servers: one for all OSS, one for the MDS, as means over them and over the run."""
    for name, who in _CPU.items():
        column = f"fs_ave_{name}_cpu"
        percent = row.number(column)
        if column not in row.fields:
            continue
        if percent is None or problem is not None:
            reason = problem or Message("column-missing", f"the table has no {column}")
            reading = Reading("server_cpu_fraction", None, reason=reason)
        else:
            source = f"{column}: mean of {who} over the run (LMT)"
            reading = Reading("server_cpu_fraction", percent / 100.0, source=source)
        yield HostSnapshot(name, "server", readings=(reading,))


def failovers(rows: Sequence[TableRow]) -> Mapping[int, Happening]:
    """Return line to failover, by the line of the first run that met it.

    ``overloaded`` is an OSS with more OSTs than the others: Edison's have one each, so 2 are one
    server and the one that it stands in for. Between two runs nobody looked, so a failover lasts
    from the first run that saw it to the last.

    Parameters
    ----------
    rows
        Of one file system.
    """
    looked = [
        (at, row, count)
        for row in rows
        if (at := row.time("darshan_start_time")) is not None
        and (count := row.whole("fshealth_ost_overloaded_ost_count")) is not None
    ]
    looked.sort(key=lambda entry: (entry[0], entry[1].line))
    stretches: list[tuple[int, int]] = []
    for place, (_, _, count) in enumerate(looked):
        if not count:
            continue
        if stretches and stretches[-1][1] == place - 1:
            stretches[-1] = (stretches[-1][0], place)
        else:
            stretches.append((place, place))
    happenings = {}
    for first, last in stretches:
        at, row, count = looked[first]
        servers = row.whole("fshealth_ost_overloaded_oss_count") or 0
        start, end = "so from the first row", "still so in the last row"
        if first:
            start = f"not yet at {looked[first - 1][0]:%Y-%m-%d %H:%M}"
        if last + 1 < len(looked):
            end = f"over at {looked[last + 1][0]:%Y-%m-%d %H:%M}"
        detail = f"{count} OSTs on {servers} OSS; {start}, {end} UTC ({last - first + 1} runs)"
        source = "fshealth_ost_overloaded_ost_count"
        happenings[row.line] = Happening(EventKind.FAILOVER, at, detail, source, looked[last][0])
    return happenings
