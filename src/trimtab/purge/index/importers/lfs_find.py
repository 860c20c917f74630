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
1152921504606846978. The pool, by the source, is that of the last component that has objects, and
empty where there is none; its bytes are printed as they are.
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
from trimtab.visible import shell_text

if TYPE_CHECKING:
    import polars as pl

OPEN: Final = r"%LF\t%Lp\t%y\t%n\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%Lc\t%Lo\t%p\n"
"""What Trimtab asked for before records were closed. The pool stands before the numbers: tabs in a
name that somebody made up move the letter of the type onto one of them, and the record is refused.
Of 15 bytes a name has too few to move it behind the last."""
FULL: Final = OPEN.replace(r"\n", r"\t%LF\n")
"""What it asks for: the FID at both ends shows that nothing between them is lost."""
POOLLESS: Final = r"%LF\t%y\t%n\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%Lc\t%Lo\t%p\n"
"""What it asked for before pools were kept."""
SHORT: Final = r"%LF\t%U\t%G\t%LP\t%s\t%b\t%A@\t%T@\t%C@\t%W@\t%n\t%Li\t%Lo\t%p\n"
"""Of regular files, by ``-type f``."""


def script(root: str) -> str:
    """Return shell commands that print a complete list of what is beneath a directory.

    The list says when it was begun and, if lfs came to its end without an error, when that was.
    """
    find = shell_text(["lfs", "find", root, "--printf"])
    return (
        "token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')\n"
        'printf \'trimtab-list 2 started=%s token=%s\\n\' "$(date +%s)" "$token"\n'
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
        What was given to ``--printf``, without the token; ``None``: `FULL`, `OPEN`, `POOLLESS` or
        `SHORT`, whichever fits.

    Raises
    ------
    UsageError
        The format cannot be read.
    DataError
        The list is of none of these formats.
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
    """Return the format of lines, which begin with the token where there is one."""
    usual = head.usual(FULL, OPEN, POOLLESS, SHORT)
    skip = 0 if head.token is None else len(head.token) + 1
    texts = [line[skip:] for line in lines]
    if head.closed or (head.token is not None and texts[0].startswith(END_WORD)):
        # It says so itself, or nothing is beneath the root. Lines do not tell: where all names have
        # line feeds, none of them ends as a closed record does.
        return parse_format(usual[0], LFS)
    # No record fits two of those that are not closed: where one has a letter, others have numbers.
    return fitting(usual, LFS, texts, tool="lfs find", option="--printf")
