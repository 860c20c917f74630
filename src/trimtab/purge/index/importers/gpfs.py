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
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.errors import UsageError
from trimtab.purge.index import fields, identity
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import Reading, Records, placed, records
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

_NUMBER: Final = "[0-9]+"
_MODE: Final = "[-dlpsbcDM?][-rwxsStTlL]{9}[.+]?"
_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ @][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
_SECONDS: Final = r"-?[0-9]+(?:\.[0-9]{1,9})?"
_TOKEN: Final = re.compile(
    r"\s*(?:'((?:[^']|'')*)'|(\|\|)|([A-Za-z_][A-Za-z0-9_]*)|(.))", re.DOTALL
)
_CLAUSES: Final = re.compile(
    r"\s*(?:SHOW\s*\((?P<show>.*)\)|(?P<bare>[^()].*?))\s*(?:ESCAPE\s*'(?P<escape>%[^']*)')?\s*",
    re.DOTALL | re.IGNORECASE,
)
_UNRESERVED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
_LETTERS: Final = "fdlpsbc"
_BAD_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Shown:
    """How a list is to be read.

    Attributes
    ----------
    columns
        Of the index, in the order of the list; ``None``: passed over.
    pattern
        Of a record: the three numbers, each column, and the path, in groups ``g0`` and so on.
    plain
        Characters that stand for themselves, where others are written as ``%XX``; ``None``: all
        stand for themselves.
    """

    columns: tuple[str | None, ...]
    pattern: str
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
    parts: list[str] = []
    before = ""  # of a value: what parts it from the one before
    for literal, term in _terms(clauses["show"] or clauses["bare"] or "", text):
        if term is None:
            before += literal
            continue
        if columns and not before:
            raise _unreadable(text, f"nothing parts {term} from what stands before it")
        parts.append(re.escape(_escaped(before, plain)))
        column, pattern = _value(term, text)
        columns.append(column)
        parts.append(f"({_escaped_pattern(pattern, plain)})")
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
    after = re.escape(_escaped(before, plain))
    body = "".join(parts)
    pattern = rf"\A([0-9]+) +([0-9]+) +([0-9]+) +{body}{after} *-- ([^ ].*)\z"
    return Shown(tuple(columns), pattern, plain)


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
    """Return the column that a term is, and what its values look like."""
    inner = re.fullmatch(
        r"(?:VARCHAR|CHAR|INTEGER|BIGINT)\(([A-Z_]+)(?:,[0-9]+)?\)|([A-Z_]+)", term
    )
    name = "" if inner is None else inner[1] or inner[2]
    column = _COLUMNS.get(name)
    if column == "type":
        return column, _MODE
    if column is not None and column.endswith("time_ns"):
        return column, f"{_TIME}|{_SECONDS}"
    if column is not None:
        return column, _NUMBER
    words = set(re.findall(r"[A-Z_]{3,}", term))
    if name in _PLAIN:
        return None, f"{_TIME}|[^ |]*"
    if not words - _FUNCTIONS - _PLAIN - set(_COLUMNS) and "'" not in term:
        return None, f"{_TIME}|-?[0-9.]+"
    raise _unreadable(
        text, f"{visible(term)} may hold any text, so that what follows cannot be told from it"
    )


_FUNCTIONS: Final = frozenset(
    {"VARCHAR", "CHAR", "INTEGER", "BIGINT", "DAYS", "HOUR", "MINUTE", "SECOND", "MOD", "INT",
     "MONTH", "YEAR", "DAY", "TIMESTAMP", "DOUBLE"}
)  # fmt: skip


def _escaped(literal: str, plain: frozenset[str] | None) -> str:
    """Return what the list has for a text of the clause."""
    if plain is None:
        return literal
    return "".join(
        letter if letter in plain else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in literal
    )


def _escaped_pattern(pattern: str, plain: frozenset[str] | None) -> str:
    """Return the pattern of a value, for a list that may have a blank and a colon as ``%XX``."""
    if plain is None or {" ", ":", "@"} <= plain:
        return pattern
    return pattern.replace("[ @]", "(?: |@|%20|%40)").replace(":[0-9]", "(?::|%3A)[0-9]")


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
    for _, chunk in records(file, b"\n", reading):
        yield _frame(chunk, shown, zone, reading)


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


def _frame(chunk: Records, shown: Shown, zone: str | None, reading: Reading) -> pl.DataFrame:
    import polars as pl

    text, encoding = _text(chunk.texts)
    groups = text.str.extract_groups(shown.pattern).struct.unnest()
    groups.columns = [
        "inode",
        "generation",
        "snapshot",
        *map(str, range(len(shown.columns))),
        "path",
    ]
    good = groups["inode"].is_not_null() & (groups["snapshot"] == "0")
    if not good.all():
        for at in (~good.fill_null(value=False)).arg_true().to_list():
            strange = groups["inode"][at] is None
            reason = "it is no record of this format" if strange else "it is in a snapshot"
            chunk.refuse(at, reason, reading)
        taken = good.fill_null(value=False)
        chunk, groups = chunk.at(taken.arg_true().to_list()), groups.filter(taken)
    columns = [
        _column(groups[str(at)].alias(name), zone, reading)
        for at, name in enumerate(shown.columns)
        if name is not None
    ]
    frame = pl.DataFrame(
        [identity.of_inodes(fields.whole(groups["inode"], pl.UInt64)).alias("id"), *columns]
    ).with_columns(id_kind=pl.lit("inode"))
    return placed(frame, chunk, _paths(groups["path"], encoding, shown), reading)


def _text(texts: Sequence[bytes]) -> tuple[pl.Series, str]:
    """Return records as text, and how their bytes came into it."""
    import polars as pl

    series = pl.Series("text", texts, dtype=pl.Binary)
    try:
        return series.cast(pl.String), "utf-8"
    except pl.exceptions.ComputeError:  # a name that is no UTF-8, in a list without ESCAPE
        decoded = [text.decode("latin-1") for text in texts]
        return pl.Series("text", decoded, dtype=pl.String), "latin-1"


def _paths(paths: pl.Series, encoding: str, shown: Shown) -> list[bytes]:
    """Return the bytes of paths; of one that cannot be told a path that is refused."""
    import polars as pl

    if encoding == "utf-8":
        plain: list[bytes] = paths.cast(pl.Binary).to_list()
    else:
        plain = [path.encode(encoding) for path in paths]
    special = b"\\" if shown.plain is None else b"%"
    odd = paths.str.contains(special.decode(), literal=True).arg_true().to_list()
    for at in odd:
        broken = shown.plain is None or _BAD_PERCENT.search(plain[at]) is not None
        plain[at] = b"" if broken else urllib.parse.unquote_to_bytes(plain[at])
    return plain


def _column(text: pl.Series, zone: str | None, reading: Reading) -> pl.Series:
    import polars as pl

    if text.name == "type":
        letter = text.str.head(1).str.replace("-", "f", literal=True)
        return letter.replace_strict(
            list(_LETTERS), list(_LETTERS), default="?", return_dtype=pl.String
        )
    if text.name == "size_bytes":
        return fields.whole(text, pl.UInt64)
    if text.name == "allocated_bytes":
        return fields.multiples(text, 1024)
    if text.name.endswith("time_ns"):
        value_ns = _time(text, zone, reading)
        return fields.birth(value_ns) if text.name == "btime_ns" else value_ns
    return fields.whole(text, pl.UInt32)


def _time(text: pl.Series, zone: str | None, reading: Reading) -> pl.Series:
    """Return times in nanoseconds; null for a local time that no clock showed."""
    import polars as pl

    if text.str.contains("%", literal=True).any():
        text = text.str.replace_many(["%20", "%40", "%3A"], [" ", "@", ":"])
    local = text.str.slice(4, 1) == "-"
    if not local.any():
        seconds_ns = fields.seconds(text)
        _learn(seconds_ns, reading)
        return seconds_ns
    if zone is None:
        raise UsageError(
            "the list has times in local time, and nothing says of which zone",
            code="zone-missing",
            hint="name the zone of the node that ran mmapplypolicy: --zone Europe/Zurich",
        )
    col = pl.col
    days = text.str.head(10)
    known = days.unique()  # many files are of one day
    numbers = pl.DataFrame(
        {
            "day": days.replace_strict(known, known.str.to_date("%Y-%m-%d", strict=False)),
            **{
                name: text.str.slice(at, 2).cast(pl.Int64, strict=False)
                for name, at in (("hour", 11), ("minute", 14), ("second", 17))
            },
            "rest_ns": text.str.slice(20).str.pad_end(9, "0").cast(pl.Int64, strict=False),
        }
    )
    fits = (col("hour") < 24) & (col("minute") < 60) & (col("second") < 60)
    elapsed_s = (col("hour") * 60 + col("minute")) * 60 + col("second")
    local_ms = pl.when(fits).then(
        col("day").cast(pl.Datetime("ms")).cast(pl.Int64) + elapsed_s * 1000
    )
    moments = numbers.select(
        local_ms.cast(pl.Datetime("ms"))
        .dt.replace_time_zone(zone, ambiguous="latest", non_existent="null")
        .dt.epoch("s")
        .alias("s"),
        "rest_ns",
    )
    times_ns = fields.nanoseconds(moments["s"], moments["rest_ns"]).alias(text.name)
    if not local.all():
        plain_ns = fields.seconds(text)
        times_ns = pl.select(pl.when(local).then(times_ns).otherwise(plain_ns)).to_series()
        times_ns = times_ns.alias(text.name)
    _learn(times_ns, reading)
    return times_ns


def _learn(times_ns: pl.Series, reading: Reading) -> None:
    """Note that a list has parts of seconds."""
    if reading.resolution_ns == fields.NS_PER_S and (times_ns % fields.NS_PER_S != 0).any():
        reading.times, reading.resolution_ns = TimeTrust.EXACT_NS, 1000
