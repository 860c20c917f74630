"""Identify the file system of an open directory, with system calls that Python lacks."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import uuid
from pathlib import Path
from typing import Final

from trimtab.model.mounts import Mount
from trimtab.record.trusted import opened

_GET_FS_UUID: Final = 0x80111500
"""``FS_IOC_GETFSUUID`` (Linux 6.9): a length, and up to 16 bytes."""
_XFS_GEOMETRY: Final = 0x80705864
"""``XFS_IOC_FSGEOMETRY_V1``: 112 bytes, UUID at offset 64; on all kernels."""
_AT_EMPTY_PATH: Final = 0x1000
_STATX_MNT_ID_UNIQUE: Final = 0x4000
_STATX_BIRTH: Final = 0x800
_STATX_BYTES: Final = 256
_BIRTH_AT: Final = 80
_MOUNT_AT: Final = 144
_LUSTRE_ROOT_INODE: Final = 0x200000007000001
"""Inode number of the FID ``[0x200000007:0x1:0x0]`` (``cl_fid_build_ino`` of ``lustre_fid.h``)."""


def meaningful_fsid(fsid: int, device: int) -> int | None:
    """Return ``f_fsid`` if it identifies the file system; otherwise ``None``.

    FUSE and NFS leave it 0. XFS, F2FS and FAT use the device number, which identifies the device
    but not the file system.
    """
    major, minor = os.major(device), os.minor(device)
    encoded = (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)
    return None if fsid & 0xFFFFFFFF in (0, encoded & 0xFFFFFFFF) and not fsid >> 32 else fsid


def file_system_uuid(directory: int) -> str | None:
    """Return the UUID of an open directory's file system; ``None`` if it reports none."""
    for number, size, start in ((_GET_FS_UUID, 17, 1), (_XFS_GEOMETRY, 112, 64)):
        answer = bytearray(size)
        try:
            fcntl.ioctl(directory, number, answer)
        except OSError:
            continue
        value = bytes(answer[start : start + 16])
        if len(value) == 16 and any(value):
            return str(uuid.UUID(bytes=value))
    return None


def mount_number(directory: int) -> int | None:
    """Return the mount number in ``/proc/self/mountinfo`` of an open directory."""
    text = Path(f"/proc/self/fdinfo/{directory}").read_text("ascii")
    numbers = [line.split(":")[1] for line in text.splitlines() if line.startswith("mnt_id:")]
    return int(numbers[0]) if numbers else None


def mount_identity(directory: int) -> str | None:
    """Return the boot and mount of a directory; ``None`` if the kernel does not report them.

    Since Linux 6.8 mount numbers are unique within a boot; before, they are reused, so the device
    number is added.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    unique = _unique_mount(directory)
    if unique is not None:
        return f"{boot} {unique}"
    number = mount_number(directory)
    return None if number is None else f"{boot} {number} {os.fstat(directory).st_dev}"


def lustre_made_ns(mount: Mount) -> int | None:
    """Return when the root of a mounted Lustre was created, in ns since 1970, if known.

    ``None`` also if only a part is mounted. The root has the same FID in every Lustre, hence the
    same inode number.
    """
    try:
        with opened(mount.mount_point, flags=os.O_RDONLY | os.O_DIRECTORY) as top:
            is_root = os.fstat(top).st_ino == _LUSTRE_ROOT_INODE
            answer = _statx(top, _STATX_BIRTH) if is_root else None
    except OSError:
        return None
    if answer is None:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", answer, _BIRTH_AT)
    return seconds * 10**9 + nanoseconds or None


def _unique_mount(directory: int) -> int | None:
    answer = _statx(directory, _STATX_MNT_ID_UNIQUE)
    return None if answer is None else struct.unpack_from("=Q", answer, _MOUNT_AT)[0]


def _statx(descriptor: int, wanted: int) -> bytes | None:
    """Return the result of ``statx``; ``None`` if the wanted field is missing."""
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        call = ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return None
    if call(descriptor, b"", _AT_EMPTY_PATH, wanted, answer) != 0:
        return None
    (mask,) = struct.unpack_from("=I", answer.raw, 0)
    return answer.raw if mask & wanted else None
