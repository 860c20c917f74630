"""Read lists of other tools into exact columns: no value is rounded, wrapped or guessed.

Each converter takes a column and returns one, with null for malformed text; such records are
rejected, and `ListReading` counts them. Converters work in steps, a column at a time, because one
large expression would compute its parts repeatedly.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final

import numpy as np
import polars as pl

from trimtab.base.error import visible
from trimtab.purge.index.manifest import EXAMPLES_MAXIMUM, Lack, Refused, TimeTrust

NS_PER_S: Final = 10**9
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
_SECONDS_MAX: Final = INT64_MAX // NS_PER_S
"""9,223,372,036 s, in the year 2262: later times exceed 64 bits of nanoseconds."""


def text_of(name: str, values: pl.Series | Sequence[bytes | None]) -> pl.Series:
    """Return bytes as text; null if not UTF-8."""
    series = pl.Series(name, values, dtype=pl.Binary)
    try:
        return series.cast(pl.String)
    except pl.exceptions.ComputeError:  # some value is not UTF-8: rare, so check each
        return pl.Series(name, [_decoded(value) for value in values], dtype=pl.String)


def names_of(name: str, values: Sequence[bytes | None]) -> pl.Series:
    """Return names as bytes; null if empty."""
    return pl.Series(name, [value or None for value in values], dtype=pl.Binary)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def whole(text: pl.Series, kind: type[pl.DataType]) -> pl.Series:
    """Return decimal digits as an unsigned number; null for anything else or on overflow.

    Parameters
    ----------
    text
        Digits, or integers.
    """
    return _digits(text, kind, ("+", "-"))


def signed(text: pl.Series) -> pl.Series:
    """Return decimal digits with an optional ``-`` as Int64; null for anything else.

    Parameters
    ----------
    text
        Digits, or integers.
    """
    return _digits(text, pl.Int64, ("+",))


def _digits(text: pl.Series, kind: type[pl.DataType], but: Sequence[str]) -> pl.Series:
    """Return integers, from text that Polars accepts as one without any of the signs ``but``."""
    if text.dtype.is_integer():
        return text.cast(kind, strict=False)
    column = pl.col(text.name)
    # Besides digits Polars accepts only a sign: tests check this digit by digit.
    odd = pl.any_horizontal(column.str.starts_with(sign) for sign in but)
    return text.to_frame().select(pl.when(~odd).then(column).cast(kind, strict=False)).to_series()


def multiples(text: pl.Series, unit_bytes: int) -> pl.Series:
    """Return a number of units as bytes; null if not a number, or on overflow."""
    number = whole(text, pl.UInt64)
    column = pl.col(text.name)
    fits = column <= (2**64 - 1) // unit_bytes
    return number.to_frame().select(pl.when(fits).then(column) * unit_bytes).to_series()


def seconds(text: pl.Series) -> pl.Series:
    """Return seconds since 1970 with up to nine decimals as nanoseconds.

    Further decimals must be zeros (GNU find prints ten). Times out of range are clamped.

    Parameters
    ----------
    text
        Digits, or integers.
    """
    col = pl.col
    if text.dtype.is_integer() or not text.str.contains(".", literal=True).any():
        whole_s = signed(text)  # faster by a half
        return nanoseconds(whole_s, pl.zeros(len(whole_s), dtype=pl.Int64, eager=True))
    parts = text.alias("text").to_frame().select(
        negative=col("text").str.starts_with("-"),
        odd=col("text").str.starts_with("+"),
        parts=col("text").str.splitn(".", 2).struct.rename_fields(["whole", "places"]),
    ).unnest("parts")  # fmt: skip
    numbers = parts.select(
        "negative",
        whole_s=pl.when(~col("odd")).then("whole").cast(pl.Int64, strict=False),
        nine=col("places").str.head(9).str.pad_end(9, "0"),
        finer=col("places").str.slice(9).str.contains(r"[^0]").fill_null(value=False),
        digits=col("places").str.contains(r"\A[0-9]").fill_null(value=True),
    ).select(
        "negative",
        "whole_s",
        rest_ns=col("nine").fill_null("0").cast(pl.UInt64, strict=False).cast(pl.Int64),
        plain=col("digits") & ~col("finer"),
    )
    rest_ns = pl.when("negative").then(-col("rest_ns")).otherwise("rest_ns")
    both = numbers.select("whole_s", rest_ns=pl.when("plain").then(rest_ns))
    return nanoseconds(both["whole_s"], both["rest_ns"]).alias(text.name)


def nanoseconds(whole_s: pl.Series, rest_ns: pl.Series) -> pl.Series:
    """Return seconds and nanoseconds, both Int64, as nanoseconds; out of range values are clamped.

    Parameters
    ----------
    rest_ns
        Between -999,999,999 and 999,999,999.
    """
    col = pl.col
    frame = pl.DataFrame({"s": whole_s, "rest_ns": rest_ns}).select(
        "s",
        "rest_ns",
        near_ns=col("s").clip(-_SECONDS_MAX, _SECONDS_MAX) * NS_PER_S,
    )
    # Neither margin overflows, and one of them always spans the full 64 bits.
    above_ns = INT64_MAX - col("near_ns").clip(lower_bound=0)
    below_ns = INT64_MIN - col("near_ns").clip(upper_bound=0)
    fitting_ns = pl.max_horizontal(pl.min_horizontal("rest_ns", above_ns), below_ns)
    known = col("s").is_not_null() & col("rest_ns").is_not_null()
    value = (
        pl.when(~known)
        .then(None)
        .when(col("s") > _SECONDS_MAX)
        .then(pl.lit(INT64_MAX, pl.Int64))
        .when(col("s") < -_SECONDS_MAX)
        .then(pl.lit(INT64_MIN, pl.Int64))
        .otherwise(col("near_ns") + fitting_ns)
    )
    return frame.select(value.alias(whole_s.name)).to_series()


def birth(value_ns: pl.Series) -> pl.Series:
    """Return a birth time; null for 0, which tools print for an unknown one.

    No file system with birth times is as old as 1970.
    """
    column = pl.col(value_ns.name)
    return value_ns.to_frame().select(pl.when(column != 0).then(column)).to_series()


def indices(text: pl.Series) -> pl.Series:
    """Return all numbers in a text, in order; null if there is none or one is too large."""
    col = pl.col("all")
    numbers = text.str.extract_all("[0-9]+").cast(pl.List(pl.UInt32), strict=False).alias("all")
    known = (col.list.len() > 0) & ~col.list.eval(pl.element().is_null()).list.any()
    return numbers.to_frame().select(pl.when(known).then(col).alias(text.name)).to_series()


def type_of_mode(mode: pl.Series) -> pl.Series:
    """Return the type letter for ``st_mode``; ``?`` if it has no known type.

    Parameters
    ----------
    mode
        Unsigned integers.
    """
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
    letter = kind.replace_strict(
        list(letters), list(letters.values()), default="?", return_dtype=pl.String
    )
    known = pl.when(mode.is_not_null()).then(letter)
    return pl.select(known.alias(mode.name)).to_series()


CHUNK_BYTES: Final = 8 * 1024**2
"""Part of a list in memory at once, several times over while it is parsed."""

BLOCK_BYTES: Final = 1024**2
"""Bytes read at once, so that they stay in the processor's cache until parsed."""

RECORD_MAX_BYTES: Final = 4 * 1024**2
"""Longest record: a path at a depth of 10^5 directories has some hundred kilobytes."""

_TEXT_MAX: Final = 160


@dataclass(slots=True)
class ListReading:
    """Facts that an importer collects beside the rows; it fills them in as it reads.

    Attributes
    ----------
    root
        Absolute directory that contains the paths.
    columns
        Columns that the list has.
    times, resolution_ns
        Reliability and resolution of its times.
    started_ns, ended_ns
        Start and end of the scan, if the list has them, in ns since 1970.
    ended_well
        Whether the list itself proves that the tool ended without an error.
    plain_names
        Whether every name can be separated from the records around it.
    beneath
        Prefix of relative paths, to be removed.
    absolute
        Whether paths are absolute, if one tool wrote all in one way; ``None`` until one is read.
    latest_ns
        Latest plausible time: a day after the list was made.
    bounded
        Times checked against ``latest_ns``. Users may set two of them to anything, so real file
        systems have later ones: these are rejected only where a lost part of a list could forge
        them.
    """

    root: bytes
    beneath: bytes = b""
    absolute: bool | None = None
    latest_ns: int = INT64_MAX
    bounded: tuple[str, ...] = ("ctime_ns",)
    columns: set[str] = field(default_factory=set)
    times: TimeTrust = TimeTrust.EXACT_NS
    resolution_ns: int = 1
    started_ns: int | None = None
    ended_ns: int | None = None
    ended_well: bool = False
    plain_names: bool = True
    refused: int = 0
    examples: list[Refused] = field(default_factory=list)
    vanished: int = 0
    notes: list[str] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)

    def refuse(
        self,
        reason: str,
        record: int | None = None,
        offset: int | None = None,
        text: bytes = b"",
    ) -> None:
        """Count a rejected record, and keep the first ones as examples."""
        self.refused += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.examples) < EXAMPLES_MAXIMUM:
            shown = visible(text[:_TEXT_MAX])
            self.examples.append(Refused(record, offset, reason, shown))

    def refuse_counted(
        self, counted: Iterable[tuple[str, int]], shown: Iterable[tuple[str, int, int, bytes]]
    ) -> None:
        """Count rejected records by reason, and keep the first ones as examples."""
        for reason, many in counted:
            self.refused += many
            self.reasons[reason] = self.reasons.get(reason, 0) + many
        for reason, number, offset, text in shown:
            if len(self.examples) < EXAMPLES_MAXIMUM:
                beginning = visible(text)
                self.examples.append(Refused(number, offset, reason, beginning))

    def take_kind(self, paths: Iterable[bytes]) -> None:
        """Learn from the first path whether the tool wrote absolute or relative ones.

        The rest of a torn path may be of the other kind.
        """
        if self.absolute is None:
            self.absolute = next((path.startswith(b"/") for path in paths if path), None)

    def note(self, sentence: str) -> None:
        """Add a remark for readers of the index, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def lacking(self) -> frozenset[Lack]:
        """Return the data that the list lacks."""
        from trimtab.purge.index.shard import lacking_of

        names = frozenset() if self.plain_names else frozenset({Lack.PLAIN_NAMES})
        return lacking_of(self.columns) | names


Locate = Callable[[int], tuple[int, int | None, bytes]]
"""Number (from 1), offset if known, and bytes to show of a row's record.

Called only for rejected rows.
"""


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Consecutive records, separated only on access.

    Attributes
    ----------
    data, begin, end
        Their buffer and its part, including the last terminator.
    number, offset
        Position of the first record in the list: from 1, and in bytes.
    """

    data: bytes
    begin: int
    end: int
    terminator: bytes
    number: int
    offset: int

    def __bool__(self) -> bool:
        """Whether there are records."""
        return self.begin < self.end

    def count(self) -> int:
        """Return the number of records."""
        part = np.frombuffer(self.data, np.uint8, self.end - self.begin, self.begin)
        return int(np.count_nonzero(part == self.terminator[0]))

    def first(self, many: int) -> list[bytes]:
        """Return at most ``many`` records from the start."""
        records = []
        begin = self.begin
        while begin < self.end and len(records) < many:
            end = self.data.index(self.terminator, begin, self.end)
            records.append(self.data[begin:end])
            begin = end + 1
        return records

    def last(self) -> bytes:
        """Return the last record."""
        return self.data[self._last_begins() : self.end - 1]

    def without_first(self) -> RecordBlock:
        """Return the block without its first record."""
        begin = self.data.index(self.terminator, self.begin) + 1
        after = self.offset + begin - self.begin
        return replace(self, begin=begin, number=self.number + 1, offset=after)

    def without_last(self) -> RecordBlock:
        """Return the block without its last record."""
        return replace(self, end=self._last_begins())

    def refuse_first(self, reason: str, reading: ListReading) -> None:
        """Reject the first record."""
        reading.refuse(reason, self.number, self.offset, self.first(1)[0])

    def _last_begins(self) -> int:
        return max(self.begin, self.data.rfind(self.terminator, self.begin, self.end - 1) + 1)


def blocks(
    file: BinaryIO, terminator: bytes, reading: ListReading, *, chunk_bytes: int = BLOCK_BYTES
) -> Iterator[RecordBlock]:
    """Yield the records of a list in blocks.

    Data after the last terminator is a truncated record and is rejected. A record that is too long,
    however long, is skipped in bounded memory.
    """
    rest, number, offset = b"", 1, 0
    passing = False  # skipping the rest of a record that is too long
    while chunk := file.read(chunk_bytes):
        data = rest + chunk
        begin, end = 0, data.rfind(terminator) + 1
        rest = data[end:]
        if end and passing:
            passing = False
            begin = data.index(terminator) + 1
            number, offset = number + 1, offset + begin
        if begin < end:
            block = RecordBlock(data, begin, end, terminator, number, offset)
            yield block
            number += block.count()
            offset += end - begin
        if len(rest) > RECORD_MAX_BYTES:
            if not passing:
                reading.refuse("it has no end", number, offset, rest)
            passing = True
            offset += len(rest)
            rest = b""
    if rest and not passing:
        reading.refuse("the list ends within this record", number, offset, rest)


def placed(
    frame: pl.DataFrame, locate: Locate, paths: Sequence[bytes], reading: ListReading
) -> pl.DataFrame:
    """Return the valid rows of a frame, with ``parent`` and ``name``.

    Parameters
    ----------
    frame
        One row per record; a null in a required column is a malformed value.
    paths
        Path of each record, as in the list.
    """
    from trimtab.purge.index.shard import TIMES, required

    parents, names, reasons = split_paths(
        paths, reading.root, beneath=reading.beneath, absolute=reading.absolute
    )
    frame = frame.with_columns(parents, names)
    # An unreadable project could be an exempt one; an unreadable layout or birth does no harm.
    needed = [name for name in frame.columns if name in (*required(), *TIMES, "project")]
    times = [name for name in reading.bounded if name in needed]
    in_time = [pl.col(name) <= reading.latest_ns for name in times]
    good = frame.select(pl.all_horizontal(pl.col(needed).is_not_null(), *in_time)).to_series()
    good = good.fill_null(value=False)
    if good.all():
        return frame
    for at in (~good).arg_true().to_list():
        reason = reasons.get(at)
        if reason != ROOT_ITSELF:  # the root has no name: harmless
            why = reason or _wrong(frame.row(at, named=True), needed, times)
            reading.refuse(why, *locate(at))
    return frame.filter(good)


def _wrong(row: Mapping[str, Any], needed: Sequence[str], times: Sequence[str]) -> str:
    if wrong := [name for name in needed if row[name] is None]:
        return f"{', '.join(wrong)}: not what it should be"
    latest = max(times, key=lambda name: row[name])
    return f"{latest}: more than a day after the list was made"


ROOT_ITSELF: Final = ""
"""Used as the reason for the root itself, which has no name in an index."""


def joined(directory: bytes, name: bytes) -> bytes:
    """Return the path of a name in a directory, relative to the root."""
    return directory + b"/" + name if directory else name


def split_paths(
    paths: Sequence[bytes], root: bytes, *, beneath: bytes = b"", absolute: bool | None = None
) -> tuple[pl.Series, pl.Series, dict[int, str]]:
    """Return directory and name of each path, and the reason by index where that fails.

    Paths are never normalised: ``a/../b`` may differ from ``b`` if ``a`` is a link, so it is
    rejected.

    Parameters
    ----------
    paths
        Absolute ones begin with ``root``; others are relative to it, optionally with ``./``.
    root
        An absolute path without a trailing slash, except for ``/``.
    beneath
        Prefix of relative paths instead of ``./``; it is removed.
    absolute
        Whether all must be absolute, or relative; ``None`` for either.

    Examples
    --------
    >>> parents, names, reasons = split_paths([b"/scratch/a/b", b"./c", b"/etc"], b"/scratch")
    >>> parents.to_list(), names.to_list(), reasons
    ([b'a', b'', None], [b'b', b'c', None], {2: 'it is not beneath the root'})
    """
    from trimtab._core import place_paths

    columns, unplaced = place_paths(paths, root, beneath, absolute)
    parents, names = pl.DataFrame(columns)
    return parents, names, dict(unplaced)
