"""Reads or clears the changelog of one MDT, in a child that may hang in its place."""

from __future__ import annotations

import os

_BUFFER_BYTES = 1 << 20


def read(device: str, first: int, limit: int) -> tuple[bytes, bool]:
    """Return whole binary records from one on, about so many bytes, and whether they are all."""
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    # The device counts in records. At 0 it begins with the first that it has.
    os.lseek(descriptor, first, os.SEEK_SET)
    records = bytearray()
    while len(records) < limit:
        data = os.read(descriptor, _BUFFER_BYTES)
        if not data:
            return bytes(records), True
        records += data
    return bytes(records), False


def clear(device: str, user: int, index: int) -> None:
    """Tell the MDT that a user needs nothing up to a record any more."""
    descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, f"clear:cl{user}:{index}".encode() + b"\0")
