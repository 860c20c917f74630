"""Usage of single users: shares by Zipf's law, quotas, and the MDT of their first letter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trimtab._core import book
from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import Users
from trimtab.twin.simulation.streams import stream

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
