"""Reads or clears the changelog of one MDT, in a child process because it may hang."""

from __future__ import annotations

import os

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
