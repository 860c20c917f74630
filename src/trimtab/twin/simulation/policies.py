"""What operators do about space: gating, purges, trims. Deciding is pure; `operations` acts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trimtab.twin.arrays import Array, Flags, Integers
from trimtab.twin.scenario.model import Gating, Purge, Trim

DAY_S = 86400.0
_TRIM_WINDOW_S = 4 * 3600.0
"""Assumed: trims of all OSTs are spread over so much of a night, from one in the morning on."""
_TRIM_BEGINS_S = 3600.0
_MOST_RESETS = 10_000
"""In an epoch: a miniature OST writes fewer requests than that between them."""


def gate(fullness: Array, closed: Flags, weight: Array, gating: Gating) -> Flags:
    """Return which columns are closed to new files from now on.

    Over ``limit`` an OST closes, at or under ``reopen`` it opens. With ``most_closed`` the fullest
    are closed and the others stay open however full they are.

    Parameters
    ----------
    fullness
        Used part of each column.
    closed
        As it is now.
    weight
        Real OSTs of each column.
    """
    if not gating.enabled:
        return np.zeros(len(fullness), bool)
    wanted = (fullness > gating.limit) | (closed & (fullness > gating.reopen))
    if gating.most_closed is None:
        return wanted
    budget = gating.most_closed * float(weight.sum())
    result = np.zeros(len(fullness), bool)
    over = np.flatnonzero(wanted)
    fullest = over[np.argsort(-fullness[over], kind="stable")]
    # Of one that is a column too many, those after it stay open as well.
    result[fullest[np.cumsum(weight[fullest]) <= budget + 1e-9]] = True
    return result


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What a purge is to delete.

    Attributes
    ----------
    over_target, over_age
        Bytes of the whole: what is over the target and may go, and what is older than any may be.
    youngest_days
        Whole days since the last use that make a file eligible.
    """

    over_target: float
    over_age: float
    youngest_days: int

    @property
    def goal(self) -> float:
        """Bytes of the whole to delete, oldest first."""
        return max(self.over_target, self.over_age)


def plan_purge(by_day: Array, capacity: float, purge: Purge) -> PurgePlan:
    """Return what a purge deletes now.

    Parameters
    ----------
    by_day
        Bytes of the whole by whole days since the last use.
    capacity
        Bytes of the whole.
    """
    youngest = math.ceil(purge.min_age_s / DAY_S)
    over = max(0.0, float(by_day.sum()) - purge.target * capacity)
    eligible = float(by_day[youngest:].sum())
    oldest = 0.0
    if purge.max_age_s is not None:
        oldest = float(by_day[max(youngest, math.ceil(purge.max_age_s / DAY_S)) :].sum())
    return PurgePlan(min(over, eligible), oldest, youngest)


def trims_due(start_s: float, end_s: float, columns: int, trim: Trim) -> Integers:
    """Return the columns that are trimmed after ``start_s`` and not after ``end_s``.

    Parameters
    ----------
    start_s, end_s
        Seconds since the midnight before the scenario's start, local time.
    columns
        Their trims are spread over a night, or over the whole period where that is shorter.
    """
    if trim.every_s is None:
        return np.zeros(0, np.int64)
    phase, first_s, last_s = _phases(columns, trim.every_s)
    # Turns follow each other: there is none where the first one ends no later round than the last
    # one began.
    ended = math.floor((end_s - first_s) / trim.every_s)
    if ended <= math.floor((start_s - last_s) / trim.every_s):
        return np.zeros(0, np.int64)
    rounds = np.floor((end_s - phase) / trim.every_s) - np.floor((start_s - phase) / trim.every_s)
    return np.flatnonzero(rounds > 0.0)


@lru_cache(maxsize=64)
def _phases(columns: int, every_s: float) -> tuple[Array, float, float]:
    """Return when in a period each column has its turn, the first and the last, seconds."""
    spread = min(_TRIM_WINDOW_S, every_s)
    begins = _TRIM_BEGINS_S if every_s >= DAY_S else 0.0
    phase = begins + spread * np.arange(columns) / columns
    return phase, float(phase[0]), float(phase[-1])


def resets_due(start_s: float, end_s: float, reset_s: float | None) -> int:
    """Return how often the allocator's goal is reset after ``start_s`` and not after ``end_s``."""
    if reset_s is None:
        return 0
    return min(math.floor(end_s / reset_s) - math.floor(start_s / reset_s), _MOST_RESETS)
