"""What users do in an epoch: write, as far as quotas and room let them, and delete."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.event import EventKind
from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import Lifetime, Users
from trimtab.twin.simulation.accounts import Accepted, Accounts
from trimtab.twin.simulation.demand import MEMORY_S, Demand, unevenness
from trimtab.twin.simulation.faults import Trouble, added_bytes
from trimtab.twin.simulation.placement import place
from trimtab.twin.simulation.policies import DAY_S
from trimtab.twin.simulation.population import Population
from trimtab.twin.simulation.streams import stream

if TYPE_CHECKING:
    from trimtab.twin.simulation.engine import Simulation

_REREAD_DAYS = 56.0
"""Within which `Users.reread_share` of what is old is read again."""
_ALMOST_ALL = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class Wanted:
    """What users want to write in an epoch, as far as quotas and room let them.

    Attributes
    ----------
    accepted
        Bytes that quotas let through.
    placed
        Bytes of one OST of each column.
    filling
        Bytes that a fault fills it with besides, if any does.
    later
        Bytes of the whole that cannot be carried in the epoch.
    """

    accepted: Accepted
    placed: Array
    filling: Array | None
    later: float

    @property
    def room_taken(self) -> Array:
        """Bytes of one OST of each column that they will take up."""
        return self.placed if self.filling is None else self.placed + self.filling


class Usage:
    """Users of one simulation and what they hold.

    Attributes
    ----------
    population
        Bytes by column, lifetime and age.
    accounts
        Bytes by user.
    busy
        How busy the last epoch was, in parts of the mean of a week.
    new_demand
        Bytes that were newly wanted in it, before quotas.
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
        """Begin the day of that number, if it is another: ages, what is read again, plans."""
        if day == self.population.today:
            return
        users = self._of.scenario.users
        rate = -math.log1p(-min(users.reread_share, _ALMOST_ALL)) / _REREAD_DAYS
        self.population.new_day(day, rate)
        self.accounts.plan(users)

    def begin_epoch(self, epoch: int, start: datetime, end: datetime) -> None:
        """Draw how busy an epoch is; epochs come in order."""
        seconds, users = (end - start).total_seconds(), self._of.scenario.users
        self.busy = self._demand.step(epoch, start, self._of.zone, users, seconds)

    def expected(
        self, shares: Array, *, faults: tuple[Trouble, ...], start: datetime, end: datetime
    ) -> Array:
        """Return what the epoch will write to one OST of each column, before chance and quotas."""
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
        """Return what users want to write in a part of an epoch, and where.

        Parameters
        ----------
        shares
            How often one OST of each column gets a new file, in parts of all.
        most
            Bytes that all layers carry in that time.
        draw
            Number of the epoch and of its part.
        """
        scenario, state, columns = self._of.scenario, self._of.state, self._of.columns
        users, weight = scenario.users, columns.weight
        seconds = (end - start).total_seconds()
        wish = users.daily_writes_bytes / DAY_S * seconds * self.busy + state.queued_bytes
        # What cannot be carried in this time asks for no room in it.
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
        # Of much less than a file an epoch, each draw may be too small for a number.
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
        """Return what users want to read of one OST of each column: what lies there, alike."""
        used = self._of.state.used_bytes
        whole = float(used @ self.population.weight)
        read = self._of.scenario.users.daily_reads_bytes / DAY_S * seconds * self.busy
        return used * (read / whole) if whole > 0.0 else np.zeros(len(used))

    def write(self, wanted: Wanted, carried: Array) -> None:
        """Write what layers let through of what users want; the rest waits, up to some hours of it.

        Jobs that wait for their output begin no other: more than they would write in the time for
        which busy hours last is never asked for.

        Parameters
        ----------
        carried
            Bytes of one OST of each column, of users and of what fills it.
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
            oldest = _longest(users)
            by_life[oldest] += filled
            self.accounts.write_freely(float(filled @ weight), oldest)
        self.population.write(by_life)
        self._during = by_life

    def delete(self, seconds: float) -> Array:
        """Delete what ends its life in so many seconds, those of the last `write`.

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
        """Count what got ENOSPC; an event tells of the first of it."""
        state = self._of.state
        if refused > 0.0 and not state.out_of_space:
            self._of.log.add(EventKind.NOTE, at, "users get ENOSPC: no open OST has room")
        state.out_of_space = refused > 0.0
        state.refused_space_bytes += refused


def spread_fullness(mean: float, deviations: Array, weight: Array) -> Array:
    """Return how full each column is at the start, 0 to 1; the mean over real OSTs is ``mean``."""
    full = mean + deviations
    full += mean - float(full @ weight) / float(weight.sum())
    cut = np.clip(full, 0.0, 1.0)
    if (cut == full).all():
        return cut
    # What was cut off below or above is taken from the others in proportion.
    if float(cut @ weight) > mean * float(weight.sum()):
        return cut * (mean * float(weight.sum()) / float(cut @ weight))
    free = 1.0 - cut
    return 1.0 - free * ((1.0 - mean) * float(weight.sum()) / float(free @ weight))


@lru_cache(maxsize=8)
def _shares_of_lives(lifetimes: tuple[Lifetime, ...]) -> Array:
    return np.array([life.share for life in lifetimes])


def _longest(users: Users) -> int:
    """Return the lifetime that lasts longest: of what a fault fills an OST with."""
    means = [math.inf if life.mean_s is None else life.mean_s for life in users.lifetimes]
    return means.index(max(means))
