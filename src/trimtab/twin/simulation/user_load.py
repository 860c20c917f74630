"""Users' load in an epoch: how much they want to write, where it is placed, and what they delete.

Placement is round-robin, or weighted by free space as in Lustre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trimtab.base.event import EventKind
from trimtab.base.units import DAY_S
from trimtab.twin.scenario import Lifetime, Placement, Users
from trimtab.twin.simulation.fault import Trouble, added_bytes
from trimtab.twin.simulation.ost_array import Array, Flags, Integers, stream
from trimtab.twin.simulation.population import Accepted, Accounts, Population, longest_lived

if TYPE_CHECKING:
    from trimtab.twin.simulation.engine import Simulation


_ROUNDS = 12
"""Iterations of the fixed point; after eight the fourth digit no longer changes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The placement of bytes.

    Attributes
    ----------
    per_ost
        Bytes on one OST of each column.
    refused
        Bytes of the whole for which no open OST had room (ENOSPC).
    """

    per_ost: Array
    refused: float


def shares_of(
    placement: Placement, available: Array, open_: Flags, weight: Array, server: Integers
) -> tuple[Array, bool]:
    """Return the share of new files of one OST of each column, and if it is round-robin."""
    even = is_round_robin(available, open_, placement)
    if even:
        takes = available > 0.0
        shares = takes / max(float(takes @ weight), 1.0)
    else:
        shares = weighted_shares(available, weight, server, placement.qos_prio_free)
    return striped_shares(shares, weight, placement.stripe_count), even


def is_round_robin(available: Array, open_: Flags, placement: Placement) -> bool:
    """Return whether placement is round-robin, as all open OSTs have similar free space."""
    if placement.kind == "round-robin":
        return True
    room = available[open_ & (available > 0.0)]
    if not len(room):
        return True
    return bool(room.max() * (1.0 - placement.qos_threshold_rr) < room.min())


def weighted_shares(available: Array, weight: Array, server: Integers, prio_free: float) -> Array:
    """Return the share of choices of one OST of each column.

    Parameters
    ----------
    available
        Bytes; 0 is never chosen.
    weight
        Real OSTs of each column.
    server
        Server of each column; a column of several OSTs counts as separate servers.
    prio_free
        ``qos_prio_free``, 0 to 1.

    Notes
    -----
    The weighted allocator (QOS) weighs each OST by its available bytes minus two penalties, of the
    OST and of its server. The penalties of a chosen OST are halved and then raised by the number of
    OSTs (or servers) times a step; each choice lowers all penalties by a step, down to 0. A step is
    ``1 - qos_prio_free`` times half the available bytes, divided by the number minus one. There are
    too many files to draw individually, so this solves for the equilibrium frequencies; a test
    draws files one by one. Source: lustre/lod/lod_qos.c.
    """
    has_space = available > 0.0
    if not has_space.any():
        return np.zeros_like(available)
    if prio_free >= 1.0:  # no penalties: by free space only
        return np.where(has_space, available, 0.0) / float(available[has_space] @ weight[has_space])
    # Columns of several OSTs get unique negative numbers, for servers that are not shared.
    names = np.where(weight > 1.0, -1 - np.arange(len(server)), server)
    _, at = np.unique(names, return_inverse=True)
    carried = np.bincount(at, weights=has_space.astype(float))
    many = np.bincount(at, weights=np.where(has_space, weight, 0.0)) / np.maximum(carried, 1.0)
    osts, servers = float(weight[has_space].sum()), float(many[carried > 0.0].sum())
    room = np.bincount(at, weights=np.where(has_space, available, 0.0)) / np.maximum(carried, 1.0)
    spread = (1.0 - prio_free) / 2.0
    # A single server cannot be avoided, so its OSTs' penalty counts twice instead.
    step = spread * available * (2.0 if servers < 2.0 else 1.0) / max(osts - 1.0, 1.0)
    server_step = spread * room / (servers - 1.0) if servers >= 2.0 else np.zeros_like(room)
    shares = np.where(has_space, available, 0.0)
    shares = shares / float(shares @ weight)
    for _ in range(_ROUNDS):
        of_server = np.asarray(np.bincount(at, weights=shares), np.float64)
        penalty = step * osts * _mean_penalty(shares * osts)
        server_penalty = server_step * servers * _mean_penalty(of_server * servers)
        worth = np.where(has_space, np.maximum(available - penalty - server_penalty[at], 0.0), 0.0)
        total = float(worth @ weight)
        if total <= 0.0:
            break
        shares = 0.5 * shares + 0.5 * worth / total
    return shares


def _mean_penalty(often: Array) -> Array:
    """Return the mean penalty, in units of step times number, by frequency of choice.

    ``often`` is in choices per round. Times between choices are exponential; a penalty of m when
    its OST is chosen falls from 1 + m / 2 at a rate of one per round.
    """
    rate = np.maximum(often, 1e-12)
    mean = np.zeros_like(rate)
    for _ in range(4):
        top = 1.0 + mean / 2.0
        mean = top - -np.expm1(-rate * top) / rate
    return mean


def striped_shares(shares: Array, weight: Array, stripes: int) -> Array:
    """Return shares of bytes for files with that many stripes; -1: on all OSTs.

    No OST can have more than one stripe of a file: the excess of a share goes to the others.
    """
    if stripes == 1:
        return shares
    has_share = shares > 0.0
    osts = float(weight[has_share].sum())
    if osts == 0.0:
        return shares
    if stripes < 0 or stripes >= osts:
        return np.where(has_share, 1.0 / osts, 0.0)
    most = 1.0 / stripes
    capped = np.zeros(len(shares), bool)
    result = shares.copy()
    while (over := (result > most) & ~capped).any():
        capped |= over
        result[capped] = most
        free = has_share & ~capped
        if not free.any():
            break
        left = 1.0 - float(most * weight[capped].sum())
        result[free] = shares[free] * (left / float(shares[free] @ weight[free]))
    return result


def place(wanted: float, shares: Array, weight: Array, room: Array) -> Placed:
    """Distribute bytes over OSTs; what does not fit on one goes to the others.

    Parameters
    ----------
    wanted
        Bytes of the whole.
    shares
        Share of one OST of each column; 0 if closed.
    room
        Free bytes of one OST of each column.
    """
    placed = np.zeros(len(shares))
    left = wanted
    free = (shares > 0.0) & (room > 0.0)
    while left > 0.0 and np.count_nonzero(free):
        # Fractions before bytes: the sum of tiny shares may be too small to divide by.
        parts = np.where(free, shares, 0.0) / float(shares[free].max())
        demand = left * (parts / float(parts @ weight))
        still = room - placed
        full = free & (demand >= still)
        if not np.count_nonzero(full):
            return Placed(placed + np.minimum(demand, still), 0.0)
        placed = np.where(full, room, placed + np.minimum(demand, still))
        left = wanted - float(placed @ weight)
        free &= ~full
    return Placed(placed, max(left, 0.0))


_BUSIEST_HOUR = 15.0
"""Assumed: local time of the daily peak of writes."""
MEMORY_S = 6 * 3600.0
"""Assumed: correlation time of load; jobs run for hours."""
_BLOCK = 256


def rhythm(at: datetime, zone: tzinfo, users: Users) -> float:
    """Return the factor of the hour and weekday on the mean write rate; 1 over a week."""
    local = at.astimezone(zone)
    hour = local.hour + local.minute / 60.0
    day = 1.0 + users.rhythm * math.cos((hour - _BUSIEST_HOUR) * math.pi / 12.0)
    weekend = local.weekday() >= 5
    week = (1.0 - users.rhythm if weekend else 1.0) / (1.0 - users.rhythm * 2.0 / 7.0)
    return day * week


def mean_rhythm(at: datetime, seconds: float, zone: tzinfo, users: Users) -> float:
    """Return the mean of `rhythm` over an epoch, hour by hour.

    Otherwise an epoch of a day would use only the rate of its first hour, at night.
    """
    parts = max(1, math.ceil(seconds / 3600.0))
    step = timedelta(seconds=seconds / parts)
    return math.fsum(rhythm(at + part * step, zone, users) for part in range(parts)) / parts


class UserDemand:
    """Users' load by epoch.

    Parameters
    ----------
    seed
        Seed of the scenario.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._level = float(stream(seed, "demand", "start").standard_normal())
        self._draws = np.zeros(0)

    def step(self, epoch: int, at: datetime, zone: tzinfo, users: Users, seconds: float) -> float:
        """Return the load of this epoch relative to the weekly mean; call in order of epochs.

        Log-normal around the rhythm, with ``users.burstiness`` as its coefficient of variation and
        autocorrelation between epochs.
        """
        place = epoch % _BLOCK
        if place == 0:
            self._draws = stream(self.seed, "demand", epoch // _BLOCK).standard_normal(_BLOCK)
        keep = math.exp(-seconds / MEMORY_S)
        self._level = keep * self._level + math.sqrt(1.0 - keep**2) * float(self._draws[place])
        variance = math.log1p(users.burstiness**2)
        burst = math.exp(math.sqrt(variance) * self._level - variance / 2.0)
        return mean_rhythm(at, seconds, zone, users) * burst


def competing(rate: Array, users: Users, draws: np.random.Generator) -> Array:
    """Return the momentary demand of users' jobs on each real OST, in bytes/s.

    Jobs write in bursts: an OST with the mean ``rate`` has a Poisson number of writers, each with a
    log-normal rate around ``users.job_rate_bytes_per_s``, so that the mean over time is ``rate``. A
    job with files on all OSTs is slowed by the few OSTs with several writers.

    Parameters
    ----------
    rate
        Mean over the epoch, bytes/s of each real OST.
    """
    mean, sigma = users.job_rate_bytes_per_s, users.job_rate_sigma
    writers = draws.poisson(rate / mean)
    (some,) = writers.nonzero()
    busy = np.repeat(some, writers[some])
    each = draws.lognormal(math.log(mean) - sigma**2 / 2, sigma, len(busy))
    return np.asarray(np.bincount(busy, each, minlength=len(rate)), np.float64)


def unevenness(written: Array, weight: Array, users: Users, draws: np.random.Generator) -> Array:
    """Return factors of OSTs' deviations from their share, because file sizes differ.

    Bytes on an OST are a sum of so many log-normal files: the coefficient of variation is
    sqrt(exp(sigma^2) / files).

    Parameters
    ----------
    written
        Bytes on one OST of each column.
    """
    files = np.maximum(written / users.file_mean_bytes * weight, 1e-9)
    shape = np.minimum(files / math.exp(users.size_sigma**2), 1e15)
    return np.where(written > 0.0, draws.standard_gamma(shape) / shape, 0.0)


_REREAD_DAYS = 56.0
"""Time within which `Users.reread_share` of old data is read again."""
_ALMOST_ALL = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class WantedWrites:
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


class UserLoad:
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
        self._demand = UserDemand(scenario.seed)
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
    ) -> WantedWrites:
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
        return WantedWrites(accepted, placed.per_ost, fits, later)

    def reads(self, seconds: float) -> Array:
        """Return users' reads of one OST of each column, in proportion to its data."""
        used = self._of.state.used_bytes
        whole = float(used @ self.population.weight)
        read = self._of.scenario.users.daily_reads_bytes / DAY_S * seconds * self.busy
        return used * (read / whole) if whole > 0.0 else np.zeros(len(used))

    def write(self, wanted: WantedWrites, carried: Array) -> None:
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
