r"""File lists of ``mmapplypolicy -I defer``, from a LIST rule of GPFS (IBM Storage Scale).

::

    INODE GENERATION SNAPSHOT [SHOW] -- PATH

What stands before the path is what the rule's SHOW clause printed; the clause itself says how to
read it, and an ESCAPE clause how names were written (`parse_show`). With ``ESCAPE '%...'`` every
byte but some comes as ``%XX``. Without it a line feed becomes a backslash and ``n``, and whether
other backslashes are doubled depends on the rest of the name: a path with one is refused.

A time is printed in the local time of the node, without its zone: somebody has to name it. Where
clocks were put back, an hour occurs twice; the later one is taken, so that no file looks older than
it is. A time that is a plain number is in seconds since 1970. Sources: "File list format" and "File
attributes in SQL expressions" of IBM Storage Scale 5.2; a list of a real system was not at hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.errors import UsageError
from trimtab.purge.index import fields
from trimtab.purge.index.importers.printf import Taker
from trimtab.purge.index.manifest import EXAMPLES_MAXIMUM, TimeTrust
from trimtab.purge.index.reading import Reading, records
from trimtab.visible import visible

if TYPE_CHECKING:
    import polars as pl

SHOW: Final = (
    "SHOW(VARCHAR(MODE) || ' ' || VARCHAR(NLINK) || ' ' || VARCHAR(USER_ID) || ' ' ||"
    " VARCHAR(GROUP_ID) || ' ' || VARCHAR(FILE_SIZE) || ' ' || VARCHAR(KB_ALLOCATED) || ' ' ||"
    " VARCHAR(ACCESS_TIME) || ' ' || VARCHAR(MODIFICATION_TIME) || ' ' ||"
    " VARCHAR(CHANGE_TIME) || ' ' || VARCHAR(CREATION_TIME)) ESCAPE '%/ :'"
)
"""What Trimtab asks for."""

_COLUMNS: Final = {
    "MODE": "type", "NLINK": "nlink", "USER_ID": "uid", "GROUP_ID": "gid",
    "FILE_SIZE": "size_bytes", "KB_ALLOCATED": "allocated_bytes", "ACCESS_TIME": "atime_ns",
    "MODIFICATION_TIME": "mtime_ns", "CHANGE_TIME": "ctime_ns", "CREATION_TIME": "btime_ns",
}  # fmt: skip
_PLAIN: Final = frozenset(
    {"BLOCKSIZE", "DEVICE_ID", "FILE_HEAT", "FILESET_NAME", "GENERATION", "INODE", "POOL_NAME",
     "MISC_ATTRIBUTES", "SNAP_NAME", "EXPIRATION_TIME", "CURRENT_TIMESTAMP"}
)  # fmt: skip
"""What users cannot fill with bytes of their own."""

_TOKEN: Final = re.compile(
    r"\s*(?:'((?:[^']|'')*)'|(\|\|)|([A-Za-z_][A-Za-z0-9_]*)|(.))", re.DOTALL
)
_CLAUSES: Final = re.compile(
    r"\s*(?:SHOW\s*\((?P<show>.*)\)|(?P<bare>[^()].*?))\s*(?:ESCAPE\s*'(?P<escape>%[^']*)')?\s*",
    re.DOTALL | re.IGNORECASE,
)
_UNRESERVED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
Piece = tuple[str, bytes]
"""Of a record: what it is, and its text (`crates/namespace/src/records/shown.rs`)."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How a list is to be read.

    Attributes
    ----------
    columns
        Of the index, in the order of the list; ``None``: passed over.
    pieces
        Of a record: the three numbers and each column, with what stands between them and the path.
    plain
        Characters that stand for themselves, where others are written as ``%XX``; ``None``: all
        stand for themselves.
    """

    columns: tuple[str | None, ...]
    pieces: tuple[Piece, ...]
    plain: frozenset[str] | None


def parse_show(text: str) -> Shown:
    """Return how to read what a SHOW clause prints.

    Parameters
    ----------
    text
        ``SHOW(VARCHAR(USER_ID) || ' ' || ...) ESCAPE '%/'``, as in the policy; the expression alone
        will do.

    Raises
    ------
    UsageError
        It cannot be read, or its values could not be told apart; the owner or the length is not in
        it.

    Examples
    --------
    >>> parse_show("SHOW(VARCHAR(USER_ID) || '|' || VARCHAR(FILE_SIZE))").columns
    ('uid', 'size_bytes')
    """
    clauses = _CLAUSES.fullmatch(text)
    if clauses is None:
        raise _unreadable(text, "it is no SHOW clause")
    escape = clauses["escape"]
    plain = None if escape is None else _UNRESERVED | set(escape[1:])
    columns: list[str | None] = []
    pieces: list[Piece] = [("number", b""), ("blanks", b"")] * 3
    before = ""  # of a value: what parts it from the one before
    for literal, term in _terms(clauses["show"] or clauses["bare"] or "", text):
        if term is None:
            before += literal
            continue
        if columns and not before:
            raise _unreadable(text, f"nothing parts {term} from what stands before it")
        column, value = _value(term, text)
        columns.append(column)
        pieces += [("text", _escaped(before, plain)), (value, b"")]
        before = ""
    known = [column for column in columns if column is not None]
    if len(set(known)) != len(known):
        raise _unreadable(text, "it shows something twice")
    for needed, attribute in (("uid", "USER_ID"), ("size_bytes", "FILE_SIZE")):
        if needed not in known:
            raise UsageError(
                f"the SHOW clause {visible(text)!r} does not show {attribute}",
                code="column-missing",
                hint=f"Trimtab's own is {SHOW}",
            )
    pieces += [("text", _escaped(before, plain)), ("no-blanks", b""), ("text", b"-- ")]
    return Shown(tuple(columns), tuple(pieces), plain)


def _unreadable(text: str, problem: str) -> UsageError:
    return UsageError(
        f"the SHOW clause {visible(text)!r} cannot be read: {problem}",
        code="format-unreadable",
        hint=f"write it as in the policy; Trimtab's own is {SHOW}",
    )


def _terms(expression: str, text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the parts between ``||``: a literal, or a term in capitals without blanks."""
    words: list[str] = []
    literal: str | None = None
    depth = at = 0
    while at < len(expression.rstrip()):
        token = _TOKEN.match(expression, at)
        if token is None:
            raise _unreadable(text, "it ends within something")
        at = token.end()
        quoted, joint, word, other = token.groups()
        if joint and not depth:
            yield _term(words, literal, text)
            words, literal = [], None
        elif quoted is not None and not depth:
            literal = quoted.replace("''", "'")
        else:
            depth += {"(": 1, ")": -1}.get(other or "", 0)
            words.append((word or other or joint or f"'{quoted}'").upper())
    yield _term(words, literal, text)


def _term(words: list[str], literal: str | None, text: str) -> tuple[str, str | None]:
    if (literal is None) == (not words):
        raise _unreadable(text, "between two || there has to be a text or a value")
    return (literal or "", None if literal is not None else "".join(words))


def _value(term: str, text: str) -> tuple[str | None, str]:
    """Return the column that a term is, and which piece of a record its values are."""
    inner = re.fullmatch(
        r"(?:VARCHAR|CHAR|INTEGER|BIGINT)\(([A-Z_]+)(?:,[0-9]+)?\)|([A-Z_]+)", term
    )
    name = "" if inner is None else inner[1] or inner[2]
    column = _COLUMNS.get(name)
    if column == "type":
        return column, "mode"
    if column is not None and column.endswith("time_ns"):
        return column, "moment"
    if column is not None:
        return column, "number"
    words = set(re.findall(r"[A-Z_]{3,}", term))
    if name in _PLAIN:
        return None, "plain"
    if not words - _FUNCTIONS - _PLAIN - set(_COLUMNS) and "'" not in term:
        return None, "days"
    raise _unreadable(
        text, f"{visible(term)} may hold any text, so that what follows cannot be told from it"
    )


_FUNCTIONS: Final = frozenset(
    {"VARCHAR", "CHAR", "INTEGER", "BIGINT", "DAYS", "HOUR", "MINUTE", "SECOND", "MOD", "INT",
     "MONTH", "YEAR", "DAY", "TIMESTAMP", "DOUBLE"}
)  # fmt: skip


def _escaped(literal: str, plain: frozenset[str] | None) -> bytes:
    """Return what the list has for a text of the clause."""
    if plain is None:
        return literal.encode()
    return b"".join(
        letter.encode()
        if letter in plain
        else b"".join(b"%%%02X" % byte for byte in letter.encode())
        for letter in literal
    )


def read(
    file: BinaryIO, reading: Reading, *, format_text: str | None = None, zone: str | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list.

    Parameters
    ----------
    format_text
        The SHOW clause; ``None``: `SHOW`.
    zone
        Where the node keeps its local time: ``Europe/Zurich``. Needed for times that are no plain
        numbers.

    Raises
    ------
    UsageError
        The clause cannot be read, or the zone is not known or missing.
    """
    shown = parse_show(SHOW if format_text is None else format_text)
    if zone is not None:
        _check_zone(zone)
        if zone != "UTC":
            reading.note(
                f"local times of {zone} that occur twice, when clocks were put back, were taken "
                "to be the later ones"
            )
    reading.times, reading.resolution_ns = TimeTrust.SECONDS, fields.NS_PER_S
    reading.columns |= {"id"} | {column for column in shown.columns if column is not None}
    if "type" not in reading.columns:
        reading.note(
            "the list does not tell types: all were taken to be regular files (a rule without "
            "DIRECTORIES_PLUS)"
        )
    taker = ClauseTaker(shown, zone, reading)
    for _, chunk in records(file, b"\n", reading):
        yield from taker.rows(chunk)
    yield from taker.last()


def _check_zone(zone: str) -> None:
    import polars as pl

    try:
        if not zone:
            raise ValueError
        pl.select(pl.lit(0).cast(pl.Datetime("ms")).dt.replace_time_zone(zone))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise UsageError(
            f"{visible(zone)!r} is no time zone",
            code="zone-unknown",
            hint="name one of the IANA database: Europe/Zurich, America/Denver, UTC",
        ) from error


class ClauseTaker(Taker):
    """Makes rows of records as a SHOW clause prints them."""

    def __init__(self, shown: Shown, zone: str | None, reading: Reading) -> None:
        from trimtab._core import RecordReader

        values = [(name or "", "any", _READERS[name]) for name in shown.columns]
        core = RecordReader.of_clause(
            [("id", "any", "inode"), *[("", "any", "passed")] * 2, *values],
            list(shown.pieces),
            root=reading.root,
            beneath=reading.beneath,
            percent=shown.plain is not None,
            escaped=shown.plain is not None and not {" ", ":", "@"} <= shown.plain,
            zone=None if zone is None else offsets(zone),
            shown=EXAMPLES_MAXIMUM,
        )
        super().__init__(core, reading, set(), "inode")

    def _learn(self) -> None:
        zone_missing, finer = self._core.clock
        if zone_missing:
            raise UsageError(
                "the list has times in local time, and nothing says of which zone",
                code="zone-missing",
                hint="name the zone of the node that ran mmapplypolicy: --zone Europe/Zurich",
            )
        if finer and self._reading.resolution_ns == fields.NS_PER_S:
            self._reading.times, self._reading.resolution_ns = TimeTrust.EXACT_NS, 1000


_READERS: Final = {
    None: "passed", "type": "mode", "nlink": "small", "uid": "small", "gid": "small",
    "size_bytes": "unsigned", "allocated_bytes": "kibibytes", "atime_ns": "moment",
    "mtime_ns": "moment", "ctime_ns": "moment", "btime_ns": "birth-moment",
}  # fmt: skip
_DAY_S: Final = 86_400
_FIRST_DAY, _LAST_DAY = -62_091, 51_134
"""From 1800 to 2110: before, no zone had its clocks changed; after, the tables have no changes."""


def offsets(zone: str) -> list[tuple[int, int | None]]:
    """Return from which second of a zone's clocks on they are how many seconds from UTC.

    ``None`` stands where no clock showed a time. Of times that were shown twice it is the later.
    Where both ends of a day have one offset, all of it has: clocks are not changed twice in a day.
    The other days are looked at by hours, then by minutes, then by seconds.
    """
    import polars as pl

    spans: list[pl.DataFrame] = []
    starts = pl.int_range(_FIRST_DAY, _LAST_DAY, eager=True) * _DAY_S
    for length_s, finer_s in ((_DAY_S, 3600), (3600, 60), (60, 1), (1, 0)):
        ends = pl.DataFrame(
            {
                "start": starts,
                "first": _offset(starts, zone),
                "last": _offset(starts + (length_s - 1), zone),
            }
        )
        alike = (pl.col("first") == pl.col("last")).fill_null(value=False)
        spans.append(ends.filter(alike | (length_s == 1)).select("start", "first"))
        if finer_s:
            within = pl.int_ranges("start", pl.col("start") + length_s, finer_s)
            starts = ends.filter(~alike).select(within.alias("start")).explode("start").to_series()
    every = pl.concat(spans).sort("start")
    changes = every["first"].ne_missing(every["first"].shift())
    first = every["start"] == every["start"][0]
    rows: list[tuple[int, int | None]] = every.filter(changes | first).rows()
    return rows


def _offset(local_s: pl.Series, zone: str) -> pl.Series:
    """Return seconds from UTC of seconds of a zone's clocks."""
    import polars as pl

    utc_s = (
        (local_s * 1000)
        .cast(pl.Datetime("ms"))
        .dt.replace_time_zone(zone, ambiguous="latest", non_existent="null")
        .dt.epoch("s")
    )
    return local_s - utc_s
