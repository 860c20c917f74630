"""A simulated file system as a client node sees it, for checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from trimtab.drivers.local.counters import DeviceBytes
from trimtab.errors import UsageError
from trimtab.model.filesystem import PathDescription
from trimtab.model.telemetry import (
    TELEMETRY_UNITS,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
)
from trimtab.model.trim import TrimPractice
from trimtab.twin.driver import TwinDriver
from trimtab.twin.instruments.layout import identity_of
from trimtab.twin.instruments.snapshots import SOURCE
from trimtab.visible import visible

_SERVERS: Final = "visible only on the servers, not on a client"
_SETS_NOTHING: Final = "clients of the twin have no settings to write"


class TwinPath(TwinDriver):
    """The twin through a path on its mount, without what only servers see or do.

    Raises
    ------
    UsageError
        There is no such path.
    """

    capabilities = frozenset({"settings", "placement"})

    def __init__(self, driver: TwinDriver, path: str) -> None:
        state = driver.guest.describe(path)
        if not state.exists:
            raise UsageError(f"{visible(path)} does not exist on the twin", code="path-missing")
        self.life, self.guest, self.programs = driver.life, driver.guest, driver.programs
        scenario = driver.life.scenario
        self.description = PathDescription(
            path=path,
            real_path=path.rstrip("/") or "/",
            mount_point=driver.guest.path,
            kind="lustre",
            fs_type="lustre",
            source=f"twin:/{scenario.name}",
            options=("rw",),
            fs_uuid=identity_of(scenario),
            notes=("it is simulated",),
        )

    def targets(self) -> tuple[Target, ...]:
        """Return the file system as one target."""
        return (Target(self.description.mount_point, "file-system"),)

    def snapshot(self, at: datetime) -> Snapshot:
        """Return what ``df`` sees."""
        space = self.guest.space()
        known: Mapping[str, float | bool] = {
            "capacity_bytes": space.capacity_bytes,
            "used_bytes": space.used_bytes,
            "available_bytes": space.available_bytes,
            "inodes_total": space.inodes,
            "inodes_free": space.inodes_free,
            "read_only": False,
        }
        readings = tuple(
            Reading(name, known[name], SOURCE) if name in known else Reading(name, reason=_SERVERS)
            for name in TELEMETRY_UNITS
        )
        return Snapshot(at, self.name, True, (TargetSnapshot(self.targets()[0], readings),))

    def drive_bytes(self) -> Mapping[str, DeviceBytes]:
        """Return nothing: a client sees no drives."""
        return {}

    @contextmanager
    def allocator_counting(self, target: str, *, allowed: bool) -> Iterator[NotAvailable | None]:
        """Answer that a client has no allocator."""
        yield NotAvailable(_SERVERS)

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return the settings of a client."""
        simulation = self.life.simulation
        clients = simulation.scenario.clients
        return {
            "osc/checksums": Setting("osc/checksums", str(int(clients.checksums)), SOURCE),
        }

    def set(self, target: str, name: str, value: str) -> NotAvailable:
        """Answer that a client has no settings to write."""
        return NotAvailable(_SETS_NOTHING)

    def set_permanent(self, target: str, name: str, value: str | None) -> NotAvailable:
        """Answer that a client has no settings to write."""
        return NotAvailable(_SETS_NOTHING)

    @property
    def dead_man_s(self) -> NotAvailable:
        """Why nothing is reverted."""
        return NotAvailable(_SETS_NOTHING)

    def trim(self, target: str, start: int = 0, length: int | None = None) -> NotAvailable:
        """Answer that a client cannot trim."""
        return NotAvailable("a client cannot trim; OSTs are trimmed on their servers")

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Answer that a client does not see it."""
        return NotAvailable(_SERVERS)

    def write_times(self, target: str) -> NotAvailable:
        """Answer that a client does not see them."""
        return NotAvailable(_SERVERS)

    def set_creation(self, target: str, enabled: bool) -> NotAvailable:
        """Answer that a client cannot do it."""
        return NotAvailable("a client cannot open or close targets")

    def reset_allocator(self, target: str) -> NotAvailable:
        """Answer that a client cannot do it."""
        return NotAvailable(_SERVERS)
