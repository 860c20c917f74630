"""Arrays over OSTs: columns, random streams, text in a diary, and ceilings of writes and reads.

Most arrays of the twin have one value per column, and each column represents one or more real OSTs.
An OST with its share of a server has these ceilings:

========================  ======================================================================
drives                    array of fresh drives / write amplification x window factor
processor                 cores / (base + groups looked at x time per group + checksums)
network                   line rate x LNet; only for what comes from clients
========================  ======================================================================

The window factor is the effect of collection and writeback throttling within seconds
(`trimtab.twin.simulation.ost_rate`); 1 without both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import ArrayLike, DTypeLike, NDArray

from trimtab.base.error import UsageError
from trimtab.twin.simulation import hardware
from trimtab.twin.simulation.hardware import FITTED, Constants, OstHardware, small_operations_per_s

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OstRates:
    """Writes and reads of each OST, bytes/s: its own capability, or users' demand."""

    write: Array
    read: Array


class _Key(ISeedSequence):
    """A raw key for Philox; given a plain key, NumPy would first read system entropy."""

    def __init__(self, digest: bytes) -> None:
        self._words = np.frombuffer(digest, "<u8")

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        """Return the two words that Philox requests."""
        return self._words


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the reproducible generator of a seed and names.

    Parameters
    ----------
    seed
        Seed of the scenario.
    names
        Subject of the draws: a noun, then an epoch or an entity. An additional fault has its own
        names and so does not change users' draws.
    """
    text = "\0".join([str(seed), *map(str, names)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    # Philox accepts any raw key; generators that hash a seed first take longer than the draws.
    # NumPy accepts any ISeedSequence; its stubs know only its own.
    return np.random.Generator(np.random.Philox(_Key(digest)))  # pyrefly: ignore[bad-argument-type]


def folded(values: Array) -> list[tuple[float, str]]:
    """Return each nonzero value with its OSTs, for actions of guests and the diary.

    A value occurs once, with the ranges of its OSTs: a job writes equally to most.

    Examples
    --------
    >>> folded(np.array([8.0, 8.0, 0.0, 7.0]))
    [(8.0, '0-1'), (7.0, '3')]
    """
    distinct = sorted(set(values[values != 0.0].tolist()), reverse=True)
    return [(value, _ranges(np.flatnonzero(values == value))) for value in distinct]


def unfolded(folded: Sequence[tuple[float, str]], osts: int) -> Array:
    """Return a value for each real OST: that of its range, or 0.

    Raises
    ------
    UsageError
        A range is invalid or goes beyond the last OST.

    Examples
    --------
    >>> unfolded([(8.0, "0-1"), (7.0, "3")], 5).tolist()
    [8.0, 8.0, 0.0, 7.0, 0.0]
    """
    values = np.zeros(osts)
    for value, ranges in folded:
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            whole = first.isdecimal() and (last or first).isdecimal()
            if not whole or not int(first) <= int(last or first) < osts:
                raise UsageError(f"{part!r} is not a range of {osts} OSTs", code="ost-unknown")
            values[int(first) : int(last or first) + 1] = value
    return values


def _ranges(numbers: Integers) -> str:
    """Return ascending numbers as ranges: ``0-3,7``."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    parts = np.split(numbers, breaks)
    return ",".join(f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


@dataclass(frozen=True, slots=True)
class OstColumns:
    """The columns of a simulation.

    Attributes
    ----------
    member
        Column of each real OST.
    weight
        Number of real OSTs of each column.
    first
        The lowest-numbered real OST of each column.
    """

    member: Integers
    weight: Array
    first: Integers

    @property
    def count(self) -> int:
        """Number of columns."""
        return len(self.weight)

    @property
    def osts(self) -> int:
        """Number of real OSTs."""
        return len(self.member)

    def means(self, values: Array) -> Array:
        """Return the mean over each column's real OSTs."""
        return np.bincount(self.member, values, minlength=self.count) / self.weight


def columns_of(count: int, classes: int | None, apart: Collection[int] = ()) -> OstColumns:
    """Return the columns of ``count`` OSTs.

    Parameters
    ----------
    classes
        Number of columns for all OSTs; ``None``: one per OST.
    apart
        Numbers of OSTs that always get their own column, because of events of their own.
    """
    return _joined(_members(0, count, classes, apart))


def with_more(
    columns: OstColumns, count: int, classes: int | None, apart: Collection[int]
) -> OstColumns:
    """Return the columns after OSTs were added: the old ones unchanged, then the new ones.

    Parameters
    ----------
    count
        Number of all OSTs, old and new. New ones are empty and so share no column with old ones;
        they get classes in proportion to their number, at least one.
    """
    old = columns.osts
    share = None if classes is None else max(1, round(classes * (count - old) / count))
    return _joined(columns.member, _members(old, count, share, apart) + columns.count)


def _members(start: int, stop: int, classes: int | None, apart: Collection[int]) -> Integers:
    alone = [ost for ost in range(start, stop) if ost in apart]
    together = [ost for ost in range(start, stop) if ost not in apart]
    kinds = len(together) if classes is None else min(classes, len(together))
    if classes is None:
        return np.arange(stop - start)
    member = np.empty(stop - start, np.int64)
    for place, ost in enumerate(together):
        member[ost - start] = place % kinds
    for place, ost in enumerate(alone):
        member[ost - start] = kinds + place
    return member


def _joined(*parts: Integers) -> OstColumns:
    member = np.concatenate(parts)
    _, first = np.unique(member, return_index=True)
    return OstColumns(member, np.bincount(member).astype(float), first.astype(np.int64))


REQUEST_BYTES: Final = 1024**2
BASE_CORE_S: Final = 0.4e-3
"""CPU time of a 1 MiB write without the allocator's; assumed. It must be below
32 cores / (34 GB/s / 1 MiB) = 1 ms, since an E1000 writes that with faster drives (source S5)."""


def request_core_s(groups_considered: ArrayLike, constants: Constants = FITTED) -> Array:
    """Return the core time of one 1 MiB write, without checksums."""
    groups = np.asarray(groups_considered, dtype=np.float64)
    return BASE_CORE_S + groups * constants.allocator_s_per_group


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Ceilings of OSTs, without drives' copies and allocators' searches.

    Attributes
    ----------
    fresh_bytes_per_s, drive_write_factor
        For an array of fresh drives.
    work, checksum_s, group_s
        Cores of each OST; core seconds for a request's checksums, and for each group.
    line_bytes_per_s, path
        Ceilings of the network and the client path; ``None`` if not used.
    read
        Bytes per second; independent of writes.
    """

    fresh_bytes_per_s: float
    drive_write_factor: Array
    work: Array
    checksum_s: float
    group_s: float
    line_bytes_per_s: Array | None
    path: float
    read: Array

    def rates(
        self,
        amplification: Array | float = 1.0,
        *,
        window: Array | float = 1.0,
        groups_considered: Array | float = 0.0,
    ) -> OstRates:
        """Return the current possible writes and reads of OSTs.

        Parameters
        ----------
        amplification
            Write amplification, per OST.
        window
            Factor of collection and throttling within seconds, per OST.
        groups_considered
            Block groups of the real OST that one request of 1 MiB searches, per OST: useless loops
            per request times `OstHardware.groups`, or the miniature's count scaled by groups.
        """
        drives = self.drives(amplification, window)
        request_s = BASE_CORE_S + groups_considered * self.group_s
        if self.checksum_s:
            request_s = request_s + self.checksum_s
        write = np.minimum(drives, self.work / request_s * REQUEST_BYTES)
        if self.line_bytes_per_s is not None:
            write = np.minimum(write, self.line_bytes_per_s) * self.path
        return OstRates(write, self.read)

    def drives(self, amplification: Array | float = 1.0, window: Array | float = 1.0) -> Array:
        """Return the drives' ceiling on writes, without processors and network."""
        return self.fresh_bytes_per_s * (window * self.drive_write_factor) / amplification


def ceilings_of(
    machine: OstHardware,
    *,
    drive_write_factor: ArrayLike = 1.0,
    drive_read_factor: ArrayLike = 1.0,
    server_share: ArrayLike = 1.0,
    from_clients: bool = False,
    checksums: bool = False,
    constants: Constants = FITTED,
) -> Ceilings:
    """Return the ceilings of OSTs, which stay constant over epochs of a simulation.

    Parameters
    ----------
    drive_write_factor, drive_read_factor
        For a slow, missing or rebuilding drive: an operation ends with its slowest drive.
    server_share
        Fraction of the server's CPU, memory and network: 0.5 while it serves a second OST.
    from_clients
        Whether the network and client path are used; not for obdfilter-survey.
    checksums
        Checksums of clients' data, which the server recomputes.
    """
    share = np.asarray(server_share, dtype=np.float64)
    host = machine.platform.host(constants)
    path, line = 1.0, None
    read = np.minimum(
        machine.drives * machine.drive_read_bytes_per_s * np.asarray(drive_read_factor),
        machine.memory_bytes_per_s * share / constants.memory_passes,
    )
    if from_clients:
        ports = machine.network_bytes_per_s * share
        path = hardware.shrunk(constants.client_path_efficiency, host)
        line = ports * hardware.port_write_bytes_per_s(1.0, machine.platform, constants)
        read = np.minimum(read, ports * hardware.port_read_bytes_per_s(1.0, constants)) * path
    with_checksums = constants.checksum_core_s_per_byte * REQUEST_BYTES
    return Ceilings(
        fresh_bytes_per_s=hardware.array_write_bytes_per_s(machine, constants),
        drive_write_factor=np.asarray(drive_write_factor, dtype=np.float64),
        work=machine.cores * host * share,
        checksum_s=with_checksums if from_clients and checksums else 0.0,
        group_s=constants.allocator_s_per_group,
        line_bytes_per_s=line,
        path=path,
        read=read,
    )


def small_reads_per_s(machine: OstHardware, constants: Constants = FITTED) -> float:
    """Return random 4 KiB reads of one OST through clients, limited by drives or cores."""
    of_drives = machine.drives * small_operations_per_s(
        machine.drive_read_iops, machine.drive_read_bytes_per_s
    )
    of_cores = machine.cores * machine.platform.host(constants) / constants.small_read_core_s
    return min(of_drives, of_cores)
