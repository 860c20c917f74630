"""Directories of a mounted Lustre listed by FID, and the MDTs that FIDs are on."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from trimtab.drivers.lustre import listing_child
from trimtab.errors import ToolError
from trimtab.launch.process import execute
from trimtab.visible import visible

_TIMEOUT_S: Final = 600.0
_BATCH: Final = 1000
"""Directories that one child lists: what it prints is kept in memory."""
_OUTPUT_BYTES: Final = 2**30

Names = Sequence[tuple[int, bytes]]
"""Inode number and name."""


def list_directories(root: str, directories: Sequence[bytes]) -> Iterator[tuple[bytes, Names, int]]:
    """Yield each directory with what it holds, and its error number: 0, also of one that is gone.

    Raises
    ------
    ToolError
        They could not be listed, or not in time.
    """
    from trimtab._core import GONE_ERRNOS

    gone = [str(number) for number in GONE_ERRNOS]
    for start in range(0, len(directories), _BATCH):
        batch = directories[start : start + _BATCH]
        data, at = _child("list", root, batch, *gone), 0
        for directory in batch:
            number, count = listing_child.HEAD.unpack_from(data, at)
            at += listing_child.HEAD.size
            names = []
            for _ in range(count):
                inode, length = listing_child.ENTRY.unpack_from(data, at)
                at += listing_child.ENTRY.size
                names.append((inode, data[at : at + length]))
                at += length
            yield directory, names, number


def mdts_of_fids(root: str, files: Sequence[bytes]) -> Mapping[bytes, str | None]:
    """Return the MDT of each FID by its sequence; ``None``: Lustre does not tell.

    Raises
    ------
    ToolError
        They could not be asked for, or not in time.
    """
    one_each = list({file[:8]: file for file in files}.values())
    data = _child("mdts", root, one_each)
    indices = struct.unpack(f"<{len(one_each)}i", data)
    of_sequence = {
        file[:8]: None if index < 0 else f"MDT{index:04x}"
        for file, index in zip(one_each, indices, strict=True)
    }
    return {file: of_sequence[file[:8]] for file in files}


def _child(verb: str, root: str, fids: Sequence[bytes], *words: str) -> bytes:
    script = str(Path(listing_child.__file__))
    result = execute(
        (sys.executable, "-I", "-S", script, verb, root, *words),
        timeout_s=_TIMEOUT_S,
        stdin=b"".join(fids),
        output_limit_bytes=_OUTPUT_BYTES,
    )
    if result.problem is not None or result.truncated:
        complaint = visible(result.stderr.decode("utf-8", "replace").strip()[-200:])
        raise ToolError(
            f"directories of {visible(root)} cannot be listed: {complaint or result.problem}",
            code="listing-failed",
            hint="the index is as it was or better; give the same command again",
        )
    return result.stdout
