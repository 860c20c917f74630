"""An OST with its share of a server: ceilings of writes and reads.

========================  ======================================================================
drives                    array of fresh drives / write amplification x window factor
processor                 cores / (base + groups looked at x time per group + checksums)
network                   line rate x LNet; only for what comes from clients
========================  ======================================================================

The window factor is the effect of collection and writeback throttling within seconds
(`trimtab.twin.simulation.ost_rate`); 1 without both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from trimtab.twin.simulation import hardware
from trimtab.twin.simulation.fitted_constant import FITTED, Constants
from trimtab.twin.simulation.hardware import OstHardware, small_operations_per_s
from trimtab.twin.simulation.ost_array import Array, OstRates

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
