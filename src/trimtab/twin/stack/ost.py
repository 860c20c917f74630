"""An OST and its part of a server: what it would write and read now, each ceiling by itself.

========================  ======================================================================
drives                    array of fresh drives / write amplification x window factor
processor                 cores / (base + groups looked at x time per group + checksums)
network                   line rate x LNet; only for what comes from clients
========================  ======================================================================

The window factor is what collection and writeback throttling leave within seconds
(`trimtab.twin.windows`); 1 where neither happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from trimtab.twin.arrays import Array
from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.stack import network, raid
from trimtab.twin.stack.hardware import Hardware, small_operations_per_s

REQUEST_BYTES: Final = 1024**2
BASE_CORE_S: Final = 0.4e-3
"""Processor time of a 1 MiB write apart from the allocator's: an assumption. It has to stay under
32 cores / (34 GB/s / 1 MiB) = 1 ms, since an E1000 writes that with faster drives (source S5)."""


@dataclass(frozen=True, slots=True)
class OstRates:
    """What OSTs would do now, bytes per second, one entry an OST.

    Attributes
    ----------
    write, read
        The least of what limits them.
    write_drives
        Ceiling of writes of the drives by themselves.
    """

    write: Array
    read: Array
    write_drives: Array


def request_core_s(groups_considered: ArrayLike, constants: Constants = FITTED) -> Array:
    """Return the time of a core for one write of 1 MiB without checksums."""
    groups = np.asarray(groups_considered, dtype=np.float64)
    return BASE_CORE_S + groups * constants.allocator_s_per_group


def rates(
    machine: Hardware,
    amplification: ArrayLike = 1.0,
    *,
    window: ArrayLike = 1.0,
    groups_considered: ArrayLike = 0.0,
    drive_write_factor: ArrayLike = 1.0,
    drive_read_factor: ArrayLike = 1.0,
    server_share: ArrayLike = 1.0,
    from_clients: bool = False,
    checksums: bool = False,
    constants: Constants = FITTED,
) -> OstRates:
    """Return what OSTs would write and read now if somebody asked for it all.

    Parameters
    ----------
    amplification
        Of writes, per OST.
    window
        Factor of collection and throttling within seconds, per OST.
    groups_considered
        Block groups of the real OST that one request of 1 MiB looks at, per OST: useless loops a
        request times `Hardware.groups`, or what the miniature counts scaled by groups.
    drive_write_factor, drive_read_factor
        Of a slow, missing or rebuilding drive: an operation ends with its slowest drive.
    server_share
        Of the server's processor, memory and network: 0.5 while it carries a second OST.
    from_clients
        Whether network and client path are passed: not by obdfilter-survey.
    checksums
        Of clients' data, which the server works out again.
    """
    ceilings = ceilings_of(
        machine,
        drive_write_factor=drive_write_factor,
        drive_read_factor=drive_read_factor,
        server_share=server_share,
        from_clients=from_clients,
        checksums=checksums,
        constants=constants,
    )
    drives, processor = ceilings.apart(
        np.asarray(amplification, dtype=np.float64),
        np.asarray(window, dtype=np.float64),
        np.asarray(groups_considered, dtype=np.float64),
    )
    every = np.broadcast_arrays(ceilings.through(drives, processor), ceilings.read, drives)
    return OstRates(*(ceiling.copy() for ceiling in every))


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What limits OSTs, apart from what their drives copy and their allocators look through.

    Attributes
    ----------
    fresh_bytes_per_s, drive_write_factor
        Of an array of fresh drives.
    work, checksum_s, group_s
        Cores of each OST; their seconds for the checksums of a request, and for each group.
    line_bytes_per_s, path
        What is left by the network, and of the rest by clients; ``None``: not passed.
    read
        Bytes per second: none of it depends on writes.
    """

    fresh_bytes_per_s: float
    drive_write_factor: Array
    work: Array
    checksum_s: float
    group_s: float
    line_bytes_per_s: Array | None
    path: float
    read: Array

    def apart(
        self, amplification: Array, window: Array, groups_considered: Array
    ) -> tuple[Array, Array]:
        """Return writes of drives, and of processors."""
        factor = window * self.drive_write_factor
        drives = self.fresh_bytes_per_s * factor / amplification
        request_s = BASE_CORE_S + groups_considered * self.group_s
        if self.checksum_s:
            request_s = request_s + self.checksum_s
        return drives, self.work / request_s * REQUEST_BYTES

    def through(self, drives: Array, processor: Array) -> Array:
        """Return what all layers let through of writes."""
        write = np.minimum(drives, processor)
        if self.line_bytes_per_s is None:
            return write
        return np.minimum(write, self.line_bytes_per_s) * self.path


def ceilings_of(
    machine: Hardware,
    *,
    drive_write_factor: ArrayLike,
    drive_read_factor: ArrayLike,
    server_share: ArrayLike,
    from_clients: bool,
    checksums: bool,
    constants: Constants,
) -> Ceilings:
    """Return what limits OSTs: what `rates` and each epoch of a simulation have in common."""
    share = np.asarray(server_share, dtype=np.float64)
    host = machine.platform.host(constants)
    path, line = 1.0, None
    read = np.minimum(
        machine.drives * machine.drive_read_bytes_per_s * np.asarray(drive_read_factor),
        machine.memory_bytes_per_s * share / constants.memory_passes,
    )
    if from_clients:
        ports = machine.network_bytes_per_s * share
        path = raid.shrunk(constants.client_path_efficiency, host)
        line = ports * network.write_bytes_per_s(1.0, machine.platform, constants)
        read = np.minimum(read, ports * network.read_bytes_per_s(1.0, constants)) * path
    with_checksums = constants.checksum_core_s_per_byte * REQUEST_BYTES
    return Ceilings(
        fresh_bytes_per_s=raid.write_bytes_per_s(machine, constants),
        drive_write_factor=np.asarray(drive_write_factor, dtype=np.float64),
        work=machine.cores * host * share,
        checksum_s=with_checksums if from_clients and checksums else 0.0,
        group_s=constants.allocator_s_per_group,
        line_bytes_per_s=line,
        path=path,
        read=read,
    )


def small_reads_per_s(machine: Hardware, constants: Constants = FITTED) -> float:
    """Return random 4 KiB reads of one OST through clients: its drives, or its cores."""
    of_drives = machine.drives * small_operations_per_s(
        machine.drive_read_iops, machine.drive_read_bytes_per_s
    )
    of_cores = machine.cores * machine.platform.host(constants) / constants.small_read_core_s
    return min(of_drives, of_cores)
