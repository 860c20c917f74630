"""The backing file system of a target on its server: ldiskfs or ZFS, devices, drives.

Uses the code for local file systems, with a `CollectedHost` in place of the server's ``/proc`` and
``/sys``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trimtab.drivers.local import settings as named
from trimtab.drivers.local.allocator import Ext4
from trimtab.drivers.local.counters import read_bytes_of, read_write_times
from trimtab.drivers.local.devices import devices_beneath
from trimtab.drivers.local.smart import read_drive
from trimtab.drivers.local.telemetry import LocalState, readings
from trimtab.drivers.local.trim import Timer, trim_practice
from trimtab.drivers.lustre.collected import CollectedHost
from trimtab.drivers.lustre.view import ServerView
from trimtab.drivers.protocol import WriteTimes
from trimtab.launch.bounded import Space
from trimtab.model.filesystem import BlockDevice, PathDescription
from trimtab.model.mounts import Mount
from trimtab.model.telemetry import NotAvailable, Reading, Setting, not_available
from trimtab.model.trim import TrimPractice

_KIB: Final = 1024
_NO_DEVICE: Final = "0:0"


@dataclass(frozen=True, slots=True)
class Backing:
    """The backing file system of one target, as mounted on its server.

    Attributes
    ----------
    description
        The server's mount point, ldiskfs's own options and the devices beneath.
    ext4
        Location of ldiskfs's counters; ``None`` for ZFS.
    space
        As the object storage device counts it, without deducting grants.
    """

    host: CollectedHost
    description: PathDescription
    ext4: Ext4 | None
    space: Space | NotAvailable
    timer: Timer

    def readings(self, cpu_fraction: float | NotAvailable) -> tuple[Reading, ...]:
        """Return the contract's telemetry, as for a local file system."""
        # Reading the drives' health takes as long as all the rest.
        state = LocalState(
            description=self.description,
            space=self.space,
            ext4=self.ext4,
            timer=self.timer,
            cpu_fraction=cpu_fraction,
            drives=tuple(
                reading
                for drive in self.description.own_drives
                for reading in read_drive(self.host, drive, self.host.execute)
            ),
        )
        return readings(self.host, state)

    def trim_practice(self) -> TrimPractice | NotAvailable:
        """Return how the target is trimmed, as far as its server shows."""
        devices = self.description.devices
        if not devices:
            return not_available("no-device", "no underlying block device is visible")
        counters = read_bytes_of(self.host, devices[0], devices)
        discarded = counters if isinstance(counters, NotAvailable) else counters.discarded_bytes
        return trim_practice(
            self.host, self.description, timer=self.timer, discarded_bytes=discarded
        )

    def settings(self) -> dict[str, Setting | NotAvailable]:
        """Return every named setting of the file system and the devices above its drives."""
        drives = {drive.name for drive in self.drives}
        return named.read_settings(self.host, self.description, self.ext4, without=drives)

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Return the write times of all drives together; ``target`` is for the reason."""
        writes, busy_s = 0, 0.0
        for drive in self.description.own_drives:
            times = read_write_times(self.host, drive.name)
            if isinstance(times, NotAvailable):
                return times
            writes, busy_s = writes + times.writes, busy_s + times.busy_s
        if not writes:
            return not_available("no-writes", f"no drive beneath {target} has counted a write")
        return WriteTimes(writes, busy_s)

    @property
    def drives(self) -> tuple[BlockDevice, ...]:
        """The drives, if there are several; a single one is listed like other devices."""
        drives = self.description.own_drives
        return drives if len(drives) > 1 else ()


def read_backing(server: ServerView, target: str) -> Backing:
    """Return the backing file system of a target of this server."""
    prefix = f"{server.file_system}-{target}"
    kind, node = _kind_and_node(server, target, prefix)
    host = server.host
    mount = _mount(server, target, node)
    devices, notes = (), ["ZFS manages its drives itself: see zpool status"]
    ext4 = None
    if kind != "zfs":
        devices, unseen = devices_beneath(host, (), mount, link_rates=False)
        notes = list(unseen)
        ext4 = Ext4(devices[0].name, "ldiskfs") if devices else None
    options = _options(host, ext4, mount)
    description = PathDescription(
        path=mount.mount_point,
        real_path=mount.mount_point,
        mount_point=mount.mount_point,
        kind="local" if devices else "opaque",
        fs_type=kind,
        source=mount.source,
        options=options,
        read_only="ro" in options,
        devices=devices,
        notes=tuple(notes),
    )
    return Backing(
        host=host,
        description=description,
        ext4=ext4,
        space=_space(server, kind, prefix),
        timer=server.trim_timer,
    )


def _kind_and_node(server: ServerView, target: str, prefix: str) -> tuple[str, str | None]:
    """Return ``ldiskfs`` or ``zfs``, and the device or dataset of the target."""
    for kind in ("ldiskfs", "zfs"):
        node = server.parameters.get(f"osd-{kind}.{prefix}.mntdev")
        if node is not None:
            return kind, node
    mount = server.target_mounts.get(target)
    if mount is None:
        return "ldiskfs", None
    is_zfs = "osd=osd-zfs" in mount.all_options
    return ("zfs" if is_zfs else "ldiskfs"), mount.source


def _mount(server: ServerView, target: str, node: str | None) -> Mount:
    """Return the mount of a target with its device as source, constructed if not found."""
    mount = server.target_mounts.get(target)
    if mount is None:
        mount = Mount(
            mount_id=0,
            parent_id=0,
            device_number=_NO_DEVICE,
            root="/",
            mount_point=f"{target} on {server.name}",
            options=(),
            fs_type="ldiskfs",
            source=node or "",
            super_options=(),
        )
    return replace(mount, fs_type="ldiskfs", source=node or mount.source)


def _options(host: CollectedHost, ext4: Ext4 | None, mount: Mount) -> tuple[str, ...]:
    """Return ldiskfs's own mount options; the mount table has Lustre's."""
    if ext4 is not None:
        text = host.read_text(f"{ext4.statistics}/options")
        if not isinstance(text, NotAvailable):
            return tuple(text.split())
    return mount.all_options


def _space(server: ServerView, kind: str, prefix: str) -> Space | NotAvailable:
    numbers = {
        name: server.parameters.number(f"osd-{kind}.{prefix}.{name}")
        for name in ("kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree")
    }
    block = server.parameters.number(f"osd-{kind}.{prefix}.blocksize") or 4096
    known = {name: number for name, number in numbers.items() if number is not None}
    if len(known) < len(numbers):
        missing = next(name for name in numbers if name not in known)
        return NotAvailable(server.why_no("parameters", f"osd-{kind}.*.{missing}"))
    return Space(
        block_size_bytes=block,
        fragment_size_bytes=_KIB,
        blocks=known["kbytestotal"],
        blocks_free=known["kbytesfree"],
        blocks_available=known["kbytesavail"],
        inodes=known["filestotal"],
        inodes_free=known["filesfree"],
        flags=0,
    )
