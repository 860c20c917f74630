"""MDTs: their files, and removed files that their drives still hold."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import Mdts
from trimtab.twin.simulation.accounts import Accounts

BYTES_PER_INODE = 2560
"""mkfs.lustre's default for MDTs: an inode of 1 KiB and its share of data."""


def removed(accounts: Accounts) -> Array:
    """Return the number of files removed from each MDT since the start."""
    made = accounts.inodes_at_start + accounts.creates()
    return np.maximum(made - accounts.inodes(), 0.0)


class MdtTrims:
    """Trims of MDTs. Their drives are not simulated: a trim changes no rate.

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
