"""Users' bytes on each OST, by last use and lifetime.

Lifetimes are exponential, so deletions in an epoch depend only on the lifetime and not on age: each
lifetime has one shrinking factor, and its cohorts are updated only when ages matter (a purge, a new
day).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import Lifetime

COHORT_S = 86400.0
"""Everything used within one day has the same age."""
COHORTS = 732
"""Two years of days; older data belongs to the oldest cohort."""
_LEAST_SCALE = 1e-100


@dataclass(slots=True)
class Totals:
    """Bytes of the whole written and deleted since the start."""

    stored_at_start: float = 0.0
    written: float = 0.0
    deleted: float = 0.0
    purged: float = 0.0


class Population:
    """Stored bytes on one OST of each column.

    Parameters
    ----------
    weight
        Real OSTs of each column.
    lifetimes
        Their order is the first index of every array.

    Attributes
    ----------
    stored
        Lifetimes x columns.
    today
        Number of the day, 0 at the start.
    totals
        For the whole: written + stored at the start = stored + deleted + purged.
    """

    def __init__(self, weight: Array, lifetimes: Sequence[Lifetime]) -> None:
        self.weight = weight
        self.lifetimes = tuple(lifetimes)
        self.stored = np.zeros((len(self.lifetimes), len(weight)))
        self.totals = Totals()
        self.today = 0
        self._scale = np.ones(len(self.lifetimes))
        self._seconds = math.nan
        self._parts = (self._scale, self._scale, self._scale)
        # The slot of a day is its number modulo COHORTS, so that nothing moves when a day passes.
        self._cohorts = np.zeros((len(self.lifetimes), COHORTS, len(weight)))

    @property
    def used(self) -> Array:
        """Bytes on one OST of each column."""
        return np.add.reduce(self.stored)

    def fill(self, stored: Array, daily_writes: float) -> None:
        """Fill with the initial data, with ages that follow the lifetimes.

        Parameters
        ----------
        stored
            Bytes on one OST of each column.
        daily_writes
            Bytes of the whole that users wrote per day before the start.
        """
        whole = float(stored @ self.weight)
        density = ages_at_start(whole, daily_writes, self.lifetimes)
        days = (self.today - 1 - np.arange(COHORTS - 1)) % COHORTS
        for life, by_age in enumerate(density):
            self._cohorts[life, days] += by_age[:, None] * stored[None, :]
            self.stored[life] += by_age.sum() * stored
        self.totals.stored_at_start += whole

    def add_columns(self, weight: Array) -> None:
        """Add columns with their weights; the new ones are empty."""
        more = len(weight) - len(self.weight)
        self.weight = weight
        self.stored = np.pad(self.stored, ((0, 0), (0, more)))
        self._cohorts = np.pad(self._cohorts, ((0, 0), (0, 0), (0, more)))

    def write(self, written: Array) -> None:
        """Store users' writes: lifetimes x columns, bytes of one OST."""
        self.stored += written
        self._cohorts[:, self.today % COHORTS] += written / self._scale[:, None]
        self.totals.written += float(np.add.reduce(written) @ self.weight)

    def delete(self, seconds: float, during: Array | None = None) -> Array:
        """Delete data whose life ends within that many seconds; return bytes of each column.

        Parameters
        ----------
        during
            Bytes written evenly over these seconds (lifetimes x columns) and already stored: they
            existed only for a part of the time.
        """
        surviving, ending, partly = self._survival(seconds)
        deleted = self.stored * ending
        self.stored -= deleted
        self._scale *= surviving
        if self._scale.min() < _LEAST_SCALE:  # lifetimes of seconds: too small to divide by
            self._settle()
        if during is not None:
            survivors = during * partly
            deleted -= survivors
            self.stored += survivors
            self._cohorts[:, self.today % COHORTS] += survivors / self._scale[:, None]
        gone = np.add.reduce(deleted)
        self.totals.deleted += float(gone @ self.weight)
        return gone

    def _survival(self, seconds: float) -> tuple[Array, Array, Array]:
        """Return the surviving and the ending fraction, and the surviving fraction of new writes.

        The latter two are column vectors; the fraction for new writes adds to that for old data.
        """
        if self._seconds != seconds:
            surviving = np.array([_survives(life.mean_s, seconds) for life in self.lifetimes])
            partly = np.array([_survives_partly(life.mean_s, seconds) for life in self.lifetimes])
            ending = (1.0 - surviving)[:, None]
            self._seconds, self._parts = seconds, (surviving, ending, (partly - surviving)[:, None])
        return self._parts

    def new_day(self, day: int, reread_rate: float) -> None:
        """Start a day: data that is read again gets today's age.

        Parameters
        ----------
        reread_rate
            Fraction of older data that is read again within a day, as a rate: 1 - exp(-rate).
        """
        while self.today < day:
            self._settle()
            self.today += 1
            slot = self.today % COHORTS
            oldest = (self.today + 1) % COHORTS
            self._cohorts[:, oldest] += self._cohorts[:, slot]
            self._cohorts[:, slot] = 0.0
            if reread_rate > 0.0:
                for of_life in self._cohorts:
                    again = of_life * -math.expm1(-reread_rate)
                    np.subtract(of_life, again, out=of_life)
                    of_life[slot] += again.sum(axis=0)

    def by_age(self) -> Array:
        """Return bytes of the whole: lifetimes x days since the last use, today first."""
        self._settle()
        days = (self.today - np.arange(COHORTS)) % COHORTS
        # Not a matrix product, whose last digits depend on the library's threads.
        return np.einsum("lac,c->la", self._cohorts, self.weight)[:, days]

    def purge(self, goal: float, youngest: int) -> tuple[Array, Array, int | None]:
        """Delete the least recently used data, oldest first, up to a goal.

        Parameters
        ----------
        goal
            Bytes of the whole.
        youngest
            Days since the last use; younger data stays regardless of the goal.

        Returns
        -------
        tuple
            Deleted bytes of one OST of each column; the deleted fraction of each lifetime; the age
            in days of the youngest deleted data, ``None`` if none.
        """
        ages = self.by_age().sum(axis=0)
        gone = np.zeros(len(self.weight))
        before = self.stored @ self.weight
        horizon = None
        for age in range(COHORTS - 1, youngest - 1, -1):
            if goal <= 0.0:
                break
            if ages[age] <= 0.0:
                continue
            # A quotient of two tiny amounts may overflow.
            part = 1.0 if goal >= ages[age] else goal / ages[age]
            slot = (self.today - age) % COHORTS
            purged = self._cohorts[:, slot] * part
            self._cohorts[:, slot] -= purged
            self.stored -= purged
            gone += purged.sum(axis=0)
            goal -= part * ages[age]
            horizon = age
        np.maximum(self.stored, 0.0, out=self.stored)  # rounding of the last cohort
        self.totals.purged += float(gone @ self.weight)
        after = self.stored @ self.weight
        share = np.divide(before - after, before, out=np.zeros_like(before), where=before > 0.0)
        return gone, share, horizon

    def _settle(self) -> None:
        if (self._scale == 1.0).all():
            return
        self._cohorts *= self._scale[:, None, None]
        self._scale[:] = 1.0


def _survives(mean_s: float | None, seconds: float) -> float:
    return 1.0 if mean_s is None else math.exp(-seconds / mean_s)


def _survives_partly(mean_s: float | None, seconds: float) -> float:
    """Return the surviving fraction of bytes written evenly over that many seconds.

    >>> round(_survives_partly(86400.0, 86400.0), 3), _survives_partly(None, 60.0)
    (0.632, 1.0)
    """
    lives = 0.0 if mean_s is None else seconds / mean_s
    return -math.expm1(-lives) / lives if lives > 0.0 else 1.0


def ages_at_start(stored: float, daily_writes: float, lifetimes: Sequence[Lifetime]) -> list[Array]:
    """Return the initial age distribution: for each lifetime, the fraction by days since written.

    Assumes a constant write rate for as long as it takes to reach the stored bytes. If even two
    years are not enough, the rest has the longest lifetime and any age.

    Returns
    -------
    list of array
        For COHORTS - 1 days, yesterday first; everything adds up to 1.
    """
    edges = np.arange(COHORTS) * 1.0
    if stored <= 0.0:
        return [np.zeros(COHORTS - 1) for _ in lifetimes]

    def content(days: float) -> float:
        return daily_writes * sum(_held(life, days) for life in lifetimes)

    full = content(edges[-1])
    days = edges[-1] if full <= stored else _root(lambda days: content(days) - stored, edges[-1])
    parts = []
    for life in lifetimes:
        held = np.array([_held(life, min(edge, days)) for edge in edges])
        parts.append(np.diff(held) * daily_writes / stored)
    rest = 1.0 - sum(float(part.sum()) for part in parts)
    parts[longest_lived(lifetimes)] += max(rest, 0.0) / (COHORTS - 1)
    return parts


def longest_lived(lifetimes: Sequence[Lifetime]) -> int:
    """Return which lifetime is the longest; bytes whose age is not known have it."""
    return max(range(len(lifetimes)), key=lambda at: lifetimes[at].mean_s or math.inf)


def _root(function: Callable[[float], float], high: float) -> float:
    """Return the root of an increasing function below ``high``, by bisection."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if function(middle) < 0.0 else (low, middle)
    return high


def _held(life: Lifetime, days: float) -> float:
    """Return the days' worth of writes that still exist after that many days."""
    if life.mean_s is None:
        return life.share * days
    mean = life.mean_s / COHORT_S
    return life.share * mean * -math.expm1(-days / mean)
