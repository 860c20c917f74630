"""What the layers need to know of a file system's machines, worked out once from a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.scenario.model import DriveModel, Osts, Raid, Server

GROUP_BYTES: Final = 128 * 1024**2
"""A block group of ldiskfs with 4 KiB blocks."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A generation of servers: what is printed of it.

    Attributes
    ----------
    port_bytes_per_s
        What two lanes carry to one slot from one controller.
    memory_bytes_per_s
        Channels x transfers x 8 bytes.
    faster_host
        Whether overheads of the host shrink by `Constants.host_factor_e2000`.
    slingshot
        Whether servers fetch writes over Slingshot.
    """

    name: str
    port_bytes_per_s: float
    memory_bytes_per_s: float
    faster_host: bool
    slingshot: bool

    def host(self, constants: Constants = FITTED) -> float:
        """Return the work of a core as a multiple of one of an E1000."""
        return constants.host_factor_e2000 if self.faster_host else 1.0


E1000: Final = Platform("e1000", 3.5 * 1024**3, 8 * 3.2e9 * 8, False, True)
"""Half of the port below: PCIe Gen4; 8 DIMMs of DDR4-3200 (seed 004, Table 2)."""
E2000: Final = Platform("e2000", 7.0 * 1024**3, 12 * 4.8e9 * 8, True, False)
"""About 7 GiB/s a slot and controller observed; 12 DIMMs of DDR5-4800 (seed 004)."""

_GEN5_WRITE_BYTES_PER_S = 5e9


@dataclass(frozen=True, slots=True)
class Hardware:
    """One kind of OST with its part of a server.

    Attributes
    ----------
    drives
        Whose whole speed this OST gets while all OSTs work: with shared drives a fraction of them.
    drive_write_bytes_per_s, drive_read_bytes_per_s
        Of one drive, as the controllers that serve it can reach it.
    groups
        Block groups of the real OST.
    cores, memory_bytes_per_s, network_bytes_per_s
        Of the server, divided by its OSTs.
    """

    drives: float
    drive_write_bytes_per_s: float
    drive_read_bytes_per_s: float
    drive_read_iops: float
    drive_write_iops: float
    raid: Raid
    groups: float
    cores: float
    memory_bytes_per_s: float
    network_bytes_per_s: float
    platform: Platform


def platform_of(drive: DriveModel) -> Platform:
    """Return the generation of servers that a drive belongs to: only Gen5 writes over 5 GB/s."""
    return E2000 if drive.write_bytes_per_s > _GEN5_WRITE_BYTES_PER_S else E1000


def capacity_bytes(osts: Osts) -> float:
    """Return what one OST holds: its drives without distributed spares and parity.

    >>> from trimtab.twin.scenario.model import DriveModel
    >>> drive = DriveModel("pm1733", 15.36e12, 3.5e9, 3.2e9, 8e5, 135e3, 0.127, 1)
    >>> round(capacity_bytes(Osts(274, drive)) / 1e12)
    135
    """
    if osts.capacity_bytes is not None:
        return osts.capacity_bytes
    raid = osts.raid
    if raid.kind == "raid10":
        useful = raid.drives / 2
    else:
        useful = (raid.drives - raid.spares) * raid.data / (raid.data + raid.parity)
    return useful * osts.drive.capacity_bytes / raid.shared


def hardware(osts: Osts, server: Server, platform: Platform | None = None) -> Hardware:
    """Return what the layers need of the machines of a scenario.

    Parameters
    ----------
    platform
        ``None``: by the drives.
    """
    platform = platform or platform_of(osts.drive)
    drive = osts.drive
    # Shared drives are served by both controllers, through a port each.
    ports = 2 if osts.raid.shared > 1 else 1
    port = platform.port_bytes_per_s
    # A rate within one port's is what one server sees; over it, it is the drive's own.
    read = drive.read_bytes_per_s * (ports if drive.read_bytes_per_s <= port else 1)
    return Hardware(
        drives=osts.raid.drives / osts.raid.shared,
        drive_write_bytes_per_s=min(drive.write_bytes_per_s, ports * port),
        drive_read_bytes_per_s=min(read, ports * port),
        drive_read_iops=drive.read_iops,
        drive_write_iops=drive.write_iops,
        raid=osts.raid,
        groups=capacity_bytes(osts) / GROUP_BYTES,
        cores=server.cores / osts.per_server,
        memory_bytes_per_s=platform.memory_bytes_per_s / osts.per_server,
        network_bytes_per_s=server.network_bytes_per_s / osts.per_server,
        platform=platform,
    )
