"""The block devices beneath a file system, down to the drives, from sysfs.

::

    259:3 ─ partition ─ nvme-multipath ─┬─ nvme0c0n1 (path)
                                        └─ nvme0c1n1 (path)
    253:0 ─ device-mapper ─ md ─┬─ partition ─ disk
                                └─ ...
      7:0 ─ loop ─ (backing file) ─ its mount ─ disk

Sources: the kernel's Documentation/ABI/stable/sysfs-block and testing/sysfs-block-dm,
Documentation/admin-guide/md.rst, drivers/nvme/host/multipath.c.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from posixpath import basename, dirname
from typing import Final

from trimtab.drivers.host import Host
from trimtab.drivers.local.queue import kind_and_label, queue_attributes
from trimtab.model.filesystem import BlockDevice, DeviceKind
from trimtab.model.mounts import Mount, find_mount
from trimtab.model.telemetry import NotAvailable

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
