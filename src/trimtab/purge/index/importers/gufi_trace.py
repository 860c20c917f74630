"""Traces of GUFI's ``gufi_dir2trace``: records whose texts have their length before them.

A record is the path, a type and the numbers of ``stat``, parted by 0x1E or another byte, and a line
feed at its end. Paths, link targets, extended attributes and two more texts begin with four
hexadecimal digits that say how long they are, so a record is parsed by lengths and never by
lines: all these may hold line feeds and the parting byte. Source: ``src/trace.c``,
``src/xattrs.c`` of GUFI at 09109d1b (2026-08).

Paths begin with the last component of the directory that was traced. Times are whole seconds. A
trace cannot say that something could not be read: GUFI passes over it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.errors import DataError
from trimtab.purge.index import fields, identity
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import CHUNK_BYTES, RECORD_MAX_BYTES, Reading, Records, placed

if TYPE_CHECKING:
    import polars as pl

_LENGTH: Final = 4
_NUMBERS: Final = ("id", "mode", "nlink", "uid", "gid", "size_bytes", "block_size",
                   "allocated_bytes", "atime_ns", "mtime_ns", "ctime_ns")  # fmt: skip
_COLUMNS: Final = frozenset(
    {"id", "nlink", "uid", "gid", "size_bytes", "allocated_bytes", "atime_ns", "mtime_ns",
     "ctime_ns", "btime_ns", "type"}
)  # fmt: skip
_BATCH_ROWS: Final = 50_000
_KEPT_BYTES: Final = 400
"""Of a record, to show where it is refused."""

Row = tuple[bytes, ...]
"""Path, type, the numbers, birth: as they stand in the trace."""


class _Broken(Exception):
    """A record is not what it should be."""


class _Short(Exception):
    """A record goes on beyond what has been read."""


def read(file: BinaryIO, reading: Reading) -> Iterator[pl.DataFrame]:
    """Yield the rows of a trace.

    Raises
    ------
    DataError
        It does not begin as a trace does.
    """
    reading.times, reading.resolution_ns = TimeTrust.SECONDS, 10**9
    reading.columns |= _COLUMNS
    if not reading.beneath:
        reading.beneath = reading.root.rstrip(b"/").rpartition(b"/")[2]
    texts: list[bytes] = []
    places: list[tuple[int, int | None]] = []
    rows: list[Row] = []
    for number, offset, text, row in _rows(file, reading):
        texts.append(text)
        places.append((number, offset))
        rows.append(row)
        if len(rows) >= _BATCH_ROWS:
            yield _frame(Records(texts, places.__getitem__), rows, reading)
            texts, places, rows = [], [], []
    if rows:
        yield _frame(Records(texts, places.__getitem__), rows, reading)


def _rows(file: BinaryIO, reading: Reading) -> Iterator[tuple[int, int, bytes, Row]]:
    """Yield number and offset of each record, its beginning and what is in it."""
    data, at, offset, number = file.read(CHUNK_BYTES), 0, 0, 0
    if not data:
        return
    parse, ended = _Parser(_delimiter(data)), False
    while not (ended and at >= len(data)):
        row, reason = (), ""
        try:
            row, after = parse(data, at)
        except _Short:
            if not ended and len(data) - at <= RECORD_MAX_BYTES:
                more = file.read(CHUNK_BYTES)
                data, at, offset, ended = data[at:] + more, 0, offset + at, not more
                continue
            after = _next_line(data, at)
            reason = "the list ends within it, or one of its lengths is wrong"
        except _Broken as error:
            after, reason = _next_line(data, at), str(error)
        number += 1
        text = data[at : min(after, at + _KEPT_BYTES)]
        if reason:
            reading.refuse(reason, record=number, offset=offset + at, text=text)
        elif row:
            yield number, offset + at, text, row
        at = after


def _delimiter(data: bytes) -> bytes:
    """Return the byte that parts the fields: what follows the first path."""
    length = re.match(rb"[0-9a-f]{4}", data)
    end = _LENGTH + int(length[0], 16) if length else len(data)
    # A trace begins with a directory; its own path may be long, but not longer than a chunk.
    if end + 2 >= len(data) or data[end + 1 : end + 2] != b"d" or data[end] != data[end + 2]:
        raise DataError(
            "this is no GUFI trace as gufi_dir2trace writes it",
            code="format-unknown",
            hint="traces from before the lengths were added cannot be read unambiguously: "
            "trace again with a newer GUFI",
        )
    return data[end : end + 1]


def _next_line(data: bytes, at: int) -> int:
    """Return where parsing may start again after something broken."""
    place = data.find(b"\n", at)
    return len(data) if place < 0 else place + 1


class _Parser:
    """Parses one record at a place in a buffer."""

    def __init__(self, delimiter: bytes) -> None:
        part = re.escape(delimiter)
        number = rb"(-?[0-9]{1,20})" + part
        self._delimiter = delimiter
        self._external = re.compile(part + rb"e" + part + rb"\n?")
        self._numbers = re.compile(part + rb"([dfl])" + part + number * len(_NUMBERS))
        self._birth = re.compile(part + number + (rb"-?[0-9]{1,20}" + part) * 4)
        self._parent = re.compile(part + rb"-?[0-9]{1,20}" + part + rb"\n")

    def __call__(self, data: bytes, at: int) -> tuple[Row, int]:
        """Return the row, empty where the record stands for no file, and where the next begins."""
        path_at, end = self._text(data, at)
        path = data[path_at:end]
        external = self._external.match(data, end)
        if external is not None:
            return (), external.end()
        numbers = self._match(self._numbers, data, end)
        _, end = self._text(data, numbers.end())  # target of a link
        if data[end : end + 1] not in (b"", self._delimiter):
            raise _Broken("a text does not end where its length says")
        _, end = self._text(data, end + 1)  # extended attributes
        birth = self._match(self._birth, data, end)
        _, end = self._text(data, birth.end())
        if data[end : end + 1] not in (b"", self._delimiter):
            raise _Broken("a text does not end where its length says")
        _, end = self._text(data, end + 1)
        last = self._match(self._parent, data, end)
        return (path, *numbers.groups(), birth[1]), last.end()

    def _text(self, data: bytes, at: int) -> tuple[int, int]:
        """Return where a text with its length before it begins and ends."""
        digits = data[at : at + _LENGTH]
        if len(digits) < _LENGTH:
            raise _Short
        if re.fullmatch(rb"[0-9a-f]{4}", digits) is None:
            raise _Broken("a text has no length before it")
        begin = at + _LENGTH
        end = begin + int(digits, 16)
        if end >= len(data):
            raise _Short
        return begin, end

    def _match(self, pattern: re.Pattern[bytes], data: bytes, at: int) -> re.Match[bytes]:
        match = pattern.match(data, at)
        if match is None:
            # Fields have a most of 20 digits: with as much behind it, it is broken and not short.
            if len(data) - at < 23 * (len(_NUMBERS) + 2):
                raise _Short
            raise _Broken("its numbers are not what they should be")
        return match


def _frame(records: Records, rows: list[Row], reading: Reading) -> pl.DataFrame:
    import polars as pl

    paths, letters, *numbers, births = zip(*rows, strict=True)
    texts = {
        name: fields.text_of(name, values)
        for name, values in zip((*_NUMBERS, "btime_ns"), (*numbers, births), strict=True)
    }
    mode = fields.whole(texts["mode"], pl.UInt32)
    frame = pl.DataFrame(
        [
            identity.of_inodes(fields.whole(texts["id"], pl.UInt64)),
            *(fields.whole(texts[name], pl.UInt32) for name in ("nlink", "uid", "gid")),
            fields.whole(texts["size_bytes"], pl.UInt64),
            fields.blocks(texts["allocated_bytes"]),
            *(fields.seconds(texts[name]) for name in ("atime_ns", "mtime_ns", "ctime_ns")),
            fields.birth(fields.seconds(texts["btime_ns"])),
            type_of_mode(mode, fields.text_of("letter", letters)).alias("type"),
        ]
    )
    return placed(frame.with_columns(id_kind=pl.lit("inode")), records, paths, reading)


def type_of_mode(mode: pl.Series, letter: pl.Series | None = None) -> pl.Series:
    """Return the letter of the type that ``st_mode`` tells; another column's where it tells none.

    Parameters
    ----------
    mode
        Whole numbers without a sign.
    letter
        What stands for a mode without a type; ``None``: ``?``.
    """
    import polars as pl

    letters = {
        stat.S_IFREG: "f",
        stat.S_IFDIR: "d",
        stat.S_IFLNK: "l",
        stat.S_IFIFO: "p",
        stat.S_IFSOCK: "s",
        stat.S_IFBLK: "b",
        stat.S_IFCHR: "c",
    }
    kind = (mode.cast(pl.UInt64) // 0o10000 % 0o20 * 0o10000).cast(pl.Int64)
    known_letters = kind.replace_strict(
        list(letters), list(letters.values()), default=None, return_dtype=pl.String
    )
    other = pl.lit("?") if letter is None else letter
    known = pl.when(mode.is_not_null()).then(pl.coalesce(known_letters, other))
    return pl.select(known.alias(mode.name)).to_series()
