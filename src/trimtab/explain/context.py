"""What a cause is, and its input: the bad hours, the good ones, and the data of both.

Frames are Polars frames. All values are plain: the store, or a test, provides them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

import polars as pl

from trimtab.base.event import Event
from trimtab.base.failure import Failure
from trimtab.base.incident import Evidence, Found, Incident, Recurrence, Shape
from trimtab.base.run import RunStatus
from trimtab.base.series import SeriesKey
from trimtab.base.site import SiteLimits
from trimtab.base.site_hardware import Hardware
from trimtab.explain.coming_and_going import slow_hours
from trimtab.explain.sight import EVERYWHERE, Layer, within_sight
from trimtab.explain.spell import spacing_s

T = TypeVar("T")
_AT: Final = pl.Datetime("us", "UTC")
READINGS: Final[dict[str, Any]] = {
    "at": _AT, "target": pl.String, "kind": pl.String, "server": pl.String, "name": pl.String,
    "label": pl.String, "number": pl.Float64, "text": pl.String, "reason": pl.String,
}  # fmt: skip
"""Columns of `Telemetry.readings`."""
SETTINGS: Final[dict[str, Any]] = {
    "at": _AT, "target": pl.String, "kind": pl.String, "name": pl.String, "value": pl.String,
}  # fmt: skip
"""Columns of `Telemetry.settings`."""
SURVEYS: Final[dict[str, Any]] = {
    "at": _AT, "run": pl.String, "target": pl.String, "metric": pl.String, "value": pl.Float64,
}  # fmt: skip
"""Columns of `Context.surveys`."""
JOBS: Final[dict[str, Any]] = {"at": _AT, "jobs": pl.Float64, "nodes": pl.Float64}
"""Columns of `Context.jobs`."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period of time, both ends inclusive; aware UTC."""

    from_: datetime
    to: datetime

    def holds(self, at: datetime) -> bool:
        """Return whether a time is inside."""
        return self.from_ <= at <= self.to


@dataclass(frozen=True, slots=True)
class RunFact:
    """One run as an explanation needs it.

    Attributes
    ----------
    id
        Id of the run.
    at, until
        Start and end, aware UTC.
    probe, kind
        Name in the site file, and benchmark.
    series
        Comparability: runs of one series had the same requested workload.
    values
        Metric to the median over believed repetitions, in the metric's unit; empty for a run
        without any.
    tails
        ``metric:statistic`` to value, of statistics other than totals (``write_latency:p99``).
    disbelieved
        Reasons of the values that may not be judged: cached reads, another workload ...
    problem
        Why the status is not ``ok``.
    hosts
        Client nodes on which it ran, if known.
    bytes_written, bytes_read
        Bytes moved by the run itself, if known.
    nodes, tasks
        Number of client nodes and of tasks, if known.
    failure
        Why it failed, by the class of the error in ``problem``; ``None`` if it did not, or if the
        text names no known error.
    place
        What it ran in, besides its nodes: ``partition``, ``launcher``, ``tool version`` ... to its
        name.
    """

    id: str
    at: datetime
    until: datetime | None
    probe: str
    kind: str
    series: str
    status: RunStatus
    values: Mapping[str, float] = field(default_factory=dict)
    tails: Mapping[str, float] = field(default_factory=dict)
    disbelieved: tuple[str, ...] = ()
    problem: str | None = None
    hosts: tuple[str, ...] = ()
    bytes_written: float | None = None
    bytes_read: float | None = None
    nodes: int | None = None
    tasks: int | None = None
    failure: Failure | None = None
    place: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Snapshots of several times, as frames.

    Attributes
    ----------
    readings
        One row per reading: ``at`` (microseconds, UTC), ``target``, ``kind`` (``ost``, ``mdt``,
        ``file-system``; ``server`` or ``client`` for a machine, whose name is then in ``target``),
        ``server`` (that serves the target), ``name``, ``label``, ``number`` (in base SI, booleans
        as 0 and 1; null for text), ``text`` (null for numbers), ``reason`` (set if there is no
        value). Texts may be categories.
    settings
        One row per setting: ``at``, ``target``, ``kind``, ``name``, ``value``; without those that
        were unavailable.
    """

    readings: pl.DataFrame
    settings: pl.DataFrame


@dataclass(frozen=True, slots=True)
class CpuProfile:
    """CPU time of a server by function, from ``perf report`` or ``perf script``.

    Attributes
    ----------
    shares
        Function to its share of the samples, 0 to 1, excluding functions that it calls.
    """

    at: datetime | None
    shares: Mapping[str, float]


def once(look: Callable[[Context], T]) -> Callable[[Context], T]:
    """Return the function with its result cached per context: several causes share it."""
    results: WeakKeyDictionary[Context, T] = WeakKeyDictionary()

    @wraps(look)
    def known(context: Context) -> T:
        if context not in results:
            results[context] = look(context)
        return results[context]

    return known


# Compared by identity: frames have no equality, and results derived from a context are cached for
# as long as it lives (`trimtab.explain.telemetry_frame.observe`).
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Context:
    """One incident with all data that may explain it.

    Attributes
    ----------
    bad, good
        Periods of the incident and of its reference: times of the same probe at its usual level,
        before the incident if there are enough, otherwise also after it. ``good`` is empty if the
        record has none.
    record_from
        First run of the record: a condition that already existed then has no contrast in time.
    now
        End of the record.
    runs
        Runs of every probe of the site within ``bad`` and ``good``, whatever their status.
    surveys
        One row per target measured separately, within ``bad`` and ``good``: ``at``, ``run``,
        ``target``, ``metric``, ``value``.
    telemetry
        Snapshots within ``bad`` and ``good``.
    events
        Log book from two weeks before ``bad``, and the last trim before it.
    messages
        What kernel logs say, from two weeks before ``bad``: as events, apart from the log book.
    log_entries
        Number of log book entries of the whole record up to the end of the incident; ``None``:
        those in ``events``.
    has_site_file
        Whether to suggest commands that access the file system; impossible for an archive.
    home
        Target to its server when nothing has failed over.
    jobs
        Batch accounting of the whole machine within ``bad`` and ``good``: ``at`` is the middle of
        an hour, ``jobs`` and ``nodes`` are the mean numbers running and busy.
    apart
        Comparability to what distinguishes that series from others of its probe, as text.
    """

    incident: Incident
    bad: tuple[Period, ...]
    good: tuple[Period, ...]
    record_from: datetime
    now: datetime
    telemetry: Telemetry
    surveys: pl.DataFrame
    runs: tuple[RunFact, ...] = ()
    events: tuple[Event, ...] = ()
    messages: tuple[Event, ...] = ()
    limits: SiteLimits = field(default_factory=SiteLimits)
    hardware: Hardware = field(default_factory=Hardware)
    home: Mapping[str, str] = field(default_factory=dict)
    profiles: tuple[CpuProfile, ...] = ()
    jobs: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=JOBS))
    log_entries: int | None = None
    has_site_file: bool = True
    apart: Mapping[str, str] = field(default_factory=dict)

    @property
    def end(self) -> datetime:
        """The end of the bad periods; for a lasting level, of its first days.

        Anything later cannot explain the incident, only confirm it.
        """
        return max((window.to for window in self.bad), default=self.now)

    def entries(self, fit: Callable[[Event], object]) -> list[Event]:
        """Return the matching log book entries, earliest first."""
        return sorted(filter(fit, self.events), key=lambda event: event.at)

    def is_bad(self, at: datetime) -> bool:
        """Return whether a time is within the bad periods."""
        return any(window.holds(at) for window in self.bad)

    def is_good(self, at: datetime) -> bool:
        """Return whether a time is within the good periods."""
        return any(window.holds(at) for window in self.good)


BAD_TIMES: Final = 12
GOOD_TIMES: Final = 20
"""Maximum number of snapshots: each costs time, and neighbours are alike."""
FIRST_TIMES: Final = 3
"""Additional ones from the start of the record: a condition in its first hours has no onset."""
_FEW_TIMES: Final = 3
LONGEST_STEP: Final = timedelta(hours=26)
"""Maximum distance of two snapshots for a rate: a day, plus a margin for a late one."""
_BAD_LONGEST: Final = timedelta(days=4)
"""Initial part of a lasting level: later hours say less about its onset."""
_GOOD_LONGEST: Final = timedelta(days=7)
"""A week has every hour: a busy Monday is compared with another one."""
_GOOD_SHORTEST: Final = timedelta(hours=24)
_HOUR: Final = timedelta(hours=1)
_FAINT: Final = 0.1
_PLACED_FAINT: Final = timedelta(hours=24)
"""A level less than a tenth lower is located to within a day."""
_ENDED_BY: Final = timedelta(hours=6)
"""After its end an incident is over for certain: the end is known to within a run or two."""
_LASTING: Final = frozenset({Shape.STEP, Shape.DRIFT, Shape.UNSTEADY})
"""Shapes that are the usual state for what begins long after."""
_RUN_LONGEST: Final = timedelta(hours=3)
"""A run without an end is assumed to reach the next one, but no longer than this."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """The bad stretch, and the good one to compare it with."""

    bad: tuple[Period, ...]
    good: tuple[Period, ...]

    def holds(self, at: datetime) -> bool:
        """Return whether a time is in either."""
        return any(window.holds(at) for window in (*self.bad, *self.good))


def windows_of(
    incident: Incident,
    frames: Mapping[SeriesKey, pl.DataFrame],
    record_from: datetime,
    now: datetime,
    *,
    others: Iterable[Incident] = (),
    afterwards: bool = False,
) -> Stretches:
    """Return the bad hours of an incident, and the good hours to compare them with.

    Parameters
    ----------
    frames
        ``at``, ``value``, ``unfinished`` of each series; the incident's own series shows the
        distance of runs.
    others
        Other incidents: their hours are not good ones, unless they began long before and persist.
    afterwards
        Whether hours after its end are good ones even if there are enough before it: those before
        it have no snapshot.

    Notes
    -----
    Bad hours are the core of the incident. Good hours are before it, up to a week; if there is less
    than a day of them, also after its end. Neither are the interval in which it began, its margin,
    and one run's distance before the first bad run, three for a level change. Where a trouble comes
    and goes the hours of the slow runs are bad and those between them good (`slow_hours`).
    """
    if incident.shape is Shape.STANDING:
        return Stretches((Period(record_from, now),), ())
    if incident.recurs is not None:
        return _recurring(incident, incident.recurs, min(now, incident.until or now))
    spacing = _spacing(frames.get(incident.key)) if incident.key is not None else _RUN_LONGEST
    end = min(now, (incident.until or now) + spacing)
    last = min(end, incident.at + _BAD_LONGEST) if incident.shape is Shape.STEP else end
    begin = incident.at
    if incident.shape is Shape.DRIFT:
        begin = max(incident.at, last - _BAD_LONGEST)
    bad = Period(begin, max(last, begin))
    gap = max(spacing * 3, _gap(incident)) if incident.shape is Shape.STEP else spacing
    earlier = list(_before(incident, spacing))
    week = min([incident.at, *earlier]) - _GOOD_LONGEST
    before = Period(max(record_from, week), min([incident.at - gap, *earlier]))
    taken = [_hours(other, now) for other in others if _in_the_way(other, incident)]
    good = without([before], taken)
    if (afterwards or _length(good) < _GOOD_SHORTEST) and incident.until is not None:
        over = max(end, incident.margin[1] + spacing) if incident.margin is not None else end
        after = Period(over + gap, min(now, over + gap + _GOOD_LONGEST))
        good = [*good, *without([after], taken)]
    slow = slow_hours(incident, frames.get(incident.key) if incident.key else None, spacing)
    if slow:
        unclear = [Period(begin - spacing, end + spacing) for begin, end in slow]
        hours = tuple(Period(begin, end) for begin, end in slow)
        return Stretches(hours, (*good, *without([bad], unclear)))
    return Stretches((bad,), tuple(good))


def _recurring(incident: Incident, recurs: Recurrence, last: datetime) -> Stretches:
    """Return the hours of its recurrence in the last week, and the hours between them."""
    zone = ZoneInfo(recurs.timezone)
    weeks = 1 if len(recurs.weekdays) == 7 else 3
    begin = max(incident.at, last - weeks * _GOOD_LONGEST)
    bad: list[Period] = []
    day = begin.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    while day <= last:
        start = day + timedelta(hours=recurs.from_hour)
        if day.weekday() in recurs.weekdays:
            window = Period(
                start.astimezone(UTC), (start + len(recurs.hours) * _HOUR).astimezone(UTC)
            )
            bad.append(Period(max(begin, window.from_), min(last, window.to)))
        day += timedelta(days=1)
    bad = [window for window in bad if window.to > window.from_]
    around = [Period(window.from_ - _HOUR, window.to + _HOUR) for window in bad]
    return Stretches(tuple(bad), tuple(without([Period(begin, last)], around)))


def snapshot_times(
    stretches: Stretches, available: Iterable[datetime], record_from: datetime
) -> tuple[datetime, ...]:
    """Return the snapshots to load: from the bad and good hours, and the record's first three.

    Those nearest to the onset come first, the rest is spread evenly: the onset shows most, and
    counters give rates between neighbours, one of which is the last before the bad hours. Of bad
    hours longer than a week, pairs of neighbours are spread over all of them. If few are within bad
    hours, those around them are included too: most of what was counted between them happened then.
    """
    times = sorted(set(available))
    begins = bisect_left(times, record_from)
    first = times[begins : begins + FIRST_TIMES]
    bad, good = (
        sorted({at for window in windows for at in _within(times, window)})
        for windows in (stretches.bad, stretches.good)
    )
    begin = stretches.bad[0].from_ if stretches.bad else record_from
    before = bisect_left(times, begin)
    chosen = (
        *times[max(0, before - 1) : before],
        *(at for hours in _chosen(stretches.bad, BAD_TIMES // 2) for at in _around(times, hours)),
        *(_pairs if _length(stretches.bad) > _GOOD_LONGEST else _chosen)(bad, BAD_TIMES),
        *_chosen(sorted(good, key=lambda at: abs(at - begin)), GOOD_TIMES),
        *first,
    )
    return tuple(sorted(set(chosen)))


def around(times: Sequence[datetime], at: datetime) -> Iterator[datetime]:
    """Yield the last time up to ``at``, the first after it and one `_ENDED_BY` later, if near.

    They show what changed there.
    """
    place = bisect_right(times, at)
    near = {place - 1, place, bisect_right(times, at + _ENDED_BY)}
    yield from (times[n] for n in near
                if 0 <= n < len(times) and abs(times[n] - at) <= LONGEST_STEP)  # fmt: skip


def _around(times: Sequence[datetime], window: Period) -> Iterator[datetime]:
    """Yield the last time before a window with few, and the first after it, if near."""
    first, last = bisect_left(times, window.from_), bisect_right(times, window.to)
    if last - first >= _FEW_TIMES:
        return
    if first and window.from_ - times[first - 1] <= LONGEST_STEP:
        yield times[first - 1]
    if last < len(times) and times[last] - window.to <= LONGEST_STEP:
        yield times[last]


def _within(times: Sequence[datetime], window: Period) -> Sequence[datetime]:
    return times[bisect_left(times, window.from_) : bisect_right(times, window.to)]


def without(windows: Sequence[Period], taken: Sequence[Period]) -> list[Period]:
    """Return the windows with others cut out.

    Examples
    --------
    >>> from datetime import UTC
    >>> hour = [datetime(2026, 3, 2, h, tzinfo=UTC) for h in range(4)]
    >>> left = without([Period(hour[0], hour[3])], [Period(hour[1], hour[2])])
    >>> [(one.from_.hour, one.to.hour) for one in left]
    [(0, 1), (2, 3)]
    """
    left = [window for window in windows if window.to > window.from_]
    for cut in taken:
        left = [
            part
            for window in left
            for part in (
                Period(window.from_, min(window.to, cut.from_)),
                Period(max(window.from_, cut.to), window.to),
            )
            if part.to > part.from_
        ]
    return left


def _before(incident: Incident, spacing: timedelta) -> Iterator[datetime]:
    """Yield until when an incident had not begun."""
    if incident.onset is not None:
        yield incident.onset[0]
    if incident.margin is not None:
        yield incident.margin[0] - spacing


def _gap(incident: Incident) -> timedelta:
    """Return the uncertainty of a level's onset if its interval is not known."""
    if incident.onset is not None:
        return timedelta()
    faint = incident.effect is not None and abs(incident.effect - 1) < _FAINT
    return _PLACED_FAINT if faint else timedelta()


def _in_the_way(other: Incident, incident: Incident) -> bool:
    """Return whether another incident's hours are unsuitable as good ones.

    What began more than a week before and lasts is the usual state for this incident; a view of
    this incident's own trouble elsewhere has the same hours.
    """
    if other.id == incident.id or other.shape is Shape.STANDING:
        return False
    begins = min([incident.at, *_before(incident, timedelta())])
    return other.shape not in _LASTING or other.at > begins - _GOOD_LONGEST


def _hours(incident: Incident, now: datetime) -> Period:
    begins = incident.at if incident.shape is not Shape.STEP else incident.at - _RUN_LONGEST
    ends = incident.until or now
    if incident.margin is not None:
        begins, ends = min(begins, incident.margin[0]), max(ends, incident.margin[1])
    return Period(begins, ends + timedelta(hours=1))


def _spacing(frame: pl.DataFrame | None) -> timedelta:
    """Return the distance of runs of a series, at most `_RUN_LONGEST`."""
    if frame is None or frame.height < 2:
        return _RUN_LONGEST
    usual_s = spacing_s(frame)
    return min(_RUN_LONGEST, timedelta(seconds=usual_s)) if usual_s else _RUN_LONGEST


def _length(windows: Sequence[Period]) -> timedelta:
    return sum((window.to - window.from_ for window in windows), timedelta())


def _pairs(times: Sequence[datetime], most: int) -> list[datetime]:
    """Return at most this many: pairs of neighbours, spread evenly, the first and last included."""
    if len(times) <= most:
        return list(times)
    count = most // 2
    begins = [(index * (len(times) - 2)) // max(1, count - 1) for index in range(count)]
    return [at for begin in begins for at in times[begin : begin + 2]]


def _chosen(times: Sequence[T], most: int) -> list[T]:
    """Return at most this many: the first two thirds in order, the rest spread evenly."""
    if len(times) <= most:
        return list(times)
    near = 2 * most // 3
    rest, count = times[near:], most - near
    spread = [rest[(index * (len(rest) - 1)) // max(1, count - 1)] for index in range(count)]
    return [*times[:near], *spread]


Assess = Callable[[Context], tuple[Evidence, ...]]
ActsOn = Callable[[Context], frozenset[Layer]]


def always_at(*layers: Layer) -> ActsOn:
    """Return the declaration of a cause that acts at the same layers in every incident."""
    of_cause = frozenset(layers)
    return lambda _: of_cause


_ANYWHERE: Final = always_at(*EVERYWHERE)


@dataclass(frozen=True, slots=True)
class Cause:
    """One mechanism that makes a file system slow or unsteady.

    Attributes
    ----------
    id
        ``targets-over-limit``, ``trim-overdue`` ...
    title
        Display name: "targets over the fullness limit".
    prior
        Odds, before looking at any evidence, that an incident has this cause.
    assess
        Every piece of evidence that was looked for, found or not. Pure; raises nothing. Callers
        take `evidence`, which knows what each piece can see.
    acts_on
        Layers at which it may act in an incident.
    signs
        Codes of the evidence specific to this mechanism. If none of it supports the cause,
        circumstances (shape, season, metric) alone do not make it a candidate.
    coincidences
        Those signs that show only that something changed when it began. Whatever else changed then
        fits as well: by them alone a cause is not told apart from it.
    measurement
        The experiment that would decide whether this is the cause, in one sentence, on one target.
    slows_metadata
        Whether it can slow metadata operations, which touch no OST.
    measurement_where
        Code of evidence to the sentence that replaces ``measurement`` if that evidence was found:
        never advise what is already in force.
    brings_about
        Ids of causes that this one may trigger: a full target gets closed.
    mitigation
        Whether it is a deliberate measure against something else: if nearly certain, it ranks
        first, because it can be undone at once.
    """

    id: str
    title: str
    prior: float
    assess: Assess
    measurement: str
    brings_about: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    coincidences: tuple[str, ...] = ()
    mitigation: bool = False
    slows_metadata: bool = True
    measurement_where: tuple[tuple[str, str], ...] = ()
    acts_on: ActsOn = _ANYWHERE

    def evidence(self, context: Context) -> tuple[Evidence, ...]:
        """Return every piece of evidence; what cannot see where it acts does not contradict it."""
        layers = self.acts_on(context)
        return tuple(within_sight(piece, layers) for piece in self.assess(context))

    def deciding(self, evidence: Iterable[Evidence]) -> str:
        """Return the decisive measurement, given the evidence found."""
        codes = {piece.what.code for piece in evidence if piece.found is not Found.NOT_AVAILABLE}
        other = (sentence for code, sentence in self.measurement_where if code in codes)
        return next(other, self.measurement)
