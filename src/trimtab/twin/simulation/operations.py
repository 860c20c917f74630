"""Carries out policies' decisions, and records events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import UsageError
from trimtab.model.event import EventKind
from trimtab.twin.arrays import Array, Integers
from trimtab.twin.simulation import policies
from trimtab.units import format_bytes, format_percent, plural

if TYPE_CHECKING:
    from trimtab.twin.simulation.engine import Simulation


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
            plan = policies.plan_purge(by_day, capacity, purge)
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
        closed = policies.gate(state.fullness, before, columns.weight, gating)
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
        due = policies.trims_due(
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
