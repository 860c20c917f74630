r"""Lists that ``find -printf`` and ``lfs find --printf`` print: fields with tabs, the path last.

The path comes last because it may hold tabs itself. A format is the text that was given to the
tool, as ``%i\t%n\t%p\0``; directives that are of no use here are passed over.

A list may begin and end with a record of its own, as the scripts of `gnu_find` and `lfs_find` do::

    trimtab-list 1 started=1795335800 [token=HEX]
    ...
    [HEX<tab>]trimtab-end ended=1795335860

It then says itself when it was made, and that the tool came to its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.errors import DataError, UsageError
from trimtab.purge.index import fields, identity, schema
from trimtab.purge.index.reading import Reading, Records, placed
from trimtab.visible import visible

if TYPE_CHECKING:
    import polars as pl

_HEAD: Final = re.compile(rb"trimtab-list 1 started=([0-9]{1,11})(?: token=([0-9a-fA-F]{16,64}))?")
_END: Final = re.compile(rb"trimtab-end ended=([0-9]{1,11})")
_HEAD_WORD: Final = b"trimtab-list "
END_WORD: Final = b"trimtab-end "
_LOOKED_AT: Final = 1000


@dataclass(frozen=True, slots=True)
class Directive:
    """What a directive of a format prints.

    Attributes
    ----------
    column
        Of the index; ``None``: it is passed over.
    pattern
        A regular expression over bytes that what it prints fits.
    """

    column: str | None
    pattern: str


_NUMBER: Final = "[0-9]+"
_TIME: Final = r"-?[0-9]+(?:\.-?[0-9]+)?"
_BIRTH: Final = r"-?[0-9]*(?:\.-?[0-9]+)?"

COMMON: Final = {
    "%i": Directive("id", _NUMBER),
    "%n": Directive("nlink", _NUMBER),
    "%U": Directive("uid", _NUMBER),
    "%G": Directive("gid", _NUMBER),
    "%s": Directive("size_bytes", _NUMBER),
    "%b": Directive("allocated_bytes", _NUMBER),
    "%A@": Directive("atime_ns", _TIME),
    "%T@": Directive("mtime_ns", _TIME),
    "%C@": Directive("ctime_ns", _TIME),
    "%y": Directive("type", "[a-zA-Z?]"),
    "%m": Directive(None, "[0-7]+"),
    "%M": Directive(None, r"[^\t\n]+"),
    "%k": Directive(None, _NUMBER),
}
GNU: Final = {
    **COMMON,
    "%D": Directive("device", _NUMBER),
    "%B@": Directive("btime_ns", _BIRTH),
    "%d": Directive(None, _NUMBER),
}
LFS: Final = {
    **COMMON,
    "%i": Directive(None, _NUMBER),  # the FID, folded so that two may share it
    "%W@": Directive("btime_ns", _BIRTH),
    "%LF": Directive("id", r"[0-9a-fA-Fx:]*"),
    "%LP": Directive("project", _NUMBER),
    "%Lp": Directive("pool", r"[^\t\n]*"),
    "%Lc": Directive("stripe_count", "[0-9]*"),
    "%Lo": Directive("osts", r"[0-9,?\[\]]*"),
    "%Li": Directive(None, "-?[0-9]*"),
    "%LS": Directive(None, "[0-9]*"),
}


@dataclass(frozen=True, slots=True)
class Format:
    """A format, taken apart.

    Attributes
    ----------
    text
        As it was given to the tool.
    directives
        Of each field but the path, which is the last.
    terminator
        What ends a record.
    """

    text: str
    directives: tuple[Directive, ...]
    terminator: bytes

    @property
    def columns(self) -> set[str]:
        """The columns of the index that it tells."""
        return {directive.column for directive in self.directives if directive.column is not None}

    def begins(self) -> re.Pattern[bytes]:
        """Return what a record of it begins with, the path left out."""
        return re.compile(
            "".join(f"{directive.pattern}\t" for directive in self.directives).encode("ascii")
        )


def parse_format(text: str, known: dict[str, Directive]) -> Format:
    r"""Return a format taken apart.

    Raises
    ------
    UsageError
        A directive is not known or stands twice, the path is not the last, fields are not parted
        by ``\t`` or the record does not end with ``\0`` or ``\n``.

    Examples
    --------
    >>> sorted(parse_format(r"%i\t%U\t%s\t%p\0", GNU).columns)
    ['id', 'size_bytes', 'uid']
    """
    hint = r"write it as it was given to the tool, as '%i\t%n\t%U\t%s\t%T@\t%p\0', the path last"
    body, terminator = text[:-2], {r"\0": b"\0", r"\n": b"\n"}.get(text[-2:])
    *before, last = body.split(r"\t")
    if terminator is None or last != "%p" or not before:
        raise UsageError(
            f"the format {visible(text)!r} cannot be read", code="format-unreadable", hint=hint
        )
    unknown = [directive for directive in before if directive not in known]
    if unknown:
        raise UsageError(
            f"the format {visible(text)!r} has {visible(unknown[0])!r}, which is not known here",
            code="directive-unknown",
            hint=f"known are {' '.join(known)}, parted by \\t; the path, %p, is the last",
        )
    form = Format(text, tuple(known[directive] for directive in before), terminator)
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
                f"the format {visible(text)!r} does not tell {needed}",
                code="column-missing",
                hint=hint,
            )
    return form


def choose(formats: Sequence[Format], texts: Sequence[bytes]) -> Format | None:
    """Return the format that fits most of the first records of a list; ``None``: none fits."""
    scores = [
        (sum(form.begins().match(text) is not None for text in texts), form) for form in formats
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
) -> Format:
    """Return which of the usual formats of a tool the first records of a list are in.

    Parameters
    ----------
    usual
        What Trimtab asks for first.
    tool, option
        What made the list, and what a format is given to it with.

    Raises
    ------
    DataError
        None of them.
    """
    form = choose([parse_format(text, known) for text in usual], texts[:_LOOKED_AT])
    if form is None:
        raise DataError(
            f"this is no list of {tool} in a format that is known here",
            code="format-unknown",
            hint=f"name the one that was given to {option} with --printf; "
            f"Trimtab's own is {usual[0]}",
        )
    return form


def take_head(first: Records, reading: Reading) -> tuple[bool, bytes | None]:
    """Return whether the first of some records is the head of a list, and the token it names."""
    text = first.texts[0]
    if not text.startswith(_HEAD_WORD):
        return False, None
    match = _HEAD.fullmatch(text)
    if match is None:
        first.refuse(0, "it is no head of a list that this program knows", reading)
        return True, None
    reading.started_ns = int(match[1]) * fields.NS_PER_S
    return True, match[2]


def take_end(text: bytes, reading: Reading) -> bool:
    """Return whether a record is the end of a list that says so."""
    match = _END.fullmatch(text)
    if match is None:
        return False
    # The tool ended within that second.
    reading.ended_ns = int(match[1]) * fields.NS_PER_S + fields.NS_PER_S - 1
    reading.ended_well = True
    return True


def ended(reading: Reading, *, headed: bool, tool: str) -> None:
    """Say what is to be said of a list once all of it was read.

    Parameters
    ----------
    headed
        Whether it began with a head, and so has to say that it came to its end.
    tool
        What made it: ``find``.
    """
    if headed and not reading.ended_well:
        reading.refuse(f"the list has no end: {tool} failed, or the list was cut off")
    if "type" not in reading.columns:
        reading.note("the list does not tell types: all were taken to be regular files (-type f)")


Reader = Callable[["pl.Series"], "pl.Series"]


def frame_of(
    chunk: Records, form: Format, reading: Reading, special: Mapping[str, Reader]
) -> pl.DataFrame:
    """Return the rows of records, the columns in their types.

    Parameters
    ----------
    special
        How the text of a column is read where the tool prints it in its own way.
    """
    import polars as pl

    count = len(form.directives)
    columns = _columns(chunk.texts, count)
    whole = columns[-1].is_not_null()
    if not whole.all():
        for at in (~whole).arg_true().to_list():
            fields_there = chunk.texts[at].count(b"\t") + 1
            chunk.refuse(at, f"it has {fields_there} fields instead of {count + 1}", reading)
        chunk = chunk.at(whole.arg_true().to_list())
        columns = [values.filter(whole) for values in columns]
    readers = {**_readers(), **special}
    series = []
    misfits: set[int] = set()
    for directive, values in zip(form.directives, columns, strict=False):
        if directive.column in readers or directive.column is None:
            text = _text(directive.column or "passed over", values)
            misfits.update(_misfits(text, directive))
            if directive.column is not None:
                series.append(readers[directive.column](text))
        else:
            names = values.cast(pl.Binary)
            misfits.update(names.bin.contains(b"/").arg_true().to_list())
            series.append(fields.names_of(directive.column, names.to_list()))
    if misfits:
        # Behind a damaged tab each field is the next one's, the last of them the path's.
        for at in misfits:
            chunk.refuse(at, "a field is not what the format prints", reading)
        fitting = [at for at in range(len(chunk.texts)) if at not in misfits]
        chunk, series = chunk.at(fitting), [values.gather(fitting) for values in series]
        columns[-1] = columns[-1].gather(fitting)
    paths = columns[-1].cast(pl.Binary).to_list()
    return placed(_with_identity(pl.DataFrame(series)), chunk, paths, reading)


def _columns(texts: Sequence[bytes], count: int) -> list[pl.Series]:
    """Return the fields of records, that many and the rest; null in the rest of one with fewer.

    They are text where all records are, and else bytes.
    """
    import polars as pl

    records = pl.Series("record", texts, dtype=pl.Binary)
    try:
        parts = records.cast(pl.String).str.splitn("\t", count + 1)
    except pl.exceptions.ComputeError:  # a name in it is no UTF-8
        parted = [text.split(b"\t", count) for text in texts]
        padded = [parts if len(parts) > count else [None] * (count + 1) for parts in parted]
        columns = zip(*padded, strict=True)
        return [pl.Series("field", values, dtype=pl.Binary) for values in columns]
    return parts.struct.unnest().get_columns()


def _text(name: str, values: pl.Series) -> pl.Series:
    import polars as pl

    if values.dtype == pl.String:
        return values.alias(name)
    return fields.text_of(name, values.to_list())


def _misfits(text: pl.Series, directive: Directive) -> list[int]:
    """Return the places of values that a directive does not print, where no reader looks at them.

    Values of required columns are refused by `placed`, with their names.
    """
    if directive.column in (*schema.required(), *schema.TIMES, "project"):
        return []
    pattern = rf"\A(?:{directive.pattern})\z"
    return text.str.contains(pattern).fill_null(value=False).not_().arg_true().to_list()


def _with_identity(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose inode numbers, as numbers, have become identities."""
    import polars as pl

    if "id" not in frame.columns:
        return frame
    if frame["id"].dtype == pl.Binary:
        return frame.with_columns(id_kind=pl.lit("fid"))
    return frame.with_columns(identity.of_inodes(frame["id"]), id_kind=pl.lit("inode"))


def _readers() -> dict[str, Reader]:
    import polars as pl

    def number(kind: type[pl.DataType]) -> Reader:
        return lambda text: fields.whole(text, kind)

    numbers = {
        name: number(kind)
        for name, kind in schema.columns().items()
        if kind in (pl.UInt32, pl.UInt64)
    }
    return {
        **numbers,
        "id": number(pl.UInt64),
        "allocated_bytes": fields.blocks,
        "atime_ns": fields.seconds,
        "mtime_ns": fields.seconds,
        "ctime_ns": fields.seconds,
        "btime_ns": lambda text: fields.birth(fields.seconds(text)),
        "type": _letters,
    }


def _letters(text: pl.Series) -> pl.Series:
    """Return the letters of types; what else a tool prints with one letter is ``?``."""
    import polars as pl

    column = pl.col(text.name)
    known = pl.when(column.str.contains(r"\A[fdlpsbc]\z")).then(column)
    other = pl.when(column.str.contains(r"\A.\z")).then(pl.lit("?"))
    return text.to_frame().select(known.otherwise(other).alias(text.name)).to_series()
