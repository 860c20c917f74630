"""The table of drivers and their properties; `trimtab.loop.sites.opener_of` opens them.

To add a driver, add its package, one line here, its opener, and its page of documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.model.filesystem import PathKind


@dataclass(frozen=True, slots=True)
class DriverEntry:
    """One driver as the rest of the code sees it.

    Attributes
    ----------
    name
        Its value of ``[site] driver``.
    title
        Its name in sentences.
    networked
        Whether clients reach the file system over a network.
    mounted_as
        Mount type that selects this driver without a site file; ``None``: none does.
    named
        Whether the file system has a name of its own: ``[site] file_system``.
    has_servers
        Whether the driver can query servers: ``[servers]``.
    places_files
        Whether a probe can choose the targets on which files are placed.
    simulated
        Whether the driver has its own clock and needs ``[site] scenario``.
    programs
        Programs it runs on this host.
    """

    name: str
    title: str
    networked: bool
    mounted_as: PathKind | None = None
    named: bool = False
    has_servers: bool = False
    places_files: bool = False
    simulated: bool = False
    programs: tuple[str, ...] = ()


LOCAL: Final = DriverEntry("local", "a local file system", networked=False)
"""Also handles every mount that no other driver does."""

DRIVERS: Final = {
    entry.name: entry
    for entry in (
        LOCAL,
        DriverEntry(
            "lustre",
            "Lustre",
            networked=True,
            mounted_as="lustre",
            named=True,
            has_servers=True,
            places_files=True,
            programs=("lfs", "lctl"),
        ),
        DriverEntry("twin", "the twin", networked=True, simulated=True),
    )
}
"""By name, in the order of the documentation."""


def driver_of_mount(kind: PathKind) -> DriverEntry:
    """Return the driver for a kind of mount; `LOCAL` if no other driver handles it."""
    return next((entry for entry in DRIVERS.values() if entry.mounted_as == kind), LOCAL)
