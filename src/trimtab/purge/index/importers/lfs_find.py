r"""Read lists of ``lfs find ROOT --printf FORMAT``, records that end with a line feed.

lfs cannot print a NUL and does not escape names: a line feed in a name looks like the end of a
record, and the rest could even look like another record. Two remedies:

- A list with a token (the script in docs/purge-import.md): every record begins with random digits
  that were unknown when the names were created. A line without them continues the previous path, so
  every name is read exactly.
- Without a token, a record is rejected together with following lines that are not records, and
  the list must not be used for deletion.

Seen on Lustre 2.17: times are whole seconds; the FID has no brackets and is missing if the file was
already gone; the layout printed for a directory is that of its metadata, and for a symbolic link
that of its target, so both are ignored; OSTs are printed per component (``[0][2,3,1,0]``, ``?`` if
nothing was written yet), and a stripe count of "all" as 1152921504606846978. According to the
source, the pool is that of the last component with objects, empty if there is none, and its bytes
are not escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.purge.index.importers.printf import (
    END_WORD,
    LFS,
    Format,
    Head,
    Taker,
    fitting,
    parse_format,
    read_list,
    taker,
)
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import Reading

if TYPE_CHECKING:
    import polars as pl

OPEN: Final = r"%LF\t%Lp\t%y\t%n\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%Lc\t%Lo\t%p\n"
"""Earlier format, without the closing FID.

The pool is printed before the numbers: tabs in a forged pool name shift the type letter onto a
number, and the record is rejected. A pool name of 15 bytes is too short to shift it past the last
number.
"""
FULL: Final = OPEN.replace(r"\n", r"\t%LF\n")
"""Format that Trimtab requests: the FID at both ends shows that the record is complete."""
POOLLESS: Final = r"%LF\t%y\t%n\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%Lc\t%Lo\t%p\n"
"""Earlier format, without the pool."""
SHORT: Final = r"%LF\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%n\t%Li\t%Lo\t%p\n"
"""Format for regular files (``-type f``)."""


def read(
    file: BinaryIO, reading: Reading, *, format_text: str | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list.

    Parameters
    ----------
    format_text
        Argument of ``--printf``, without the token; ``None`` for `FULL`, `OPEN`, `POOLLESS` or
        `SHORT`, whichever matches.

    Raises
    ------
    UsageError
        The format cannot be read.
    DataError
        The list matches none of these formats.
    """
    form = None if format_text is None else parse_format(format_text, LFS)
    reading.times, reading.resolution_ns = TimeTrust.SECONDS, 10**9

    def begin(texts: Sequence[bytes], head: Head) -> Taker:
        fits = form or _fitting(texts, head)
        reading.columns |= fits.columns
        reading.plain_names = head.token is not None
        return taker(fits, reading, joined=True, token=head.token)

    yield from read_list(file, b"\n", reading, begin, tool="lfs find")


def _fitting(lines: Sequence[bytes], head: Head) -> Format:
    """Return the format of lines, which begin with the token if there is one."""
    usual = head.usual(FULL, OPEN, POOLLESS, SHORT)
    skip = 0 if head.token is None else len(head.token) + 1
    texts = [line[skip:] for line in lines]
    if head.closed or (head.token is not None and texts[0].startswith(END_WORD)):
        # The header says so, or the root is empty. Lines cannot decide: if all names have line
        # feeds, none ends like a closed record.
        return parse_format(usual[0], LFS)
    # No record matches two of the open formats: where one has a letter, the others have numbers.
    return fitting(usual, LFS, texts, tool="lfs find", option="--printf")
