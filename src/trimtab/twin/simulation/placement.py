"""Which OSTs what users write goes to: round-robin, or weighted by free space as Lustre does.

The weighted allocator (QOS) gives each OST its available bytes less two penalties, of the OST and
of its server. Whoever is chosen has its penalty halved and then raised by the number of OSTs (or
of servers) times a step; each choice lowers all penalties by a step, down to nothing. A step is a
part ``1 - qos_prio_free`` of half the available bytes, divided by one less than there are. Files
are too many to draw one by one, so `weighted_shares` solves for the frequencies that the rule
settles at; a test draws one by one. Source: lustre/lod/lod_qos.c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.twin.arrays import Array, Flags, Integers
from trimtab.twin.scenario.model import Placement

_ROUNDS = 12
"""Of the fixed point; the frequencies no longer change in the fourth digit after eight."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where bytes went.

    Attributes
    ----------
    per_ost
        Bytes on one OST of each column.
    refused
        Bytes of the whole that no open OST had room for: ENOSPC.
    """

    per_ost: Array
    refused: float


def shares_of(
    placement: Placement, available: Array, open_: Flags, weight: Array, server: Integers
) -> tuple[Array, bool]:
    """Return how often one OST of each column gets a new file, and whether files go around."""
    even = is_round_robin(available, open_, placement)
    if even:
        takes = available > 0.0
        shares = takes / max(float(takes @ weight), 1.0)
    else:
        shares = weighted_shares(available, weight, server, placement.qos_prio_free)
    return striped_shares(shares, weight, placement.stripe_count), even


def is_round_robin(available: Array, open_: Flags, placement: Placement) -> bool:
    """Return whether new files go around, because all open OSTs have about the same room."""
    if placement.kind == "round-robin":
        return True
    room = available[open_ & (available > 0.0)]
    if not len(room):
        return True
    return bool(room.max() * (1.0 - placement.qos_threshold_rr) < room.min())


def weighted_shares(available: Array, weight: Array, server: Integers, prio_free: float) -> Array:
    """Return how often one OST of each column is chosen, in parts of all choices.

    Parameters
    ----------
    available
        Bytes; 0 is never chosen.
    weight
        Real OSTs of each column.
    server
        Of each column; a column of several OSTs is taken for servers of its own.
    prio_free
        ``qos_prio_free``, 0 to 1.
    """
    has_space = available > 0.0
    if not has_space.any():
        return np.zeros_like(available)
    if prio_free >= 1.0:  # no penalties: by free space alone
        return np.where(has_space, available, 0.0) / float(available[has_space] @ weight[has_space])
    # Columns of several OSTs get numbers of their own below 0, for servers that none shares.
    names = np.where(weight > 1.0, -1 - np.arange(len(server)), server)
    _, at = np.unique(names, return_inverse=True)
    carried = np.bincount(at, weights=has_space.astype(float))
    many = np.bincount(at, weights=np.where(has_space, weight, 0.0)) / np.maximum(carried, 1.0)
    osts, servers = float(weight[has_space].sum()), float(many[carried > 0.0].sum())
    room = np.bincount(at, weights=np.where(has_space, available, 0.0)) / np.maximum(carried, 1.0)
    spread = (1.0 - prio_free) / 2.0
    # One server cannot be avoided, so the penalty of its OSTs counts twice instead.
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
    """Return the mean penalty in units of its step times the number, of one chosen so often.

    ``often`` is in choices a round of all. Times between choices are exponential; a penalty that
    stood at m when its OST was chosen falls from 1 + m / 2 at the rate of one a round.
    """
    rate = np.maximum(often, 1e-12)
    mean = np.zeros_like(rate)
    for _ in range(4):
        top = 1.0 + mean / 2.0
        mean = top - -np.expm1(-rate * top) / rate
    return mean


def striped_shares(shares: Array, weight: Array, stripes: int) -> Array:
    """Return shares of bytes when each file lies on so many different OSTs; -1: on all.

    No OST can have more than one stripe of a file: what a share is over that goes to the others.
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
    """Return where so many bytes go; what an OST has no room for goes to the others.

    Parameters
    ----------
    wanted
        Bytes of the whole.
    shares
        Of one OST of each column; 0 is closed.
    room
        Bytes that one OST of each column can still take.
    """
    placed = np.zeros(len(shares))
    left = wanted
    free = (shares > 0.0) & (room > 0.0)
    while left > 0.0 and np.count_nonzero(free):
        # Parts before bytes: of shares that are all tiny, the sum may be too small to divide by.
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
