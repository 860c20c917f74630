"""Users' actions in an epoch: writes, limited by quotas and space, and deletions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.event import EventKind
from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import Lifetime
from trimtab.twin.simulation.accounts import Accepted, Accounts
from trimtab.twin.simulation.demand import MEMORY_S, Demand, unevenness
from trimtab.twin.simulation.faults import Trouble, added_bytes
from trimtab.twin.simulation.placement import place
from trimtab.twin.simulation.population import Population, longest_lived
from trimtab.twin.simulation.streams import stream
from trimtab.units import DAY_S

if TYPE_CHECKING:
    from trimtab.twin.simulation.engine import Simulation

_REREAD_DAYS = 56.0
"""Time within which `Users.reread_share` of old data is read again."""
_ALMOST_ALL = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class Wanted:
    """Users' writes in an epoch, limited by quotas and space.

    Attributes
    ----------
    accepted
        Bytes accepted by quotas.
    placed
        Bytes on one OST of each column.
    filling
        Additional bytes from a fault, if any.
    later
        Bytes of the whole that exceed the capacity of the epoch.
    """

    accepted: Accepted
    placed: Array
    filling: Array | None
    later: float

    @property
    def room_taken(self) -> Array:
        """Bytes that they will occupy on one OST of each column."""
        return self.placed if self.filling is None else self.placed + self.filling


class Usage:
    """Users of one simulation and their data.

    Attributes
    ----------
    population
        Bytes by column, lifetime and age.
    accounts
        Bytes by user.
    busy
        Load of the last epoch relative to the weekly mean.
    new_demand
        New demand in it, in bytes, before quotas.
    """

    def __init__(self, of: Simulation) -> None:
        self._of = of
        scenario, columns = of.scenario, of.columns
        users = scenario.users
        self._demand = Demand(scenario.seed)
        self.busy = 1.0
        self.new_demand = 0.0
        self._during: Array | None = None
        spread = stream(scenario.seed, "fullness").standard_normal(columns.osts)[columns.first]
        full = spread_fullness(users.fullness, users.fullness_spread * spread, columns.weight)
        stored = full * of.state.capacity_bytes
        self.population = Population(columns.weight, users.lifetimes)
        self.population.fill(stored, users.daily_writes_bytes)
        by_life = self.population.stored @ columns.weight
        self.accounts = Accounts(users, scenario.seed, by_life, scenario.mdts.count)

    def begin_day(self, day: int) -> None:
        """Start a new day if the number has changed: ages, rereads, plans."""
        if day == self.population.today:
            return
        users = self._of.scenario.users
        rate = -math.log1p(-min(users.reread_share, _ALMOST_ALL)) / _REREAD_DAYS
        self.population.new_day(day, rate)
        self.accounts.plan(users)

    def begin_epoch(self, epoch: int, start: datetime, end: datetime) -> None:
        """Draw the load of an epoch; call in order of epochs."""
        seconds, users = (end - start).total_seconds(), self._of.scenario.users
        self.busy = self._demand.step(epoch, start, self._of.zone, users, seconds)

    def expected(
        self, shares: Array, *, faults: tuple[Trouble, ...], start: datetime, end: datetime
    ) -> Array:
        """Return the expected writes to one OST of each column, before chance and quotas."""
        seconds, columns = (end - start).total_seconds(), self._of.columns
        filling, burst = added_bytes(faults, start, end, columns.osts)
        demand = self._of.scenario.users.daily_writes_bytes / DAY_S * seconds * self.busy + burst
        most = demand * shares
        return most if filling is None else most + filling[columns.first]

    def want(
        self,
        shares: Array,
        *,
        most: float,
        draw: tuple[int, int],
        faults: tuple[Trouble, ...],
        start: datetime,
        end: datetime,
    ) -> Wanted:
        """Return users' writes in a part of an epoch, and their placement.

        Parameters
        ----------
        shares
            Share of new files of one OST of each column.
        most
            Capacity of all layers in that time, in bytes.
        draw
            Number of the epoch and of its part.
        """
        scenario, state, columns = self._of.scenario, self._of.state, self._of.columns
        users, weight = scenario.users, columns.weight
        seconds = (end - start).total_seconds()
        wish = users.daily_writes_bytes / DAY_S * seconds * self.busy + state.queued_bytes
        # Demand beyond the capacity needs no space in this time.
        now = min(max(wish, 0.0), most)
        filling, burst = added_bytes(faults, start, end, columns.osts)
        if burst > 0.0:
            draws = stream(scenario.seed, "burst", start.toordinal())
            demand = self.accounts.shares * now + self.accounts.burst(burst, draws)
            accepted = self.accounts.accept(demand)
        else:
            accepted = self.accounts.accept_planned(now)
        later = max(wish, 0.0) - now
        self.new_demand = accepted.wanted + later - state.queued_bytes
        state.refused_quota_bytes += accepted.refused
        epoch, part = draw
        draws = stream(scenario.seed, "files", epoch, *([part] * (part > 0)))
        uneven = unevenness(accepted.accepted * shares, weight, users, draws)
        room = np.maximum(state.available_bytes, 0.0)
        drawn = shares * uneven
        # With much less than a file per epoch, each draw may underflow.
        drawn = drawn if np.count_nonzero(drawn) else shares
        placed = place(accepted.accepted, drawn, weight, room)
        fits, refused = None, placed.refused
        if filling is not None:
            filled = filling[columns.first]
            fits = np.minimum(filled, np.maximum(room - placed.per_ost, 0.0))
            self.new_demand += float(filled @ weight)
            refused += float((filled - fits) @ weight)
        self._no_space(refused, end)
        return Wanted(accepted, placed.per_ost, fits, later)

    def reads(self, seconds: float) -> Array:
        """Return users' reads of one OST of each column, in proportion to its data."""
        used = self._of.state.used_bytes
        whole = float(used @ self.population.weight)
        read = self._of.scenario.users.daily_reads_bytes / DAY_S * seconds * self.busy
        return used * (read / whole) if whole > 0.0 else np.zeros(len(used))

    def write(self, wanted: Wanted, carried: Array) -> None:
        """Write the carried part of users' demand; the rest waits, up to some hours' worth.

        Jobs that wait for their output start no others: demand beyond what they would write during
        busy hours is dropped.

        Parameters
        ----------
        carried
            Bytes on one OST of each column, from users and from a fault.
        """
        users, state = self._of.scenario.users, self._of.state
        weight, filling = self.population.weight, wanted.filling
        filled = None if filling is None else np.minimum(filling, carried)
        written = carried if filled is None else carried - filled
        total, accepted = float(written @ weight), wanted.accepted.accepted
        placed = float(wanted.placed @ weight)
        waits = wanted.later + placed - total
        longest = users.daily_writes_bytes / DAY_S * MEMORY_S
        state.queued_bytes = min(waits, longest)
        state.slowed_bytes += max(waits - longest, 0.0)
        lives = _shares_of_lives(users.lifetimes)
        self.accounts.write(wanted.accepted, lives, total / accepted if accepted > 0.0 else 1.0)
        by_life = lives[:, None] * written[None, :]
        if filling is not None and filled is not None:
            state.slowed_bytes += float((filling - filled) @ weight)
            oldest = longest_lived(users.lifetimes)
            by_life[oldest] += filled
            self.accounts.write_freely(float(filled @ weight), oldest)
        self.population.write(by_life)
        self._during = by_life

    def delete(self, seconds: float) -> Array:
        """Delete data whose life ends in that many seconds, those of the last `write`.

        Returns
        -------
        Array
            Bytes of one OST of each column.
        """
        weight = self.population.weight
        before = self.population.stored @ weight
        deleted = self.population.delete(seconds, self._during)
        after = self.population.stored @ weight
        fraction_kept = np.divide(after, before, out=np.ones_like(after), where=before > 0.0)
        self.accounts.shrink(fraction_kept)
        return deleted

    def _no_space(self, refused: float, at: datetime) -> None:
        """Count bytes refused with ENOSPC, and record an event for the first."""
        state = self._of.state
        if refused > 0.0 and not state.out_of_space:
            self._of.log.add(EventKind.NOTE, at, "users get ENOSPC: no open OST has room")
        state.out_of_space = refused > 0.0
        state.refused_space_bytes += refused


def spread_fullness(mean: float, deviations: Array, weight: Array) -> Array:
    """Return the initial fullness of each column, 0 to 1, with ``mean`` over real OSTs."""
    full = mean + deviations
    full += mean - float(full @ weight) / float(weight.sum())
    cut = np.clip(full, 0.0, 1.0)
    if (cut == full).all():
        return cut
    # The clipped amount is taken from the others in proportion.
    if float(cut @ weight) > mean * float(weight.sum()):
        return cut * (mean * float(weight.sum()) / float(cut @ weight))
    free = 1.0 - cut
    return 1.0 - free * ((1.0 - mean) * float(weight.sum()) / float(free @ weight))


@lru_cache(maxsize=8)
def _shares_of_lives(lifetimes: tuple[Lifetime, ...]) -> Array:
    return np.array([life.share for life in lifetimes])
