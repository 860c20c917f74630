"""Read lists of GNU find (``-printf``) and of ``lfs find`` (``--printf``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.base.error import DataError
from trimtab.purge.index.list_reading import ListReading, joined
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.printf_list import (
    END_WORD,
    GNU,
    LFS,
    ListFormat,
    ListHead,
    Taker,
    fitting,
    parse_format,
    read_list,
    taker,
)

if TYPE_CHECKING:
    import polars as pl


GNU_FULL: Final = r"%i\t%y\t%D\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%B@\t%p\t%i\0"
"""Format that Trimtab requests: the inode number at both ends shows that the record is complete."""
GNU_OPEN: Final = r"%D\t%i\t%y\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%B@\t%p\0"
"""Earlier format, without the closing inode number."""
GNU_SHORT: Final = r"%i\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%p\0"
"""Format of many sites, for regular files (``-type f``)."""


def read_gnu_list(
    file: BinaryIO, reading: ListReading, *, format_text: str | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list of ``find ROOT -printf FORMAT``, whose records end with NUL.

    Parameters
    ----------
    format_text
        Argument of ``-printf``; ``None`` for `GNU_FULL`, `GNU_OPEN` or `GNU_SHORT`, whichever
        matches.

    Raises
    ------
    UsageError
        The format cannot be read.
    DataError
        The list matches none of these formats.

    Notes
    -----
    Output verified with GNU findutils 4.9: a time has ten decimals, the last one 0; a time before
    1970 is printed as ``tv_sec`` and ``tv_nsec`` side by side, so half a second before 1969-12-31
    23:59:59 is ``-2.5000000000``; an unknown birth time is ``-1.-000000010``.
    """
    form = None if format_text is None else parse_format(format_text, GNU)
    terminator = b"\0" if form is None else form.terminator
    plain = reading.plain_names = terminator == b"\0"
    reading.times, reading.resolution_ns = TimeTrust.EXACT_NS, 1

    def begin(texts: Sequence[bytes], head: ListHead) -> Taker:
        usual = head.usual(GNU_FULL, GNU_OPEN, GNU_SHORT)
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


LFS_OPEN: Final = r"%LF\t%Lp\t%y\t%n\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%Lc\t%Lo\t%p\n"
"""Earlier format, without the closing FID.

The pool is printed before the numbers: tabs in a forged pool name shift the type letter onto a
number, and the record is rejected. A pool name of 15 bytes is too short to shift it past the last
number.
"""
LFS_FULL: Final = LFS_OPEN.replace(r"\n", r"\t%LF\n")
"""Format that Trimtab requests: the FID at both ends shows that the record is complete."""
LFS_POOLLESS: Final = r"%LF\t%y\t%n\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%Lc\t%Lo\t%p\n"
"""Earlier format, without the pool."""
LFS_SHORT: Final = r"%LF\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%n\t%Li\t%Lo\t%p\n"
"""Format for regular files (``-type f``)."""


def read_lfs_list(
    file: BinaryIO, reading: ListReading, *, format_text: str | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list of ``lfs find ROOT --printf FORMAT``, a line for each record.

    Parameters
    ----------
    format_text
        Argument of ``--printf``, without the token; ``None`` for `LFS_FULL`, `LFS_OPEN`,
        `LFS_POOLLESS` or `LFS_SHORT`, whichever matches.

    Raises
    ------
    UsageError
        The format cannot be read.
    DataError
        The list matches none of these formats.

    Notes
    -----
    lfs cannot print a NUL and does not escape names: a line feed in a name looks like the end of a
    record, and the rest could even look like another record. Two remedies:

    - A list with a token (the script in docs/purge-import.md): every record begins with random
      digits that were unknown when the names were created. A line without them continues the
      previous path, so every name is read exactly.
    - Without a token, a record is rejected together with following lines that are not records, and
      the list must not be used for deletion.

    Seen on Lustre 2.17: times are whole seconds; the FID has no brackets and is missing if the file
    was already gone; the layout printed for a directory is that of its metadata, and for a symbolic
    link that of its target, so both are ignored; OSTs are printed per component (``[0][2,3,1,0]``,
    ``?`` if nothing was written yet), and a stripe count of "all" as 1152921504606846978. According
    to the source, the pool is that of the last component with objects, empty if there is none, and
    its bytes are not escaped.
    """
    form = None if format_text is None else parse_format(format_text, LFS)
    reading.times, reading.resolution_ns = TimeTrust.SECONDS, 10**9

    def begin(texts: Sequence[bytes], head: ListHead) -> Taker:
        fits = form or _fitting(texts, head)
        reading.columns |= fits.columns
        reading.plain_names = head.token is not None
        return taker(fits, reading, joined=True, token=head.token)

    yield from read_list(file, b"\n", reading, begin, tool="lfs find")


def _fitting(lines: Sequence[bytes], head: ListHead) -> ListFormat:
    """Return the format of lines, which begin with the token if there is one."""
    usual = head.usual(LFS_FULL, LFS_OPEN, LFS_POOLLESS, LFS_SHORT)
    skip = 0 if head.token is None else len(head.token) + 1
    texts = [line[skip:] for line in lines]
    if head.closed or (head.token is not None and texts[0].startswith(END_WORD)):
        # The header says so, or the root is empty. Lines cannot decide: if all names have line
        # feeds, none ends like a closed record.
        return parse_format(usual[0], LFS)
    # No record matches two of the open formats: where one has a letter, the others have numbers.
    return fitting(usual, LFS, texts, tool="lfs find", option="--printf")
