"""Placement of users' writes: round-robin, or weighted by free space as in Lustre.

The weighted allocator (QOS) weighs each OST by its available bytes minus two penalties, of the OST
and of its server. The penalties of a chosen OST are halved and then raised by the number of OSTs
(or servers) times a step; each choice lowers all penalties by a step, down to 0. A step is ``1 -
qos_prio_free`` times half the available bytes, divided by the number minus one. There are too many
files to draw individually, so `weighted_shares` solves for the equilibrium frequencies; a test
draws files one by one. Source: lustre/lod/lod_qos.c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.twin.arrays import Array, Flags, Integers
from trimtab.twin.scenario.model import Placement

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
    """
    has_space = available > 0.0
    if not has_space.any():
        return np.zeros_like(available)
    if prio_free >= 1.0:  # no penalties: by free space only
        return np.where(has_space, available, 0.0) / float(available[has_space] @ weight[has_space])
    # Columns of several OSTs get unique negative numbers, for servers that nobody shares.
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
