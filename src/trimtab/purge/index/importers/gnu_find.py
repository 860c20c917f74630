r"""Lists of GNU find: ``find ROOT -printf FORMAT``, records that end with NUL.

What it prints was looked at with GNU findutils 4.9: a time has ten places of which the last is 0; a
time before 1970 is printed as ``tv_sec`` and ``tv_nsec`` side by side, so that half a second before
1969-12-31 23:59:59 is ``-2.5000000000``; a birth time that is not known is ``-1.-000000010``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.errors import DataError
from trimtab.purge.index import fields
from trimtab.purge.index.importers.lines import Joiner
from trimtab.purge.index.importers.printf import (
    GNU,
    Reader,
    ended,
    fitting,
    frame_of,
    parse_format,
    take_end,
    take_head,
)
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import Reading, Records, records
from trimtab.visible import shell_text

if TYPE_CHECKING:
    import polars as pl

FULL: Final = r"%D\t%i\t%y\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%B@\t%p\0"
"""What Trimtab asks for."""
SHORT: Final = r"%i\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%p\0"
"""What many sites have: of regular files, by ``-type f``."""


def script(root: str) -> str:
    """Return shell commands that print a complete list of what is beneath a directory.

    The list says when it was begun and, if find came to its end without an error, when that was.
    """
    find = shell_text(
        ["find", root, "-ignore_readdir_race", "-xdev", "-mindepth", "1", "-printf", FULL]
    )
    return (
        "printf 'trimtab-list 1 started=%s\\0' \"$(date +%s)\"\n"
        f"{find} &&\n"
        "printf 'trimtab-end ended=%s\\0' \"$(date +%s)\"\n"
    )


def read(
    file: BinaryIO, reading: Reading, *, format_text: str | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list.

    Parameters
    ----------
    format_text
        What was given to ``-printf``; ``None``: `FULL` or `SHORT`, whichever fits.

    Raises
    ------
    UsageError
        The format cannot be read.
    DataError
        The list is of neither format.
    """
    form = None if format_text is None else parse_format(format_text, GNU)
    terminator = b"\0" if form is None else form.terminator
    reading.plain_names = terminator == b"\0"
    reading.times, reading.resolution_ns = TimeTrust.EXACT_NS, 1
    headed, directory = False, b""
    lines = None if form is None or reading.plain_names else Joiner(reading, form, None)
    for first, chunk in _with_last(records(file, terminator, reading), lines):
        if first:
            headed, _ = take_head(chunk, reading)
            chunk = chunk.part(int(headed))  # noqa: PLW2901
        chunk = _before_end(chunk, headed, reading)  # noqa: PLW2901
        if len(chunk):
            form = form or fitting(
                (FULL, SHORT), GNU, chunk.texts, tool="GNU find", option="-printf"
            )
            reading.columns |= form.columns
            frame = frame_of(chunk, form, reading, _special())
            if "type" not in form.columns:
                directory = _no_directories(frame, directory)
            yield frame
    ended(reading, headed=headed, tool="find")


def _with_last(
    chunks: Iterator[tuple[bool, Records]], lines: Joiner | None
) -> Iterator[tuple[bool, Records]]:
    """Yield records as they are; where they are lines, those that are whole."""
    if lines is None:
        yield from chunks
        return
    for _, chunk in chunks:
        yield False, lines.add(chunk)
    yield False, lines.last()


def _before_end(chunk: Records, headed: bool, reading: Reading) -> Records:
    """Return records without the one that ends the list; nothing may come after that."""
    if reading.ended_well and len(chunk):
        reading.ended_well = False
        chunk.refuse(0, "it comes after the end of the list", reading)
        return chunk.part(len(chunk))
    if headed and len(chunk) and take_end(chunk.texts[-1], reading):
        return chunk.part(0, -1)
    return chunk


def _special() -> dict[str, Reader]:
    def time(text: pl.Series) -> pl.Series:
        return fields.seconds(text, "timespec")

    return {
        "atime_ns": time,
        "mtime_ns": time,
        "ctime_ns": time,
        # "-1.-000000010" is no number and becomes null, as it should.
        "btime_ns": lambda text: fields.birth(time(text)),
    }


def _no_directories(frame: pl.DataFrame, directory: bytes) -> bytes:
    """Return the path of the last row; raise where a path turns out to be a directory.

    find prints a directory just before what is in it.
    """
    for parent, name in zip(frame["parent"], frame["name"], strict=True):
        if directory and parent == directory:
            raise DataError(
                "the list has directories in it and does not tell what is one",
                code="types-ambiguous",
                hint="make it with -type f, or with %y in the format",
            )
        directory = parent + b"/" + name if parent else name
    return directory
