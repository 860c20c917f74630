"""What lies beneath a path: its mount, its file system's UUID and its block devices."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

from trimtab.base.error import ToolError, UsageError
from trimtab.base.filesystem import (
    BlockDevice,
    Mount,
    PathDescription,
    family_of,
    find_mount,
    kind_of,
    parse_mountinfo,
)
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.base.visible import visible
from trimtab.reach import bounded
from trimtab.reach.host import Host, run_tool
from trimtab.reach.local.block_device import devices_beneath
from trimtab.reach.process import Execute
from trimtab.reach.process import execute as run_process

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
    """Describe what lies beneath a mount, for a path on it; the path is not accessed.

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
            return f"{mount.fs_type}: a user process serves it and hides what lies beneath"
        case "opaque" if mount.fs_type == "zfs":
            return "zfs manages its drives itself: see zpool status and zpool iostat"
        case "opaque":
            return f"Trimtab cannot see beneath file systems of type {mount.fs_type}"
    return None
