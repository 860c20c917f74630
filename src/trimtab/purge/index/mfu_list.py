"""Read file lists of mpiFileUtils (``dwalk -o``): versions 3 and 4, 64-bit big-endian numbers.

::

    version 3:  3 start end  users user_chars  groups group_chars  files file_chars
    version 4:  4            users user_chars  groups group_chars  files file_chars
    users  x  name[user_chars], number
    groups x  name[group_chars], number
    files  x  path[file_chars], mode, uid, gid, three times of seconds and nanoseconds (access,
              modification, change), size

Names and paths are padded with NUL to the longest one; a list may be a terabyte, so it is streamed.
Source: ``src/common/mfu_flist_io.c`` of mpiFileUtils at 2dbcf1c (2026-06). It has no identity, link
count or allocated size, and does not show whether everything could be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np
import polars as pl

from trimtab.base.error import DataError
from trimtab.purge.index import list_reading
from trimtab.purge.index.list_reading import CHUNK_BYTES, RECORD_MAX_BYTES, ListReading, placed
from trimtab.purge.index.manifest import TimeTrust

_NUMBERS: Final = ("mode", "uid", "gid", "atime", "atime_rest", "mtime", "mtime_rest", "ctime",
                   "ctime_rest", "size_bytes")  # fmt: skip
_COLUMNS: Final = frozenset(
    {"uid", "gid", "size_bytes", "atime_ns", "mtime_ns", "ctime_ns", "type"}
)
_TABLE_MAX_BYTES: Final = 2**32
_SECONDS_MAX: Final = 10**11
"""The year 5138: a later time in a header is invalid."""


def read_mfu_list(file: BinaryIO, reading: ListReading) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list.

    Raises
    ------
    DataError
        Not a list of a known version, or its header is invalid.
    """
    reading.times, reading.resolution_ns = TimeTrust.EXACT_NS, 1
    reading.columns |= _COLUMNS
    files, characters, offset = _head(file, reading)
    size = characters + 8 * len(_NUMBERS)
    number = 0
    while number < files:
        many = min(files - number, max(1, CHUNK_BYTES // size))
        data = _exactly(file, many * size)
        whole = len(data) // size
        if whole:
            yield _frame(data[: whole * size], characters, reading, number=number, offset=offset)
        number += whole
        offset += whole * size
        if whole < many:
            reading.refuse(
                f"the list ends after {number} of {files} files", record=number + 1, offset=offset
            )
            return
    if file.read(1):
        reading.refuse("unexpected data after the last file", offset=offset)


def _head(file: BinaryIO, reading: ListReading) -> tuple[int, int, int]:
    """Return the number of files, the length of a path and the offset of the files, in bytes."""
    version = int.from_bytes(file.read(8), "big")
    if version not in (3, 4):
        raise DataError(
            "not an mpiFileUtils file list of version 3 or 4",
            code="format-unknown",
            hint="create one with `dwalk -o LIST.mfu`; its text formats are not exact enough",
        )
    many = 6 if version == 4 else 8
    data = _exactly(file, 8 * many)
    if len(data) < 8 * many:
        raise DataError("the list ends within its header", code="list-truncated")
    *times, users, user_characters, groups, group_characters, files, characters = struct.unpack(
        f">{many}Q", data
    )
    tables = users * (user_characters + 8) * bool(user_characters)
    tables += groups * (group_characters + 8) * bool(group_characters)
    if tables > _TABLE_MAX_BYTES or characters > RECORD_MAX_BYTES or (files and not characters):
        raise DataError("invalid header: the list is damaged", code="list-damaged")
    if times and 0 < times[0] <= times[1] < _SECONDS_MAX:
        reading.started_ns = times[0] * list_reading.NS_PER_S
        reading.ended_ns = times[1] * list_reading.NS_PER_S + list_reading.NS_PER_S - 1
    left = tables  # names of users and groups: only the numbers matter
    while left:
        skipped = len(file.read(min(left, CHUNK_BYTES)))
        if not skipped:
            raise DataError(
                "the list ends within its table of users and groups", code="list-truncated"
            )
        left -= skipped
    return files, characters, 8 + 8 * many + tables


def _exactly(file: BinaryIO, size: int) -> bytes:
    """Return exactly ``size`` bytes, fewer only at the end of the file."""
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _frame(
    data: bytes, characters: int, reading: ListReading, *, number: int, offset: int
) -> pl.DataFrame:
    kind = np.dtype([("path", f"S{characters}"), *((name, ">u8") for name in _NUMBERS)])
    array = np.frombuffer(data, dtype=kind)
    numbers = pl.DataFrame(
        # Times are signed numbers stored as unsigned.
        {
            name: array[name].astype(np.uint64).view(np.int64 if "time" in name else np.uint64)
            for name in _NUMBERS
        }
    )
    col = pl.col
    small = numbers.select(
        *(pl.when(col(name) < 2**32).then(col(name)).cast(pl.UInt32) for name in ("uid", "gid")),
        "size_bytes",
        pl.when(col("mode") < 2**32).then("mode"),
    )
    times = [_time(numbers, name) for name in ("atime", "mtime", "ctime")]
    kinds = list_reading.type_of_mode(small["mode"]).alias("type")
    frame = small.drop("mode").with_columns(*times, kinds)
    size = kind.itemsize
    paths = array["path"].tolist()
    reading.take_kind(paths)
    return placed(
        frame, lambda at: (number + at + 1, offset + at * size, paths[at]), paths, reading
    )


def _time(numbers: pl.DataFrame, name: str) -> pl.Series:
    rest_ns = pl.col(f"{name}_rest")
    plain_ns = pl.when((rest_ns >= 0) & (rest_ns < list_reading.NS_PER_S)).then(rest_ns)
    rest = numbers.select(rest=plain_ns).to_series()
    return list_reading.nanoseconds(numbers[name], rest).alias(f"{name}_ns")
