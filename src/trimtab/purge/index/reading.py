"""What is learnt while a list is read: what was refused, what it tells, when it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final

import numpy as np
import polars as pl

from trimtab.purge.index.fields import INT64_MAX
from trimtab.purge.index.manifest import EXAMPLES_MAXIMUM, Lack, Refused, TimeTrust
from trimtab.visible import visible

CHUNK_BYTES: Final = 8 * 1024**2
"""So much of a list is in memory at once, several times over while it is taken apart."""

BLOCK_BYTES: Final = 1024**2
"""So much is read at once: it stays in the processor's cache until it is taken apart."""

RECORD_MAX_BYTES: Final = 4 * 1024**2
"""More is no record: a path at a depth of 10^5 directories has some hundred kilobytes."""

_TEXT_MAX: Final = 160


@dataclass(slots=True)
class Reading:
    """What an importer learns beside the rows; it fills this in as it goes.

    Attributes
    ----------
    root
        What the paths are beneath, absolute.
    columns
        Which columns the list tells.
    times, resolution_ns
        How far its times can be trusted.
    started_ns, ended_ns
        When the file system was looked at, where the list says so itself.
    ended_well
        Whether the list itself proves that the tool came to its end without an error.
    plain_names
        Whether every name can be told from the records around it.
    beneath
        What relative paths begin with, to be taken off.
    absolute
        Whether paths are absolute, where one tool wrote all of them in one way; once one is known.
    latest_ns
        A later time cannot be: more than a day after the list was made.
    bounded
        Which times that holds for. Users set two of them as they like, so that later ones are found
        on real file systems: they are refused only where a lost part of a list could make them up.
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
        """Count a record that cannot be taken, and keep the first of them to be shown."""
        self.refused += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.examples) < EXAMPLES_MAXIMUM:
            shown = visible(text[:_TEXT_MAX])
            self.examples.append(Refused(record, offset, reason, shown))

    def refuse_counted(
        self, counted: Iterable[tuple[str, int]], shown: Iterable[tuple[str, int, int, bytes]]
    ) -> None:
        """Count records that cannot be taken, by their reasons, and keep the first to be shown."""
        for reason, many in counted:
            self.refused += many
            self.reasons[reason] = self.reasons.get(reason, 0) + many
        for reason, number, offset, text in shown:
            if len(self.examples) < EXAMPLES_MAXIMUM:
                beginning = visible(text)
                self.examples.append(Refused(number, offset, reason, beginning))

    def take_kind(self, paths: Iterable[bytes]) -> None:
        """Take the first path for how the tool wrote all of them: absolute or relative.

        What is left of a torn path may be of the other kind.
        """
        if self.absolute is None:
            self.absolute = next((path.startswith(b"/") for path in paths if path), None)

    def note(self, sentence: str) -> None:
        """Keep what a reader of the index should know, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def lacking(self) -> frozenset[Lack]:
        """Return what the list does not tell."""
        from trimtab.purge.index.schema import lacking_of

        names = frozenset() if self.plain_names else frozenset({Lack.PLAIN_NAMES})
        return lacking_of(self.columns) | names


Locate = Callable[[int], tuple[int, int | None, bytes]]
"""Number (from 1), offset, where it is known, and bytes of the record of a row, or as many of these
as are to be shown. Worked out only to refuse it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Records as they lie one behind the other, parted only where somebody looks at them.

    Attributes
    ----------
    data, begin, end
        The block that they lie in, and their part of it; the last one's terminator is within.
    number, offset
        Of the first of them in the list: from 1, and in bytes.
    """

    data: bytes
    begin: int
    end: int
    terminator: bytes
    number: int
    offset: int

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self.begin < self.end

    def count(self) -> int:
        """Return how many there are."""
        part = np.frombuffer(self.data, np.uint8, self.end - self.begin, self.begin)
        return int(np.count_nonzero(part == self.terminator[0]))

    def first(self, many: int) -> list[bytes]:
        """Return at most that many of them."""
        records = []
        begin = self.begin
        while begin < self.end and len(records) < many:
            end = self.data.index(self.terminator, begin, self.end)
            records.append(self.data[begin:end])
            begin = end + 1
        return records

    def last(self) -> bytes:
        """Return the last of them."""
        return self.data[self._last_begins() : self.end - 1]

    def without_first(self) -> Block:
        """Return all but the first."""
        begin = self.data.index(self.terminator, self.begin) + 1
        after = self.offset + begin - self.begin
        return replace(self, begin=begin, number=self.number + 1, offset=after)

    def without_last(self) -> Block:
        """Return all but the last."""
        return replace(self, end=self._last_begins())

    def refuse_first(self, reason: str, reading: Reading) -> None:
        """Refuse the first of them."""
        reading.refuse(reason, self.number, self.offset, self.first(1)[0])

    def _last_begins(self) -> int:
        return max(self.begin, self.data.rfind(self.terminator, self.begin, self.end - 1) + 1)


def blocks(
    file: BinaryIO, terminator: bytes, reading: Reading, *, chunk_bytes: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Yield the records of a list, a block of them at once.

    What follows the last terminator is a record that was cut off, and is refused. A record that is
    too long is passed over, whatever its length, in bounded memory.
    """
    rest, number, offset = b"", 1, 0
    passing = False  # over the rest of a record that is too long
    while chunk := file.read(chunk_bytes):
        data = rest + chunk
        begin, end = 0, data.rfind(terminator) + 1
        rest = data[end:]
        if end and passing:
            passing = False
            begin = data.index(terminator) + 1
            number, offset = number + 1, offset + begin
        if begin < end:
            block = Block(data, begin, end, terminator, number, offset)
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
        reading.refuse("the list ends within it", number, offset, rest)


def placed(
    frame: pl.DataFrame, locate: Locate, paths: Sequence[bytes], reading: Reading
) -> pl.DataFrame:
    """Return the rows of a frame whose values are all right, with ``parent`` and ``name``.

    Parameters
    ----------
    frame
        A row for each record; a null in a column that has to have a value is a value that is not
        what it should be.
    paths
        Of each record, as it stands in the list.
    """
    from trimtab.purge.index.schema import TIMES, required

    parents, names, reasons = split_paths(
        paths, reading.root, beneath=reading.beneath, absolute=reading.absolute
    )
    frame = frame.with_columns(parents, names)
    # A project that cannot be read could be an exempt one; a layout or a birth is no such matter.
    needed = [name for name in frame.columns if name in (*required(), *TIMES, "project")]
    times = [name for name in reading.bounded if name in needed]
    in_time = [pl.col(name) <= reading.latest_ns for name in times]
    good = frame.select(pl.all_horizontal(pl.col(needed).is_not_null(), *in_time)).to_series()
    good = good.fill_null(value=False)
    if good.all():
        return frame
    for at in (~good).arg_true().to_list():
        reason = reasons.get(at)
        if reason != ROOT_ITSELF:  # the root has no name, and is no trouble
            why = reason or _wrong(frame.row(at, named=True), needed, times)
            reading.refuse(why, *locate(at))
    return frame.filter(good)


def _wrong(row: Mapping[str, Any], needed: Sequence[str], times: Sequence[str]) -> str:
    if wrong := [name for name in needed if row[name] is None]:
        return f"{', '.join(wrong)}: not what it should be"
    latest = max(times, key=lambda name: row[name])
    return f"{latest}: more than a day after the list was made"


ROOT_ITSELF: Final = ""
"""Stands instead of a reason where a path is the root, which has no name in an index."""


def joined(directory: bytes, name: bytes) -> bytes:
    """Return the path of a name in a directory; both are beneath the root."""
    return directory + b"/" + name if directory else name


def split_paths(
    paths: Sequence[bytes], root: bytes, *, beneath: bytes = b"", absolute: bool | None = None
) -> tuple[pl.Series, pl.Series, dict[int, str]]:
    """Return directory and name of each path, and by its index why one is not to be had.

    A path is taken as it stands, never normalised by meaning: ``a/../b`` may be something else than
    ``b`` where ``a`` is a link, so it is refused.

    Parameters
    ----------
    paths
        Absolute ones begin with ``root``; others are relative to it, also with ``./`` before them.
    root
        An absolute path without a slash at its end, but for the root of all.
    beneath
        What relative paths begin with instead of ``./``; it is taken off.
    absolute
        Whether all have to be absolute, or relative; ``None``: each may be either.

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
