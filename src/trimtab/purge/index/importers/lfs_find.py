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
from collections.abc import Callable, Iterator, Sequence
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
from trimtab.purge.index.reading import RECORD_MAX_BYTES, Reading, Records, records
from trimtab.visible import shell_text

if TYPE_CHECKING:
    import polars as pl

FULL: Final = r"%LF\t%y\t%n\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%Lc\t%Lo\t%p\n"
"""What Trimtab asks for."""
SHORT: Final = r"%LF\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%n\t%Li\t%Lo\t%p\n"
"""Of regular files, by ``-type f``."""

_LOOKED_AT: Final = 1000
_INDEX: Final = re.compile(r"[0-9]+")


def script(root: str) -> str:
    """Return shell commands that print a complete list of what is beneath a directory.

    The list says when it was begun and, if lfs came to its end without an error, when that was.
    """
    find = shell_text(["lfs", "find", root, "--printf"])
    return (
        "token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')\n"
        'printf \'trimtab-list 1 started=%s token=%s\\n\' "$(date +%s)" "$token"\n'
        f'{find} "$token\\t{FULL}" &&\n'
        'printf \'%s\\ttrimtab-end ended=%s\\n\' "$token" "$(date +%s)"\n'
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
    for first, lines in records(file, b"\n", reading):
        if first:
            headed, token = take_head(lines, reading)
            lines = lines.part(int(headed))  # noqa: PLW2901
        if len(lines) and joiner is None:
            form = form or _fitting(lines.texts, token)
            reading.columns |= form.columns
            reading.plain_names = token is not None
            joiner = _Joiner(reading, form, token)
        if joiner is not None and form is not None and len(found := joiner.add(lines)):
            yield _frame(found, form, reading)
    if joiner is not None and form is not None and len(found := joiner.last()):
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
        self._token = b"" if token is None else token + b"\t"
        begins = form.begins().match
        self._begins: Callable[[bytes], object] = (
            (lambda text: text.startswith(self._token)) if self._token else begins
        )
        self._lines: list[bytes] = []
        self._length = 0
        self._place: tuple[int, int | None] = (0, 0)

    def add(self, lines: Records) -> Records:
        """Return the records that are whole now."""
        texts: list[bytes] = []
        places: list[tuple[int, int | None]] = []
        number, offset = lines.locate(0) if len(lines) else (0, 0)
        for text in lines.texts:
            if self._begins(text) and self._lines:
                self._close(texts, places)
            if not self._lines:
                self._place = number, offset
            self._length += len(text) + 1
            # What is far too long is no path: count on, but keep no more of it.
            if self._length <= RECORD_MAX_BYTES or not self._lines:
                self._lines.append(text)
            number, offset = number + 1, (offset or 0) + len(text) + 1
        return Records(texts, places.__getitem__)

    def last(self) -> Records:
        """Return the record that the list ends with."""
        texts: list[bytes] = []
        places: list[tuple[int, int | None]] = []
        if self._lines:
            self._close(texts, places)
        return Records(texts, places.__getitem__)

    def _close(self, texts: list[bytes], places: list[tuple[int, int | None]]) -> None:
        """Take the lines so far as a record, or refuse it."""
        lines, self._lines = self._lines, []
        length, self._length = self._length, 0
        text = b"\n".join(lines)
        reason = ""
        if not self._begins(lines[0]):
            reason = "it is no record of this format"
        elif length > RECORD_MAX_BYTES:
            reason = "it has no end"
        elif self._reading.ended_well:
            self._reading.ended_well = False
            reason = "it comes after the end of the list"
        elif not self._token and len(lines) > 1:
            reason = "a line feed in its name, or a line that is no record after it"
        if reason:
            number, offset = self._place
            self._reading.refuse(reason, record=number, offset=offset, text=text)
            return
        text = text[len(self._token) :]
        if not (self._token and text.startswith(END_WORD) and take_end(text, self._reading)):
            texts.append(text)
            places.append(self._place)


def _fitting(lines: Sequence[bytes], token: bytes | None) -> Format:
    known = [parse_format(text, LFS) for text in (FULL, SHORT)]
    skip = 0 if token is None else len(token) + 1
    form = choose(known, [line[skip:] for line in lines[:_LOOKED_AT]])
    if form is None:
        if token is not None and lines[0][skip:].startswith(END_WORD):
            return known[0]  # nothing at all beneath the root
        raise DataError(
            "this is no list of lfs find in a format that is known here",
            hint=f"name the one that was given to --printf with --printf; Trimtab's own is {FULL}",
        )
    return form


def _frame(found: Records, form: Format, reading: Reading) -> pl.DataFrame:
    import polars as pl

    if form.directives[0].column == "id":
        # lfs prints no FID of what is gone.
        there = [at for at, text in enumerate(found.texts) if not text.startswith(b"\t")]
        reading.vanished += len(found) - len(there)
        found = found.at(there) if len(there) < len(found) else found
    special = {"id": identity.of_fids, "osts": _osts}
    frame = frame_of(found, form, reading, special)
    for name in ("stripe_count", "osts"):
        if name in frame.columns and "type" in frame.columns:
            of_file = pl.when(pl.col("type") == "f").then(pl.col(name))
            frame = frame.with_columns(of_file.alias(name))
    return frame


def _osts(text: pl.Series) -> pl.Series:
    """Return the OSTs of all components, in their order; null where none is named."""
    import polars as pl

    found = [[int(i) for i in _INDEX.findall(one or "")] for one in text]
    plain = [ids if ids and max(ids) < 2**32 else None for ids in found]
    return pl.Series(text.name, plain, dtype=pl.List(pl.UInt32))
