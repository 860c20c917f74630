"""Explanations of all incidents of a site, and of one moment, from a store or a test.

Which snapshots are loaded is decided here; a `TelemetrySource` loads them, so that a year of
snapshots is never in memory at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import zip_longest
from operator import attrgetter
from typing import Final, Protocol

import polars as pl

from trimtab.base.event import Event, EventKind
from trimtab.base.incident import (
    Assessment,
    Explanation,
    Found,
    Incident,
    IncidentState,
    Route,
    Shape,
    SpeedAt,
)
from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.base.site import SiteLimits
from trimtab.base.site_hardware import Hardware
from trimtab.explain.causes import TABLE
from trimtab.explain.causes.evidence import by_people
from trimtab.explain.context import (
    FIRST_TIMES,
    JOBS,
    LONGEST_STEP,
    Context,
    CpuProfile,
    Period,
    RunFact,
    Stretches,
    Telemetry,
    around,
    snapshot_times,
    windows_of,
    without,
)
from trimtab.explain.explanation import assessment, explain
from trimtab.explain.spell import id_of, name_of, rows_between
from trimtab.explain.telemetry_frame import holds
from trimtab.explain.weighing import Weighed, weigh

_EVENTS_FROM: Final = timedelta(days=14)
_EVENTS_TO: Final = timedelta(days=2)
"""Time after an incident: for a trim that resolved it, or the log entry of the repair."""
_MESSAGES_MOST: Final = 2000
"""Messages of kernel logs that an explanation looks at, the latest."""
BEGINNING: Final = timedelta(days=2)
"""Length of the start and end of the record: a condition in both has no onset in it."""
_STANDING_LEAST: Final = 0.3
"""log10 of the evidence from which a condition is listed: present, and off its expectation. Its
cost is unknown; the suggested measurement determines it."""
_MOMENT: Final = timedelta(hours=1)
_WEEK: Final = timedelta(days=7)
_NEAREST: Final = timedelta(days=1)
"""A run further away from a moment does not describe it."""
_LEVELS: Final = frozenset({Shape.STEP, Shape.DIP, Shape.DRIFT})
_USUAL_LEAST: Final = 3
"""Fewest runs for a usual level."""


class TelemetrySource(Protocol):
    """Provides snapshots: the store, or a test."""

    def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
        """Return the times of the snapshots from ``since`` to ``until``, both inclusive."""
        ...

    def frames(self, times: Sequence[datetime]) -> Telemetry:
        """Return the snapshots of these times.

        Parameters
        ----------
        times
            Some of those that `times` returned.

        Returns
        -------
        Telemetry
            Readings and settings; empty frames if there are none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """Everything known about a site except its snapshots.

    Attributes
    ----------
    site
        Its name.
    record_from, now
        Start and end of the record, aware UTC.
    series
        Series to its frame: ``at`` (Datetime, UTC), ``value`` (in the unit of the series; null for
        an unfinished run), ``unfinished``.
    surveys
        ``at``, ``run``, ``target``, ``metric``, ``value`` (in the metric's unit); one row per
        target and survey, by time.
    runs, events
        Those of the whole record, runs by time.
    limits, hardware
        From the site file.
    home
        Target to its server when nothing has failed over.
    profiles
        CPU profiles of servers.
    jobs
        Batch accounting, as in `Context.jobs`.
    has_site_file
        As in `Context.has_site_file`.
    """

    site: str
    record_from: datetime
    now: datetime
    series: Mapping[SeriesKey, pl.DataFrame]
    surveys: pl.DataFrame
    runs: tuple[RunFact, ...] = ()
    events: tuple[Event, ...] = ()
    limits: SiteLimits = field(default_factory=SiteLimits)
    hardware: Hardware = field(default_factory=Hardware)
    home: Mapping[str, str] = field(default_factory=dict)
    profiles: tuple[CpuProfile, ...] = ()
    jobs: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=JOBS))
    has_site_file: bool = True

    def runs_between(self, first: datetime, last: datetime) -> tuple[RunFact, ...]:
        """Return the runs that began from one time to another, both inclusive."""
        begin = bisect_left(self.runs, first, key=attrgetter("at"))
        return self.runs[begin : bisect_right(self.runs, last, key=attrgetter("at"))]


def explain_incidents(
    incidents: Sequence[Incident], known: Known, source: TelemetrySource
) -> tuple[Explanation, ...]:
    """Explain each incident of a site.

    Parameters
    ----------
    incidents
        Incidents of one site, from `trimtab.explain.incident_detection.find_troubles`.
    known
        The record of the site.
    source
        Its snapshots; only those needed for an explanation are loaded.

    Returns
    -------
    tuple of Explanation
        One per incident, in order. Each lists the conditions of the site that are older than the
        record (`standing_of`).
    """
    standing = standing_of(known, source)
    return tuple(
        explain(
            context_of(incident, known, source, others=incidents),
            standing=standing,
            stages=stages_of(incident, known, source, others=incidents),
        )
        for incident in incidents
    )


def standing_of(known: Known, source: TelemetrySource) -> tuple[Assessment, ...]:
    """Return the conditions that were wrong throughout the record."""
    first = Period(known.record_from, min(known.now, known.record_from + BEGINNING))
    last = Period(max(known.record_from, known.now - BEGINNING), known.now)
    contexts = [
        _context(_standing_incident(known, window), known, source, Stretches((window,), ()))
        for window in (first, last)
    ]
    return standing_conditions(contexts[0], contexts[1])


def standing_conditions(first: Context, last: Context) -> tuple[Assessment, ...]:
    """Return the conditions that were present when the record began and still are.

    Parameters
    ----------
    first, last
        Beginning and end of the record, each as the bad stretch of a context without good hours:
        problems show only against expectations and between targets.
    """
    conditions = []
    for cause in TABLE:
        begun, now = (
            weigh(cause, cause.evidence(context), has_beginning=False) for context in (first, last)
        )
        if _is_present(begun) and _is_present(now):
            conditions.append(now)
    ranked = sorted(conditions, key=lambda candidate: (-candidate.log_odds, candidate.cause.id))
    return tuple(assessment(candidate, standing=True) for candidate in ranked)


def _is_present(candidate: Weighed) -> bool:
    expected = [
        piece.weight
        for piece in candidate.evidence
        if piece.found is Found.FOR and piece.route is Route.EXPECTED
    ]
    return (
        bool(expected)
        and max(expected) >= _STANDING_LEAST
        and candidate.evidence_weight >= _STANDING_LEAST
    )


def explain_moment(
    at: datetime,
    known: Known,
    source: TelemetrySource,
    *,
    until: datetime | None = None,
    standing: Sequence[Assessment] | None = None,
) -> Explanation:
    """Explain one moment, or a stretch, whether or not anything was wrong.

    The hour before and after a moment, or the stretch, is compared with the week before.

    Parameters
    ----------
    at
        The moment, aware UTC.
    known
        The record of the site.
    source
        Its snapshots; only those that are needed are loaded.
    until
        The end of the stretch that begins ``at``; ``None``: it is a moment.
    standing
        Result of `standing_of`; ``None``: determined here.

    Returns
    -------
    Explanation
        Explanation of an incident of shape ``moment``.
    """
    around = _around(at, until)
    window = Period(around.from_, min(known.now, around.to))
    before = Period(max(known.record_from, at - timedelta(days=7)), around.from_ - _MOMENT)
    name = f"{at:%Y-%m-%d %H:%M}" + ("" if until is None else f" to {until:%Y-%m-%d %H:%M}")
    good = (before,) if before.to > before.from_ else ()
    moment = replace(
        _standing_incident(known, window),
        id=id_of(known.site, "moment", at.isoformat()), shape=Shape.MOMENT,
        state=IncidentState.ENDED, certainty=ChangeStatus.SUSPECT, until=window.to, detected_at=at,
        runs=sum(window.holds(run.at) for run in known.runs), summary=f"{name} UTC",
    )  # fmt: skip
    context = _context(moment, known, source, Stretches((window,), good))
    if standing is None:
        standing = standing_of(known, source)
    return explain(context, standing=standing)


def _around(at: datetime, until: datetime | None) -> Period:
    return Period(at - _MOMENT, at + _MOMENT) if until is None else Period(at, until)


def speeds_at(
    at: datetime, known: Known, active: Sequence[Incident], *, until: datetime | None = None
) -> tuple[SpeedAt, ...]:
    """Return the speed of the runs at a moment, largest deviation first.

    Parameters
    ----------
    at
        The moment, aware UTC.
    until
        The end of the stretch that begins ``at``; ``None``: it is a moment.
    active
        Incidents that include it: usual is the level before those that changed the series.
    """
    window = _around(at, until)
    at += (window.to - at) / 2 if until else timedelta(0)
    speeds = (
        speed
        for key, frame in known.series.items()
        if (speed := _speed(key, frame, at, window, _usual_until(key, window, active))) is not None
    )
    return tuple(sorted(speeds, key=lambda speed: -abs((speed.ratio or 1.0) - 1)))


def _usual_until(key: SeriesKey, window: Period, active: Sequence[Incident]) -> datetime:
    """Return when the usual level of a series ended.

    Only an incident that lowered this very series ends it: not another series' incident, runs that
    cannot be judged, or spread; and a recurring one leaves most hours unchanged.
    """
    begins = (
        incident.at
        for incident in active
        if incident.shape in _LEVELS
        and (incident.key == key or name_of(key) in incident.moved_with)
    )
    return min([window.from_, *begins])


def _speed(
    key: SeriesKey, frame: pl.DataFrame, at: datetime, window: Period, usual_until: datetime
) -> SpeedAt | None:
    if frame.is_empty():
        return None
    within = frame.filter(pl.col("at").is_between(window.from_, window.to))
    nearest = frame.sort((pl.col("at") - at).abs()).head(1)
    if abs(nearest["at"].item() - at) > _NEAREST:
        return None
    runs = within if within.height else nearest
    finished = frame.filter(~pl.col("unfinished") & (pl.col("at") < usual_until))["value"]
    week = frame.filter(
        ~pl.col("unfinished")
        & pl.col("at").is_between(usual_until - _WEEK, usual_until, closed="left")
    )["value"]
    usual = week if week.len() >= _USUAL_LEAST else finished
    return SpeedAt(
        key=key,
        at=nearest["at"].item(),
        runs=runs.height,
        unfinished=int(runs["unfinished"].sum()),
        value=runs.filter(~pl.col("unfinished"))["value"].median(),  # type: ignore[arg-type]
        usual=usual.median() if usual.len() >= _USUAL_LEAST else None,  # type: ignore[arg-type]
        usual_until=usual_until,
    )


def context_of(
    incident: Incident, known: Known, source: TelemetrySource, *, others: Sequence[Incident] = ()
) -> Context:
    """Return an incident with all data that may explain it."""

    def hours(*, afterwards: bool) -> Stretches:
        return windows_of(
            incident, known.series, known.record_from, known.now, others=others,
            afterwards=afterwards,
        )  # fmt: skip

    stretches = hours(afterwards=False)
    if incident.until is not None and not any(
        source.times(window.from_, window.to) for window in stretches.good
    ):
        stretches = hours(afterwards=True)
    return _context(incident, known, source, stretches)


def stages_of(
    incident: Incident, known: Known, source: TelemetrySource, *, others: Sequence[Incident] = ()
) -> tuple[Context, ...]:
    """Return each stage of an incident by itself: its hours, up to the next, and those before it.

    The first one has the hours of the whole up to the second; a later one is compared with a week
    in which an earlier one may be, as one looks at each edge.
    """
    contexts = []
    ends = [stage.at for stage in incident.stages[1:]]
    for stage, end in zip_longest(incident.stages, ends):
        part = replace(incident, at=stage.at, onset=None, margin=None, stages=())
        if stage.at == incident.at:
            part = replace(part, onset=incident.onset, margin=incident.margin)
        hours = windows_of(part, known.series, known.record_from, known.now, others=others)
        rest = [Period(end, max(end, known.now))] if end is not None else []
        bad = tuple(without(hours.bad, rest))
        if bad:
            contexts.append(_context(part, known, source, Stretches(bad, hours.good)))
    return tuple(contexts)


def _context(
    incident: Incident, known: Known, source: TelemetrySource, stretches: Stretches
) -> Context:
    windows = (*stretches.bad, *stretches.good)
    first, last = min(window.from_ for window in windows), max(window.to for window in windows)
    since = min(known.record_from, first)
    ended = incident.until or last
    until = min(known.now, max(last, ended) + LONGEST_STEP)
    upto = max(last, until)
    # Those in between are neither in the windows nor near enough to one.
    begun = source.times(known.record_from, upto)[:FIRST_TIMES]
    near = source.times(max(since, min(first, ended) - LONGEST_STEP), upto)
    available = sorted({*begun, *near})
    chosen = snapshot_times(stretches, available, known.record_from)
    times = sorted({*chosen, *around(available, ended)})
    events = _events(incident, known)
    return Context(
        incident=incident,
        bad=stretches.bad,
        good=stretches.good,
        record_from=known.record_from,
        now=known.now,
        telemetry=source.frames(times),
        surveys=known.surveys[rows_between(known.surveys, first, last)].filter(holds(windows)),
        runs=tuple(run for run in known.runs_between(first, last) if stretches.holds(run.at)),
        events=tuple(event for event in events if event.kind is not EventKind.SERVER_MESSAGE),
        messages=tuple(event for event in events if event.kind is EventKind.SERVER_MESSAGE)[
            -_MESSAGES_MOST:
        ],
        limits=known.limits,
        hardware=known.hardware,
        home=known.home,
        profiles=known.profiles,
        jobs=known.jobs[rows_between(known.jobs, first, last)].filter(holds(windows)),
        log_entries=sum(
            by_people(event) and event.at <= (incident.until or known.now) for event in known.events
        ),
        has_site_file=known.has_site_file,
        apart={key.comparability: key.apart for key in known.series},
    )


def _events(incident: Incident, known: Known) -> tuple[Event, ...]:
    """Return the log book from two weeks before, and each target's last trim before that."""
    begins = incident.at if incident.onset is None else min(incident.at, incident.onset[0])
    since, until = begins - _EVENTS_FROM, (incident.until or known.now) + _EVENTS_TO
    recent = [event for event in known.events if event.end >= since and event.at <= until]
    last: dict[tuple[str, ...], Event] = {}
    for event in sorted(known.events, key=lambda event: event.at):
        if event.kind is EventKind.TRIM and event.end < since:
            last[event.targets] = event
    return tuple(sorted((*last.values(), *recent), key=lambda event: event.at))


def _standing_incident(known: Known, window: Period) -> Incident:
    return Incident(
        id=id_of(known.site, "standing", known.record_from.isoformat()),
        site=known.site,
        key=None,
        shape=Shape.STANDING,
        state=IncidentState.LASTING,
        certainty=ChangeStatus.CONFIRMED,
        at=window.from_,
        until=None,
        detected_at=window.to,
        effect=None,
        effect_interval=None,
        runs=0,
        unfinished=0,
        summary=f"since before the first recorded run on {known.record_from:%Y-%m-%d}",
    )
