"""The hours that provide an incident's evidence: the bad stretch and its reference."""

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
"""Maximum number of snapshots: each costs time, and neighbours are alike."""
_FIRST_TIMES: Final = 3
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
_RUN_LONGEST: Final = timedelta(hours=3)
"""A run without an end is assumed to reach the next one, but no longer than this."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """The bad stretch, and the good one to compare it with."""

    bad: tuple[Window, ...]
    good: tuple[Window, ...]

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
) -> Stretches:
    """Return the bad hours of an incident, and the good hours to compare them with.

    Parameters
    ----------
    frames
        ``at``, ``value``, ``unfinished`` of each series; the incident's own series shows the
        distance of runs.
    others
        Other incidents: their hours are not good ones, unless they began long before and persist.

    Notes
    -----
    Good hours are before the incident, up to a week; if there is less than a day of them, also
    after its end. Between the last good hour and the first bad run, one run's distance is left out,
    three for a level change, whose onset is no better known. For a dip without slow targets in
    which most runs were well, the hours of the slow runs are bad and those between them good.
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
        # The surveys that show them were slow at other hours.
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
    """Return the hours of its recurrence in the last week, and the hours between them."""
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
    """Return the snapshots to load: from the bad and good hours, and the record's first three.

    Those nearest to the onset come first, the rest is spread evenly: the onset shows most, and
    counters give rates between neighbours. If few are within bad hours, those around them are
    included too: most of what was counted between them happened then.
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
    """Yield the last time before a window with few, and the first after it, if near."""
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
    """Return the windows with others cut out.

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
    """Return the uncertainty of a level's onset, smaller for a deeper one."""
    faint = incident.effect is not None and abs(incident.effect - 1) < _FAINT
    return _PLACED_FAINT if faint else timedelta()


def _in_the_way(other: Incident, incident: Incident) -> bool:
    """Return whether another incident's hours are unsuitable as good ones.

    A level that changed more than a week before is the usual one for this incident; a view of this
    incident's own trouble elsewhere has the same hours.
    """
    if other.id == incident.id or other.shape is Shape.STANDING:
        return False
    return other.shape is not Shape.STEP or other.at > incident.at - _GOOD_LONGEST


def _hours(incident: Incident, now: datetime) -> Window:
    begins = incident.at if incident.shape is not Shape.STEP else incident.at - _RUN_LONGEST
    return Window(begins, (incident.until or now) + timedelta(hours=1))


def _spacing(frame: pl.DataFrame | None) -> timedelta:
    """Return the distance of runs of a series, at most `_RUN_LONGEST`."""
    if frame is None or frame.height < 2:
        return _RUN_LONGEST
    usual_s = usual_gap_s((frame["at"].sort().dt.epoch("us") / 1e6).to_list())
    return min(_RUN_LONGEST, timedelta(seconds=usual_s)) if usual_s else _RUN_LONGEST


def _length(windows: Sequence[Window]) -> timedelta:
    return sum((window.to - window.from_ for window in windows), timedelta())


def _chosen(times: Sequence[datetime], most: int) -> list[datetime]:
    """Return at most this many: the first two thirds in order, the rest spread evenly."""
    if len(times) <= most:
        return list(times)
    near = 2 * most // 3
    rest, count = times[near:], most - near
    spread = [rest[(index * (len(rest) - 1)) // max(1, count - 1)] for index in range(count)]
    return [*times[:near], *spread]
