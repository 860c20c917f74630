"""Query an index: read-only SQL over its tables ``names`` and ``files``, and ready-made totals.

Answers are printable: names are visible text, identities in the usual notation. Totals are by user,
group, project, age, size, OST or pool; they cover only regular files, each counted once regardless
of its names, by allocated bytes.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_from_bytes

import polars as pl

from trimtab.act.decide.balance import FEWEST_BYTES, MovableFile, MovableFiles
from trimtab.base.error import UsageError, visible
from trimtab.base.units import format_bytes
from trimtab.purge.index import index_view, shard
from trimtab.purge.index.manifest import Lack, Manifest
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.owner import group_name, user_name
from trimtab.reach.lustre.lustre_target import target_of

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
class QueryAnswer:
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


def ask(directory: Path, statement: str, *, rows_maximum: int = ROWS_MAXIMUM) -> QueryAnswer:
    """Return the answer to one SELECT over an index.

    Parameters
    ----------
    directory
        The index.
    statement
        SQL in Polars' dialect; the tables are ``names`` and ``files``
        (`trimtab.purge.index.index_view`).
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
    with index_view.readable():
        rows = index_view.names(directory, manifest)
    context = pl.SQLContext(names=rows, files=index_view.files(rows))
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


def answer(result: pl.LazyFrame, manifest: Manifest, rows_maximum: int) -> QueryAnswer:
    """Return the answer of a lazy frame, printable and with at most ``rows_maximum`` rows."""
    frame = result.head(rows_maximum + 1).collect(engine="streaming")
    shown = shown_frame(frame.head(rows_maximum))
    return QueryAnswer(shown, frame.height > rows_maximum, tuple(doubts(manifest)))


def shown_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with identities and names as text instead of bytes."""
    if "id" in frame.columns and frame["id"].dtype == pl.Binary:
        if "id_kind" in frame.columns:
            kinds = frame["id_kind"]
        else:
            # Without its kind: a FID's sequence is never 0, an inode number has no upper half.
            fids = [value is not None and any(value[:8]) for value in frame["id"]]
            kinds = pl.Series(["fid" if is_fid else "inode" for is_fid in fids], dtype=pl.String)
        frame = frame.with_columns(id=index_view.shown_identity(frame["id"], kinds))
    return frame.with_columns(
        index_view.visible_text(pl.col(name)).alias(name)
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


def query_document(answer: QueryAnswer) -> PurgeQueryDocument:
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


class By(StrEnum):
    """Grouping of the files."""

    USER = "user"
    GROUP = "group"
    PROJECT = "project"
    AGE = "age"
    SIZE = "size"
    OST = "ost"
    POOL = "pool"


NO_POOL: Final = "(none)"
"""Value for a file whose layout has no pool."""

AGES_DAYS: Final = (1, 7, 14, 28, 56, 91, 182, 365, 730)
"""Lower bounds of the age classes; 56 days is the default minimum age of eight weeks."""

SIZES_BYTES: Final = (
    1, 4 * 1024, 64 * 1024, 1024**2, 16 * 1024**2, 256 * 1024**2, 4 * 1024**3, 64 * 1024**3,
    1024**4,
)  # fmt: skip
"""Lower bounds of the size classes."""


_KEYS: Final = {By.USER: "uid", By.GROUP: "gid", By.AGE: "class", By.SIZE: "class"}
"""Key columns of the totals that differ from the grouping's name."""


def totals(files: pl.LazyFrame, by: By) -> pl.LazyFrame:
    """Return the totals of files, one row per key; totals of parts of an index can be merged.

    Parameters
    ----------
    files
        One row per file, as from `index_view.files`.
    """
    # Without allocated sizes the length is used, and `doubts` reports it.
    held = pl.coalesce("allocated_bytes", "size_bytes")
    files = files.with_columns(held=held, one=pl.lit(1, dtype=pl.UInt64))
    if by in (By.AGE, By.SIZE):
        column, begins, _ = _classes(by)
        files = files.with_columns(_class_of(pl.col(column), begins).alias("class"))
    if by is By.OST:
        files = _by_ost(files)
    return files.group_by(_KEYS.get(by, by.value)).agg(
        files=pl.sum("one"),
        allocated_bytes=pl.sum("held"),
        unused_days=pl.max("age_days"),
    )


def merged(parts: pl.LazyFrame, by: By) -> pl.LazyFrame:
    """Merge totals with several rows per key, and return them in display order."""
    key = by.value
    if by in (By.USER, By.GROUP):
        naming = user_name if by is By.USER else group_name
        parts = parts.with_columns(index_view.named(_KEYS[by], key, naming))
    column = "class" if by in (By.AGE, By.SIZE) else key
    sums = pl.sum("files", "allocated_bytes")
    whole = parts.group_by(column).agg(sums, pl.max("unused_days"))
    if by in (By.AGE, By.SIZE):
        _, _, labels = _classes(by)
        label = pl.col("class").replace_strict(
            list(range(len(labels))), labels, default="not known", return_dtype=pl.String
        )
        return whole.sort("class", nulls_last=True).select(label.alias(key), *_shown())
    ordered = whole.sort("allocated_bytes", key, descending=[True, False])
    shown = pl.col(key).fill_null(NO_POOL) if by is By.POOL else pl.col(key)
    return ordered.select(shown, *_shown())


_NEEDED: Final = {
    By.PROJECT: Lack.PROJECT, By.OST: Lack.LAYOUT, By.POOL: Lack.POOL, By.GROUP: Lack.GROUP,
}  # fmt: skip


def check(by: By, directory: Path, manifest: Manifest) -> None:
    """Raise if an index lacks the column of a query.

    Raises
    ------
    UsageError
        It lacks the column.
    UnreadableError, DataError
        The index cannot be read.
    """
    needed = _NEEDED.get(by)
    if needed is not None and needed in manifest.lacking:
        raise UsageError(
            f"the index lacks the {needed.value} of files",
            code="column-lacking",
            hint="scan again with --with project,layout, or group by something else",
        )
    with index_view.readable():
        if by is By.POOL and not index_view.tells(directory, manifest, "pool"):
            raise UsageError(
                "the index lacks the pool of files",
                code="pool-unknown-to-index",
                hint="it was made before pools were stored: scan or import again",
            )


def _shown() -> tuple[pl.Expr, ...]:
    total = pl.sum("allocated_bytes")
    share = pl.when(total > 0).then(pl.col("allocated_bytes") / total)
    return pl.col("files"), pl.col("allocated_bytes"), share.alias("share"), pl.col("unused_days")


def _by_ost(files: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row per file and OST, with bytes divided evenly and the remainder on the first.

    An OST with several objects of a file gets as many parts.
    """
    objects = pl.col("osts").list.len().cast(pl.UInt64)
    here = files.filter(objects > 0).with_row_index("file")
    parts = here.select(
        "file",
        "age_days",
        ost=pl.col("osts"),
        stripe=pl.int_ranges(0, pl.col("osts").list.len()),
        each=pl.col("held") // objects,
        rest=pl.col("held") % objects,
    ).explode("ost", "stripe")
    held = pl.col("each") + pl.when(pl.col("stripe") == 0).then("rest").otherwise(0)
    return (
        parts.group_by("file", "ost")
        .agg(held.sum().alias("held"), pl.first("age_days"))
        .select("ost", "held", "age_days", one=pl.lit(1, dtype=pl.UInt64))
    )


def _class_of(value: pl.Expr, begins: tuple[int, ...]) -> pl.Expr:
    """Return the number of classes that begin at or below a value; null for null."""
    known = pl.sum_horizontal((value >= begin).cast(pl.Int64) for begin in begins)
    return pl.when(value.is_not_null()).then(known)


def _classes(by: By) -> tuple[str, tuple[int, ...], list[str]]:
    """Return the column, the lower bounds of its classes, and their labels."""
    if by is By.AGE:
        between = [f"{low} to {high} days" for low, high in itertools.pairwise(AGES_DAYS)]
        labels = [f"under {AGES_DAYS[0]} day", *between, f"{AGES_DAYS[-1]} days and more"]
        return "age_days", AGES_DAYS, labels
    texts = [format_bytes(size) for size in SIZES_BYTES]
    between = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
    return "size_bytes", SIZES_BYTES, ["empty", *between, f"{texts[-1]} and more"]


MOVED_MAXIMUM: Final = 100_000
"""Files of an index that are considered for moving off a full target, the largest first."""
_NEEDED_TO_MOVE: Final = (Lack.IDENTITY, Lack.BLOCKS, Lack.LINKS, Lack.TYPE)


def files_to_move(directory: Path) -> MovableFiles:
    """Return the files of an index that are worth moving, the largest first.

    Raises
    ------
    UsageError
        The index lacks the layouts or the types of files.
    UnreadableError, DataError
        It cannot be read.
    """
    manifest = load_manifest(directory)
    lacking = [lack.value for lack in _NEEDED_TO_MOVE if lack in manifest.lacking]
    if lacking or not index_view.tells(directory, manifest, "osts"):
        raise UsageError(
            f"the index lacks the {', '.join(lacking) or 'OSTs'} of files",
            code="index-insufficient",
            hint="scan on a client of the file system: trimtab purge scan ROOT --index DIR",
        )
    each = pl.col("allocated_bytes") // pl.col("osts").list.len()
    with index_view.readable():
        frame = (
            index_view.scanned(directory, manifest)
            .filter(
                (pl.col("type") == "f")
                & (pl.col("nlink") == 1)
                & (pl.col("osts").list.len() > 0)
                & pl.col("mtime_ns").is_not_null()
                & pl.col("ctime_ns").is_not_null()
                & (each >= FEWEST_BYTES)
            )
            .with_columns(each=each)
            .top_k(MOVED_MAXIMUM, by="each")
            .collect()
        )
    ended_at = datetime.fromtimestamp(manifest.ended_ns / 1e9, UTC)
    files = [_file_to_move(row, manifest.root) for row in frame.iter_rows(named=True)]
    return MovableFiles(ended_at, files)


def _file_to_move(row: dict[str, Any], root: bytes) -> MovableFile:
    parts = [root.rstrip(b"/"), row["parent"], row["name"]]
    changed_s = max(row["mtime_ns"], row["ctime_ns"]) // 10**9
    return MovableFile(
        identity=shard.shown(row["id"], row["id_kind"]),
        path=quote_from_bytes(b"/".join(part for part in parts if part)),
        state=f"{row['size_bytes']} {row['mtime_ns']} {row['ctime_ns']}",
        allocated_bytes=row["each"],
        changed_at=datetime.fromtimestamp(0, UTC) + timedelta(seconds=changed_s),
        targets=tuple(target_of("ost", index) for index in dict.fromkeys(row["osts"])),
    )
