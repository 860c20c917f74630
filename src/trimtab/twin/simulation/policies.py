"""Operators' policies for space: gating, purges, trims. Pure; `operations` acts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trimtab.twin.arrays import Array, Flags, Integers
from trimtab.twin.scenario.model import Gating, Purge, Trim
from trimtab.units import DAY_S

_TRIM_WINDOW_S = 4 * 3600.0
"""Assumed: trims of all OSTs are spread over this part of the night, from 1 a.m."""
_TRIM_BEGINS_S = 3600.0
_MOST_RESETS = 10_000
"""Maximum per epoch: a miniature OST writes fewer requests between two of them."""


def gate(fullness: Array, closed: Flags, weight: Array, gating: Gating) -> Flags:
    """Return which columns are now closed to new files.

    An OST closes above ``limit`` and opens at or below ``reopen``. With ``most_closed`` only the
    fullest are closed; the others stay open at any fullness.

    Parameters
    ----------
    fullness
        Used fraction of each column.
    closed
        Current state.
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
    # After the first column beyond the limit, all others stay open as well.
    result[fullest[np.cumsum(weight[fullest]) <= budget + 1e-9]] = True
    return result


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What a purge will delete.

    Attributes
    ----------
    over_target, over_age
        Bytes of the whole: eligible bytes above the target, and bytes older than the maximum age.
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
    """Plan the deletions of a purge.

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
    """Return the columns trimmed after ``start_s`` and not after ``end_s``.

    Parameters
    ----------
    start_s, end_s
        Seconds since the midnight before the scenario's start, local time.
    columns
        Trims of columns are spread over a night, or over the period if that is shorter.
    """
    if trim.every_s is None:
        return np.zeros(0, np.int64)
    phase, first_s, last_s = _phases(columns, trim.every_s)
    # Turns are in order: none is due if the first to end is not in a later round than the last to
    # start.
    ended = math.floor((end_s - first_s) / trim.every_s)
    if ended <= math.floor((start_s - last_s) / trim.every_s):
        return np.zeros(0, np.int64)
    rounds = np.floor((end_s - phase) / trim.every_s) - np.floor((start_s - phase) / trim.every_s)
    return np.flatnonzero(rounds > 0.0)


@lru_cache(maxsize=64)
def _phases(columns: int, every_s: float) -> tuple[Array, float, float]:
    """Return each column's turn within a period, and the first and last, in seconds."""
    spread = min(_TRIM_WINDOW_S, every_s)
    begins = _TRIM_BEGINS_S if every_s >= DAY_S else 0.0
    phase = begins + spread * np.arange(columns) / columns
    return phase, float(phase[0]), float(phase[-1])


def resets_due(start_s: float, end_s: float, reset_s: float | None) -> int:
    """Return the number of resets of the allocator's goal in (``start_s``, ``end_s``]."""
    if reset_s is None:
        return 0
    return min(math.floor(end_s / reset_s) - math.floor(start_s / reset_s), _MOST_RESETS)
