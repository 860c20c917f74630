r"""Read lists of GNU find: ``find ROOT -printf FORMAT``, records that end with NUL.

Output verified with GNU findutils 4.9: a time has ten decimals, the last one 0; a time before 1970
is printed as ``tv_sec`` and ``tv_nsec`` side by side, so half a second before 1969-12-31 23:59:59
is ``-2.5000000000``; an unknown birth time is ``-1.-000000010``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.errors import DataError
from trimtab.purge.index.importers.printf import (
    GNU,
    Head,
    Taker,
    fitting,
    parse_format,
    read_list,
    taker,
)
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import Reading, joined

if TYPE_CHECKING:
    import polars as pl

FULL: Final = r"%i\t%y\t%D\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%B@\t%p\t%i\0"
"""Format that Trimtab requests: the inode number at both ends shows that the record is complete."""
OPEN: Final = r"%D\t%i\t%y\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%B@\t%p\0"
"""Earlier format, without the closing inode number."""
SHORT: Final = r"%i\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%p\0"
"""Format of many sites, for regular files (``-type f``)."""


def read(
    file: BinaryIO, reading: Reading, *, format_text: str | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list.

    Parameters
    ----------
    format_text
        Argument of ``-printf``; ``None`` for `FULL`, `OPEN` or `SHORT`, whichever matches.

    Raises
    ------
    UsageError
        The format cannot be read.
    DataError
        The list matches none of these formats.
    """
    form = None if format_text is None else parse_format(format_text, GNU)
    terminator = b"\0" if form is None else form.terminator
    plain = reading.plain_names = terminator == b"\0"
    reading.times, reading.resolution_ns = TimeTrust.EXACT_NS, 1

    def begin(texts: Sequence[bytes], head: Head) -> Taker:
        usual = head.usual(FULL, OPEN, SHORT)
        fits = form or fitting(usual, GNU, texts, tool="GNU find", option="-printf")
        return taker(fits, reading, joined=not plain)

    directory = b""
    for frame in read_list(
        file, terminator, reading, begin, tool="find", headed=plain, plain_end=True
    ):
        directory = _no_directories(frame, directory)
        yield frame


def _no_directories(frame: pl.DataFrame, directory: bytes) -> bytes:
    """Return the path of the last row.

    Raise if a path is a directory. find prints a directory just before its contents.

    A list with types needs no check.
    """
    if "type" in frame.columns or frame.is_empty():
        return directory
    parents, names = frame["parent"], frame["name"]
    changes = (parents != parents.shift()).fill_null(value=True)
    for at in changes.arg_true().to_list():
        before = joined(parents[at - 1], names[at - 1]) if at else directory
        if before and parents[at] == before:
            raise DataError(
                "the list has directories but no types to tell them apart",
                code="types-ambiguous",
                hint="make it with -type f, or with %y in the format",
            )
    return joined(parents[-1], names[-1])
