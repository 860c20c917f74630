"""What `trimtab.judge.change` tells where the truth is known."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl
from tests.calibration.patterns import DAY_MIN, HABITS, YEAR_DAYS, Habit, Runs, World, with_spikes
from tests.calibration.series import Case
from tests.support.changes import changes_among

from trimtab.base.series import ChangePoint
from trimtab.judge.change import find_changes


def tolerance(step: float) -> timedelta:
    """Return how far from a step a change may be placed to be that step: 24 h at 8 %, 96 h at 4 %.

    How well a step can be placed goes with the inverse square of its size (D. V. Hinkley,
    Biometrika 57 (1970)): at 4 %, phi 0.5 and a COV of 5 %, one in ten is placed more than a day
    off by whatever method, and at 8 % a quarter of that.
    """
    return timedelta(hours=24 * min(4.0, (0.08 / abs(step)) ** 2))


YEAR_H = 8766.0
AGAINST = 0.05


@dataclass(frozen=True, slots=True)
class Alarms:
    """What was told of series in which nothing happened.

    Attributes
    ----------
    suspects
        Changes ever suspected, whether they were dismissed, confirmed or neither.
    confirmed
        Changes ever confirmed.
    """

    case: str
    kind: str
    phi: float | None
    series_years: float
    suspects: int
    confirmed: int

    @property
    def suspects_per_year(self) -> float:
        """False suspects per series-year."""
        return self.suspects / self.series_years

    @property
    def confirmed_per_year(self) -> float:
        """False confirmed changes per series-year."""
        return self.confirmed / self.series_years


@dataclass(frozen=True, slots=True)
class Told:
    """When one step was told; hours after it, ``None`` where never.

    Attributes
    ----------
    suspect_h
        First told, as a suspect or at once as confirmed.
    effect
        Ratio after over before that was stated.
    off_h
        How far after the step (before: negative) it was placed.
    """

    suspect_h: float | None
    confirmed_h: float | None
    effect: float | None
    off_h: float | None

    def within(self, suspect_h: float, confirmed_h: float) -> bool:
        """Return whether it was suspected and confirmed within so many hours."""
        return (
            self.suspect_h is not None
            and self.confirmed_h is not None
            and self.suspect_h <= suspect_h
            and self.confirmed_h <= confirmed_h
        )


def alarms(case: Case, seeds: Iterable[int]) -> Alarms:
    """Return the false alarms in series of a null case, one for each seed."""
    hours, suspects, confirmed = 0, 0, 0
    for seed in seeds:
        points = find_changes(case.make(seed), dismissed=True).points
        hours += case.hours
        suspects += sum(point.suspected_at is not None for point in points)
        confirmed += sum(point.confirmed_at is not None for point in points)
    return Alarms(case.name, case.kind, case.phi, hours / YEAR_H, suspects, confirmed)


def told(case: Case, seed: int, *, horizon_h: float = 14 * 24) -> Told:
    """Return what is told of one step by somebody who has ``horizon_h`` hours after it.

    A change counts that is placed within `tolerance` of the step, goes its way, and is first told
    after it: what was suspected before was luck.
    """
    frame, changed_at = case.make(seed), case.changed_at
    if changed_at is None or case.step is None:
        raise ValueError(f"{case.name} has no step")
    end = changed_at + timedelta(hours=horizon_h)
    points = find_changes(frame.filter(pl.col("at") < end), dismissed=True).points
    ours = [point for point in points if _is_it(point, changed_at, case.step)]
    suspected = [_hours(point.detected_at, changed_at) for point in ours]
    ours = [point for point in ours if point.confirmed_at is not None]
    confirmed = [_hours(at, changed_at) for point in ours if (at := point.confirmed_at)]
    first = ours[0] if ours else None
    return Told(
        min(suspected, default=None),
        min(confirmed, default=None),
        None if first is None else first.effect,
        None if first is None else _hours(first.at, changed_at) - 1,
    )


def _is_it(point: ChangePoint, changed_at: datetime, step: float) -> bool:
    if abs(point.at - changed_at) > tolerance(step) or point.detected_at < changed_at:
        return False
    return point.effect is None or (point.effect < 1) == (step < 0)


def _hours(at: datetime, since: datetime) -> float:
    """Return hours from the last run before the change: told by its first run is 1 h."""
    return (at - since).total_seconds() / 3600 + 1


def poisson_at_most(count: int, mean: float) -> float:
    """Return the probability of at most ``count`` events where ``mean`` are expected."""
    return math.fsum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count + 1))


def poisson_upper(count: int, level: float = 0.95) -> float:
    """Return the largest mean that ``count`` events do not speak against (one-sided)."""
    low, high = 0.0, count + 10.0 * math.sqrt(count + 1.0)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if poisson_at_most(count, middle) > 1 - level else (low, middle)
    return high


def speaks_against_ratio(
    count: int, years: float, base: int, base_years: float, *, ratio: float = 1.5
) -> bool:
    """Return whether a rate is more than ``ratio`` times another beyond chance (5 %).

    Of all events together as many of the first would come by chance with the share of its years,
    weighted by ``ratio``: the comparison of two Poisson rates.
    """
    share = ratio * years / (ratio * years + base_years)
    return count > 0 and 1 - binomial_at_most(count - 1, count + base, share) < AGAINST


def speaks_against_share(hits: int, of: int, share: float) -> bool:
    """Return whether so few hits or fewer had a chance under 5 %, were ``share`` the truth."""
    return binomial_at_most(hits, of, share) < AGAINST


def speaks_against_rate(count: int, allowed: float) -> bool:
    """Return whether so many events or more had a chance under 5 %, were ``allowed`` the mean."""
    return count > 0 and 1 - poisson_at_most(count - 1, allowed) < AGAINST


def binomial_at_most(hits: int, of: int, share: float) -> float:
    """Return the probability of at most ``hits`` of ``of`` where each has the chance ``share``."""
    return math.fsum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(hits + 1))


# --- one world, sampled by habits ---------------------------------------------------------------

SPIKED = ("one run", "a whole occasion")
"""What a spike takes in: `patterns.with_spikes`."""
HABIT_PHIS = ((0.0, 0.3, 0.5, 0.7), (0.9,))
"""Correlations at an hour, in the groups that are held against hourly runs."""
STEPS = (-0.2, -0.1, -0.05)
CONFIRMED_OCCASIONS, CONFIRMED_H = 8, 96.0
"""Within how many occasions, or hours where those are longer, a step is confirmed in time."""


def habit_alarms(name: str, phi: float, seeds: Iterable[int], spiked: str = "nothing") -> Alarms:
    """Return the false alarms of years without a change, sampled by one habit of `HABITS`."""
    habit, years, suspects, confirmed = HABITS[name], 0, 0, 0
    for seed in seeds:
        runs = World(seed, phi=phi).sampled(habit.minutes(YEAR_DAYS))
        if spiked in SPIKED:
            runs = with_spikes(runs, habit, seed, whole=spiked == SPIKED[1])
        points = changes_among(runs.at, runs.values, dismissed=True).points
        years += 1
        suspects += sum(point.suspected_at is not None for point in points)
        confirmed += sum(point.confirmed_at is not None for point in points)
    return Alarms(name, spiked, phi, float(years), suspects, confirmed)


def confirmed_in(
    runs: Runs, *, more_is_better: bool = True, timezone: str = "UTC"
) -> list[ChangePoint]:
    """Return the confirmed changes of runs, by time."""
    changes = changes_among(runs.at, runs.values, more_is_better=more_is_better, timezone=timezone)
    return [point for point in changes.points if point.confirmed_at is not None]


@dataclass(frozen=True, slots=True)
class StepSeen:
    """What is told of one step by the runs of one habit; ``None`` where it is not confirmed.

    Attributes
    ----------
    step
        The truth, -0.2 for 20 % down.
    off_occasions, off_h
        How far after the first run that shows it (before: negative) it is placed; 0 where it is
        said to lie between two runs and does.
    delay_occasions, delay_h
        Until it was confirmed; by its first occasion: 1 and 0 h.
    others
        Every other confirmed change.
    """

    step: float
    effect: float | None
    off_occasions: int | None
    off_h: float | None
    delay_occasions: int | None
    delay_h: float | None
    others: tuple[ChangePoint, ...]

    @property
    def placed(self) -> bool:
        """Whether its date is right, as finely as steps of its size can be placed: `tolerance`.

        An occasion off at 20 %, four at 10 %: how well goes with the inverse square here too.
        """
        if self.off_occasions is None or self.off_h is None:
            return False
        occasions = max(1, round((0.2 / self.step) ** 2))
        hours = tolerance(self.step).total_seconds() / 3600
        return abs(self.off_occasions) <= occasions or abs(self.off_h) <= hours

    @property
    def in_time(self) -> bool:
        """Whether it was confirmed while it still mattered."""
        if self.delay_occasions is None or self.delay_h is None:
            return False
        return self.delay_occasions <= CONFIRMED_OCCASIONS or self.delay_h <= CONFIRMED_H


def step_seen(habit: Habit, days: int, world: World) -> StepSeen:
    """Return what the runs of a habit tell of a world's only step, at their end.

    Of several confirmed changes the one that is placed nearest is the step, however far it is:
    how far is part of the result. One that goes the other way is not.
    """
    ((day, ratio),) = world.steps
    shown = habit.first_at(days, day)
    points = confirmed_in(world.sampled(habit.minutes(days)))
    ours = [p for p in points if p.effect is None or (p.effect < 1) == (ratio < 1)]
    if not ours:
        return StepSeen(ratio - 1, None, None, None, None, None, tuple(points))
    nearest = min(ours, key=lambda point: abs(_off(point, shown)))
    off, confirmed_at = _off(nearest, shown), nearest.confirmed_at
    assert confirmed_at is not None
    first, placed, confirmed = (
        habit.occasion(days, at) for at in (shown, shown + off, max(shown, confirmed_at))
    )
    return StepSeen(
        ratio - 1,
        nearest.effect,
        placed - first,
        off.total_seconds() / 3600,
        confirmed - first + 1,
        (confirmed_at - shown).total_seconds() / 3600,
        tuple(point for point in points if point is not nearest),
    )


def habit_step(name: str, step: float, seed: int) -> StepSeen:
    """Return what is told of a step after 60 to 200 days, with 60 after it; of Mondays as many.

    The noise has a COV of 3 % and a correlation of 0.5 at an hour; the step comes at any hour.
    """
    habit = HABITS[name]
    scale = max(1, habit.every_min // DAY_MIN)
    history = scale * (60 + 28 * (seed % 6))
    steps = ((history + 7 * seed % 24 / 24, 1 + step),)
    return step_seen(habit, history + 60 * scale, World(seed, cov=0.03, phi=0.5, steps=steps))


def _off(point: ChangePoint, shown: datetime) -> timedelta:
    if point.between is not None and point.between[0] < shown <= point.between[1]:
        return timedelta()
    return point.at - shown
