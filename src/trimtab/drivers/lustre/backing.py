"""The backing file system of a target on its server: ldiskfs or ZFS, devices, drives.

Uses the code for local file systems, with a `CollectedHost` in place of the server's ``/proc`` and
``/sys``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trimtab.drivers.local.allocator import Ext4
from trimtab.drivers.local.counters import read_write_times
from trimtab.drivers.local.devices import devices_beneath
from trimtab.drivers.local.telemetry import MountedState
from trimtab.drivers.lustre.collected import CollectedHost
from trimtab.drivers.lustre.view import ServerView
from trimtab.drivers.protocol import WriteTimes
from trimtab.launch.bounded import Space
from trimtab.model.filesystem import BlockDevice, PathDescription
from trimtab.model.mounts import Mount
from trimtab.model.telemetry import NotAvailable, not_available

_KIB: Final = 1024
_NO_DEVICE: Final = "0:0"


def write_times_of(backing: MountedState, target: str) -> WriteTimes | NotAvailable:
    """Return the write times of all drives together; ``target`` is for the reason."""
    writes, busy_s = 0, 0.0
    for drive in backing.description.own_drives:
        times = read_write_times(backing.host, drive.name)
        if isinstance(times, NotAvailable):
            return times
        writes, busy_s = writes + times.writes, busy_s + times.busy_s
    if not writes:
        return not_available("no-writes", f"no drive beneath {target} has counted a write")
    return WriteTimes(writes, busy_s)


def several_drives(description: PathDescription) -> tuple[BlockDevice, ...]:
    """Return the drives, if there are several; a single one is listed like other devices."""
    drives = description.own_drives
    return drives if len(drives) > 1 else ()


def read_backing(server: ServerView, target: str) -> MountedState:
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
    space = _space(server, kind, prefix)
    return MountedState(host, description, space, ext4, server.trim_timer, host.execute)


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
