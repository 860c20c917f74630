"""What stands beneath a path: the mount, the file system, the block devices down to the drives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

PathKind = Literal["local", "lustre", "network", "memory", "opaque"]
"""``local``: block devices can be seen; ``opaque``: FUSE, overlay or anything unknown."""

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
"""One drive, reached over several paths: what is beneath are the paths."""
_DRIVE_THAT_KNOWS: Final = re.compile(r"(nvme\d|sd[a-z]|vd[a-z]|mmcblk\d|loop\d)")
"""Drives whose ``queue/rotational`` tells disk from flash.

Others answer 0 for want of anything that turns: memory (``pmem``, ``ram``, ``zram``), and another
host's drive (``nbd``, ``drbd``, ``rbd``).
"""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One block device and the queue settings that matter for flash.

    Attributes
    ----------
    name
        The kernel's name, as under ``/sys/class/block`` (``nvme0n1``, ``dm-3``, ``loop0``).
    rotational
        ``queue/rotational``; a partition has its disk's. ``None`` where not known.
    beneath
        Names of the devices that this one is made of; empty for a drive.
    backing_file
        Of a loop device: the file that holds its blocks.
    direct_to_backing
        Of a loop device: whether it bypasses the page cache of the backing file (``loop/dio``).
    writeback_throttling_s
        ``queue/wbt_lat_usec`` in seconds; 0 is off; ``None`` is not available.
    scheduler
        The active one in ``queue/scheduler``.
    discard_granularity_bytes, discard_max_bytes
        0 means that the device takes no discard.
    link_bytes_per_s
        What the bus carries (PCIe speed x width), where the system says so.
    link_max_bytes_per_s
        What it would carry at the best speed and width that drive and port both have.
    label
        The name that people know it by: a device-mapper name, an md level.
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
        """Whether the device is flash, ``None`` where it cannot say."""
        is_layer = bool(self.beneath) and self.kind != "loop"
        if self.rotational is None or not (is_layer or _DRIVE_THAT_KNOWS.match(self.name)):
            return None
        return not self.rotational


@dataclass(frozen=True, slots=True)
class PathDescription:
    """What a path is: its mount, its file system and the layers beneath.

    Attributes
    ----------
    path, real_path, mount_point
        As given; with links resolved; where the file system is mounted.
    kind
        How far Trimtab can see into it.
    fs_type, source, options
        From ``/proc/self/mountinfo``: type, device or server, mount and superblock options.
    fs_uuid
        The file system's UUID where the system tells; identifies a PATH without a site,
        together with the mount point.
    device_number
        ``major:minor`` of the mount.
    devices
        Every block device beneath, nearest first; empty where none can be seen.
    notes
        What could not be seen, and why; what else to know about it.
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
        """The drives, and what looks like one from here: devices that are made of no other.

        A drive that is reached over several paths counts once, as its multipath device.
        """
        paths = {
            name
            for device in self.devices
            if device.kind in MULTIPATH_KINDS
            for name in device.beneath
        }
        return tuple(
            device
            for device in self.devices
            if device.kind in MULTIPATH_KINDS or not (device.beneath or device.name in paths)
        )

    @property
    def own_devices(self) -> tuple[BlockDevice, ...]:
        """The devices down to the first loop device on each way, nearest first.

        What lies behind a loop device's file belongs to another file system.
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
        devices = self.own_devices
        paths = {n for device in devices if device.kind in MULTIPATH_KINDS for n in device.beneath}
        return tuple(
            device
            for device in devices
            if device.kind in MULTIPATH_KINDS
            or device.kind == "loop"
            or not (device.beneath or device.name in paths)
        )

    @property
    def is_flash(self) -> bool | None:
        """Whether the target is flash.

        False if the device that the file system stands on, or any beneath, says that it
        rotates; ``None`` if none says anything, or one is of a kind that cannot say; else True.

        Notes
        -----
        What is behind a loop device's file is not asked: the kernel gives a loop device the
        answer of its backing device when it is set up, and an administrator who corrects that
        answer corrects it on the loop device.
        """
        known = [device.is_flash for device in self.own_devices if device.rotational is not None]
        if not known or False in known:
            return False if known else None
        return None if None in known else True

    @property
    def identity(self) -> str:
        """The name under which runs on this path are kept when no site is given."""
        return f"{self.fs_uuid or self.source}:{self.mount_point}"
