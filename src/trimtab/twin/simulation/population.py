"""Users' bytes: on each OST by last use and lifetime, and of each user against quotas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab._core import book
from trimtab.twin.scenario import Lifetime, Users
from trimtab.twin.simulation.ost_array import Array, stream

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
    """Stored bytes on one OST of each column, by last use and lifetime.

    Lifetimes are exponential, so deletions in an epoch depend only on the lifetime and not on age:
    each lifetime has one shrinking factor, and its cohorts are updated only when ages matter (a
    purge, a new day).

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


_SIZE_SIGMA = 1.0
"""Assumed: log-normal spread of users' mean file sizes, which decides who hits which quota."""
_HEADROOM = 0.9
"""Assumed: fraction of the quota that a heavy user plans to fill."""
_BURST_USERS = 20
"""Assumed: number of users whose jobs form a burst."""
_NEAR = 1e-9
"""Fraction of a quota from which users are checked individually."""
_UNBOOKED = 64
"""Maximum number of epochs with unbooked writes."""
_INITIALS = np.array(
    [
        *(8.6, 4.4, 6.6, 5.3, 3.6, 2.2, 3.3, 4.0, 1.7, 9.6, 4.9, 4.4, 10.2),
        *(3.3, 0.9, 4.1, 0.4, 5.6, 9.1, 3.7, 0.3, 1.7, 1.7, 0.6, 0.9, 0.9),
    ]
)
"""Assumed: first letters of user names a to z, in percent; what matters is their imbalance."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Result of users' write requests in an epoch, in bytes of the whole file system.

    Attributes
    ----------
    planned
        Total bytes if nothing was refused and each user writes its share.
    """

    by_user: Array
    wanted: float
    accepted: float
    planned: float | None = None

    @property
    def refused(self) -> float:
        """Bytes that quotas refused."""
        return self.wanted - self.accepted


class Accounts:
    """Bytes and inodes of users. The last row belongs to no user and has no quota.

    Shares of writes follow Zipf's law within quotas; a user's files are on the MDT of the name's
    first letter.

    Parameters
    ----------
    stored
        Bytes of the whole file system at the start, by lifetime.
    mdts
        Number of metadata targets.

    Attributes
    ----------
    shares
        Planned shares of users' writes.
    inodes_at_start
        Files on each MDT.
    """

    def __init__(self, users: Users, seed: int, stored: Array, mdts: int) -> None:
        draws = stream(seed, "users")
        spread = draws.standard_normal(users.count) * _SIZE_SIGMA
        mean = users.file_mean_bytes
        self.file_bytes = np.append(mean * np.exp(spread - _SIZE_SIGMA**2 / 2), mean)
        initials = draws.choice(len(_INITIALS), users.count, p=_INITIALS / _INITIALS.sum())
        self.mdt = np.append(initials % mdts, 0)
        self.mdts = mdts
        self._written = np.zeros(users.count + 1)
        # Deletion is one factor per lifetime for all users, so no user's row is touched.
        self._scale = np.ones(len(stored))
        self._held = np.zeros((len(stored), users.count + 1))
        self._held[:, -1] = stored
        self.shares = np.zeros(users.count + 1)
        self._unbooked: list[tuple[float, list[float], float]] = []
        self.plan(users)
        self._held = stored[:, None] * self.shares[None, :]
        self.inodes_at_start = self.inodes()

    @property
    def held(self) -> Array:
        """Lifetimes x users, bytes."""
        self._book()
        return self._held * self._scale[:, None]

    @property
    def by_user(self) -> Array:
        """Bytes of each user."""
        self._book()
        return self._scale @ self._held

    def plan(self, users: Users) -> None:
        """Recompute users' planned writes from skew, quotas and current usage."""
        self._book()
        wished = np.arange(1, users.count + 1) ** -users.skew
        wished /= wished.sum()
        self._limits = np.full(len(self.file_bytes), math.inf)
        if users.quota_bytes is not None:
            self._limits[:-1] = users.quota_bytes
        if users.quota_inodes is not None:
            by_inodes = users.quota_inodes * self.file_bytes[:-1]
            self._limits[:-1] = np.minimum(self._limits[:-1], by_inodes)
        planned = planned_shares(wished, self._limits[:-1], float(self.by_user.sum()))
        self.shares = np.append(planned, 0.0)
        self._unlimited_bytes = 0.0

    def burst(self, wanted: float, draws: np.random.Generator) -> Array:
        """Return each user's request for a burst of a few heavy jobs with a total of bytes."""
        users = len(self.shares) - 1
        heavy = draws.choice(users, min(_BURST_USERS, users), replace=False)
        demand = np.zeros(users + 1)
        demand[heavy] = wanted / len(heavy)
        return demand

    def accept(self, demand: Array) -> Accepted:
        """Apply quotas; a user is refused exactly the excess."""
        wanted = float(demand.sum())
        room = np.maximum(self._limits - self.by_user, 0.0)
        taken = np.minimum(demand, room)
        return Accepted(taken, wanted, float(taken.sum()))

    def accept_planned(self, total: float) -> Accepted:
        """Apply quotas to planned writes with a given total.

        Users are checked individually only if one may be close to its quota.
        """
        demand = self.shares * total
        if total > self._unlimited_bytes:
            self._unlimited_bytes = self._far_from_quotas()
        if total > self._unlimited_bytes:
            return self.accept(demand)
        wanted = float(demand.sum())
        return Accepted(demand, wanted, wanted, total)

    def _far_from_quotas(self) -> float:
        """Return a lower bound of planned writes before any user reaches a quota."""
        limited = (self.shares > 0.0) & np.isfinite(self._limits)
        limits = self._limits[limited]
        room = limits * (1.0 - _NEAR) - self.by_user[limited]
        return float((room / self.shares[limited]).min(initial=math.inf))

    def write(self, accepted: Accepted, lives: Array, part: float = 1.0) -> None:
        """Write a part of the accepted bytes; ``lives`` are the shares of the lifetimes.

        Planned writes are booked on demand: one pass over all users covers many epochs.
        """
        shares = (lives * part / self._scale).tolist()
        if accepted.planned is None:
            self._book()
            book(self._held, self._written, accepted.by_user, [(1.0, shares, part)])
            self._unlimited_bytes = 0.0
            return
        self._unbooked.append((accepted.planned, shares, part))
        self._unlimited_bytes -= accepted.planned * part
        if len(self._unbooked) == _UNBOOKED:
            self._book()

    def _book(self) -> None:
        """Book the pending writes of all users, in order."""
        if self._unbooked:
            book(self._held, self._written, self.shares, self._unbooked)
            self._unbooked = []

    def write_freely(self, written: float, life: int) -> None:
        """Book bytes of one lifetime outside of any quota."""
        self._book()
        self._held[life, -1] += written / self._scale[life]
        self._written[-1] += written

    def shrink(self, fraction_kept: Array) -> None:
        """Reduce every user's bytes to a fraction, by lifetime."""
        self._scale *= fraction_kept
        if self._scale.min() < 1e-100:
            self._book()
            self._held *= self._scale[:, None]
            self._scale[:] = 1.0

    def inodes(self) -> Array:
        """Return files on each MDT."""
        files = self.by_user / self.file_bytes
        return self._by_mdt(files)

    def creates(self) -> Array:
        """Return files created on each MDT since the start."""
        self._book()
        files = self._written / self.file_bytes
        return self._by_mdt(files)

    def _by_mdt(self, files: Array) -> Array:
        return np.bincount(self.mdt, weights=files, minlength=self.mdts).astype(np.float64)


def planned_shares(wished: Array, limits: Array, stored: float) -> Array:
    """Return shares of writes of users who respect their quotas.

    By Zipf's law alone the first users would exceed any quota. They plan to fill most of theirs,
    and the remaining writes are divided among the others in proportion to their wishes. If the
    quotas are less than the stored data, shares are proportional to quotas, and writes are refused.

    Parameters
    ----------
    wished
        Adds up to 1.
    limits
        Quotas in bytes; infinite: none.
    stored
        Total bytes of all users.
    """
    if stored <= 0.0:
        return wished
    most = limits * _HEADROOM / stored
    if most.sum() <= 1.0:
        return limits / limits.sum()
    shares = wished.copy()
    capped = np.zeros(len(wished), bool)
    while True:
        over = (shares > most) & ~capped
        if not over.any():
            return shares
        capped |= over
        shares[capped] = most[capped]
        free = ~capped
        shares[free] = wished[free] * ((1.0 - most[capped].sum()) / wished[free].sum())
