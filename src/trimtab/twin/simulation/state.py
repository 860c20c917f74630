"""The current state of each column, with the names of telemetry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np

from trimtab.twin.arrays import Array, Flags, Integers
from trimtab.twin.simulation.layout import LOOPS


@dataclass(slots=True)
class State:
    """Arrays over columns, for one OST of each, and totals of the whole.

    Attributes
    ----------
    guest_bytes
        Part of the used bytes: files of probes outside the scenario.
    closed_by_gating, closed_by_hand
        Why a column accepts no new files.
    answers
        False for a silent OST.
    bytes_written_total, client_bytes_written_total
        Bytes to the OST from users and probes; the latter without surveys, which involve no client.
    bytes_read_total, client_bytes_read_total
        Likewise.
    write_bytes_per_s
        Mean of the last epoch.
    last_trim_s
        Seconds since 1970 UTC; NaN: never.
    amplification
        Units that drives wrote for each unit of the host, over the trailing window.
    flash_written_total
        Bytes written by drives, with copies, without parity.
    refused_quota_bytes, refused_space_bytes
        Of the whole, since the start.
    queued_bytes
        For the whole: pending bytes of users' jobs; below 0 if they wrote ahead.
    slowed_bytes
        For the whole, since the start: bytes never written because jobs waited too long.
    useless_loops_total, groups_considered_total
        Counters of the allocator: criteria x columns, at the scale of a real OST.
    """

    capacity_bytes: Array
    used_bytes: Array
    guest_bytes: Array
    closed_by_gating: Flags
    closed_by_hand: Flags
    answers: Flags
    failover_active: Flags
    degraded: Flags
    server: Integers
    bytes_written_total: Array
    client_bytes_written_total: Array
    write_bytes_per_s: Array
    bytes_read_total: Array
    client_bytes_read_total: Array
    bytes_discarded_total: Array
    flash_written_total: Array
    last_trim_s: Array
    amplification: Array
    allocator_requests_total: Array
    useless_loops_total: Array
    groups_considered_total: Array
    names_resolve: bool = True
    out_of_space: bool = False
    refused_quota_bytes: float = 0.0
    refused_space_bytes: float = 0.0
    queued_bytes: float = 0.0
    slowed_bytes: float = 0.0

    @classmethod
    def empty(cls, columns: int, capacity_bytes: float) -> State:
        """Return the state of empty OSTs."""
        arrays: dict[str, Any] = {
            name: np.full(
                (len(LOOPS), columns) if name in _BY_LOOP else columns, _FIRST.get(name, 0), dtype
            )
            for name, dtype in _COLUMNS.items()
        }
        return cls(**arrays | {"capacity_bytes": np.full(columns, capacity_bytes)})

    def add(self, columns: int, capacity_bytes: float) -> None:
        """Append empty columns."""
        more = State.empty(columns, capacity_bytes)
        for name in _COLUMNS:
            joined = np.concatenate([getattr(self, name), getattr(more, name)], axis=-1)
            setattr(self, name, joined)

    @property
    def available_bytes(self) -> Array:
        """Free bytes."""
        return self.capacity_bytes - self.used_bytes

    @property
    def fullness(self) -> Array:
        """Used part."""
        return self.used_bytes / self.capacity_bytes

    def fullness_after(self, expected: Array) -> Array:
        """Return an upper bound of columns' fullness after expected writes.

        An OST rarely gets more than four times the expected bytes, through large files.
        """
        return self.fullness + 4.0 * expected / self.capacity_bytes

    @property
    def create_enabled(self) -> Flags:
        """Whether new files may be created."""
        return ~(self.closed_by_gating | self.closed_by_hand)


_BY_LOOP = frozenset({"useless_loops_total", "groups_considered_total"})
_DTYPES: dict[Any, type] = {Array: float, Flags: bool, Integers: np.int64}
_COLUMNS = {name: _DTYPES[kind] for name, kind in get_type_hints(State).items() if kind in _DTYPES}
"""Data type of each array; other fields are totals of the whole."""
_FIRST: dict[str, float | bool] = {"answers": True, "last_trim_s": np.nan, "amplification": 1.0}
