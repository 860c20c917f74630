"""Description of a path: its mount, its file system's UUID, and its block devices.

Block devices are followed down to the drives, each with its queue and link, from sysfs::

    259:3 ─ partition ─ nvme-multipath ─┬─ nvme0c0n1 (path)
                                        └─ nvme0c1n1 (path)
    253:0 ─ device-mapper ─ md ─┬─ partition ─ disk
                                └─ ...
      7:0 ─ loop ─ (backing file) ─ its mount ─ disk

Sources: the kernel's Documentation/ABI/stable/sysfs-block and testing/sysfs-block-dm,
Documentation/admin-guide/md.rst, drivers/nvme/host/multipath.c.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from posixpath import basename, dirname
from typing import Any, Final

from trimtab.base.error import ToolError, UsageError, visible
from trimtab.base.filesystem import (
    BlockDevice,
    DeviceKind,
    Mount,
    PathDescription,
    family_of,
    find_mount,
    kind_of,
    parse_mountinfo,
)
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.reach import bounded
from trimtab.reach.host import Host, run_tool
from trimtab.reach.process import Execute
from trimtab.reach.process import execute as run_process

_ENCODING: Final = (
    # (up to this many GT/s, share of bits that carries data), PCI Express base specification:
    # 8b/10b, then 128b/130b, then 236 bytes of a 256-byte flit.
    (5.0, 0.8),
    (32.0, 128 / 130),
    (64.0, 236 / 256),
)
_CHOSEN: Final = re.compile(r"\[([^\]]+)\]")
_SPEED: Final = re.compile(r"([0-9.]+) GT/s")


def kind_and_label(host: Host, directory: str) -> tuple[DeviceKind, str | None]:
    """Return the kind of the device in a sysfs directory, and its familiar name."""
    if host.exists(f"{directory}/partition"):
        return "partition", None
    if host.exists(f"{directory}/loop"):
        return "loop", None
    if host.exists(f"{directory}/dm"):
        label = _text(host, f"{directory}/dm/name")
        uuid = _text(host, f"{directory}/dm/uuid") or ""
        return ("dm-multipath" if uuid.startswith("mpath-") else "device-mapper"), label
    if host.exists(f"{directory}/md"):
        return "md", _text(host, f"{directory}/md/level")
    if "/nvme-subsystem/" in directory:
        return "nvme-multipath", None
    # Everything that presents itself as a drive has a ``device`` link; zram does not.
    return ("disk" if host.exists(f"{directory}/device") else "other"), None


def queue_attributes(host: Host, directory: str, *, link_rates: bool = True) -> dict[str, Any]:
    """Return the fields of `BlockDevice` that the queue and the drive provide, by name.

    What the device does not report is ``None``: device-mapper and md do no throttling, virtio disks
    have no model.
    """
    queue = f"{directory}/queue"
    throttling_us = host.read_number(f"{queue}/wbt_lat_usec")
    rotational = host.read_number(f"{queue}/rotational")
    transport = transport_of(host, directory)
    link, best_link = None, None
    if link_rates:
        link, best_link = link_rates_bytes_per_s(host, directory, transport)
    return {
        "rotational": None if isinstance(rotational, NotAvailable) else bool(rotational),
        "writeback_throttling_s": (
            None if isinstance(throttling_us, NotAvailable) else throttling_us / 1e6
        ),
        "scheduler": active_choice(_text(host, f"{queue}/scheduler")),
        "write_cache": _text(host, f"{queue}/write_cache"),
        "logical_block_bytes": _number(host, f"{queue}/logical_block_size"),
        "discard_granularity_bytes": _number(host, f"{queue}/discard_granularity"),
        "discard_max_bytes": _number(host, f"{queue}/discard_max_bytes"),
        "model": model_of(host, directory),
        "transport": transport,
        "link_bytes_per_s": link,
        "link_max_bytes_per_s": best_link,
    }


def active_choice(text: str | None) -> str | None:
    """Return the chosen word of a sysfs choice: ``none`` of ``[none] mq-deadline kyber``."""
    if text is None:
        return None
    chosen = _CHOSEN.search(text)
    return chosen.group(1) if chosen else text.strip() or None


def model_of(host: Host, directory: str) -> str | None:
    """Return the drive's model name.

    SCSI and NVMe keep it next to the ``device`` link; an NVMe multipath head links to its
    subsystem, which has one too; the legs of the head are in their controller's directory.
    """
    for place in (f"{directory}/device/model", f"{dirname(directory)}/model"):
        if text := _text(host, place):
            return " ".join(text.split())
    return None


def transport_of(host: Host, directory: str) -> str | None:
    """Return how the drive is attached: ``pcie``, ``tcp``, ``sata``, ``sas``, ``virtio`` ..."""
    for place in (f"{directory}/device/transport", f"{dirname(directory)}/transport"):
        if text := _text(host, place):
            return text  # NVMe's own term
    parts = directory.split("/")
    for mark, transport in (
        ("usb", "usb"),
        ("ata", "sata"),
        ("end_device-", "sas"),
        ("virtio", "virtio"),
        ("mmc", "mmc"),
    ):
        if any(re.match(rf"{mark}\d", part) for part in parts):
            return transport
    return None


def link_rates_bytes_per_s(
    host: Host, directory: str, transport: str | None
) -> tuple[float | None, float | None]:
    """Return the current and the best possible rate of an NVMe drive's PCIe link.

    Packet overhead is not deducted. Only for NVMe on PCIe: a SATA or SAS drive shares its adapter's
    link. A slot that is slower or narrower than the drive by design is not a fault: the port above
    the drive limits the best rate too, if the system reports it.
    """
    if transport != "pcie":
        return None, None
    start = host.resolve(f"{directory}/device")
    end = directory if isinstance(start, NotAvailable) else start
    while end not in ("", "/"):
        port = dirname(end)
        speed = _text(host, f"{end}/current_link_speed")
        if speed is not None:
            width = _number(host, f"{end}/current_link_width")
            return pcie_bytes_per_s(speed, width or 0), _best_link(host, end, port)
        end = port
    return None, None


def _best_link(host: Host, drive: str, port: str) -> float | None:
    """Return the rate at the best speed and width that both ends support."""
    speeds = [_text(host, f"{end}/max_link_speed") for end in (drive, port)]
    widths = [_number(host, f"{end}/max_link_width") for end in (drive, port)]
    known = [speed for speed in speeds if speed is not None and _SPEED.match(speed)]
    lanes = [width for width in widths if width]
    if speeds[0] not in known or not widths[0]:
        return None
    return pcie_bytes_per_s(min(known, key=lambda speed: float(speed.split()[0])), min(lanes))


def pcie_bytes_per_s(speed: str, width: int) -> float | None:
    """Return the data rate of a PCIe link from its speed (``16.0 GT/s PCIe``) and lanes.

    Examples
    --------
    >>> round(pcie_bytes_per_s("16.0 GT/s PCIe", 4) / 1e9, 2)
    7.88
    """
    match = _SPEED.match(speed)
    if match is None or width <= 0:
        return None
    transfers = float(match.group(1))
    share = next((share for limit, share in _ENCODING if transfers <= limit), None)
    return None if share is None else transfers * 1e9 * share * width / 8


def _text(host: Host, path: str) -> str | None:
    text = host.read_text(path)
    return None if isinstance(text, NotAvailable) else text.strip() or None


def _number(host: Host, path: str) -> int | None:
    number = host.read_number(path)
    return None if isinstance(number, NotAvailable) else number


DEVICES_LIMIT: Final = 4096
"""More than any server has; a larger tree is not a real one."""

_CONTROLLER: Final = re.compile(r"nvme\d+\Z")


@dataclass(slots=True)
class _Found:
    devices: dict[str, BlockDevice] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def devices_beneath(
    host: Host, mounts: Sequence[Mount], mount: Mount, *, link_rates: bool = True
) -> tuple[tuple[BlockDevice, ...], tuple[str, ...]]:
    """Return every block device beneath a mount, nearest first, and notes on what is hidden.

    Each device is listed once, before its components.

    Parameters
    ----------
    link_rates
        Whether to read each drive's link speed, which takes a walk up the device tree.
    """
    first = device_directory(host, mount)
    if isinstance(first, NotAvailable):
        return (), (first.reason,)
    beneath_mount = _Found(notes=_other_members(host, mount, basename(first)))
    # Breadth first: the tree is shallow and wide (24 drives under one md). A device reached twice
    # (two partitions of one disk) is visited once, which also ends cycles.
    waiting = [first]
    while waiting and len(beneath_mount.devices) < DEVICES_LIMIT:
        directory = waiting.pop(0)
        name = basename(directory)
        if name in beneath_mount.devices:
            continue
        kind, label = kind_and_label(host, directory)
        beneath = _beneath(host, mounts, directory, kind, beneath_mount.notes)
        beneath_mount.devices[name] = _described(
            host, directory, kind, label, beneath, link_rates=link_rates
        )
        waiting += beneath
    return tuple(beneath_mount.devices.values()), tuple(dict.fromkeys(beneath_mount.notes))


def device_directory(host: Host, mount: Mount) -> str | NotAvailable:
    """Return the sysfs directory of the device beneath a mount.

    Looks up the mount's device number; if no device has it (btrfs assigns its own), the source.
    """
    directory = host.resolve(f"/sys/dev/block/{mount.device_number}")
    if not isinstance(directory, NotAvailable):
        return directory
    if mount.source.startswith("/dev/"):
        node = host.resolve(mount.source)
        node_name = basename(mount.source if isinstance(node, NotAvailable) else node)
        by_name = host.resolve(f"/sys/class/block/{node_name}")
        if not isinstance(by_name, NotAvailable):
            return by_name
    return NotAvailable(
        f"no block device is visible under {mount.mount_point} "
        f"({mount.fs_type} from {mount.source}, device {mount.device_number})"
    )


def _other_members(host: Host, mount: Mount, name: str) -> list[str]:
    """Return a note if a btrfs spans more devices than its mount names."""
    if mount.fs_type != "btrfs":
        return []
    file_systems = host.list_directory("/sys/fs/btrfs")
    if isinstance(file_systems, NotAvailable):
        return [f"whether this btrfs spans more devices than {name} is unknown"]
    for uuid in file_systems:
        members = host.list_directory(f"/sys/fs/btrfs/{uuid}/devices")
        if not isinstance(members, NotAvailable) and name in members:
            others = [member for member in members if member != name]
            if others:
                return [
                    f"this btrfs spans {len(members)} devices: {name} is inspected, "
                    f"{', '.join(others)} not"
                ]
            return []
    return [f"whether this btrfs spans more devices than {name} is unknown"]


def _described(
    host: Host,
    directory: str,
    kind: DeviceKind,
    label: str | None,
    beneath: Sequence[str],
    *,
    link_rates: bool,
) -> BlockDevice:
    # A partition has no queue directory: it uses its disk's queue.
    queue_of = dirname(directory) if kind == "partition" else directory
    sectors = host.read_number(f"{directory}/size")
    backing = host.read_text(f"{directory}/loop/backing_file") if kind == "loop" else None
    direct = host.read_number(f"{directory}/loop/dio") if kind == "loop" else None
    return BlockDevice(
        name=basename(directory),
        kind=kind,
        label=label,
        # sysfs counts in 512-byte sectors, whatever the device's block size.
        size_bytes=None if isinstance(sectors, NotAvailable) else sectors * 512,
        beneath=tuple(basename(inner) for inner in beneath),
        backing_file=backing if isinstance(backing, str) else None,
        direct_to_backing=bool(direct) if isinstance(direct, int) else None,
        **queue_attributes(host, queue_of, link_rates=link_rates),
    )


def _beneath(
    host: Host, mounts: Sequence[Mount], directory: str, kind: DeviceKind, notes: list[str]
) -> list[str]:
    """Return the sysfs directories of a device's components."""
    if kind == "partition":
        return [dirname(directory)]
    if kind == "loop":
        return _behind_loop(host, mounts, directory, notes)
    slaves = host.list_directory(f"{directory}/slaves")
    if not isinstance(slaves, NotAvailable) and slaves:
        resolved = [host.resolve(f"{directory}/slaves/{slave}") for slave in slaves]
        notes += [link.reason for link in resolved if isinstance(link, NotAvailable)]
        return [link for link in resolved if not isinstance(link, NotAvailable)]
    return _multipath_legs(host, directory)


def _behind_loop(
    host: Host, mounts: Sequence[Mount], directory: str, notes: list[str]
) -> list[str]:
    name = basename(directory)
    backing = host.read_text(f"{directory}/loop/backing_file")
    if isinstance(backing, NotAvailable):
        notes.append(f"{name}: {backing.reason}")
        return []
    if backing.endswith(" (deleted)"):
        notes.append(f"{name}: its backing file {backing.removesuffix(' (deleted)')} was deleted")
    # Only the mount table is used to find the file: it may be on a file system that hangs.
    mount = find_mount(mounts, backing.removesuffix(" (deleted)"))
    if mount is None:
        notes.append(f"{name}: the mount of its backing file {backing} is not in the mount table")
        return []
    below = device_directory(host, mount)
    if isinstance(below, NotAvailable):
        notes.append(f"{name}: beneath its backing file {backing}: {below.reason}")
        return []
    return [below]


def _multipath_legs(host: Host, directory: str) -> list[str]:
    """Return the hidden per-controller devices of an NVMe multipath head, else nothing.

    The head ``nvme0n1`` is in its subsystem's directory, which links the controllers; the legs
    ``nvme0c1n1`` are in the controllers' directories. Since Linux 6.15 they are also linked under
    ``multipath/``.
    """
    is_head = "/nvme-subsystem/" in directory
    match = re.fullmatch(r"(nvme\d+)(n\d+)", basename(directory)) if is_head else None
    if match is None:
        return []
    head = dirname(directory)
    leg = re.compile(rf"{match.group(1)}c\d+{match.group(2)}\Z")
    names = host.list_directory(head)
    legs: list[str] = []
    for name in () if isinstance(names, NotAvailable) else names:
        if _CONTROLLER.fullmatch(name) is None:
            continue
        controller = host.resolve(f"{head}/{name}")
        inner = () if isinstance(controller, NotAvailable) else host.list_directory(controller)
        if isinstance(inner, NotAvailable):
            continue
        legs += [f"{controller}/{name}" for name in inner if leg.fullmatch(name)]
    return legs


Touch = Callable[[str], bounded.PathState]
"""`trimtab.reach.bounded.describe`, or its substitute in a test."""

MOUNT_TABLE: Final = "/proc/self/mountinfo"
_BLKID_TIMEOUT_S: Final = 10.0


def describe(
    path: str,
    *,
    host: Host | None = None,
    touch: Touch = bounded.describe,
    execute: Execute = run_process,
) -> PathDescription:
    """Describe a path and everything beneath it.

    Only ``touch`` accesses the path, in a child with a deadline; the rest comes from /proc and
    /sys.

    Raises
    ------
    NoAnswer
        The file system did not answer.
    UsageError
        The path does not exist, is a dangling link, or is on a kernel pseudo file system.
    ToolError
        The mount table cannot be read or lacks the path's mount.
    """
    host = host or Host()
    state = touch(path)
    real_path = existing(state)
    mount = find_mount(mount_table(host), real_path, state.device)
    if mount is None:
        raise ToolError(
            f"{MOUNT_TABLE} has no mount for {visible(real_path)}", code="mount-not-found"
        )
    if family_of(mount.fs_type) == "kernel":
        raise UsageError(
            f"{visible(path)} is on {mount.fs_type}, a pseudo file system that stores nothing",
            code="stores-nothing",
            hint="give a directory of the file system to describe",
        )
    return describe_mount(
        host, mount, path=path, real_path=real_path, execute=execute, fs_uuid=state.fs_uuid
    )


def describe_mount(
    host: Host,
    mount: Mount,
    *,
    path: str,
    real_path: str,
    execute: Execute,
    fs_uuid: str | None = None,
) -> PathDescription:
    """Describe the layers beneath a mount, for a path on it; the path is not accessed.

    Parameters
    ----------
    fs_uuid
        The UUID that the kernel reports for the path, if it does.
    """
    kind = kind_of(mount.fs_type)
    notes = [note] if (note := _note(mount)) else []
    devices: tuple[BlockDevice, ...] = ()
    if kind == "local":
        devices, unseen = devices_beneath(host, mount_table(host), mount)
        notes += unseen
    uuid = file_system_uuid(host, mount, devices, execute, fs_uuid) if devices else None
    if isinstance(uuid, NotAvailable):
        notes.append(uuid.reason)
    return PathDescription(
        path=path,
        real_path=real_path,
        mount_point=mount.mount_point,
        # A local type without a visible device (a ZFS-like or remote root) shows nothing.
        kind="opaque" if kind == "local" and not devices else kind,
        fs_type=mount.fs_type,
        source=mount.source,
        options=mount.all_options,
        fs_uuid=None if isinstance(uuid, NotAvailable) else uuid,
        device_number=mount.device_number,
        read_only=mount.read_only,
        devices=devices,
        notes=tuple(notes),
    )


def mount_table(host: Host) -> tuple[Mount, ...]:
    """Return the mounts visible to this process.

    Raises
    ------
    ToolError
        The table cannot be read.
    """
    text = host.read_text(MOUNT_TABLE, limit_bytes=1 << 24)
    if isinstance(text, NotAvailable):
        raise ToolError(
            f"the mount table cannot be read: {text.reason}", code="mount-table-unreadable"
        )
    return parse_mountinfo(text)


def existing(state: bounded.PathState) -> str:
    """Return the path with its links resolved.

    Raises
    ------
    TrimtabError
        The path does not exist, or the system gave another error.
    """
    if state.dangling and state.failure is not None and state.failure.name == "ENOENT":
        raise UsageError(
            f"{visible(state.path)} is a dangling link",
            code="path-link-broken",
            hint="see where it points: readlink -f",
        )
    if state.real_path is None:
        if state.failure is None:
            raise UsageError(f"{visible(state.path)} does not exist", code="path-missing")
        raise bounded.error_of(state.failure, state.path)
    return state.real_path


def file_system_uuid(
    host: Host,
    mount: Mount,
    devices: tuple[BlockDevice, ...],
    execute: Execute,
    fs_uuid: str | None = None,
) -> str | NotAvailable:
    """Return the UUID of a file system, or why it is unknown.

    Tries udev's links, udev's database and the kernel (``fs_uuid``, Linux 6.9), which any user may
    read; then the superblock through blkid, which reads the device, not the mount, and needs root.
    The UUID identifies a path without a site: a user who cannot read it gets a separate record.
    """
    name = devices[0].name
    links = host.list_directory("/dev/disk/by-uuid")
    for uuid in () if isinstance(links, NotAvailable) else links:
        node = host.resolve(f"/dev/disk/by-uuid/{uuid}")
        if not isinstance(node, NotAvailable) and PurePosixPath(node).name == name:
            return uuid
    database = host.read_text(f"/run/udev/data/b{mount.device_number}")
    if isinstance(database, str) and (
        match := re.search(r"^E:ID_FS_UUID=(\S+)$", database, re.MULTILINE)
    ):
        return match.group(1)
    if fs_uuid is not None:
        return fs_uuid
    if not host.is_this_one:
        return NotAvailable("udev has no UUID for the file system")
    if os.geteuid() != 0:
        return not_available(
            "root-needed",
            "udev has no UUID for the file system, and blkid needs root: root records this path "
            "under another name (with --site both share one)",
        )
    # -p reads the superblock itself: the cache may hold a previous file system's UUID.
    argv = ("blkid", "-p", "-o", "value", "-s", "UUID", f"/dev/{name}")
    result = run_tool(execute, argv, timeout_s=_BLKID_TIMEOUT_S)
    if isinstance(result, NotAvailable):
        return NotAvailable(f"the file system's UUID is unknown: {result.reason}")
    return result.stdout.decode("utf-8", "replace").strip() or NotAvailable(
        f"blkid found no UUID on /dev/{name}"
    )


def _note(mount: Mount) -> str | None:
    """Return why Trimtab cannot see beneath a mount; ``None`` if it can."""
    match kind_of(mount.fs_type):
        case "lustre" if mount.source.startswith("/"):
            return f"a Lustre server's mount of the target on {mount.source}"
        case "lustre":
            return f"a Lustre client of {mount.source}: targets and drives are on its servers"
        case "network":
            return f"{mount.fs_type} from {mount.source}: the drives are on its servers"
        case "memory":
            return f"{mount.fs_type} is held in memory, without an underlying drive"
        case "opaque" if mount.fs_type == "overlay":
            upper = mount.super_option("upperdir")
            return "an overlay: " + (
                f"writes go to {upper}; check that path instead"
                if upper
                else "it is read-only: it has no upper directory"
            )
        case "opaque" if mount.fs_type.startswith("fuse"):
            return f"{mount.fs_type}: a user process serves it and hides the devices beneath"
        case "opaque" if mount.fs_type == "zfs":
            return "zfs manages its drives itself: see zpool status and zpool iostat"
        case "opaque":
            return f"Trimtab cannot see beneath file systems of type {mount.fs_type}"
    return None
