"""Read CSV and Parquet, the formats of vendors' indexes, with a map of their columns.

A map is text, ``TARGET=COLUMN`` or ``TARGET=COLUMN:UNIT``, separated by commas::

    path=file_name,uid=owner_id,size_bytes=size,allocated_bytes=blocks:blocks,atime_ns=atime:s

Targets are the columns of the index (`trimtab.purge.index.shard`) and ``path``. Columns of any kind
are converted through text or integers, never through floating point.

CSV is read byte for byte: names may be any bytes, quoted with ``"`` if they contain the delimiter,
a quote or a line feed. Parquet is read in slices; values are converted as integers or as text,
which is exact for times with a zone and for bytes too, and inexact values are rejected (a fraction
in a ``double`` does not give nanoseconds).
"""

from __future__ import annotations

import base64
import binascii
import codecs
import grp
import pwd
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from trimtab.base.error import DataError, UsageError, system_errors, visible
from trimtab.purge.index import list_reading, shard
from trimtab.purge.index.list_reading import (
    CHUNK_BYTES,
    RECORD_MAX_BYTES,
    ListReading,
    Locate,
    placed,
)
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.printf_list import Reader

_PATHS: Final = ("raw", "percent", "base64", "hex")
_TIMES: Final = ("s", "ms", "us", "ns", "iso")
UNITS: Final[Mapping[str, tuple[str, ...]]] = {
    "path": _PATHS,
    "parent": _PATHS,
    "name": _PATHS,
    "id": ("inode", "fid"),
    "device": ("number",),
    "uid": ("number", "name"),
    "gid": ("number", "name"),
    "project": ("number",),
    "size_bytes": ("B", "KiB", "MiB"),
    "allocated_bytes": ("B", "blocks", "KiB", "MiB"),
    "nlink": ("number",),
    "atime_ns": _TIMES,
    "mtime_ns": _TIMES,
    "ctime_ns": _TIMES,
    "btime_ns": _TIMES,
    "type": ("letter", "mode", "word"),
    "stripe_count": ("number",),
    "osts": ("numbers",),
    "pool": ("raw",),
}
"""Units of each target; the first is the default, except for targets in `_EXPLICIT`."""

_EXPLICIT: Final = frozenset({"id", "atime_ns", "mtime_ns", "ctime_ns", "btime_ns"})
"""Targets without a default unit, because a wrong guess would look plausible.

Seconds read as nanoseconds make every file 50 years old.
"""

_WORDS: Final = {
    "f": ("f", "file", "regular", "regular file", "reg"),
    "d": ("d", "dir", "directory"),
    "l": ("l", "link", "symlink", "symbolic link", "lnk"),
    "p": ("p", "fifo", "pipe"),
    "s": ("s", "socket", "sock"),
    "b": ("b", "block", "block device", "blk"),
    "c": ("c", "char", "character device", "chr"),
}
_BYTES: Final = {"B": 1, "blocks": 512, "KiB": 1024, "MiB": 1024**2}
NUMBER_UNITS: Final = frozenset({"inode", "number", *_BYTES, "s", "ms", "us", "ns", "mode"})
"""Units whose values may be text or integers."""

_RESOLUTION_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "iso": 1}
_ISO: Final = (
    r"\A([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-5][0-9])(?:\.([0-9]{1,9}))?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})\z"
)


@dataclass(frozen=True, slots=True)
class Mapped:
    """One column of a table: its target in the index, its name in the table, and its unit."""

    target: str
    column: str
    unit: str


@dataclass(frozen=True, slots=True)
class Names:
    """Numbers of users and groups by name, for tables with names."""

    users: Mapping[str, int]
    groups: Mapping[str, int]


NO_NAMES: Final = Names({}, {})


def parse_map(texts: Sequence[str]) -> tuple[Mapped, ...]:
    """Return a column map.

    Parameters
    ----------
    texts
        Each one pair, or several separated by commas.

    Raises
    ------
    UsageError
        A target or unit is unknown, repeated or missing; a path, an owner and a length are
        required.

    Examples
    --------
    >>> parse_map(["path=name,uid=owner", "size_bytes=size", "atime_ns=atime:s"])[3]
    Mapped(target='atime_ns', column='atime', unit='s')
    """
    columns: dict[str, Mapped] = {}
    for text in (part for whole in texts for part in whole.split(",")):
        mapped = _pair(text.strip())
        if mapped.target in columns:
            raise UsageError(f"the map has {mapped.target} twice", code="column-repeated")
        columns[mapped.target] = mapped
    placed_by_path = "path" in columns
    if placed_by_path == ("name" in columns) or (placed_by_path and "parent" in columns):
        raise UsageError(
            "the map must have the path, or the directory and the name",
            code="column-missing",
            hint="path=COLUMN, or parent=COLUMN,name=COLUMN",
        )
    if not placed_by_path and "parent" not in columns:
        raise UsageError(
            "the map has a name without its directory",
            code="column-missing",
            hint="parent=COLUMN",
        )
    for needed in ("uid", "size_bytes"):
        if needed not in columns:
            raise UsageError(
                f"the map lacks {needed}", code="column-missing", hint=f"{needed}=COLUMN"
            )
    return tuple(columns.values())


def _pair(text: str) -> Mapped:
    target, equals, column = text.partition("=")
    if not equals or not column or target not in UNITS:
        raise UsageError(
            f"{visible(text)!r} is not a column mapping",
            code="column-map-malformed",
            hint=f"write TARGET=COLUMN or TARGET=COLUMN:UNIT; targets are {', '.join(UNITS)}",
        )
    known = UNITS[target]
    name, colon, unit = column.rpartition(":")
    if colon and unit in known:
        return Mapped(target, name, unit)
    if target in _EXPLICIT:
        raise UsageError(
            f"{visible(text)!r} lacks the unit of {target}",
            code="unit-missing",
            hint=f"write {target}={visible(column)}:{known[0]}; units are {', '.join(known)}",
        )
    return Mapped(target, column, known[0])


def learn(mapping: Sequence[Mapped], reading: ListReading) -> None:
    """Record which columns a table with this map has, and the resolution of its times."""
    reading.columns |= {mapped.target for mapped in mapping}
    times = [
        mapped
        for mapped in mapping
        if mapped.target.endswith("time_ns") and mapped.target[0] in "amc"
    ]
    reading.resolution_ns = max((_RESOLUTION_NS[time.unit] for time in times), default=1)


def frame_of(
    texts: Mapping[str, pl.Series],
    mapping: Sequence[Mapped],
    locate: Locate,
    reading: ListReading,
    names: Names = NO_NAMES,
) -> pl.DataFrame:
    """Return the acceptable rows of a table, in the types of the index.

    Parameters
    ----------
    texts
        Columns of the table by name, with null for missing values: as Binary, or as integers for
        `NUMBER_UNITS`.
    locate
        Finds the record of a row, to report rejected rows.
    """
    columns: list[pl.Series] = []
    paths: dict[str, list[bytes | None]] = {}
    for mapped in mapping:
        values = texts[mapped.column]
        if mapped.target in ("path", "parent", "name"):
            paths[mapped.target] = _decoded(values.to_list(), mapped.unit)
        elif UNITS[mapped.target] == ("raw",):
            columns.append(list_reading.names_of(mapped.target, values.to_list()))
        else:
            numbers = values.dtype.is_integer()
            text = values if numbers else list_reading.text_of(mapped.target, values)
            columns.append(_reader(mapped, names)(text.alias(mapped.target)).alias(mapped.target))
    frame = pl.DataFrame(columns)
    for mapped in mapping:
        if mapped.target == "id":
            frame = frame.with_columns(id_kind=pl.lit(mapped.unit))
    # Splitting paths rejects b"", which marks a value that cannot be decoded.
    texts_of_paths = _joined(paths)
    if "path" in paths:
        reading.take_kind(texts_of_paths)
    return placed(frame, locate, texts_of_paths, reading)


def _joined(paths: Mapping[str, list[bytes | None]]) -> list[bytes]:
    if "path" in paths:
        return [path or b"" for path in paths["path"]]
    pairs = zip(paths["parent"], paths["name"], strict=True)
    return [
        b"" if parent is None or not name or b"/" in name else parent.rstrip(b"/") + b"/" + name
        if parent else name
        for parent, name in pairs
    ]  # fmt: skip


def _decoded(values: list[bytes | None], unit: str) -> list[bytes | None]:
    decode = _DECODERS.get(unit)
    if decode is None:
        return values
    return [None if value is None else _tried(decode, value) for value in values]


def _tried(decode: Callable[[bytes], bytes], value: bytes) -> bytes | None:
    try:
        return decode(value)
    except binascii.Error:
        return None


_DECODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "percent": urllib.parse.unquote_to_bytes,
    "base64": partial(base64.b64decode, validate=True),
    "hex": binascii.unhexlify,
}


def _reader(mapped: Mapped, names: Names) -> Reader:
    if mapped.target == "btime_ns":
        return lambda text: list_reading.birth(_time(text, mapped.unit))
    if mapped.target.endswith("time_ns"):
        return lambda text: _time(text, mapped.unit)
    if mapped.unit == "name":
        numbers = names.users if mapped.target == "uid" else names.groups
        return lambda text: text.replace_strict(
            list(numbers),
            list(numbers.values()),
            default=list_reading.whole(text, pl.UInt32),  # tools print unnamed owners so
            return_dtype=pl.UInt32,
        )
    if mapped.target == "id":
        return shard.of_fids if mapped.unit == "fid" else _inodes
    if mapped.target in ("size_bytes", "allocated_bytes"):
        return lambda text: list_reading.multiples(text, _BYTES[mapped.unit])
    if mapped.target == "type":
        return lambda text: _type(text, mapped.unit)
    if mapped.target == "osts":
        return list_reading.indices
    kind = pl.UInt64 if mapped.target == "device" else pl.UInt32
    return lambda text: list_reading.whole(text, kind)


def _inodes(text: pl.Series) -> pl.Series:
    return shard.of_inodes(list_reading.whole(text, pl.UInt64))


def _time(text: pl.Series, unit: str) -> pl.Series:
    if unit == "s":
        return list_reading.seconds(text)
    if unit == "iso":
        return _iso(text)
    parts = 10**9 // _RESOLUTION_NS[unit]
    number = list_reading.signed(text)
    # Floor division: the remainder is never negative.
    return list_reading.nanoseconds(number // parts, number % parts * _RESOLUTION_NS[unit])


def _iso(text: pl.Series) -> pl.Series:
    """Return RFC 3339 times as nanoseconds; null without a zone, because it could be any."""
    col = pl.col
    parts = text.str.extract_groups(_ISO).struct.unnest()
    parts.columns = ["date", "clock", "places", "zone"]
    numbers = parts.select(
        local_s=pl.concat_str("date", "clock", separator=" ")
        .str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False)
        .dt.epoch("s"),
        zone=pl.when(col("zone") != "Z").then("zone").fill_null("+0000").str.replace(":", ""),
        rest_ns=col("places").fill_null("0").str.pad_end(9, "0").cast(pl.Int64),
    )
    distance_s = (
        col("zone").str.slice(1, 2).cast(pl.Int64) * 3600
        + col("zone").str.slice(3, 2).cast(pl.Int64) * 60
    )
    east = pl.when(col("zone").str.starts_with("-")).then(-1).otherwise(1)
    both = numbers.select(s=col("local_s") - east * distance_s, rest_ns="rest_ns")
    return list_reading.nanoseconds(both["s"], both["rest_ns"])


def _type(text: pl.Series, unit: str) -> pl.Series:
    if unit == "mode":
        return list_reading.type_of_mode(list_reading.whole(text, pl.UInt32))
    words = {letter: letter for letter in "fdlpsbc?"}
    if unit == "word":
        words = {word: letter for letter, known in _WORDS.items() for word in known}
        text = text.str.to_lowercase()
    return text.replace_strict(
        list(words), list(words.values()), default=None, return_dtype=pl.String
    )


def names_of(
    column_map: Sequence[str], users: Path | None = None, groups: Path | None = None
) -> Names:
    """Return the numbers of users and groups by name, where a list may hold names.

    Raises
    ------
    UnreadableError
        A file of them cannot be read.
    DataError
        It is not what ``getent`` prints.
    """
    if not any(part.strip().endswith(":name") for text in column_map for part in text.split(",")):
        return NO_NAMES
    return Names(
        _numbers(users) if users else {each.pw_name: each.pw_uid for each in pwd.getpwall()},
        _numbers(groups) if groups else {each.gr_name: each.gr_gid for each in grp.getgrall()},
    )


def _numbers(file: Path) -> dict[str, int]:
    """Return the number in the third field of each line, by the name in its first."""
    shown, numbers = visible(file), {}
    with system_errors(f"cannot read {shown}", code="unreadable-file"):
        lines = file.read_text("utf-8", "surrogateescape").splitlines()
    for number, line in enumerate(lines, 1):
        parts = line.split(":")
        if not line.strip():
            continue
        if len(parts) < 3 or not (parts[2].isascii() and parts[2].isdigit()):
            raise DataError(
                "no name with its number",
                code="account-malformed",
                file=shown,
                line=number,
                hint="getent passwd",
            )
        numbers[parts[0]] = int(parts[2])
    return numbers


_ROWS: Final = 100_000
_SHOWN: Final = 200
"""Bytes of a row to show if it is rejected."""


def read_csv(
    file: BinaryIO,
    reading: ListReading,
    *,
    mapping: Sequence[Mapped],
    names: Names = NO_NAMES,
    delimiter: str = ",",
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a CSV file whose first line names its columns.

    Raises
    ------
    UsageError
        The map names a missing column, or the delimiter is not one character.
    DataError
        The first line is missing or malformed.
    """
    from trimtab._core import csv_rows
    from trimtab.purge.index.shard import TIMES

    _begin(mapping, reading)
    reading.bounded = TIMES
    part = _delimiter(delimiter)
    data, head, offset = _head(file, part)
    at = _places(mapping, head)
    wanted = [(i, _are_numbers(mapping, column)) for column, i in at.items()]
    roots = {mapped.column for mapped in mapping if mapped.target == "parent"}
    number, ended = 1, False
    while not ended:
        chunk = file.read(CHUNK_BYTES)
        data, ended = data + chunk, not chunk
        cut = ended and not data.endswith((b"\n", b"\r"))
        rows, refused, records, length = csv_rows(data, part, wanted, len(head), ended and not cut)
        for record, place, reason in refused:
            shown = data[place : place + _SHOWN]
            reading.refuse(reason, record=number + record, offset=offset + place, text=shown)
        frame = pl.DataFrame(rows)
        if frame.height:
            columns = frame.get_columns()
            texts = dict(zip(at, columns[3:], strict=True))
            # An empty field is no value, but for a directory it is the root.
            texts |= {column: texts[column].fill_null(b"") for column in roots}
            located = _located(data, columns[:3], number, offset)
            yield frame_of(texts, mapping, located, reading, names)
        number, offset, data = number + records, offset + length, data[length:]
        if cut and data:
            reading.refuse(
                "the list ends within this record", record=number, offset=offset, text=data
            )
            return
        if len(data) > RECORD_MAX_BYTES:
            reading.refuse("it has no end", record=number, offset=offset, text=data)
            return


def _delimiter(delimiter: str) -> bytes:
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UsageError(f"{visible(delimiter)!r} cannot be a delimiter", code="option-unfitting")
    return delimiter.encode("utf-8", "surrogateescape")


def _head(file: BinaryIO, delimiter: bytes) -> tuple[bytes, list[str], int]:
    """Return the data after the first line, its column names, and its length in bytes."""
    from trimtab._core import csv_head

    data = file.read(CHUNK_BYTES)
    ended, marked = len(data) < CHUNK_BYTES, data.startswith(codecs.BOM_UTF8)
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data:
        raise DataError("empty: the first line must have the column names", code="table-empty")
    try:
        head = csv_head(data, delimiter, ended)
    except ValueError as error:
        raise DataError(
            f"its first line is not CSV: {error}", code="table-malformed", line=1
        ) from error
    if head is None:
        raise DataError("its first line has no end", code="table-malformed", line=1)
    names, end = head
    columns = [name.decode("utf-8", "surrogateescape") for name in names]
    return data[end:], columns, end + len(codecs.BOM_UTF8) * marked


def _are_numbers(mapping: Sequence[Mapped], column: str) -> bool:
    return all(mapped.unit in NUMBER_UNITS for mapped in mapping if mapped.column == column)


def _located(data: bytes, places: list[pl.Series], number: int, offset: int) -> Locate:
    numbers, begins, ends = places

    def locate(at: int) -> tuple[int, int, bytes]:
        begin = begins[at]
        shown = data[begin : min(ends[at], begin + _SHOWN)]
        return number + numbers[at], offset + begin, shown

    return locate


def read_parquet(
    file: str, reading: ListReading, *, mapping: Sequence[Mapped], names: Names = NO_NAMES
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a Parquet file.

    Raises
    ------
    UsageError
        The map names a column that is missing, or of a type that cannot be read exactly.
    DataError
        Not Parquet, or damaged.
    """
    _begin(mapping, reading)
    shown = visible(file)
    try:
        table = pl.scan_parquet(file, glob=False)
        schema = table.collect_schema()
        at = _places(mapping, schema.names())
        columns = {mapped.column: _exactly(schema, mapped) for mapped in mapping}
        table = table.select(text.alias(column) for column, text in columns.items())
        first = 0
        while True:
            batch = table.slice(first, _ROWS).collect()
            if not batch.height:
                return
            texts = {column: batch[column] for column in at}
            located = partial(_row, first + 1)
            yield frame_of(texts, mapping, located, reading, names)
            first += batch.height
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        # A panic is not an Exception: Polars panics on some damaged pages.
        raise DataError(
            f"it cannot be read as Parquet: {visible(str(error))}",
            code="table-malformed",
            file=shown,
        ) from error
    except OSError as error:
        raise DataError(
            f"it cannot be read: {visible(str(error))}", code="unreadable-file", file=shown
        ) from error


def _row(number: int, at: int) -> tuple[int, int, bytes]:
    return number + at, at, b""


def _begin(mapping: Sequence[Mapped], reading: ListReading) -> None:
    learn(mapping, reading)
    exact = reading.resolution_ns < 10**9
    reading.times = TimeTrust.EXACT_NS if exact else TimeTrust.SECONDS
    if "type" not in reading.columns:
        reading.note("the table has no types: all names are taken to be regular files")


def _places(mapping: Sequence[Mapped], head: Sequence[str]) -> dict[str, int]:
    places = {}
    for mapped in mapping:
        if head.count(mapped.column) != 1:
            several = "has several columns" if mapped.column in head else "has no column"
            raise UsageError(
                f"the table {several} {visible(mapped.column)!r}, which the map names",
                code="column-missing",
                hint=f"its columns are {', '.join(map(visible, head))}",
            )
        places[mapped.column] = head.index(mapped.column)
    return places


def _exactly(schema: pl.Schema, mapped: Mapped) -> pl.Expr:
    """Return a column in the form for `frame_of`; null if a value is not exact."""
    column, kind = pl.col(mapped.column), schema[mapped.column]
    if kind == pl.Binary:
        return column
    if kind.is_float():
        # Integers below 2^53 are exact; fractions of a second in a double are not.
        whole = (column == column.floor()) & (column.abs() < 2**53)
        column, kind = pl.when(whole).then(column.cast(pl.Int64, strict=False)), pl.Int64()
    if kind.is_integer() and mapped.unit in NUMBER_UNITS:
        return column
    if kind.is_integer() or kind in (pl.String, pl.Categorical):
        return column.cast(pl.String).cast(pl.Binary)
    if isinstance(kind, pl.Datetime):
        return _datetime(column, kind, mapped)
    if isinstance(kind, pl.List) and mapped.target == "osts":
        return column.cast(pl.List(pl.String)).list.join(",").cast(pl.Binary)
    raise UsageError(
        f"column {visible(mapped.column)!r} has type {kind}, which cannot be read as "
        f"{mapped.target}",
        code="column-type",
        hint="write it as integer or text",
    )


def _datetime(column: pl.Expr, kind: pl.Datetime, mapped: Mapped) -> pl.Expr:
    if mapped.unit != "iso":
        raise UsageError(
            f"column {visible(mapped.column)!r} has times, not numbers of {mapped.unit}",
            code="unit-mismatch",
            hint=f"write {mapped.target}={visible(mapped.column)}:iso",
        )
    if kind.time_zone is None:
        raise UsageError(
            f"the times in {visible(mapped.column)!r} have no zone",
            code="zone-missing",
            hint="write them with one, or as seconds since 1970",
        )
    utc = column.dt.convert_time_zone("UTC")
    return utc.dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").cast(pl.Binary)
