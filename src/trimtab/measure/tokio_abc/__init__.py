"""TOKIO summary tables: a year of daily probes with the telemetry of each run's moment.

The tables of "A Year in the Life of a Parallel File System" (Lockwood et al., SC18) and what
tokio-abcutils makes of a site's own Darshan logs, ``lfs df``, LMT and job records. A row is one
run of a benchmark as Darshan saw it.

The time of a run is ``darshan_start_time``. ``_datetime_start`` is of a wrong zone in both tables
that are published: NERSC's is Pacific time written as UTC (7 h too early in summer, 8 h in
winter), ALCF's is off by the same hours the other way (its ERRATA).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trimtab.errors import DataError
from trimtab.measure.measurement import BANDWIDTH, Happening, Measurement, agrees
from trimtab.measure.plain import present
from trimtab.measure.source import Format, Source
from trimtab.measure.tokio_abc.rows import TableRow, header_of, rows_of
from trimtab.measure.tokio_abc.telemetry import (
    amounts,
    counters_problem,
    failovers,
    is_percent,
    snapshot_of,
)
from trimtab.measure.tokio_abc.workload import (
    Kind,
    Places,
    Usual,
    Workload,
    difference,
    kind_of,
    places_of,
    spec_of,
    usual,
    workload_of,
)
from trimtab.message import Message, code_of, joined
from trimtab.model.run import RunStatus, Sample

KIND: Final = "tokio-abc"

_MIB: Final = 2**20
_PERFORMANCE: Final = "darshan_agg_perf_by_slowest_posix"
# Twelve digits in the table; both are Darshan's own figures.
_TOLERANCE: Final = 1e-3
_UNKNOWN: Final = "unknown"
_UNNAMED: Final = Message(
    "file-system-unnamed",
    "the row names no file system, and its mount point is of none that the table knows",
)
_INCONSISTENT: Final = Message(
    "figures-disagree", "bandwidth, bytes and time in the table are inconsistent"
)


_Program = tuple[Kind, str | None]
"""A probe, and the path of the application: builds for other nodes do other amounts of work."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row with what it ran.

    Attributes
    ----------
    workload
        What it did, or why that cannot be told.
    kind
        Where it belongs; ``None`` where that cannot be told.
    placed
        Whether the file system is known; a complete run of an unknown one is a run all the same.
    """

    row: TableRow
    workload: Workload | str
    kind: Kind | None
    placed: bool = True

    @classmethod
    def of(cls, row: TableRow, places: Places) -> _Row:
        if row.damage is not None:
            return cls(row, row.damage, None)
        workload = workload_of(row)
        name = places.of(row, workload)
        known = workload if isinstance(workload, Workload) else None
        if name is None and known is None:
            return cls(row, workload, None)
        return cls(row, workload, kind_of(row, known, name or _UNKNOWN), name is not None)


def recognises(source: Source) -> bool:
    """Return whether the first line names the columns of such a table."""
    return bool(header_of(source.head))


def read(source: Source) -> tuple[Measurement, ...]:
    """Return a result for each row; see `trimtab.measure.source`.

    A run whose workload is not that of most runs of its probe is `RunStatus.INVALID_WORKLOAD`; one
    that moved less and took far longer is `RunStatus.UNFINISHED`. A row without figures is a
    failed run of the file system that the rest of its job worked in.

    Raises
    ------
    DataError
        The content is no such table, or holds no row that can be used.
    """
    rows = list(rows_of(source.text))
    places = places_of(rows)
    read_rows = [_Row.of(row, places) for row in rows]
    if not any(row.kind is not None for row in read_rows):
        raise DataError("the table holds no row with a file system", code="no-result", line=2)
    members: dict[_Program, list[tuple[TableRow, Workload]]] = {}
    by_site: dict[str, list[TableRow]] = {}
    for described in read_rows:
        if described.kind is not None:
            by_site.setdefault(described.kind.site, []).append(described.row)
            if isinstance(described.workload, Workload):
                program = _program(described.row, described.kind)
                members.setdefault(program, []).append((described.row, described.workload))
    rule = {program: usual(rows) for program, rows in members.items()}
    happened = {
        line: happening for rows in by_site.values() for line, happening in failovers(rows).items()
    }
    percent = is_percent(rows)
    return tuple(_measurement(row, rule, happened, percent=percent) for row in read_rows)


FORMAT: Final = Format(KIND, recognises, read)


def _measurement(
    described: _Row,
    rule: Mapping[_Program, tuple[Usual, ...]],
    happened: Mapping[int, Happening],
    *,
    percent: bool,
) -> Measurement:
    row, kind = described.row, described.kind
    began = row.time("darshan_start_time")
    if isinstance(described.workload, str) or kind is None:
        problem = described.workload if isinstance(described.workload, str) else None
        return _without_figures(described, rule, problem or _UNNAMED)
    workload = described.workload
    expected = spec_of(workload, rule[_program(row, kind)])
    status, problem = difference(row, workload, expected)
    sample = _sample(row, workload, problem)
    if not sample.believed and status is RunStatus.OK:
        status, problem = RunStatus.FAILED, sample.reason
    happening = happened.get(row.line)
    return Measurement(
        kind=KIND,
        status=status,
        problems=() if problem is None else (problem,),
        name=_name(row, kind),
        layer="application",
        began=began,
        ended=row.time("darshan_end_time"),
        requested={"application": _application(row), **expected.workload.requested()},
        reported=_reported(row, workload, percent=percent),
        samples=(sample, _moved(row, workload)),
        identity=_identity(row, kind),
        alike=True,
        site=kind.site,
        probe=kind.probe,
        snapshot=snapshot_of(row, workload, kind.site, percent=percent),
        happenings=() if happening is None else (happening,),
        warnings=() if described.placed else (_UNNAMED,),
    )


def _without_figures(
    described: _Row, rule: Mapping[_Program, tuple[Usual, ...]], problem: str
) -> Measurement:
    """Return a failed run: that it was there is all that its row tells."""
    row, kind = described.row, described.kind
    requested: dict[str, object] = {"application": _application(row)}
    if kind is not None and (program := _program(row, kind)) in rule:
        requested |= rule[program][0].workload.requested()
    walltime = row.number("darshan_walltime")
    after = "" if walltime is None else f", and it ended after {walltime:.0f} s"
    return Measurement(
        kind=KIND,
        status=RunStatus.FAILED,
        problems=(Message(code_of(problem) or "tool-message", problem + after),),
        name=_name(row, kind),
        layer="application",
        began=row.time("darshan_start_time"),
        ended=row.time("darshan_end_time"),
        requested=requested,
        reported={"line": row.line, "job": row.text("_jobid")},
        identity=None if kind is None else _identity(row, kind),
        alike=True,
        site=None if kind is None else kind.site,
        probe=None if kind is None else kind.probe,
    )


def _sample(row: TableRow, workload: Workload, problem: str | None) -> Sample:
    """Return the bandwidth, in MiB/s in the table, with why it is not to be believed."""
    metric, line = BANDWIDTH[workload.access], row.line
    mib_per_s, time = row.number(_PERFORMANCE), row.number("darshan_io_time")
    if not mib_per_s:
        reason = Message("no-figure", f"the table has no {_PERFORMANCE}")
        return Sample(metric, None, 0, output=0, line=line, reason=reason)
    value = mib_per_s * _MIB
    # The time of the slowest rank is of files of its own alone: 0 where all share one file.
    own_files = bool(time) and workload.files > 1
    if own_files and not agrees(value, workload.moved_bytes, time or 0.0, tolerance=_TOLERANCE):
        problem = joined(problem, _INCONSISTENT)
    return Sample(metric, value, 0, output=0, line=line, reason=problem)


def _moved(row: TableRow, workload: Workload) -> Sample:
    """Return the bytes that the run moved, which what the servers moved is held against."""
    metric = "bytes_read" if workload.access == "read" else "bytes_written"
    return Sample(metric, workload.moved_bytes, 0, output=0, line=row.line)


def _reported(row: TableRow, workload: Workload, *, percent: bool) -> dict[str, object]:
    """Return what the row says besides, the figures of its moment under ``telemetry``."""
    reported: dict[str, object] = {
        "line": row.line,
        "job": row.text("_jobid"),
        "walltime_s": row.number("darshan_walltime"),
        "metadata_time_s": row.number("darshan_tot_f_meta_time_posix"),
        "telemetry": amounts(row, workload, percent=percent),
        "telemetry_problem": counters_problem(row, workload),
    }
    return present(reported)


def _program(row: TableRow, kind: Kind) -> _Program:
    return kind, row.text("darshan_app")


def _application(row: TableRow) -> str:
    return (row.text("darshan_app") or "unknown").rsplit("/", 1)[-1]


def _name(row: TableRow, kind: Kind | None) -> str:
    """Return what sets a row apart for a reader."""
    began = row.time("darshan_start_time")
    if kind is None or began is None:
        return f"line {row.line}"
    return f"{kind.site} {kind.probe} {began:%Y-%m-%d %H:%M:%S}"


def _identity(row: TableRow, kind: Kind) -> str:
    """Return what a row is known by in whatever table it stands, longer or shorter."""
    parts = (kind.site, kind.probe, row.text("_jobid"), row.text("darshan_start_time"))
    return " ".join(("tokio", *(part or "?" for part in parts)))
