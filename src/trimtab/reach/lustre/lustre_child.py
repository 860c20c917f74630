"""Calls to a Lustre that may hang, made in a child process: changelog devices, and lookups by FID.

FIDs have 16 bytes, big-endian.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Container, Iterator, Sequence

from trimtab.reach.touch import open_directory

_BUFFER_BYTES = 1 << 20


def read(device: str, first: int, limit: int) -> tuple[bytes, bool]:
    """Return complete records from ``first`` on, about ``limit`` bytes; whether that is all."""
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    # The device counts in records. Position 0 is the first record it still has.
    os.lseek(descriptor, first, os.SEEK_SET)
    records = bytearray()
    while len(records) < limit:
        data = os.read(descriptor, _BUFFER_BYTES)
        if not data:
            return bytes(records), True
        records += data
    return bytes(records), False


def clear(device: str, user: int, index: int) -> None:
    """Clear the records of a user up to ``index``."""
    descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, f"clear:cl{user}:{index}".encode() + b"\0")


FID2MDTIDX = 0xC01066F8
"""``LL_IOC_FID2MDTIDX`` of ``lustre_user.h``: _IOWR('f', 248, struct lu_fid)."""

Names = Sequence[tuple[int, bytes]]
"""Inode number as the directory has it, and name."""


def list_by_fid(
    root: str, fids: Sequence[bytes], gone: Container[int]
) -> Sequence[tuple[Names, int]]:
    """Return the entries and error number of each directory, without accessing any file.

    The number is 0 without an error, and for errors in ``gone`` (deleted directories).
    """
    open_directory(root)  # without the root, everything would seem deleted
    places = (
        f"{root}/.lustre/fid/[{sequence:#x}:{number:#x}:{version:#x}]"
        for sequence, number, version in _parts(fids)
    )
    return [_listing(place, gone) for place in places]


def _parts(fids: Sequence[bytes]) -> Iterator[tuple[int, int, int]]:
    yield from (struct.unpack(">QII", fid) for fid in fids)


def _listing(directory: str, gone: Container[int]) -> tuple[Names, int]:
    try:
        # Listing must not update its atime.
        descriptor = open_directory(directory)
        try:
            with os.scandir(descriptor) as entries:
                return [(entry.inode(), os.fsencode(entry.name)) for entry in entries], 0
        finally:
            os.close(descriptor)
    except OSError as error:
        number = settled(directory, error.errno or errno.EIO)
        return [], 0 if number in gone or number == errno.ENOTDIR else number


def settled(directory: str | bytes, number: int) -> int:
    """Return the real error number: for EFAULT of an open, that of a stat if it fails too."""
    if number == errno.EFAULT:
        try:
            os.lstat(directory)
        except OSError as error:
            return error.errno or number
    return number


def mdt_indices(root: str, fids: Sequence[bytes]) -> Sequence[int | None]:
    """Return the MDT index of each FID; ``None`` if Lustre does not know."""
    mount, indices = open_directory(root), list[int | None]()
    for sequence, number, version in _parts(fids):
        fid = bytearray(struct.pack("<QII", sequence, number, version))
        try:
            indices.append(fcntl.ioctl(mount, FID2MDTIDX, fid))
        except OSError:
            indices.append(None)
    return indices
