r"""Read lists of GNU find (``-printf``) and ``lfs find`` (``--printf``): fields, the path last.

The path comes last because it may contain tabs, which separate the fields. A format is the tool's
argument, such as ``%i\t%n\t%p\0``; directives of no use here are ignored.

A closed record repeats its first field, the identity, after the path (``%i\t%n\t%p\t%i\0``). If
part of a list was lost, or two tools wrote it at once, a record begins with one file and ends with
another, so its identities differ. In a list that is not closed only impossible records are
rejected: the loss may reach from one field to the same field of another record.

A list may begin and end with a record of its own, as with the scripts in docs/purge-import.md::

    trimtab-list 2 started=1795335800 [token=HEX]
    ...
    [HEX<tab>]trimtab-end ended=1795335860

Such a list has its own start and end times, and shows that the tool finished. The records of
version 2 are closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import polars as pl

from trimtab.base.error import DataError, UsageError, visible
from trimtab.purge.index import list_reading
from trimtab.purge.index.list_reading import (
    CHUNK_BYTES,
    RECORD_MAX_BYTES,
    ListReading,
    RecordBlock,
    blocks,
    joined,
)
from trimtab.purge.index.manifest import EXAMPLES_MAXIMUM, TimeTrust

if TYPE_CHECKING:
    from trimtab._core import RecordReader


_HEAD: Final = re.compile(
    rb"trimtab-list ([12]) started=([0-9]{1,11})(?: token=([0-9a-fA-F]{16,64}))?"
)
_END: Final = re.compile(rb"trimtab-end ended=([0-9]{1,11})")
_HEAD_WORD: Final = b"trimtab-list "
END_WORD: Final = b"trimtab-end "
_LOOKED_AT: Final = 1000


@dataclass(frozen=True, slots=True)
class Directive:
    """Output of one directive of a format.

    Attributes
    ----------
    column
        Column of the index; ``None`` if ignored.
    shape
        Shape of the printed bytes: a key of `PATTERNS`.
    reader
        How the core converts them.
    """

    column: str | None
    shape: str
    reader: str = "passed"

    @property
    def pattern(self) -> str:
        """Regular expression over bytes that matches its output."""
        return PATTERNS[self.shape]


PATTERNS: Final = {
    "number": "[0-9]+",
    "digits": "[0-9]*",
    "signed": "-?[0-9]*",
    "octal": "[0-7]+",
    "time": r"-?[0-9]+(?:\.-?[0-9]+)?",
    "birth": r"-?[0-9]*(?:\.-?[0-9]+)?",
    "letter": "[a-zA-Z?]",
    "fid": "[0-9a-fA-Fx:]*",
    "indices": r"[0-9,?\[\]]*",
    "words": r"[^\t\n]+",
    "name": r"[^\t\n]*",
}
"""The shapes of `crates/namespace/src/records/fields.rs`."""

COMMON: Final = {
    "%n": Directive("nlink", "number", "small"),
    "%U": Directive("uid", "number", "small"),
    "%G": Directive("gid", "number", "small"),
    "%s": Directive("size_bytes", "number", "unsigned"),
    "%b": Directive("allocated_bytes", "number", "blocks"),
    "%y": Directive("type", "letter", "letter"),
    "%m": Directive(None, "octal"),
    "%M": Directive(None, "words"),
    "%k": Directive(None, "number"),
}
GNU: Final = {
    **COMMON,
    "%i": Directive("id", "number", "inode"),
    "%A@": Directive("atime_ns", "time", "timespec"),
    "%T@": Directive("mtime_ns", "time", "timespec"),
    "%C@": Directive("ctime_ns", "time", "timespec"),
    "%D": Directive("device", "number", "unsigned"),
    "%B@": Directive("btime_ns", "birth", "birth-timespec"),
    "%d": Directive(None, "number"),
}
LFS: Final = {
    **COMMON,
    "%i": Directive(None, "number"),  # the FID, folded: not unique
    "%A@": Directive("atime_ns", "time", "seconds"),
    "%T@": Directive("mtime_ns", "time", "seconds"),
    "%C@": Directive("ctime_ns", "time", "seconds"),
    "%W@": Directive("btime_ns", "birth", "birth-seconds"),
    "%LF": Directive("id", "fid", "fid"),
    "%LP": Directive("project", "number", "small"),
    "%Lp": Directive("pool", "name", "name"),
    "%Lc": Directive("stripe_count", "digits", "stripes"),
    "%Lo": Directive("osts", "indices", "indices"),
    "%Li": Directive(None, "signed"),
    "%LS": Directive(None, "digits"),
}


@dataclass(frozen=True, slots=True)
class ListFormat:
    """A parsed format.

    Attributes
    ----------
    text
        The tool's argument.
    directives
        Directives of all fields except the path, which is last.
    terminator
        Byte that ends a record.
    closed
        Whether the first field is repeated after the path.
    """

    text: str
    directives: tuple[Directive, ...]
    terminator: bytes
    closed: bool = False

    @property
    def columns(self) -> set[str]:
        """Columns of the index that it provides."""
        return {directive.column for directive in self.directives if directive.column is not None}

    def looks(self) -> re.Pattern[bytes]:
        """Return the pattern of a record's start, and of a closed record's end."""
        first, *others = (directive.pattern for directive in self.directives)
        begins = "".join(f"{pattern}\t" for pattern in (f"({first})", *others))
        return re.compile((begins + r"(?s:.*)\t\1\Z" * self.closed).encode("ascii"))


def parse_format(text: str, known: dict[str, Directive]) -> ListFormat:
    r"""Parse a format.

    Raises
    ------
    UsageError
        A directive is unknown or repeated, the path is not last (only the identity of the first
        field may follow it), fields are not separated by ``\t``, or the record does not end with
        ``\0`` or ``\n``.

    Examples
    --------
    >>> sorted(parse_format(r"%i\t%U\t%s\t%p\0", GNU).columns)
    ['id', 'size_bytes', 'uid']
    """
    hint = r"write it as for the tool, such as '%i\t%n\t%U\t%s\t%T@\t%p\0', with the path last"
    body, terminator = text[:-2], {r"\0": b"\0", r"\n": b"\n"}.get(text[-2:])
    *before, last = body.split(r"\t")
    closed = len(before) > 1 and before[-1] == "%p" and last == before[0] in {"%i", "%LF"}
    if closed:
        *before, last = before
    if terminator is None or last != "%p" or not before:
        raise UsageError(
            f"the format {visible(text)!r} cannot be read", code="format-unreadable", hint=hint
        )
    unknown = [directive for directive in before if directive not in known]
    if unknown:
        raise UsageError(
            f"the format {visible(text)!r} has the unknown directive {visible(unknown[0])!r}",
            code="directive-unknown",
            hint=f"known are {' '.join(known)}, separated by \\t; the path, %p, is last",
        )
    form = ListFormat(text, tuple(known[directive] for directive in before), terminator, closed)
    columns = [directive.column for directive in form.directives if directive.column is not None]
    if len(set(columns)) != len(columns):
        raise UsageError(
            f"the format {visible(text)!r} has a directive twice",
            code="directive-repeated",
            hint=hint,
        )
    for needed in ("uid", "size_bytes"):
        if needed not in columns:
            raise UsageError(
                f"the format {visible(text)!r} lacks {needed}",
                code="column-missing",
                hint=hint,
            )
    return form


def choose(formats: Sequence[ListFormat], texts: Sequence[bytes]) -> ListFormat | None:
    """Return the format that matches most of the first records of a list; ``None`` if none does."""
    scores = [
        (sum(match is not None for match in map(form.looks().match, texts)), form)
        for form in formats
    ]
    score, best = max(scores, key=lambda pair: pair[0])
    return best if score else None


def fitting(
    usual: Sequence[str],
    known: dict[str, Directive],
    texts: Sequence[bytes],
    *,
    tool: str,
    option: str,
) -> ListFormat:
    """Return the usual format of a tool that the first records of a list match.

    Parameters
    ----------
    usual
        Formats, Trimtab's own first.
    tool, option
        The tool that made the list, and its option for a format.

    Raises
    ------
    DataError
        None of them matches.
    """
    form = choose([parse_format(text, known) for text in usual], texts)
    if form is None:
        raise DataError(
            f"not a list of {tool} in a known format",
            code="format-unknown",
            hint=f"name the format passed to {option} with --printf; Trimtab's own is {usual[0]}",
        )
    return form


@dataclass(frozen=True, slots=True)
class ListHead:
    """The first record of a list.

    Attributes
    ----------
    closed
        Whether the records are closed; ``None`` if the list does not say.
    token
        Random digits that each record begins with, if any.
    """

    closed: bool | None = None
    token: bytes | None = None

    def usual(self, closed: str, *others: str) -> tuple[str, ...]:
        """Return the formats that the list may have."""
        return {None: (closed, *others), True: (closed,), False: others}[self.closed]


def _take_head(block: RecordBlock, reading: ListReading) -> ListHead | None:
    """Return the head of a list; ``None`` if the first record is not one."""
    (text,) = block.first(1)
    if not text.startswith(_HEAD_WORD):
        return None
    match = _HEAD.fullmatch(text)
    if match is None:
        block.refuse_first("not a known head of a list", reading)
        return ListHead()
    reading.started_ns = int(match[2]) * list_reading.NS_PER_S
    return ListHead(match[1] == b"2", match[3])


def _before_end(block: RecordBlock, headed: bool, reading: ListReading) -> RecordBlock | None:
    """Return the records before the one that ends the list; nothing may follow that."""
    if reading.ended_well:
        reading.ended_well = False
        block.refuse_first("it comes after the end of the list", reading)
        return None
    match = _END.fullmatch(block.last()) if headed else None
    if match is None:
        return block
    _end(reading, int(match[1]))
    reading.ended_well = True
    return block.without_last()


def _end(reading: ListReading, ended_s: int) -> None:
    """Record when the tool ended: within that second."""
    reading.ended_ns = ended_s * list_reading.NS_PER_S + list_reading.NS_PER_S - 1


def read_list(
    file: BinaryIO,
    terminator: bytes,
    reading: ListReading,
    begin: Callable[[Sequence[bytes], ListHead], Taker],
    *,
    tool: str,
    headed: bool = True,
    plain_end: bool = False,
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list.

    Parameters
    ----------
    begin
        Returns the `Taker` of the records, from the first records and the head of the list.
    tool
        The tool that made it: ``find``.
    headed
        Whether it may have a head, and then needs an end record.
    plain_end
        Whether the end record has no token.
    """
    head: ListHead | None = None
    rows: Taker | None = None
    for block in blocks(file, terminator, reading):
        left: RecordBlock | None = block
        if headed and block.number == 1:
            head = _take_head(block, reading)
            left = block if head is None else block.without_first()
        if plain_end and left:
            left = _before_end(left, head is not None, reading)
        if left:
            rows = rows or begin(left.first(_LOOKED_AT), head or ListHead())
            yield from rows.rows(left)
    yield from rows.last() if rows is not None else ()
    if head is not None and not reading.ended_well:
        reading.refuse(f"the list has no end: {tool} failed, or the list was truncated")
    if "type" not in reading.columns:
        reading.note("the list has no types: all names are taken to be regular files (-type f)")


Reader = Callable[["pl.Series"], "pl.Series"]


class Taker:
    """Converts the records of a list to rows, and rejects those not in its format.

    Parameters
    ----------
    core
        Reads the records.
    columns
        Columns of the list, once it has a record.
    kind
        Kind of identities.
    """

    def __init__(
        self, core: RecordReader, reading: ListReading, columns: set[str], kind: str
    ) -> None:
        self._core, self._reading, self._columns, self._kind = core, reading, columns, kind
        self._bytes = 0

    def rows(self, block: RecordBlock) -> Iterator[pl.DataFrame]:
        """Add records; yield rows once there are enough."""
        self._core.add(block.data, block.begin, block.end, block.number, block.offset)
        self._bytes += block.end - block.begin
        self._learn()
        if self._bytes >= CHUNK_BYTES:
            self._bytes = 0
            yield from self._frames()

    def last(self) -> Iterator[pl.DataFrame]:
        """Yield the rows of the remaining records, including the last."""
        self._core.finish()
        self._learn()
        yield from self._frames()

    def _learn(self) -> None:
        ended_s, ended_well = self._core.ended
        if ended_s is not None:
            _end(self._reading, ended_s)
            self._reading.ended_well = ended_well

    def _frames(self) -> Iterator[pl.DataFrame]:
        batch = self._core.take()
        self._reading.refuse_counted(*batch.refused())
        self._reading.vanished += batch.vanished
        if batch.records:
            self._reading.columns |= self._columns
            frame = pl.DataFrame(batch)
            if "id" in frame.columns:
                frame = frame.with_columns(id_kind=pl.lit(self._kind))
            yield frame


def taker(
    form: ListFormat, reading: ListReading, *, joined: bool = False, token: bytes | None = None
) -> Taker:
    """Return the converter for records of a format.

    Parameters
    ----------
    joined
        Whether names may contain the terminator, so that a record is complete only when the next
        begins.
    token
        Random digits that each record begins with, if any.
    """
    from trimtab._core import RecordReader

    readers = {directive.reader for directive in form.directives}
    # With a token a path may contain text that looks like a record; users cannot know the token.
    foreign = token or (b"" if form.closed else b"\t" + reading.root.rstrip(b"/") + b"/")
    core = RecordReader(
        [(field.column or "", field.shape, field.reader) for field in form.directives],
        root=reading.root,
        beneath=reading.beneath,
        terminator=form.terminator[0],
        joined=joined,
        token=token,
        vanishing=form.directives[0].reader == "fid",
        closed=form.closed,
        foreign=foreign,
        latest_ns=reading.latest_ns,
        record_max_bytes=RECORD_MAX_BYTES,
        shown=EXAMPLES_MAXIMUM,
    )
    return Taker(core, reading, form.columns, "fid" if "fid" in readers else "inode")


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
