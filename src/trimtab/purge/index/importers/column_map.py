r"""Any table as an index: which of its columns is which, and in what unit.

A map is text, ``TARGET=COLUMN`` or ``TARGET=COLUMN:UNIT``, parted by commas::

    path=file_name,uid=owner_id,size_bytes=size,allocated_bytes=blocks:blocks,atime_ns=atime:s

Targets are the columns of the index (`trimtab.purge.index.schema`) and ``path``. Whatever kind of
column a table has, it goes through text, so that a number is read in one way only.
"""

from __future__ import annotations

import base64
import binascii
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.errors import UsageError
from trimtab.purge.index import fields, identity
from trimtab.purge.index.importers.gufi_trace import type_of_mode
from trimtab.purge.index.reading import Reading, Record, placed
from trimtab.visible import visible

if TYPE_CHECKING:
    import polars as pl

UNITS: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("raw", "percent", "base64", "hex"),
    "parent": ("raw", "percent", "base64", "hex"),
    "name": ("raw", "percent", "base64", "hex"),
    "id": ("inode", "fid"),
    "device": ("number",),
    "uid": ("number", "name"),
    "gid": ("number", "name"),
    "project": ("number",),
    "size_bytes": ("B", "KiB", "MiB"),
    "allocated_bytes": ("B", "blocks", "KiB", "MiB"),
    "nlink": ("number",),
    "atime_ns": ("s", "ms", "us", "ns", "iso"),
    "mtime_ns": ("s", "ms", "us", "ns", "iso"),
    "ctime_ns": ("s", "ms", "us", "ns", "iso"),
    "btime_ns": ("s", "ms", "us", "ns", "iso"),
    "type": ("letter", "mode", "word"),
    "stripe_count": ("number",),
    "osts": ("numbers",),
}
"""Of each target its units; the first is meant where none is named and none is `_EXPLICIT`."""

_EXPLICIT: Final = frozenset({"id", "atime_ns", "mtime_ns", "ctime_ns", "btime_ns"})
"""Where a wrong guess would be a wrong number that looks right: seconds read as nanoseconds make
every file 50 years old."""

_WORDS: Final = {
    "f": ("f", "file", "regular", "regular file", "reg"),
    "d": ("d", "dir", "directory"),
    "l": ("l", "link", "symlink", "symbolic link", "lnk"),
    "p": ("p", "fifo", "pipe"),
    "s": ("s", "socket", "sock"),
    "b": ("b", "block", "block device", "blk"),
    "c": ("c", "char", "character device", "chr"),
}
_RESOLUTION_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "iso": 1}
_ISO: Final = (
    r"\A([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})\z"
)


@dataclass(frozen=True, slots=True)
class Mapped:
    """One column of a table: what it is, what it is called there, in what unit it is."""

    target: str
    column: str
    unit: str


@dataclass(frozen=True, slots=True)
class Names:
    """Numbers of users and groups by their names, for tables that hold names."""

    users: Mapping[str, int]
    groups: Mapping[str, int]


NO_NAMES: Final = Names({}, {})


def parse_map(texts: Sequence[str]) -> tuple[Mapped, ...]:
    """Return a column map.

    Parameters
    ----------
    texts
        Each one pair or several with commas between them.

    Raises
    ------
    UsageError
        A target or unit is not known, stands twice or is missing; a path, an owner and a length
        are needed.

    Examples
    --------
    >>> parse_map(["path=name,uid=owner", "size_bytes=size", "atime_ns=atime:s"])[3]
    Mapped(target='atime_ns', column='atime', unit='s')
    """
    found: dict[str, Mapped] = {}
    for text in (part for whole in texts for part in whole.split(",")):
        one = _pair(text.strip())
        if one.target in found:
            raise UsageError(f"the map names {one.target} twice")
        found[one.target] = one
    placed_by_path = "path" in found
    if placed_by_path == ("name" in found) or (placed_by_path and "parent" in found):
        raise UsageError(
            "the map has to name the path, or the directory and the name",
            hint="path=COLUMN, or parent=COLUMN,name=COLUMN",
        )
    if not placed_by_path and "parent" not in found:
        raise UsageError("the map names a name without its directory", hint="parent=COLUMN")
    for needed in ("uid", "size_bytes"):
        if needed not in found:
            raise UsageError(f"the map does not name {needed}", hint=f"{needed}=COLUMN")
    return tuple(found.values())


def _pair(text: str) -> Mapped:
    target, equals, column = text.partition("=")
    if not equals or not column or target not in UNITS:
        raise UsageError(
            f"{visible(text)!r} is no part of a column map",
            hint=f"write TARGET=COLUMN or TARGET=COLUMN:UNIT; targets are {', '.join(UNITS)}",
        )
    known = UNITS[target]
    name, colon, unit = column.rpartition(":")
    if colon and unit in known:
        return Mapped(target, name, unit)
    if target in _EXPLICIT:
        raise UsageError(
            f"{visible(text)!r} does not say in what unit {target} is",
            hint=f"write {target}={visible(column)}:{known[0]}; units are {', '.join(known)}",
        )
    return Mapped(target, column, known[0])


def learn(mapping: Sequence[Mapped], reading: Reading) -> None:
    """Note what a table with this map tells, and how exact its times are."""
    reading.columns |= {one.target for one in mapping}
    times = [one for one in mapping if one.target.endswith("time_ns") and one.target[0] in "amc"]
    reading.resolution_ns = max((_RESOLUTION_NS[one.unit] for one in times), default=1)


def frame_of(
    texts: Mapping[str, pl.Series],
    mapping: Sequence[Mapped],
    found: list[Record],
    reading: Reading,
    names: Names = NO_NAMES,
) -> pl.DataFrame:
    """Return the rows of a table that can be taken, in the types of the index.

    Parameters
    ----------
    texts
        The columns of the table by name, as Binary; null where there is no value.
    found
        The record of each row, to name what is refused.
    """
    import polars as pl

    columns: dict[str, pl.Series] = {}
    paths: dict[str, list[bytes | None]] = {}
    for one in mapping:
        values = texts[one.column]
        if one.target in ("path", "parent", "name"):
            paths[one.target] = _decoded(values, one.unit)
        else:
            text = values.cast(pl.String, strict=False).to_frame("text")
            reader = _reader(one, names)
            columns[one.target] = text.select(reader(pl.col("text")).alias(one.target)).to_series()
    frame = pl.DataFrame(list(columns.values()))
    if "id" in frame.columns:
        frame = _with_identity(frame, next(one.unit for one in mapping if one.target == "id"))
    # b"" is refused by what splits paths; a value that cannot be decoded becomes one.
    return placed(frame, found, _joined(paths), reading)


def _joined(paths: Mapping[str, list[bytes | None]]) -> list[bytes]:
    if "path" in paths:
        return [path or b"" for path in paths["path"]]
    pairs = zip(paths["parent"], paths["name"], strict=True)
    return [
        b"" if parent is None or not name or b"/" in name else parent.rstrip(b"/") + b"/" + name
        if parent else name
        for parent, name in pairs
    ]  # fmt: skip


def _decoded(values: pl.Series, unit: str) -> list[bytes | None]:
    decode = _DECODERS.get(unit)
    listed = values.to_list()
    if decode is None:
        return listed
    return [None if value is None else decode(value) for value in listed]


def _base64(value: bytes) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return None


def _hex(value: bytes) -> bytes | None:
    try:
        return binascii.unhexlify(value)
    except binascii.Error:
        return None


_DECODERS: Final[Mapping[str, Callable[[bytes], bytes | None]]] = {
    "percent": urllib.parse.unquote_to_bytes,
    "base64": _base64,
    "hex": _hex,
}


def _with_identity(frame: pl.DataFrame, unit: str) -> pl.DataFrame:
    import polars as pl

    if unit == "fid":
        ids = [None if one is None else identity.of_fid(one.encode()) for one in frame["id"]]
        series = pl.Series("id", ids, dtype=pl.Binary)
    else:
        known = frame["id"].is_not_null()
        series = identity.of_inodes(frame["id"].fill_null(0))
        series = pl.select(pl.when(known).then(series)).to_series()
    return frame.with_columns(series.alias("id"), id_kind=pl.lit(unit))


def _reader(one: Mapped, names: Names) -> Callable[[pl.Expr], pl.Expr]:
    import polars as pl

    if one.target.endswith("time_ns"):
        return _birth(one.unit) if one.target == "btime_ns" else _time(one.unit)
    if one.unit == "name":
        numbers = names.users if one.target == "uid" else names.groups
        return lambda text: text.replace_strict(
            list(numbers), list(numbers.values()), default=None, return_dtype=pl.UInt32
        )
    if one.target == "id":
        return (lambda text: text) if one.unit == "fid" else _whole(pl.UInt64)
    if one.target in ("size_bytes", "allocated_bytes"):
        return _bytes({"B": 1, "blocks": 512, "KiB": 1024, "MiB": 1024**2}[one.unit])
    if one.target == "type":
        return _type(one.unit)
    if one.target == "osts":
        return _osts
    return _whole(pl.UInt64 if one.target == "device" else pl.UInt32)


def _whole(kind: type[pl.DataType]) -> Callable[[pl.Expr], pl.Expr]:
    return lambda text: fields.whole(text, kind)


def _bytes(unit: int) -> Callable[[pl.Expr], pl.Expr]:
    import polars as pl

    def read(text: pl.Expr) -> pl.Expr:
        number = fields.whole(text, pl.UInt64)
        return pl.when(number <= (2**64 - 1) // unit).then(number) * unit

    return read


def _time(unit: str) -> Callable[[pl.Expr], pl.Expr]:
    import polars as pl

    if unit == "s":
        return fields.seconds
    if unit == "iso":
        return _iso
    parts = 10**9 // _RESOLUTION_NS[unit]

    def read(text: pl.Expr) -> pl.Expr:
        number = pl.when(text.str.contains(r"\A-?[0-9]{1,19}\z")).then(text)
        number = number.cast(pl.Int64, strict=False)
        # Floor division: what is left is never negative.
        return fields.nanoseconds(number // parts, number % parts * _RESOLUTION_NS[unit])

    return read


def _birth(unit: str) -> Callable[[pl.Expr], pl.Expr]:
    return lambda text: fields.birth(_time(unit)(text))


def _iso(text: pl.Expr) -> pl.Expr:
    """Return RFC 3339 as nanoseconds; a time without a zone is null, for it could be any."""
    import polars as pl

    parts = text.str.extract_groups(_ISO)
    date, clock, places, zone = (parts.struct.field(str(number)) for number in range(1, 5))
    moment = pl.concat_str(date, clock, separator=" ")
    local_s = moment.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False).dt.epoch(
        "s"
    )
    digits = zone.str.replace_all(":", "", literal=True)
    offset_s = (
        digits.str.slice(1, 2).cast(pl.Int64, strict=False) * 3600
        + digits.str.slice(3, 2).cast(pl.Int64, strict=False) * 60
    )
    offset_s = (
        pl.when(zone == "Z").then(0).when(zone.str.starts_with("-")).then(-offset_s)
        .otherwise(offset_s)
    )  # fmt: skip
    rest_ns = places.fill_null("0").str.pad_end(9, "0").cast(pl.Int64, strict=False)
    return fields.nanoseconds(local_s - offset_s, rest_ns)


def _type(unit: str) -> Callable[[pl.Expr], pl.Expr]:
    import polars as pl

    if unit == "mode":
        return lambda text: type_of_mode(fields.whole(text, pl.UInt32))
    if unit == "word":
        words = {word: letter for letter, known in _WORDS.items() for word in known}
        return lambda text: text.str.to_lowercase().replace_strict(
            list(words), list(words.values()), default=None, return_dtype=pl.String
        )
    return lambda text: pl.when(text.str.contains(r"\A[fdlpsbc?]\z")).then(text)


def _osts(text: pl.Expr) -> pl.Expr:
    import polars as pl

    listed = text.str.extract_all(r"[0-9]{1,10}")
    numbers = listed.cast(pl.List(pl.UInt32), strict=False)
    return pl.when(numbers.list.len() > 0).then(numbers)


def read_names(passwd: str) -> dict[str, int]:
    """Return the numbers by name of a passwd(5) or group(5) file.

    Raises
    ------
    UsageError
        A line is not of that format.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(passwd.splitlines(), start=1):
        if not line or line.startswith(("#", "+", "-")):
            continue
        name, *rest = line.split(":")
        if len(rest) < 2 or not re.fullmatch(r"[0-9]{1,10}", rest[1]):
            raise UsageError(f"line {number} is no line of a passwd or group file")
        found.setdefault(name, int(rest[1]))
    return found
