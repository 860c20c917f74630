"""Hardware figures for the layers, computed once from a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.scenario.geometry import ost_capacity_bytes
from trimtab.twin.scenario.model import Osts, Raid, Server, ServerGeneration

GROUP_BYTES: Final = 128 * 1024**2
"""A block group of ldiskfs with 4 KiB blocks."""


@dataclass(frozen=True, slots=True)
class Platform:
    """Published figures of a generation of servers.

    Attributes
    ----------
    memory_bytes_per_s
        Channels x transfers x 8 bytes.
    faster_host
        Whether host overheads shrink by `Constants.host_factor_e2000`.
    slingshot
        Whether servers fetch writes over Slingshot.
    """

    name: str
    memory_bytes_per_s: float
    faster_host: bool
    slingshot: bool

    def host(self, constants: Constants = FITTED) -> float:
        """Return the speed of a core relative to an E1000's."""
        return constants.host_factor_e2000 if self.faster_host else 1.0


E1000: Final = Platform("e1000", 8 * 3.2e9 * 8, faster_host=False, slingshot=True)
"""8 DIMMs of DDR4-3200 (source S5, Table 2)."""
E2000: Final = Platform("e2000", 12 * 4.8e9 * 8, faster_host=True, slingshot=False)
"""12 DIMMs of DDR5-4800 (source S5, Table 2)."""

_PLATFORMS: Final[Mapping[ServerGeneration, Platform]] = {"e1000": E1000, "e2000": E2000}


@dataclass(frozen=True, slots=True)
class Hardware:
    """One kind of OST with its share of a server.

    Attributes
    ----------
    drives
        Number of drives whose full speed this OST gets while all OSTs work; a fraction of shared
        drives.
    drive_write_bytes_per_s, drive_read_bytes_per_s
        Of one drive, as reachable through its controllers.
    groups
        Block groups of the real OST.
    cores, memory_bytes_per_s, network_bytes_per_s
        Of the server, divided by its number of OSTs.
    """

    drives: float
    drive_write_bytes_per_s: float
    drive_read_bytes_per_s: float
    drive_read_iops: float
    drive_write_iops: float
    drive_capacity_bytes: float
    raid: Raid
    groups: float
    cores: float
    memory_bytes_per_s: float
    network_bytes_per_s: float
    platform: Platform


def small_operations_per_s(iops: float, bytes_per_s: float) -> float:
    """Return random 4 KiB operations of one drive: its data sheet's, limited by its link.

    >>> round(12 * small_operations_per_s(1_450_000, 3.5e9) / 1e6, 1)
    10.3
    """
    return min(iops, bytes_per_s / 4096)


def platform_of(server: Server) -> Platform:
    """Return the platform of a server's generation."""
    return _PLATFORMS[server.generation]


def hardware(osts: Osts, server: Server) -> Hardware:
    """Return the hardware figures of a scenario."""
    platform = platform_of(server)
    drive = osts.drive
    # Drives with OSTs on both controllers are reached through both links.
    links = 2 if osts.raid.shared > osts.per_server else 1
    link = float("inf") if osts.link_bytes_per_s is None else links * osts.link_bytes_per_s
    return Hardware(
        drives=osts.raid.drives / osts.raid.shared,
        drive_write_bytes_per_s=min(drive.write_bytes_per_s, link),
        drive_read_bytes_per_s=min(drive.read_bytes_per_s, link),
        drive_read_iops=drive.read_iops,
        drive_write_iops=drive.write_iops,
        drive_capacity_bytes=drive.capacity_bytes,
        raid=osts.raid,
        groups=ost_capacity_bytes(osts) / GROUP_BYTES,
        cores=server.cores / osts.per_server,
        memory_bytes_per_s=platform.memory_bytes_per_s / osts.per_server,
        network_bytes_per_s=server.network_bytes_per_s / osts.per_server,
        platform=platform,
    )
