"""What `trimtab.judge.changes.find_changes` tells where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl
from tests.calibration.series import Case

from trimtab.judge.changes import find_changes
from trimtab.model.series import ChangePoint


def tolerance(step: float) -> timedelta:
    """Return how far from a step a change may be placed to be that step: 24 h at 8 %, 96 h at 4 %.

    How well a step can be placed goes with the inverse square of its size (D. V. Hinkley,
    Biometrika 57 (1970)): at 4 %, phi 0.5 and a COV of 5 %, one in ten is placed more than a day
    off by whatever method, and at 8 % a quarter of that.
    """
    return timedelta(hours=24 * min(4.0, (0.08 / abs(step)) ** 2))


YEAR_H = 8766.0


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


def binomial_at_most(hits: int, of: int, share: float) -> float:
    """Return the probability of at most ``hits`` of ``of`` where each has the chance ``share``."""
    return math.fsum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(hits + 1))
