"""Forecasts of fullness scored on the public record of a large site, a row a day for two years.

Source: NERSC/lustre-design-analysis, ``cscratch_fullness``: mean and most of 248 OSTs. The fullest
is not always the same OST, and no single OST has a record, so single OSTs are not scored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from trimtab.judge.crossing import crossings
from trimtab.judge.growth import forecast_growth

FILE = "nersc-lustre-design/cscratch_fullness-2017-02-14_2019-03-31.csv"
SERIES = {"mean of the OSTs": "ost_avg_full_pct", "the fullest OST": "ost_most_full_pct"}
AHEAD_DAYS = (7, 28)
MORE = (0.05, 0.10)
LIMIT = 0.75
_DAY_S = 86400
_FIRST = 60
_SCALE = 2**40

Points = list[tuple[int, float]]


def read(path: Path) -> dict[str, Points]:
    """Return seconds since 1970 and fullness, 0 to 1, of each series."""
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    at = [int(float(row["ost_actual_timestamp"])) for row in rows]
    return {
        name: sorted(zip(at, (float(row[column]) / 100 for row in rows), strict=True))
        for name, column in SERIES.items()
    }


@dataclass(frozen=True, slots=True)
class Held:
    """How often the interval of a forecast held.

    Attributes
    ----------
    above, below
        Growth beyond its upper and its lower end.
    half_width
        Median, in fractions of the whole.
    """

    series: str
    ahead_days: int
    forecasts: int
    above: int
    below: int
    half_width: float


def growth_held(name: str, points: Points, ahead_days: int, step: int) -> Held:
    """Return how often growth was within its interval, a forecast every ``step`` days."""
    above = below = 0
    widths = []
    for place in range(_FIRST, len(points), step):
        at, now = points[place]
        later = _at(points[place:], at + ahead_days * _DAY_S)
        past = [(when, round(value * _SCALE)) for when, value in points[: place + 1]]
        growth = forecast_growth(past, ahead_s=ahead_days * _DAY_S)
        if later is None or growth.low_bytes is None or growth.high_bytes is None:
            continue
        grown = (later - now) * _SCALE
        above += grown > growth.high_bytes
        below += grown < growth.low_bytes
        widths.append((growth.high_bytes - growth.low_bytes) / 2 / _SCALE)
    return Held(name, ahead_days, len(widths), above, below, round(median(widths), 4))


def _at(points: Points, moment: int) -> float | None:
    """Return the value within a day of a moment."""
    near = min(points, key=lambda point: abs(point[0] - moment))
    return near[1] if abs(near[0] - moment) <= _DAY_S else None


@dataclass(frozen=True, slots=True)
class DayHeld:
    """How often a level was passed between the earliest and the latest day told.

    Attributes
    ----------
    more
        The level, above the fullness of the day of the forecast.
    before, after
        It was passed before the earliest day, or after the latest.
    """

    series: str
    more: float
    forecasts: int
    before: int
    after: int


def day_held(name: str, points: Points, more: float, step: int) -> DayHeld:
    """Return how often the interval of the day held, a forecast every ``step`` days."""
    count = before = after = 0
    for place in range(_FIRST, len(points), step):
        at, now = points[place]
        if points[-1][0] - at < 90 * _DAY_S:
            break  # whether the level is passed within the time of a forecast is not known
        (told,) = crossings(points[: place + 1], [now + more])
        if told.reason is not None:
            continue
        count += 1
        passed = next((when for when, value in points[place:] if value >= now + more), None)
        # A day of the record is not at midnight sharp: half a day is no miss.
        before += passed is not None and passed < _or(told.earliest, at + 90 * _DAY_S) - _DAY_S / 2
        last = passed if passed is not None else float("inf")
        after += told.latest is not None and last > told.latest.timestamp() + _DAY_S / 2
    return DayHeld(name, more, count, before, after)


def _or(moment: datetime | None, otherwise: float) -> float:
    return otherwise if moment is None else moment.timestamp()


@dataclass(frozen=True, slots=True)
class Warned:
    """What warnings of a week were worth, at a limit.

    Attributes
    ----------
    passed, warned
        Times that the limit was passed, and of them those with a warning in the two weeks before.
    days, true
        Days with a warning, and of them those after which it was passed within two weeks.
    """

    series: str
    limit: float
    passed: int
    warned: int
    days: int
    true: int


def warned(name: str, points: Points, limit: float = LIMIT) -> Warned:
    """Return what a warning a week ahead was worth, one forecast a day."""
    days = []
    for place in range(_FIRST, len(points)):
        at, now = points[place]
        if now < limit:
            (told,) = crossings(points[: place + 1], [limit])
            if told.at is not None and told.at.timestamp() - at <= 7 * _DAY_S:
                days.append(at)
    passed = [
        after
        for (_, low), (after, high) in zip(points[_FIRST:], points[_FIRST + 1 :], strict=False)
        if low < limit <= high
    ]
    return Warned(
        name, limit, len(passed),
        sum(any(0 < at - day <= 14 * _DAY_S for day in days) for at in passed),
        len(days),
        sum(any(0 < at - day <= 14 * _DAY_S for at in passed) for day in days),
    )  # fmt: skip


def scored(path: Path, step: int = 3) -> Iterator[Held | DayHeld | Warned]:
    """Yield every score; forecasts every ``step`` days, which overlap."""
    for name, points in read(path).items():
        yield from (growth_held(name, points, ahead, step) for ahead in AHEAD_DAYS)
        yield from (day_held(name, points, more, step) for more in MORE)
        yield warned(name, points)
