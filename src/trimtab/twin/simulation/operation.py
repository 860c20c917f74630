"""Operators' actions in a simulation: gating, purges, trims, and settings of single targets.

Functions decide, and are pure; `Operations` carries decisions out and records events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.base.error import UsageError
from trimtab.base.event import EventKind
from trimtab.base.units import DAY_S, format_bytes, format_percent, plural
from trimtab.twin.scenario import Gating, Mdts, Placement, Purge, Scenario, Trim
from trimtab.twin.scenario_check import replace_running
from trimtab.twin.scenario_key import value_of
from trimtab.twin.simulation.ost_array import Array, Flags, Integers
from trimtab.twin.simulation.population import Accounts

if TYPE_CHECKING:
    from trimtab.twin.simulation.engine import Simulation


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
class SimulatedPurge:
    """Amount that a purge will delete.

    Attributes
    ----------
    over_target, over_age
        Total eligible bytes above the target, and total bytes older than the maximum age.
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


def plan_purge(by_day: Array, capacity: float, purge: Purge) -> SimulatedPurge:
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
    return SimulatedPurge(min(over, eligible), oldest, youngest)


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


BYTES_PER_INODE = 2560
"""mkfs.lustre's default for MDTs: an inode of 1 KiB and its share of data."""


def removed(accounts: Accounts) -> Array:
    """Return the number of files removed from each MDT since the start."""
    made = accounts.inodes_at_start + accounts.creates()
    return np.maximum(made - accounts.inodes(), 0.0)


class MdtTrims:
    """Trims of MDTs, and the removed files that their drives still hold.

    The drives are not simulated: a trim changes no rate.

    Attributes
    ----------
    capacity_bytes
        Capacity of one MDT.
    last_trim_s
        Seconds since 1970 UTC; NaN: never.
    discarded_bytes
        Bytes discarded since the start.
    """

    def __init__(self, mdts: Mdts) -> None:
        self.capacity_bytes = mdts.inodes * BYTES_PER_INODE
        self._inodes = mdts.inodes
        self._removed = np.full(mdts.count, np.nan)
        self.last_trim_s = np.full(mdts.count, np.nan)
        self.discarded_bytes = np.zeros(mdts.count)

    def trim(self, number: int, accounts: Accounts, at: datetime) -> float:
        """Trim one; return the discarded bytes: all free space, then what was removed since."""
        used = min(float(accounts.inodes()[number]), self._inodes) * BYTES_PER_INODE
        free, now = self.capacity_bytes - used, float(removed(accounts)[number])
        before = self._removed[number]
        trimmed = free if np.isnan(before) else min(free, (now - before) * BYTES_PER_INODE)
        self._removed[number] = now
        self.last_trim_s[number] = at.timestamp()
        self.discarded_bytes[number] += trimmed
        return trimmed


_QUEUE: Final = frozenset({"queue.writeback_throttling", "queue.target_latency"})
OF_OST: Final = _QUEUE | {"allocator.c1", "allocator.c2", "allocator.c3", "trim.discard"}
"""Keys of a scenario that can differ for a single OST."""
OF_MDT: Final = _QUEUE | {"placement.qos_threshold_rr", "placement.qos_prio_free"}


@dataclass(slots=True)
class OwnSettings:
    """Settings of single targets that differ from the scenario's, which has one value for all.

    They are stored by number and dotted key. They are lost when a target moves to another server,
    where it is mounted with defaults. A change of the scenario applies to every target.

    Attributes
    ----------
    keys
        Keys that may be set.
    scenarios
        Number of each differing part to its scenario.
    """

    keys: frozenset[str]
    scenarios: dict[int, Scenario] = field(default_factory=dict)
    _values: dict[int, dict[str, object]] = field(default_factory=dict)

    def set(self, scenario: Scenario, number: int, values: Mapping[str, object]) -> None:
        """Change settings of one part.

        Raises
        ------
        UsageError
            A key cannot be set for a part, or a value is invalid.
        """
        for key in values:
            if key not in self.keys:
                raise UsageError(f"{key} can only be set for all targets", code="key-fixed")
        self._keep(scenario, number, {**self._values.get(number, {}), **values})

    def follow(self, scenario: Scenario, keys: Iterable[str]) -> None:
        """Adopt a scenario whose ``keys`` were set for all."""
        common = frozenset(keys)
        for number, values in tuple(self._values.items()):
            rest = {key: value for key, value in values.items() if key not in common}
            self._keep(scenario, number, rest)

    def forget(self, numbers: Iterable[int]) -> list[int]:
        """Reset parts to the scenario; return those that differed."""
        lost = [number for number in numbers if number in self._values]
        for number in lost:
            del self._values[number], self.scenarios[number]
        return lost

    def of(self, scenario: Scenario, number: int) -> Scenario:
        """Return the scenario of one part."""
        return self.scenarios.get(number, scenario)

    def _keep(self, scenario: Scenario, number: int, values: Mapping[str, object]) -> None:
        changed = replace_running(scenario, values)
        differing = {
            key: values[key] for key in values if value_of(scenario, key) != value_of(changed, key)
        }
        self.forget([number])
        if differing:
            self._values[number] = differing
            self.scenarios[number] = changed


def windows_of(
    windows: Callable[[Scenario, Array], Array],
    scenario: Scenario,
    parts: OwnSettings,
    amount: Array,
) -> Array:
    """Return the throttling factor of each column's writes, by its own queue settings."""
    factor = windows(scenario, amount)
    if not parts.scenarios:
        return factor
    by_queue: dict[object, list[int]] = {}
    for column, changed in parts.scenarios.items():
        if changed.queue != scenario.queue:
            by_queue.setdefault(changed.queue, []).append(column)
    for columns in by_queue.values():
        factor[columns] = windows(parts.scenarios[columns[0]], amount[columns])
    return factor


def placements_of(scenario: Scenario, parts: OwnSettings) -> Iterator[tuple[Placement, float]]:
    """Yield each placement rule, with the fraction of MDTs (and so of new files) that use it."""
    if not parts.scenarios:
        yield scenario.placement, 1.0
        return
    mdts = scenario.mdts.count
    numbers = {scenario.placement: mdts}
    for changed in parts.scenarios.values():
        numbers[scenario.placement] -= 1
        numbers[changed.placement] = numbers.get(changed.placement, 0) + 1
    yield from ((placement, number / mdts) for placement, number in numbers.items() if number)


def is_last_stretch(start: float, length: float) -> bool:
    """Return whether a range of a target, as fractions, reaches its end.

    Raises
    ------
    UsageError
        The range is invalid.
    """
    if not 0.0 <= start <= 1.0 or not 0.0 < length <= 1.0:
        text = f"{start!r} and length {length!r} are not a range of a target"
        raise UsageError(text, code="range-invalid")
    return start + length >= 1.0 - 1e-9


@dataclass(slots=True)
class _Pass:
    """A purge in progress."""

    begun: datetime
    left: float
    youngest: int
    gone: float = 0.0
    horizon: int | None = None


@dataclass(slots=True)
class _Round:
    """A trim of all OSTs in progress."""

    begun: datetime
    last: datetime
    columns: set[int]
    bytes: float = 0.0


class Operations:
    """Purges, gating and trims of one simulation; nights are in its site's time zone."""

    def __init__(self, of: Simulation) -> None:
        self._of = of
        local = of.now.astimezone(of.zone)
        self._midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        self._started = of.now
        self._pass: _Pass | None = None
        self._round: _Round | None = None

    def purge(self, start: datetime, end: datetime) -> Array:
        """Run purges due in an epoch; return deleted bytes on one OST of each column."""
        purge, population = self._of.scenario.purge, self._of.population
        nothing = np.zeros(len(population.weight))
        if not purge.enabled:
            self._end_purge(start)
            return nothing
        begun = (start - self._started).total_seconds() // purge.every_s
        if (end - self._started).total_seconds() // purge.every_s > begun:
            self._end_purge(start)
            by_day = population.by_age().sum(axis=0)
            capacity = float(self._of.state.capacity_bytes @ population.weight)
            plan = plan_purge(by_day, capacity, purge)
            if plan.goal > 0.0:
                self._pass = _Pass(start, plan.goal, plan.youngest_days)
        if self._pass is None:
            return nothing
        most = self._pass.left
        if purge.bytes_per_day is not None:
            most = min(most, purge.bytes_per_day * (end - start).total_seconds() / 86400.0)
        gone, share, horizon = population.purge(most, self._pass.youngest)
        self._of.accounts.shrink(1.0 - share)
        done = float(gone @ population.weight)
        self._pass.gone += done
        self._pass.left -= most
        self._pass.horizon = horizon if horizon is not None else self._pass.horizon
        if self._pass.left <= 1.0 or done <= 0.0:
            self._end_purge(end)
        return gone

    def gate(self, at: datetime) -> None:
        """Close and open OSTs by fullness."""
        state, columns, gating = self._of.state, self._of.columns, self._of.scenario.gating
        before = state.closed_by_gating
        if not gating.enabled and not before.any():
            return
        closed = gate(state.fullness, before, columns.weight, gating)
        if not np.count_nonzero(closed != before):
            return
        for changed, kind in (
            (closed & ~before, EventKind.TARGET_CLOSED),
            (~closed & before, EventKind.TARGET_OPENED),
        ):
            if changed.any():
                osts = np.flatnonzero(changed[columns.member]).tolist()
                full = state.fullness[changed]
                least, most = (format_percent(float(end)) for end in (full.min(), full.max()))
                full_text = least if least == most else f"{least} to {most}"
                detail = f"{plural(len(osts), 'OST')}, {full_text} full"
                self._of.log.add(kind, at, detail, osts=osts)
        state.closed_by_gating = closed

    def trim(self, start: datetime, end: datetime) -> None:
        """Trim the OSTs due in an epoch; records one event per round."""
        count, trim = self._of.columns.count, self._of.scenario.trim
        every_s = trim.every_s
        due = trims_due(
            (start - self._midnight).total_seconds(),
            (end - self._midnight).total_seconds(),
            count,
            trim,
        )
        if not len(due):
            if self._round and (
                every_s is None or end - self._round.begun >= timedelta(seconds=every_s)
            ):
                self._end_round()
            return
        trimmed = self._trim(due, end)
        again = self._round and not self._round.columns.isdisjoint(due.tolist())
        if self._round is None or again:
            self._end_round()
            self._round = _Round(start, end, set())
        self._round.columns.update(due.tolist())
        self._round.bytes += trimmed
        self._round.last = end
        if len(self._round.columns) == count:
            self._end_round()

    def trim_now(self, column: int) -> float:
        """Trim the OSTs of a column; return the released bytes of the whole."""
        at = self._of.now
        trimmed = self._trim(np.array([column]), at)
        osts = np.flatnonzero(self._of.columns.member == column)
        self._of.log.add(EventKind.TRIM, at, f"{format_bytes(trimmed)} trimmed", osts=osts)
        return trimmed

    def _trim(self, which: Integers, at: datetime) -> float:
        state = self._of.state
        trimmed_bytes = self._of.miniature.trim(which) * state.capacity_bytes[which]
        state.bytes_discarded_total[which] += trimmed_bytes
        state.last_trim_s[which] = at.timestamp()
        return float(trimmed_bytes @ self._of.columns.weight[which])

    def _end_round(self) -> None:
        if self._round is not None:
            detail = f"{format_bytes(self._round.bytes)} trimmed"
            self._of.log.add(EventKind.TRIM, self._round.begun, detail, until=self._round.last)
        self._round = None

    def _end_purge(self, at: datetime) -> None:
        done, self._pass = self._pass, None
        if done is None or done.gone <= 0.0:
            return
        age = plural(done.horizon or 0, "day")
        detail = f"{format_bytes(done.gone)} purged, last used {age} ago or earlier"
        self._of.log.add(EventKind.PURGE, done.begun, detail, until=at)
