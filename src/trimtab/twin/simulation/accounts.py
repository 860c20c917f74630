"""What single users hold: shares by Zipf's law, quotas, and the MDT of their first letter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trimtab._core import book
from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import Users
from trimtab.twin.simulation.streams import stream

_SIZE_SIGMA = 1.0
"""Assumed: the spread of users' mean file sizes, log-normal; it decides who meets which quota."""
_HEADROOM = 0.9
"""Assumed: part of its quota that a heavy user plans to fill."""
_BURST_USERS = 20
"""Assumed: users whose jobs make a burst together."""
_NEAR = 1e-9
"""Of a quota: so near to it, users are looked at one by one."""
_UNBOOKED = 64
"""Epochs whose writes wait to be booked, at the most."""
_INITIALS = np.array(
    [
        *(8.6, 4.4, 6.6, 5.3, 3.6, 2.2, 3.3, 4.0, 1.7, 9.6, 4.9, 4.4, 10.2),
        *(3.3, 0.9, 4.1, 0.4, 5.6, 9.1, 3.7, 0.3, 1.7, 1.7, 0.6, 0.9, 0.9),
    ]
)
"""Assumed: first letters of user names a to z, in percent. How uneven they are is what matters."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of what users wanted to write in an epoch, bytes of the whole.

    Attributes
    ----------
    planned
        All that users asked for, where none was refused anything and each writes its share of it.
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
    """Bytes and inodes of users. The last row of users belongs to none: what no quota holds.

    Parameters
    ----------
    stored
        Bytes of the whole that are there at the start, by lifetime.
    mdts
        Number of metadata targets.

    Attributes
    ----------
    shares
        Of what users write, planned.
    inodes_at_start
        Files on each MDT.
    """

    def __init__(self, users: Users, seed: int, stored: Array, mdts: int) -> None:
        draws = stream(seed, "users")
        spread = draws.standard_normal(users.count) * _SIZE_SIGMA
        mean = users.size_median_bytes * math.exp(users.size_sigma**2 / 2)
        self.file_bytes = np.append(mean * np.exp(spread - _SIZE_SIGMA**2 / 2), mean)
        initials = draws.choice(len(_INITIALS), users.count, p=_INITIALS / _INITIALS.sum())
        self.mdt = np.append(initials % mdts, 0)
        self.mdts = mdts
        self._written = np.zeros(users.count + 1)
        # What a lifetime leaves is one factor for all users, so nobody is touched by deletion.
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
        """Have users plan anew what they write, by skew, quotas and what is stored now."""
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
        """Return what each user asks for when a few heavy jobs want so many bytes together."""
        users = len(self.shares) - 1
        heavy = draws.choice(users, min(_BURST_USERS, users), replace=False)
        demand = np.zeros(users + 1)
        demand[heavy] = wanted / len(heavy)
        return demand

    def accept(self, demand: Array) -> Accepted:
        """Return what quotas let through; a user is refused exactly what goes over."""
        wanted = float(demand.sum())
        room = np.maximum(self._limits - self.by_user, 0.0)
        taken = np.minimum(demand, room)
        return Accepted(taken, wanted, float(taken.sum()))

    def accept_planned(self, total: float) -> Accepted:
        """Return what quotas let through where all write as they planned, so much together.

        Users are looked at one by one only where one of them may have come near a quota since.
        """
        demand = self.shares * total
        if total > self._unlimited_bytes:
            self._unlimited_bytes = self._far_from_quotas()
        if total > self._unlimited_bytes:
            return self.accept(demand)
        wanted = float(demand.sum())
        return Accepted(demand, wanted, wanted, total)

    def _far_from_quotas(self) -> float:
        """Return how much may be written by the plan before anybody meets a quota, at the least."""
        limited = (self.shares > 0.0) & np.isfinite(self._limits)
        limits = self._limits[limited]
        room = limits * (1.0 - _NEAR) - self.by_user[limited]
        return float((room / self.shares[limited]).min(initial=math.inf))

    def write(self, accepted: Accepted, lives: Array, part: float = 1.0) -> None:
        """Write a part of what was accepted; ``lives`` are the shares of the lifetimes.

        What was planned is booked when somebody looks: one pass over all users serves many epochs.
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
        """Add to each user what was written since, in the order in which it was."""
        if self._unbooked:
            book(self._held, self._written, self.shares, self._unbooked)
            self._unbooked = []

    def write_freely(self, written: float, life: int) -> None:
        """Book bytes of one lifetime that no user's quota holds."""
        self._book()
        self._held[life, -1] += written / self._scale[life]
        self._written[-1] += written

    def shrink(self, fraction_kept: Array) -> None:
        """Keep that part of every user's bytes, by lifetime."""
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
        """Return files made on each MDT since the start."""
        self._book()
        files = self._written / self.file_bytes
        return self._by_mdt(files)

    def _by_mdt(self, files: Array) -> Array:
        return np.bincount(self.mdt, weights=files, minlength=self.mdts).astype(np.float64)


def planned_shares(wished: Array, limits: Array, stored: float) -> Array:
    """Return shares of writes of users who know their quotas.

    Zipf's law would have the first users hold far more than any quota. They plan to fill most of
    theirs, and the rest of what is written is other users' in proportion to their wishes. Where
    quotas do not add to what is stored, shares are in proportion to quotas, and refusals follow.

    Parameters
    ----------
    wished
        Adds to 1.
    limits
        Bytes each may hold; infinite: no quota.
    stored
        Bytes that users hold together.
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
