"""The storage stack below a path: mount, file system, and block devices down to the drives.

Mounts are parsed from ``/proc/self/mountinfo``, described in proc_pid_mountinfo(5).

`DRIVERS` is the table of drivers and their properties; `trimtab.site.lookup.opener_of` opens them.
To add a driver, add its package, its entry in the table, its opener, and its page of documentation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from trimtab.base.units import is_digits

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


GAVE_UP: Final = frozenset({"emergency_ro", "shutdown"})
"""Superblock options of a file system that stopped accepting writes after an error."""

_OCTAL: Final = re.compile(r"\\([0-7]{3})")

FileSystemFamily = Literal[
    "local", "shared-disk", "lustre", "parallel", "network", "memory", "user-space", "kernel",
    "unknown",
]  # fmt: skip
"""Location of the data: a disk of this host, a disk of several hosts, servers, or unknown.

``kernel``: none. Its files are generated when read.
"""

# fmt: off
_TYPES: Final[dict[FileSystemFamily, frozenset[str]]] = {
    "local": frozenset({
        "ext2", "ext3", "ext4", "ldiskfs", "xfs", "btrfs", "f2fs", "bcachefs", "jfs", "reiserfs",
        "nilfs2", "ntfs3", "vfat", "exfat", "msdos", "iso9660", "udf", "squashfs", "erofs",
    }),
    "shared-disk": frozenset({"gfs2", "ocfs2"}),
    "lustre": frozenset({"lustre", "lustre_tgt", "lustre_lite"}),
    "parallel": frozenset({
        "gpfs", "mmfs", "beegfs", "beegfs_nodev", "fhgfs", "ceph", "orangefs", "pvfs2", "panfs",
        "wekafs", "glusterfs", "daos", "snfs", "cvfs", "acfs", "ceph-fuse", "dfuse", "juicefs",
    }),
    "network": frozenset({
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "kafs", "coda", "9p", "virtiofs",
        "vboxsf", "vmhgfs", "prl_fs", "dvs", "sshfs",
    }),
    "memory": frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}),
    "kernel": frozenset({
        "proc", "sysfs", "cgroup", "cgroup2", "devpts", "debugfs", "tracefs", "securityfs", "bpf",
        "pstore", "efivarfs", "configfs", "fusectl", "mqueue", "binfmt_misc", "nsfs", "selinuxfs",
        "rpc_pipefs", "resctrl", "nfsd",
    }),
}
# fmt: on
_FAMILIES: Final[dict[str, FileSystemFamily]] = {
    name: family for family, names in _TYPES.items() for name in names
}
_KINDS: Final[dict[FileSystemFamily, PathKind]] = {
    "local": "local",
    "shared-disk": "local",
    "lustre": "lustre",
    "parallel": "network",
    "network": "network",
    "memory": "memory",
}


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo.

    Attributes
    ----------
    device_number
        ``major:minor``; major 0 is a file system without a block device of its own.
    root
        The directory of the file system that is mounted; not ``/`` for a bind mount.
    options, super_options
        Those of this mount, and of the file system as a whole.
    """

    mount_id: int
    parent_id: int
    device_number: str
    root: str
    mount_point: str
    options: tuple[str, ...]
    fs_type: str
    source: str
    super_options: tuple[str, ...]

    @property
    def all_options(self) -> tuple[str, ...]:
        """Options of the mount, then the file system's further options."""
        return tuple(dict.fromkeys((*self.options, *self.super_options)))

    def super_option(self, name: str) -> str | None:
        """Return the value of a superblock option (``upperdir`` of an overlay)."""
        for option in self.super_options:
            if option.startswith(f"{name}="):
                return option.removeprefix(f"{name}=")
        return None

    @property
    def read_only(self) -> bool:
        """Whether this mount or the whole file system rejects writes.

        An ext4 that became read-only after an error shows this in its options on newer kernels
        (observed on 6.18) while remaining ``rw``; on older ones ``ro`` appears among the
        superblock's options.
        """
        return "ro" in self.options or not {"ro", *GAVE_UP}.isdisjoint(self.super_options)


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Return the mounts in the order of the table; malformed lines are skipped.

    Parameters
    ----------
    text
        Content of ``/proc/PID/mountinfo``.
    """
    # Not splitlines: the kernel does not escape other line separators in names.
    mounts = (_parse_line(line) for line in text.split("\n"))
    return tuple(mount for mount in mounts if mount is not None)


def find_mount(
    mounts: Sequence[Mount], real_path: str, device_number: str | None = None
) -> Mount | None:
    """Return the mount of a path without symbolic links; ``None`` if the table has none.

    Parameters
    ----------
    mounts
        In the order of the table.
    real_path
        Absolute, with all symbolic links resolved.
    device_number
        ``major:minor`` of the path from stat, if known. It covers the case in which the table
        changed while it was read. btrfs numbers its subvolumes differently from the table, so a
        number that matches no mount is ignored.

    Notes
    -----
    This is the kernel's own walk: from the root mount, step into the first mount on the way to the
    path, until there is none. A mount hidden by a later one on the same or a higher directory is a
    child of the hidden directory, and is never reached.
    """
    walked = _walk(mounts, real_path)
    if device_number is None or (walked and walked.device_number == device_number):
        return walked
    covering = [
        mount
        for mount in mounts
        if mount.device_number == device_number and _covers(mount.mount_point, real_path)
    ]
    # Among mount points of equal length the later line is on top.
    return max(reversed(covering), key=lambda m: len(m.mount_point), default=walked)


def family_of(fs_type: str) -> FileSystemFamily:
    """Return the family of a file system type of the mount table.

    A user-space type (``fuse.NAME``) has the family of its name if that is known.

    Examples
    --------
    >>> family_of("ext4"), family_of("mmfs"), family_of("fuse.sshfs"), family_of("fuse.s3fs")
    ('local', 'parallel', 'network', 'user-space')
    """
    prefix, _, name = fs_type.partition(".")
    if prefix != "fuse":
        return _FAMILIES.get(fs_type, "unknown")
    family = _FAMILIES.get(name)
    return family if family in {"lustre", "parallel", "network"} else "user-space"


def kind_of(fs_type: str) -> PathKind:
    """Return how far Trimtab can see into a file system of that type.

    A disk that several hosts share is a local block device too.
    """
    return _KINDS.get(family_of(fs_type), "opaque")


def unescape(text: str) -> str:
    r"""Return a field with its octal escapes (``\040`` for a space) decoded to a path."""
    if "\\" not in text:
        return text
    # Each escape is a byte and the rest is already decoded: encode all, then decode once.
    pieces = re.split(r"((?:\\[0-7]{3})+)", text)
    encoded = b"".join(
        bytes(int(number, 8) & 0xFF for number in _OCTAL.findall(piece))
        if index % 2
        else piece.encode("utf-8", "surrogateescape")
        for index, piece in enumerate(pieces)
    )
    return encoded.decode("utf-8", "surrogateescape")


def _walk(mounts: Sequence[Mount], real_path: str) -> Mount | None:
    by_id = {mount.mount_id: mount for mount in mounts}
    # The topmost line need not have number 1 or its own parent: in a container the parent is
    # outside the table.
    roots = [m for m in mounts if m.mount_point == "/" and m.parent_id not in by_id]
    current = roots[-1] if roots else None
    seen: set[int] = set()
    while True:
        parent = current.mount_id if current else None
        steps = [
            mount
            for mount in mounts
            if mount.mount_id not in seen
            and mount is not current
            and (mount.parent_id == parent if current else mount.parent_id not in by_id)
            and _covers(mount.mount_point, real_path)
        ]
        if not steps:
            return current
        current = min(reversed(steps), key=lambda mount: len(mount.mount_point))
        seen.add(current.mount_id)


def _covers(mount_point: str, path: str) -> bool:
    return mount_point in {"/", path} or path.startswith(mount_point + "/")


def _parse_line(line: str) -> Mount | None:
    fields = line.split(" ")
    # Optional fields are between the sixth and a lone "-".
    if "-" not in fields[6:]:
        return None
    dash = fields.index("-", 6)
    after = fields[dash + 1 :]
    if len(after) < 3 or not (is_digits(fields[0]) and is_digits(fields[1])):
        return None
    return Mount(
        mount_id=int(fields[0]),
        parent_id=int(fields[1]),
        device_number=fields[2],
        root=unescape(fields[3]),
        mount_point=unescape(fields[4]),
        options=tuple(fields[5].split(",")),
        fs_type=unescape(after[0]),
        source=unescape(after[1]),
        super_options=tuple(unescape(option) for option in after[2].split(",")),
    )


def lustre_name(fs_type: str, source: str) -> str | None:
    """Return the name of a mounted Lustre file system; ``None`` for other types and server mounts.

    The source of a client's mount is ``NIDS:/NAME`` or ``NIDS:/NAME/SUBDIRECTORY``; a server
    mounts a target from a device.

    Examples
    --------
    >>> lustre_name("lustre", "10.0.2.15@tcp:10.0.2.16@tcp:/scratch/home")
    'scratch'
    >>> lustre_name("lustre", "/dev/vdd")
    """
    if fs_type != "lustre" or ":/" not in source:
        return None
    return source.rpartition(":/")[2].split("/")[0] or None


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
