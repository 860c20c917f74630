"""Run read-only SQL over an index, limited to the tables ``names`` and ``files``.

Answers are printable: names are visible text, identities in the usual notation.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from trimtab.errors import UsageError
from trimtab.purge.index import views
from trimtab.purge.index.manifest import Lack, Manifest
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.visible import visible

ROWS_MAXIMUM: Final = 10_000
"""Maximum rows of an answer, because an index may have 10^9."""

_QUOTED: Final = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_CHANGING: Final = re.compile(
    r"\b(create|drop|delete|insert|update|truncate|alter|into|copy)\b", re.IGNORECASE
)
_FUNCTION_OF_FILES: Final = re.compile(r"\b((?:read|scan)_\w+)\s*\(", re.IGNORECASE)
_USER: Final = re.compile(rf"{_QUOTED.pattern}|\buser\b", re.DOTALL | re.IGNORECASE)
_FIRST: Final = re.compile(r"\s*\(*\s*(select|with|from|explain)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a query.

    Attributes
    ----------
    frame
        Rows of text and numbers, without bytes.
    cut_off
        Whether there were more rows than requested.
    notes
        Limits of the numbers, one sentence each.
    """

    frame: pl.DataFrame
    cut_off: bool
    notes: tuple[str, ...]


def ask(directory: Path, statement: str, *, rows_maximum: int = ROWS_MAXIMUM) -> Answer:
    """Return the answer to one SELECT over an index.

    Parameters
    ----------
    directory
        The index.
    statement
        SQL in Polars' dialect; the tables are ``names`` and ``files``
        (`trimtab.purge.index.views`).
    rows_maximum
        Maximum rows of the answer.

    Raises
    ------
    UsageError
        Not SQL, or not a statement that only reads these tables.
    UnreadableError, DataError
        The index cannot be read.
    """
    only_reads(statement)
    manifest = load_manifest(directory)
    with views.readable():
        rows = views.names(directory, manifest)
    context = pl.SQLContext(names=rows, files=views.files(rows))
    try:
        result = context.execute(_user_quoted(statement), eager=False)
        return answer(result, manifest, rows_maximum)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise UsageError(
            f"the query failed: {visible(_first_line(str(error)))}",
            code="query-failed",
            hint=f"the tables are names and files, with the columns {', '.join(_columns(rows))}",
        ) from error


def only_reads(statement: str) -> None:
    """Raise unless a statement only reads the tables of an index.

    Raises
    ------
    UsageError
        It changes data, reads other files, or is several statements.
    """
    bare = _QUOTED.sub(lambda match: " " if match[0][0] in "-/" else "x", statement)
    hint = "one SELECT over the tables names and files"
    if _FIRST.match(bare) is None:
        raise UsageError("the query is not a SELECT", code="query-not-select", hint=hint)
    if ";" in bare.rstrip().rstrip(";"):
        raise UsageError("the query is more than one statement", code="query-several", hint=hint)
    for pattern, offence in ((_CHANGING, "changes data"), (_FUNCTION_OF_FILES, "reads files")):
        match = pattern.search(bare)
        if match is not None:
            raise UsageError(
                f"the query {offence}: {visible(match[1])}",
                code="query-not-read-only",
                hint=hint,
            )


def _user_quoted(statement: str) -> str:
    """Return a statement with ``user`` quoted as a column, because SQL has a function ``user``."""
    return _USER.sub(lambda word: '"user"' if word[0].lower() == "user" else word[0], statement)


def answer(result: pl.LazyFrame, manifest: Manifest, rows_maximum: int) -> Answer:
    """Return the answer of a lazy frame, printable and with at most ``rows_maximum`` rows."""
    frame = result.head(rows_maximum + 1).collect(engine="streaming")
    shown = shown_frame(frame.head(rows_maximum))
    return Answer(shown, frame.height > rows_maximum, tuple(doubts(manifest)))


def shown_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with identities and names as text instead of bytes."""
    if "id" in frame.columns and frame["id"].dtype == pl.Binary:
        if "id_kind" in frame.columns:
            kinds = frame["id_kind"]
        else:
            # Without its kind: a FID's sequence is never 0, an inode number has no upper half.
            fids = [value is not None and any(value[:8]) for value in frame["id"]]
            kinds = pl.Series(["fid" if is_fid else "inode" for is_fid in fids], dtype=pl.String)
        frame = frame.with_columns(id=views.shown_identity(frame["id"], kinds))
    return frame.with_columns(
        views.visible_text(pl.col(name)).alias(name)
        for name, kind in frame.schema.items()
        if kind == pl.Binary
    )


def doubts(manifest: Manifest):
    """Yield the limits of all numbers from an index, one sentence each."""
    if not manifest.complete:
        yield "the index may be incomplete: totals are lower bounds"
    if Lack.BLOCKS in manifest.lacking:
        yield "allocated sizes unknown: bytes are file lengths"
    if Lack.LINKS in manifest.lacking or Lack.IDENTITY in manifest.lacking:
        yield "hard links unknown: a file with several names counts once for each"
    if Lack.IN_PLACE in manifest.lacking:
        yield (
            "files in directories with unchanged names are as of read_at: sizes, times and owners "
            "may have changed since"
        )
    if Lack.TYPE in manifest.lacking:
        yield "types unknown: all names are taken to be regular files"


def _columns(rows: pl.LazyFrame) -> list[str]:
    return rows.collect_schema().names()


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


Plain = bool | int | float | str | None
Cell = Plain | list[Plain]


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A column of an answer, with its Polars type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class PurgeQueryDocument:
    """The answer to a query; names of files are visible text."""

    columns: tuple[ColumnRow, ...]
    rows: tuple[dict[str, Cell], ...]
    cut_off: bool
    notes: tuple[str, ...]


def query_document(answer: Answer) -> PurgeQueryDocument:
    """Return the document of the answer to a query."""
    frame = answer.frame
    return PurgeQueryDocument(
        tuple(ColumnRow(name, str(kind)) for name, kind in frame.schema.items()),
        tuple(
            {name: _cell(value) for name, value in row.items()}
            for row in frame.iter_rows(named=True)
        ),
        answer.cut_off,
        answer.notes,
    )


def _cell(value: object) -> Cell:
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else _plain(value)


def _plain(value: object) -> Plain:
    """Return a value supported by JSON; times and others as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
