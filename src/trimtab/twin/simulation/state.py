"""How each column is now, under the names that telemetry has for it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.scenario.model import Mdts

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

CRITERIA = 5
"""Loops of the allocator that has most."""


@dataclass(slots=True)
class State:
    """Arrays over columns, of one OST of each; and what is of the whole.

    Attributes
    ----------
    closed_by_gating, closed_by_hand
        Why a column takes no new files.
    answers
        False for a silent OST.
    bytes_written_total
        That came to the OST, from users and probes.
    last_trim_s
        Seconds since 1970 UTC; NaN: never.
    amplification
        Units that drives wrote for each unit of the host, over the trailing window.
    flash_written_total
        Bytes that drives wrote, copies included, without parity.
    refused_quota_bytes, refused_space_bytes
        Of the whole, since the start.
    inodes_used, creates
        Of each MDT: files that are there, and files made since the start.
    """

    capacity_bytes: Array
    used_bytes: Array
    closed_by_gating: Bools
    closed_by_hand: Bools
    answers: Bools
    failover_active: Bools
    degraded: Bools
    server: NDArray[np.int64]
    bytes_written_total: Array
    bytes_read_total: Array
    bytes_discarded_total: Array
    flash_written_total: Array
    last_trim_s: Array
    amplification: Array
    free_extent_mean_bytes: Array
    allocator_requests_total: Array
    names_resolve: bool = True
    out_of_space: bool = False
    refused_quota_bytes: float = 0.0
    refused_space_bytes: float = 0.0
    inodes_total: float = 0.0
    inodes_used: Array = field(default_factory=lambda: np.zeros(0))
    creates: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def empty(cls, columns: int, capacity_bytes: float) -> State:
        """Return the state of empty OSTs."""
        arrays: dict[str, Any] = {
            one.name: np.zeros(0, _DTYPES.get(one.name, float))
            for one in fields(cls)
            if one.name not in _WHOLE
        }
        made = cls(**arrays)
        made.add(columns, capacity_bytes)
        return made

    def add(self, columns: int, capacity_bytes: float) -> None:
        """Append empty columns."""
        for one in fields(self):
            if one.name not in _WHOLE:
                first = _FIRST.get(one.name, 0)
                old = getattr(self, one.name)
                more = np.full(columns, first, old.dtype)
                setattr(self, one.name, np.concatenate([old, more]))
        self.capacity_bytes[len(self.capacity_bytes) - columns :] = capacity_bytes

    def start_mdts(self, mdts: Mdts) -> None:
        """Make MDTs."""
        self.inodes_total = mdts.inodes
        self.inodes_used, self.creates = np.zeros(mdts.count), np.zeros(mdts.count)

    @property
    def available_bytes(self) -> Array:
        """Bytes that are free."""
        return self.capacity_bytes - self.used_bytes

    @property
    def fullness(self) -> Array:
        """Used part."""
        return self.used_bytes / self.capacity_bytes

    @property
    def create_enabled(self) -> Bools:
        """Whether new files may come."""
        return ~(self.closed_by_gating | self.closed_by_hand)


_WHOLE = frozenset(
    {
        "names_resolve",
        "out_of_space",
        "refused_quota_bytes",
        "refused_space_bytes",
        "inodes_total",
        "inodes_used",
        "creates",
    }
)
_DTYPES: dict[str, type] = {
    "closed_by_gating": bool,
    "closed_by_hand": bool,
    "answers": bool,
    "failover_active": bool,
    "degraded": bool,
    "server": np.int64,
}
_FIRST: dict[str, float | bool] = {"answers": True, "last_trim_s": np.nan, "amplification": 1.0}
