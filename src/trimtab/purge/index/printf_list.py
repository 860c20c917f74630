r"""Read lists of ``find -printf`` and ``lfs find --printf``: tab-separated fields, the path last.

The path comes last because it may contain tabs. A format is the tool's argument, such as
``%i\t%n\t%p\0``; directives of no use here are ignored.

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

from trimtab.base.error import DataError, UsageError
from trimtab.base.visible import visible
from trimtab.purge.index import list_reading
from trimtab.purge.index.list_reading import (
    CHUNK_BYTES,
    RECORD_MAX_BYTES,
    ListReading,
    RecordBlock,
    blocks,
)
from trimtab.purge.index.manifest import EXAMPLES_MAXIMUM

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
