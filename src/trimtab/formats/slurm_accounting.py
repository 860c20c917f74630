"""Jobs of the whole cluster by hour, from ``sacct --parsable2``.

It is a measurement without samples: the number of running jobs and of their nodes explains a
bandwidth but is not one. The hours are in ``reported``; ``jobs`` of
`trimtab.explain.context.Context` is built from them.

``sacct`` lists every job that ran between its ``--starttime`` and ``--endtime`` but prints neither.
So the hours run from the first end of a job, before which jobs may be missing, to the last start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final
from zoneinfo import ZoneInfo

from trimtab.base.error import DataError, Message
from trimtab.base.plain import time_of, whole_lines, whole_of
from trimtab.base.run import RunStatus
from trimtab.formats.measurement import Measurement, OutputFile, OutputFormat

KIND: Final = "slurm-accounting"
_HOUR_S: Final = 3600
_HOURS_MAXIMUM: Final = 400 * 24
_ID: Final = ("JobIDRaw", "JobID")
_NEEDED: Final = ("Start", "End", "NNodes")
_SECONDS: Final = re.compile(r"[0-9]{9,11}")
_ZONED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)")
_LOCAL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_HINT: Final = "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --parsable2 ..."


@dataclass(frozen=True, slots=True)
class _AccountedJob:
    start_s: int
    end_s: int | None
    nodes: int


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return the hours of a table of jobs as one result.

    Raises
    ------
    DataError
        A column is missing, times have no zone and none was given, or no full hour is covered.
    """
    lines = ((number, line) for number, line in whole_lines(source.text) if line.strip())
    number, head = next(lines, (1, ""))
    # --parsable ends every line with a separator, --parsable2 only lines with an empty last field.
    end = "|" if head.endswith("|") else ""
    columns = head.removesuffix(end).split("|")
    lacking = [name for name in _NEEDED if name not in columns]
    if lacking or not any(name in columns for name in _ID):
        raise DataError(
            f"the table of jobs has no column {', '.join(lacking) or _ID[0]}",
            code="column-missing", line=number, hint=_HINT,
        )  # fmt: skip
    ids = next(name for name in _ID if name in columns)
    jobs: dict[str, _AccountedJob] = {}
    skipped = 0
    for number, line in lines:
        values = line.removesuffix(end).split("|")
        if len(values) != len(columns):  # cut, or a name contains a separator
            skipped += 1
            continue
        fields = dict(zip(columns, values, strict=True))
        if "." in fields[ids]:  # a step; its job has its own line
            continue
        job = _job(fields, number, source.timezone)
        if job is not None:
            jobs[fields[ids]] = job
    return (_measurement(list(jobs.values()), skipped),)


def _job(fields: dict[str, str], line: int, timezone: str | None) -> _AccountedJob | None:
    """Return when a job ran and on how many nodes; ``None`` if it never ran."""
    start, end = (_time_s(fields[name], line, timezone) for name in ("Start", "End"))
    nodes = whole_of(fields["NNodes"])
    if start is None or nodes is None or nodes < 1 or (end is not None and end <= start):
        return None
    return _AccountedJob(start, end, nodes)


def _time_s(text: str, line: int, timezone: str | None) -> int | None:
    """Return a time in seconds since 1970; ``None`` if unknown.

    In the hour that is repeated in autumn it is the first one.
    """
    if _SECONDS.fullmatch(text):
        return int(text)
    if _ZONED.fullmatch(text):
        zoned = time_of(text, "%Y-%m-%dT%H:%M:%S%z")
        return None if zoned is None else round(zoned.timestamp())
    local = time_of(text, "%Y-%m-%dT%H:%M:%S") if _LOCAL.fullmatch(text) else None
    if local is None:
        return None
    if timezone is None:
        problem = "its times have no time zone; give it with --timezone"
        raise DataError(problem, code="zone-missing", line=line, hint=_HINT)
    return round(local.replace(tzinfo=ZoneInfo(timezone)).timestamp())


def _measurement(jobs: Sequence[_AccountedJob], skipped: int) -> Measurement:
    ends = [job.end_s for job in jobs if job.end_s is not None]
    begin_s = -(-min(ends, default=0) // _HOUR_S) * _HOUR_S
    end_s = max((job.start_s for job in jobs), default=0) // _HOUR_S * _HOUR_S
    count = (end_s - begin_s) // _HOUR_S
    if not ends or count < 1:
        raise DataError("its jobs cover no full hour", code="no-result", line=1)
    if count > _HOURS_MAXIMUM:
        raise DataError(
            f"it covers {count} hours, more than {_HOURS_MAXIMUM}", code="too-long", line=1,
            hint="export one year at a time",
        )  # fmt: skip
    running, busy = _means(jobs, begin_s, count)
    problem = None
    if skipped:
        verb = "line has" if skipped == 1 else "lines have"
        text = f"{skipped} {verb} another number of fields than the header: skipped"
        problem = Message("lines-cut", text)
    return Measurement(
        kind=KIND,
        status=RunStatus.OK if problem is None else RunStatus.PARTIAL,
        problems=() if problem is None else (problem,),
        began=datetime.fromtimestamp(begin_s, UTC),
        ended=datetime.fromtimestamp(end_s, UTC),
        reported={
            "jobs": len(jobs),
            "from_s": begin_s,
            "hour_s": _HOUR_S,
            "running_jobs": running,
            "busy_nodes": busy,
        },
    )


def _means(
    jobs: Sequence[_AccountedJob], begin_s: int, count: int
) -> tuple[list[float], list[float]]:
    """Return the mean number of running jobs and of their nodes in each hour."""
    # Partial hours of starts and ends are added directly, full hours as differences.
    parts = ([0.0] * (count + 1), [0.0] * (count + 1))
    steps = ([0] * (count + 2), [0] * (count + 2))
    span_s = count * _HOUR_S
    for job in jobs:
        start_s = max(job.start_s - begin_s, 0)
        end_s = span_s if job.end_s is None else min(job.end_s - begin_s, span_s)
        if end_s <= start_s:
            continue
        first, last = start_s // _HOUR_S, end_s // _HOUR_S
        for part, step, weight in zip(parts, steps, (1, job.nodes), strict=True):
            part[first] -= weight * (start_s % _HOUR_S) / _HOUR_S
            part[last] += weight * (end_s % _HOUR_S) / _HOUR_S
            step[first] += weight
            step[last] -= weight
    running, busy = (
        [round(whole + part[hour], 3) for hour, whole in enumerate(accumulate(step[:count]))]
        for part, step in zip(parts, steps, strict=True)
    )
    return running, busy


def _recognises(source: OutputFile) -> bool:
    head = next((line for _, line in whole_lines(source.head) if line.strip()), "")
    columns = head.rstrip("|").split("|")
    return "State" in columns and {"Start", "End"} <= {*columns} and bool({*_ID} & {*columns})


FORMAT: Final = OutputFormat(KIND, _recognises, read)
