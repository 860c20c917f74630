"""One world, sampled by different habits: what is found must not depend on how densely.

A `World` is a level that steps at known times under luck with a memory in continuous time: two
instants ``d`` hours apart correlate with exp(-d / tau), so that runs a few minutes apart share
most of their luck and runs of different nights almost none. Each run adds noise of its own.
A `Habit` says when somebody runs; the same world answers all of them::

    world = World(seed=1, cov=0.03, steps=((60.4, 0.8),))
    runs = world.sampled(HABITS["three a night"].minutes(120))

Everything follows from the seed. Nothing of trimtab is imported: the examiner must not share a
mistake with what it examines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
LEVEL_BYTES_PER_S = 1.0e11
YEAR_DAYS = 364
HOUR_MIN, DAY_MIN, WEEK_MIN = 60, 1440, 10080

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Minutes = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
"""Minutes since `START` at which a run begins, in the order in which the runs are drawn."""
Pattern = Callable[[int], Minutes]
"""When somebody runs, in so many days."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs by time: when each began, and its value in B/s."""

    at: tuple[datetime, ...]
    values: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.at)

    def picked(self, places: Sequence[int]) -> Runs:
        """Return these runs, in this order."""
        return Runs(tuple(self.at[k] for k in places), tuple(self.values[k] for k in places))

    def scaled(self, factor: float) -> Runs:
        """Return the runs in another unit."""
        return Runs(self.at, tuple(value * factor for value in self.values))


@dataclass(frozen=True, slots=True)
class World:
    """What a probe would measure at any minute.

    Attributes
    ----------
    cov
        Of all noise together, a fraction.
    phi
        Correlation of two runs an hour apart.
    steps
        Day since `START` and ratio of the level after over before, of each step.
    slow_share, slow_ratio
        Share of runs that are slow, each by itself, and their ratio to the others: two modes.
    """

    seed: int
    cov: float = 0.05
    phi: float = 0.5
    steps: tuple[tuple[float, float], ...] = ()
    slow_share: float = 0.0
    slow_ratio: float = 1.0

    @property
    def shared(self) -> float:
        """Share of the noise's variance that is luck with a memory; the rest is each run's own."""
        return max(0.8, (1 + self.phi) / 2)

    @property
    def memory_h(self) -> float:
        """Time in which the correlation of the luck falls to 1/e.

        Without any at an hour it is 12 min: the runs of one night still share some of their luck.
        """
        return -1 / math.log(self.phi / self.shared) if self.phi else 0.2

    def sampled(self, minutes: Minutes) -> Runs:
        """Return the runs that begin at these minutes, by time.

        What each run has by itself is drawn in the order of ``minutes``: runs that a habit adds
        at the end leave those before them as they were.
        """
        hours = int(minutes.max()) // HOUR_MIN + 1
        luck = _luck(self.seed, self.memory_h, hours)[minutes]
        own = np.random.default_rng([self.seed, 2]).standard_normal(len(minutes))
        slow = np.random.default_rng([self.seed, 3]).random(len(minutes)) < self.slow_share
        noise = math.sqrt(self.shared) * luck + math.sqrt(1 - self.shared) * own
        logs = math.sqrt(math.log1p(self.cov**2)) * noise
        logs += np.where(slow, math.log(self.slow_ratio), 0.0)
        for day, ratio in self.steps:
            logs += np.where(minutes >= day * DAY_MIN, math.log(ratio), 0.0)
        order = np.argsort(minutes, kind="stable")
        at = tuple(START + timedelta(minutes=int(minute)) for minute in minutes[order])
        return Runs(at, tuple((LEVEL_BYTES_PER_S * np.exp(logs[order])).tolist()))


def _luck(seed: int, memory_h: float, hours: int) -> Floats:
    """Return luck of variance 1 for every minute: an AR(1) series, the same however long it is.

    Within each hour the recursion is summed at once and hours are chained one after another: half
    a million steps of it in Python would take longer than what is examined.
    """
    shrinks = math.exp(-1 / (HOUR_MIN * memory_h))
    shocks = np.random.default_rng([seed, 1]).standard_normal((hours, HOUR_MIN))
    powers = shrinks ** np.arange(1, HOUR_MIN + 1)
    within = math.sqrt(1 - shrinks**2) * powers * np.cumsum(shocks / powers, axis=1)
    begins, last = np.empty(hours), float(np.random.default_rng([seed, 4]).standard_normal())
    for hour, end in enumerate(within[:, -1]):
        begins[hour] = last
        last = powers[-1] * last + end
    return (begins[:, None] * powers + within).ravel()


# --- habits -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Habit:
    """When somebody runs.

    Attributes
    ----------
    every_min
        Runs within so many minutes are one occasion, of which each has at least one.
    """

    every_min: int
    minutes: Pattern

    def occasion(self, days: int, at: datetime) -> int:
        """Return the number of the occasion of a time: how many in so many days begin before it."""
        begin = np.unique(self.minutes(days) // self.every_min)
        minute = (at - START).total_seconds() // 60
        return int(np.searchsorted(begin, minute // self.every_min))

    def first_at(self, days: int, day: float) -> datetime:
        """Return when the first run begins after so much of a day."""
        minutes = self.minutes(days)
        return START + timedelta(minutes=int(minutes[minutes >= day * DAY_MIN].min()))


def hourly(days: int) -> Minutes:
    """Return a run at every hour."""
    return np.arange(0, days * DAY_MIN, HOUR_MIN)


def nightly(runs: int = 1, *, apart_min: int = 5) -> Pattern:
    """Return so many runs each night from about 2 o'clock on; 0 minutes apart: one time stamp."""

    def pattern(days: int) -> Minutes:
        late = np.random.default_rng(7).integers(0, 20, days)
        begin = np.arange(days) * DAY_MIN + 120 + late
        return (begin[:, None] + apart_min * np.arange(runs)).ravel()

    return pattern


def mondays(runs: int, *, apart_min: int = 5) -> Pattern:
    """Return so many runs every Monday morning."""

    def pattern(days: int) -> Minutes:
        begin = np.arange(0, days, 7) * DAY_MIN + 8 * HOUR_MIN
        return (begin[:, None] + apart_min * np.arange(runs)).ravel()

    return pattern


def with_burst(base: Pattern, runs: int, *, at: float = 0.4) -> Pattern:
    """Return a habit with so many more runs on one day, ``at`` of the time.

    From 9 o'clock on a minute apart; as many as the day has no minutes for begin together.
    """

    def pattern(days: int) -> Minutes:
        begin = int(at * days) * DAY_MIN + 9 * HOUR_MIN
        lasts = min(runs, DAY_MIN - 9 * HOUR_MIN)
        return np.concatenate([base(days), begin + np.arange(runs) * lasts // runs])

    return pattern


def with_gaps(base: Pattern, *, weeks: int = 3, every_weeks: int = 16) -> Pattern:
    """Return a habit that pauses for so many weeks, again and again."""

    def pattern(days: int) -> Minutes:
        minutes = base(days)
        week, first = minutes // WEEK_MIN % every_weeks, (every_weeks - weeks) // 2
        return minutes[(week < first) | (week >= first + weeks)]

    return pattern


def twice(base: Pattern) -> Pattern:
    """Return a habit whose every run is made twice, with one time stamp."""
    return lambda days: np.concatenate([base(days), base(days)])


HABITS: Mapping[str, Habit] = {
    "hourly": Habit(HOUR_MIN, hourly),
    "daily": Habit(DAY_MIN, nightly()),
    "three a night": Habit(DAY_MIN, nightly(3)),
    "three a night, one stamp": Habit(DAY_MIN, nightly(3, apart_min=0)),
    "four a night": Habit(DAY_MIN, nightly(4, apart_min=6)),
    "twelve a night": Habit(DAY_MIN, nightly(12)),
    "daily, an afternoon of 150": Habit(DAY_MIN, with_burst(nightly(), 150)),
    "hourly, a day of 3,000": Habit(HOUR_MIN, with_burst(hourly, 3000)),
    "twelve on Mondays": Habit(WEEK_MIN, mondays(12)),
    "hourly with gaps": Habit(HOUR_MIN, with_gaps(hourly)),
    "daily with gaps": Habit(DAY_MIN, with_gaps(nightly())),
    "three a night with gaps": Habit(DAY_MIN, with_gaps(nightly(3))),
    "hourly, each twice": Habit(HOUR_MIN, twice(hourly)),
    "daily, each twice": Habit(DAY_MIN, twice(nightly())),
}


# --- spikes -------------------------------------------------------------------------------------


def with_spikes(
    runs: Runs, habit: Habit, seed: int, *, each: int = 40, whole: bool = False
) -> Runs:
    """Return runs with a spike on one occasion of about ``each``: 30 % low or twice as high.

    Neither two in a row nor at the end, where nobody could know that it is one.

    Parameters
    ----------
    whole
        All runs of the occasion share it, a bad night; else it is one of them.
    """
    rng = np.random.default_rng([seed, 5])
    minutes = np.array([(at - START).total_seconds() // 60 for at in runs.at])
    occasion = np.unique(minutes // habit.every_min, return_inverse=True)[1]
    values = np.array(runs.values)
    place = int(rng.integers(each // 2, each))
    while place < occasion[-1] - each // 2:
        hit = np.flatnonzero(occasion == place)
        values[hit if whole else rng.choice(hit)] *= rng.choice([0.7, 2.0])
        place += int(rng.integers(each // 2, 3 * each // 2))
    return Runs(runs.at, tuple(values.tolist()))
