r"""Lists of ``lfs find ROOT --printf FORMAT``, records that end with a line feed.

lfs cannot print a NUL, and prints names as they are: a line feed in a name looks like the end of a
record, and what follows could even look like another record. Two remedies:

- A list with a token (`script`): every record begins with random digits that nobody knew when the
  names were made. Whatever does not begin with them belongs to the path before, and every name is
  read exactly.
- Without one, a record and what follows it without looking like a record are refused together, and
  no deletion may rest on the list.

Seen on Lustre 2.17: times are whole seconds; the FID has no brackets, and is missing where the
file was gone by then; the layout printed for a directory is that of its metadata, and for a
symbolic link that of its target, so both are passed over; OSTs are printed component by component
(``[0][2,3,1,0]``, ``?`` where nothing was written yet), a stripe count that is "all of them" as
1152921504606846978.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.errors import DataError
from trimtab.purge.index import identity
from trimtab.purge.index.importers.printf import (
    END_WORD,
    LFS,
    Format,
    choose,
    frame_of,
    parse_format,
    take_end,
    take_head,
)
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import RECORD_MAX_BYTES, Reading, Record, records
from trimtab.visible import shell_text

if TYPE_CHECKING:
    import polars as pl

FULL: Final = r"%LF\t%y\t%n\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%Lc\t%Lo\t%p\n"
"""What Trimtab asks for."""
SHORT: Final = r"%LF\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%n\t%Li\t%Lo\t%p\n"
"""Of regular files, by ``-type f``."""

_LOOKED_AT: Final = 1000
_INDEX: Final = re.compile(r"[0-9]+")


def script(root: str, token: str | None = None) -> str:
    """Return shell commands that print a complete list of what is beneath a directory.

    Parameters
    ----------
    token
        Hexadecimal digits that nobody knows yet; ``None``: new ones.
    """
    token = secrets.token_hex(16) if token is None else token
    find = shell_text(["lfs", "find", root, "--printf", rf"{token}\t{FULL}"])
    return (
        f"printf 'trimtab-list 1 started=%s token={token}\\n' \"$(date +%s)\"\n"
        f"{find} &&\n"
        f"printf '{token}\\ttrimtab-end ended=%s\\n' \"$(date +%s)\"\n"
    )


def read(
    file: BinaryIO, reading: Reading, *, format_text: str | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list.

    Parameters
    ----------
    format_text
        What was given to ``--printf``, without the token; ``None``: `FULL` or `SHORT`, whichever
        fits.

    Raises
    ------
    UsageError
        The format cannot be read.
    DataError
        The list is of neither format.
    """
    form = None if format_text is None else parse_format(format_text, LFS)
    reading.times, reading.resolution_ns = TimeTrust.SECONDS, 10**9
    headed, token = False, None
    joiner: _Joiner | None = None
    for lines in records(file, b"\n", reading):
        if lines[0].number == 1:
            headed, token = take_head(lines[0], reading)
            lines = lines[1:] if headed else lines  # noqa: PLW2901
        if lines and joiner is None:
            form = form or _fitting(lines, token)
            reading.columns |= form.columns
            reading.plain_names = token is not None
            joiner = _Joiner(reading, form, token)
        if joiner is not None and form is not None and (found := joiner.add(lines)):
            yield _frame(found, form, reading)
    if joiner is not None and form is not None and (found := joiner.last()):
        yield _frame(found, form, reading)
    if headed and not reading.ended_well:
        reading.refuse("the list has no end: lfs find failed, or the list was cut off")
    if "type" not in reading.columns:
        reading.note("the list does not tell types: all were taken to be regular files (-type f)")


class _Joiner:
    """Puts lines together to records; a record is whole when the next one begins.

    A record over several lines is a path with line feeds where each record has its token, and
    cannot be told from several records where there is none.
    """

    def __init__(self, reading: Reading, form: Format, token: bytes | None) -> None:
        self._reading = reading
        self._token = None if token is None else token + b"\t"
        begins = form.begins().match
        self._begins: Callable[[bytes], object] = (
            begins if self._token is None else lambda text: text.startswith(self._token or b"")
        )
        self._lines: list[Record] = []
        self._length = 0

    def add(self, lines: list[Record]) -> list[Record]:
        """Return the records that are whole now."""
        found = []
        for line in lines:
            if self._begins(line.text):
                self._close(found)
            self._length += len(line.text) + 1
            # What is far too long is no path: count on, but keep no more of it.
            if self._length <= RECORD_MAX_BYTES or not self._lines:
                self._lines.append(line)
        return found

    def last(self) -> list[Record]:
        """Return the record that the list ends with."""
        found: list[Record] = []
        self._close(found)
        return found

    def _close(self, found: list[Record]) -> None:
        lines, self._lines = self._lines, []
        length, self._length = self._length, 0
        if not lines:
            return
        first = lines[0]
        text = b"\n".join(line.text for line in lines)
        whole = Record(first.number, first.offset, text)
        if not self._begins(first.text):
            self._refuse(whole, "it is no record of this format")
        elif length > RECORD_MAX_BYTES:
            self._refuse(whole, "it has no end")
        elif self._token is None:
            if len(lines) > 1:
                self._refuse(whole, "a line feed in its name, or a line that is no record after it")
            else:
                found.append(whole)
        else:
            self._take(Record(first.number, first.offset, text[len(self._token) :]), found)

    def _take(self, record: Record, found: list[Record]) -> None:
        if self._reading.ended_well:
            self._reading.ended_well = False
            self._refuse(record, "it comes after the end of the list")
        elif not (record.text.startswith(END_WORD) and take_end(record, self._reading)):
            found.append(record)

    def _refuse(self, record: Record, reason: str) -> None:
        self._reading.refuse(reason, record=record.number, offset=record.offset, text=record.text)


def _fitting(lines: list[Record], token: bytes | None) -> Format:
    known = [parse_format(text, LFS) for text in (FULL, SHORT)]
    skip = 0 if token is None else len(token) + 1
    form = choose(known, [line.text[skip:] for line in lines[:_LOOKED_AT]])
    if form is None:
        if token is not None and lines[0].text[skip:].startswith(END_WORD):
            return known[0]  # nothing at all beneath the root
        raise DataError(
            "this is no list of lfs find in a format that is known here",
            hint=f"name the one that was given to --printf with --format; Trimtab's own is {FULL}",
        )
    return form


def _frame(found: list[Record], form: Format, reading: Reading) -> pl.DataFrame:
    import polars as pl

    if form.directives[0].column == "id":
        there = [record for record in found if not record.text.startswith(b"\t")]
        reading.vanished += len(found) - len(there)  # lfs prints no FID of what is gone
        found = there
    frame = frame_of(found, form, reading, {"id": _fids, "osts": _osts})
    for name in ("stripe_count", "osts"):
        if name in frame.columns and "type" in frame.columns:
            frame = frame.with_columns(
                pl.when(pl.col("type") == "f").then(pl.col(name)).alias(name)
            )
    return frame


def _fids(text: pl.Expr) -> pl.Expr:
    import polars as pl

    def of(series: pl.Series) -> pl.Series:
        values = [None if one is None else identity.of_fid(one.encode()) for one in series]
        return pl.Series(series.name, values, dtype=pl.Binary)

    return text.map_batches(of, return_dtype=pl.Binary)


def _osts(text: pl.Expr) -> pl.Expr:
    """Return the OSTs of all components, in their order; null where none is named."""
    import polars as pl

    def of(series: pl.Series) -> pl.Series:
        values = [None if one is None else [int(i) for i in _INDEX.findall(one)] for one in series]
        plain = [ids if ids and max(ids) < 2**32 else None for ids in map(_or_empty, values)]
        return pl.Series(series.name, plain, dtype=pl.List(pl.UInt32))

    return text.map_batches(of, return_dtype=pl.List(pl.UInt32))


def _or_empty(values: list[int] | None) -> list[int]:
    return values or []
