"""The storage stack below a path: mount, file system and block devices down to the drives."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

PathKind = Literal["local", "lustre", "network", "memory", "opaque"]
"""``local``: block devices are visible; ``opaque``: FUSE, overlay or unknown."""

DeviceKind = Literal[
    "disk",
    "partition",
    "loop",
    "device-mapper",
    "dm-multipath",
    "md",
    "nvme-multipath",
    "other",
]
MULTIPATH_KINDS: Final = frozenset({"dm-multipath", "nvme-multipath"})
"""One drive reached over several paths: the devices below are the paths."""
_DRIVE_THAT_KNOWS: Final = re.compile(r"(nvme\d|sd[a-z]|vd[a-z]|mmcblk\d|loop\d)")
"""Drives whose ``queue/rotational`` distinguishes disk from flash.

Others report 0 because nothing rotates: memory (``pmem``, ``ram``, ``zram``), and another
host's drive (``nbd``, ``drbd``, ``rbd``).
"""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One block device and the queue settings that matter for flash.

    Attributes
    ----------
    name
        The kernel's name, as under ``/sys/class/block`` (``nvme0n1``, ``dm-3``, ``loop0``).
    size_bytes
        Capacity.
    rotational
        ``queue/rotational``; a partition has its disk's. ``None`` if unknown.
    model, transport
        For a drive: model name and bus, as reported by the kernel.
    beneath
        Names of the devices that this device consists of; empty for a drive.
    backing_file
        For a loop device: the file that holds its blocks.
    direct_to_backing
        For a loop device: whether it bypasses the page cache of the backing file (``loop/dio``).
    writeback_throttling_s
        ``queue/wbt_lat_usec`` in seconds; 0 is off; ``None`` is not available.
    scheduler
        The active scheduler in ``queue/scheduler``.
    write_cache
        ``queue/write_cache``.
    logical_block_bytes
        Logical block size.
    discard_granularity_bytes, discard_max_bytes
        0: the device does not support discard.
    link_bytes_per_s
        Bandwidth of the bus in bytes per second (PCIe speed x width); ``None`` if unknown.
    link_max_bytes_per_s
        Bandwidth at the highest speed and width that both drive and port support.
    label
        Administrative name: a device-mapper name, an md level.
    """

    name: str
    kind: DeviceKind
    size_bytes: int | None = None
    rotational: bool | None = None
    model: str | None = None
    transport: str | None = None
    beneath: tuple[str, ...] = ()
    backing_file: str | None = None
    direct_to_backing: bool | None = None
    writeback_throttling_s: float | None = None
    scheduler: str | None = None
    write_cache: str | None = None
    logical_block_bytes: int | None = None
    discard_granularity_bytes: int | None = None
    discard_max_bytes: int | None = None
    link_bytes_per_s: float | None = None
    link_max_bytes_per_s: float | None = None
    label: str | None = None

    @property
    def is_flash(self) -> bool | None:
        """Whether the device is flash; ``None`` if unknown."""
        is_layer = bool(self.beneath) and self.kind != "loop"
        if self.rotational is None or not (is_layer or _DRIVE_THAT_KNOWS.match(self.name)):
            return None
        return not self.rotational


@dataclass(frozen=True, slots=True)
class PathDescription:
    """The mount, the file system and the block devices of a path.

    Attributes
    ----------
    path, real_path, mount_point
        As given; with symbolic links resolved; mount point of the file system.
    kind
        How far Trimtab can see into it.
    fs_type, source, options
        From ``/proc/self/mountinfo``: type, device or server, mount and superblock options.
    fs_uuid
        The file system's UUID if the system reports it; together with the mount point it
        identifies a path without a site.
    device_number
        ``major:minor`` of the mount.
    read_only
        Whether the mount or the file system rejects writes.
    devices
        Every block device below, nearest first; empty if none is visible.
    notes
        What is not visible, with the reasons, and other remarks.
    """

    path: str
    real_path: str
    mount_point: str
    kind: PathKind
    fs_type: str
    source: str
    options: tuple[str, ...] = ()
    fs_uuid: str | None = None
    device_number: str | None = None
    read_only: bool = False
    devices: tuple[BlockDevice, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def drives(self) -> tuple[BlockDevice, ...]:
        """The drives: devices that do not consist of other visible devices.

        A drive reached over several paths counts once, as its multipath device.
        """
        return _lowest(self.devices, MULTIPATH_KINDS)

    @property
    def own_devices(self) -> tuple[BlockDevice, ...]:
        """The devices down to the first loop device on each branch, nearest first.

        The file behind a loop device belongs to another file system.
        """
        by_name = {device.name: device for device in self.devices}
        devices: dict[str, BlockDevice] = {}
        waiting = [device.name for device in self.devices[:1]]
        while waiting:
            device = by_name.get(waiting.pop(0))
            if device is None or device.name in devices:
                continue
            devices[device.name] = device
            if device.kind != "loop":
                waiting += device.beneath
        return tuple(devices.values())

    @property
    def own_drives(self) -> tuple[BlockDevice, ...]:
        """The lowest of `own_devices`: drives, multipath drives once, and loop devices."""
        return _lowest(self.own_devices, {*MULTIPATH_KINDS, "loop"})

    @property
    def is_flash(self) -> bool | None:
        """Whether the target is flash.

        False if the file system's device or any device below it reports that it rotates; ``None``
        if no device reports this, or one is of a kind that cannot; else True.

        Notes ----- Devices behind a loop device's file are not considered: the kernel copies the
        backing device's value to the loop device when it is set up, and an administrator who
        corrects the value corrects it on the loop device.
        """
        known = [device.is_flash for device in self.own_devices if device.rotational is not None]
        if not known or False in known:
            return False if known else None
        return None if None in known else True

    @property
    def identity(self) -> str:
        """The name under which runs on this path are stored when no site is given."""
        return f"{self.fs_uuid or self.source}:{self.mount_point}"


def _lowest(devices: tuple[BlockDevice, ...], ends: Collection[str]) -> tuple[BlockDevice, ...]:
    """Return the devices that consist of no others, or are of a kind that is an end itself."""
    multipath = (device for device in devices if device.kind in MULTIPATH_KINDS)
    paths = {name for device in multipath for name in device.beneath}
    return tuple(
        device
        for device in devices
        if device.kind in ends or not (device.beneath or device.name in paths)
    )
