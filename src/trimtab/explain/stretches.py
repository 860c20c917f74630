"""Which hours an incident's evidence comes from: the bad stretch, and its reference."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from trimtab.explain.context import Window
from trimtab.judge.occasions import usual_gap_s
from trimtab.model.incident import Incident, Recurrence, Shape
from trimtab.model.series import SeriesKey

BAD_TIMES: Final = 12
GOOD_TIMES: Final = 20
"""Snapshots that are looked at: each costs time, and neighbours are alike."""
_FIRST_TIMES: Final = 3
"""Of the record, besides: what was so from its first hours on has no beginning in it."""
_FEW_TIMES: Final = 3
LONGEST_STEP: Final = timedelta(hours=26)
"""Between two snapshots of which a rate is made: a day, and what a late one adds."""
_BAD_LONGEST: Final = timedelta(days=4)
"""Of a level that stays, from its beginning: later hours say less about its onset."""
_GOOD_LONGEST: Final = timedelta(days=7)
"""A week has every hour of it: a busy Monday is compared with one."""
_GOOD_SHORTEST: Final = timedelta(hours=24)
_HOUR: Final = timedelta(hours=1)
_FAINT: Final = 0.1
_PLACED_FAINT: Final = timedelta(hours=24)
"""A level that is less than a tenth lower is placed to within a day."""
_RUN_LONGEST: Final = timedelta(hours=3)
"""A run that is given no end is taken to reach to the next one, but no longer than this."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """The bad stretch, and the good one that it is compared with."""

    bad: tuple[Window, ...]
    good: tuple[Window, ...]

    def holds(self, at: datetime) -> bool:
        """Return whether a time lies in either."""
        return any(window.holds(at) for window in (*self.bad, *self.good))


def windows_of(
    incident: Incident,
    frames: Mapping[SeriesKey, pl.DataFrame],
    record_from: datetime,
    now: datetime,
    *,
    others: Iterable[Incident] = (),
) -> Stretches:
    """Return the bad hours of an incident, and the good hours to compare them with.

    Parameters
    ----------
    frames
        ``at``, ``value``, ``unfinished`` of each series; the incident's own series shows how far
        apart runs are.
    others
        Other incidents: their hours are not good ones, unless they began long before and last.

    Notes
    -----
    Good hours lie before the incident, up to a week; where there is less than a day of them,
    after its end as well. Between the last good hour and the first bad run one run's distance is
    left out, three for a change of level: its beginning is known no better. Of a dip without
    slow targets most of whose runs were well the hours of the slow ones are bad, and those between
    them good.
    """
    if incident.shape is Shape.STANDING:
        return Stretches((Window(record_from, now),), ())
    if incident.recurs is not None:
        return _recurring(incident, incident.recurs, min(now, incident.until or now))
    spacing = _spacing(frames.get(incident.key)) if incident.key is not None else _RUN_LONGEST
    end = min(now, (incident.until or now) + spacing)
    last = min(end, incident.at + _BAD_LONGEST) if incident.shape is Shape.STEP else end
    begin = incident.at
    if incident.shape is Shape.DRIFT:
        begin = max(incident.at, last - _BAD_LONGEST)
    bad = Window(begin, max(last, begin))
    gap = max(spacing * 3, _gap(incident)) if incident.shape is Shape.STEP else spacing
    before = Window(max(record_from, incident.at - _GOOD_LONGEST), incident.at - gap)
    taken = [_hours(other, now) for other in others if _in_the_way(other, incident)]
    good = without([before], taken)
    if _length(good) < _GOOD_SHORTEST and incident.until is not None:
        after = Window(end + gap, min(now, end + gap + _GOOD_LONGEST))
        good = [*good, *without([after], taken)]
    slow = _slow_hours(incident, frames, spacing)
    if slow:
        around = [Window(window.from_ - spacing, window.to + spacing) for window in slow]
        return Stretches(tuple(slow), (*good, *without([bad], around)))
    return Stretches((bad,), tuple(good))


def _slow_hours(
    incident: Incident, frames: Mapping[SeriesKey, pl.DataFrame], spacing: timedelta
) -> list[Window]:
    """Return the hours of the slow runs of a dip in which most runs were well, or none."""
    frame = None if incident.key is None else frames.get(incident.key)
    if incident.shape is not Shape.DIP or frame is None or incident.until is None:
        return []
    if incident.targets:
        # The surveys that show them were slow at hours of their own.
        return []
    begin, effect = incident.at, incident.effect
    before = frame.filter(pl.col("at").is_between(begin - _GOOD_LONGEST, begin, closed="left"))
    usual = before["value"].median()
    within = frame.filter(pl.col("at").is_between(begin, incident.until)).sort("at")
    if not isinstance(usual, float) or effect is None or not 0 <= effect < 1:
        return []
    slow = pl.col("unfinished") | (pl.col("value") < usual * (1 + effect) / 2)
    times = within.filter(slow.fill_null(value=True))["at"].to_list()
    if not times or 2 * len(times) >= within.height:
        return []
    hours: list[Window] = []
    for at in times:
        if hours and at <= hours[-1].to:
            hours[-1] = Window(hours[-1].from_, at + spacing)
        else:
            hours.append(Window(at, at + spacing))
    return hours


def _recurring(incident: Incident, recurs: Recurrence, last: datetime) -> Stretches:
    """Return the hours of the last week in which it recurred, and the hours between them."""
    zone = ZoneInfo(recurs.timezone)
    weeks = 1 if len(recurs.weekdays) == 7 else 3
    begin = max(incident.at, last - weeks * _GOOD_LONGEST)
    bad: list[Window] = []
    day = begin.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    while day <= last:
        start = day + timedelta(hours=recurs.from_hour)
        if day.weekday() in recurs.weekdays:
            window = Window(
                start.astimezone(UTC), (start + len(recurs.hours) * _HOUR).astimezone(UTC)
            )
            bad.append(Window(max(begin, window.from_), min(last, window.to)))
        day += timedelta(days=1)
    bad = [window for window in bad if window.to > window.from_]
    around = [Window(window.from_ - _HOUR, window.to + _HOUR) for window in bad]
    return Stretches(tuple(bad), tuple(without([Window(begin, last)], around)))


def snapshot_times(
    stretches: Stretches, available: Iterable[datetime], record_from: datetime
) -> tuple[datetime, ...]:
    """Return which snapshots to load: of the bad hours, of the good ones, the record's first three.

    Those nearest to the beginning of the bad stretch come first, the rest is spread evenly: the
    onset shows most, and counters give rates between neighbours. Where few lie within bad hours,
    those around them come too: what was counted between them was mostly then.
    """
    times = sorted(set(available))
    begins = bisect_left(times, record_from)
    first = times[begins : begins + _FIRST_TIMES]
    bad, good = (
        sorted({at for window in windows for at in _within(times, window)})
        for windows in (stretches.bad, stretches.good)
    )
    begin = stretches.bad[0].from_ if stretches.bad else record_from
    chosen = (
        *(at for window in stretches.bad[:_FIRST_TIMES] for at in _around(times, window)),
        *_chosen(bad, BAD_TIMES),
        *_chosen(sorted(good, key=lambda at: abs(at - begin)), GOOD_TIMES),
        *first,
    )
    return tuple(sorted(set(chosen)))


def _around(times: Sequence[datetime], window: Window) -> Iterator[datetime]:
    """Yield the last time before a window that has few, and the first after it, if near."""
    first, last = bisect_left(times, window.from_), bisect_right(times, window.to)
    if last - first >= _FEW_TIMES:
        return
    if first and window.from_ - times[first - 1] <= LONGEST_STEP:
        yield times[first - 1]
    if last < len(times) and times[last] - window.to <= LONGEST_STEP:
        yield times[last]


def _within(times: Sequence[datetime], window: Window) -> Sequence[datetime]:
    return times[bisect_left(times, window.from_) : bisect_right(times, window.to)]


def without(windows: Sequence[Window], taken: Sequence[Window]) -> list[Window]:
    """Return the windows with others cut out of them.

    Examples
    --------
    >>> from datetime import UTC
    >>> hour = [datetime(2026, 3, 2, h, tzinfo=UTC) for h in range(4)]
    >>> left = without([Window(hour[0], hour[3])], [Window(hour[1], hour[2])])
    >>> [(one.from_.hour, one.to.hour) for one in left]
    [(0, 1), (2, 3)]
    """
    left = [window for window in windows if window.to > window.from_]
    for cut in taken:
        left = [
            part
            for window in left
            for part in (
                Window(window.from_, min(window.to, cut.from_)),
                Window(max(window.from_, cut.to), window.to),
            )
            if part.to > part.from_
        ]
    return left


def _gap(incident: Incident) -> timedelta:
    """Return within which time the beginning of a level is known, the more surely the deeper."""
    faint = incident.effect is not None and abs(incident.effect - 1) < _FAINT
    return _PLACED_FAINT if faint else timedelta()


def _in_the_way(other: Incident, incident: Incident) -> bool:
    """Return whether another incident's hours are no good ones.

    A level that had changed more than a week before is the usual one for this incident; one that
    is this incident's own trouble, seen elsewhere, has the same hours.
    """
    if other.id == incident.id or other.shape is Shape.STANDING:
        return False
    return other.shape is not Shape.STEP or other.at > incident.at - _GOOD_LONGEST


def _hours(incident: Incident, now: datetime) -> Window:
    begins = incident.at if incident.shape is not Shape.STEP else incident.at - _RUN_LONGEST
    return Window(begins, (incident.until or now) + timedelta(hours=1))


def _spacing(frame: pl.DataFrame | None) -> timedelta:
    """Return how far apart runs of a series are, at most `_RUN_LONGEST`."""
    if frame is None or frame.height < 2:
        return _RUN_LONGEST
    usual_s = usual_gap_s((frame["at"].sort().dt.epoch("us") / 1e6).to_list())
    return min(_RUN_LONGEST, timedelta(seconds=usual_s)) if usual_s else _RUN_LONGEST


def _length(windows: Sequence[Window]) -> timedelta:
    return sum((window.to - window.from_ for window in windows), timedelta())


def _chosen(times: Sequence[datetime], most: int) -> list[datetime]:
    """Return at most so many: the first two thirds of them in their order, the rest spread."""
    if len(times) <= most:
        return list(times)
    near = 2 * most // 3
    rest, count = times[near:], most - near
    spread = [rest[(index * (len(rest) - 1)) // max(1, count - 1)] for index in range(count)]
    return [*times[:near], *spread]
