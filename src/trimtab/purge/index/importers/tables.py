"""CSV and Parquet, as vendors' indexes arrive: with a column map.

CSV is read byte for byte: names may be any bytes, quoted with ``"`` where they hold the delimiter,
a quote or a line feed. Parquet is read a slice at a time; of each column its values are taken as
whole numbers or as text, which is exact for times with a zone and bytes too, and what is not exact
is refused (a fraction of a ``double`` is no nanosecond).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.errors import DataError, UsageError
from trimtab.purge.index.importers.column_map import (
    NO_NAMES,
    NUMBER_UNITS,
    Mapped,
    Names,
    frame_of,
    learn,
)
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import Reading, Records, one_after_another
from trimtab.visible import visible

if TYPE_CHECKING:
    import polars as pl

_ROWS: Final = 100_000
_TEXT_BYTES: Final = 64 * 1024**2
_SHOWN: Final = 200
"""Characters of a row, to show where it is refused."""


def read_csv(
    file: BinaryIO,
    reading: Reading,
    *,
    mapping: Sequence[Mapped],
    names: Names = NO_NAMES,
    delimiter: str = ",",
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a CSV file whose first line names its columns.

    Raises
    ------
    UsageError
        The map names a column that is not there.
    DataError
        There is no first line.
    """
    _begin(mapping, reading)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        head = next(rows)
    except StopIteration:
        raise DataError(
            "it is empty: the first line has to name the columns", code="table-empty"
        ) from None
    except csv.Error as error:
        raise DataError(
            f"its first line is no CSV: {error}", code="table-malformed", line=1
        ) from error
    at = _places(mapping, head)
    roots = {mapped.column for mapped in mapping if mapped.target == "parent"}
    taken: list[list[str]] = []
    numbers: list[int] = []
    length = 0
    for number, row in _rows(rows, reading):
        if len(row) != len(head):
            whole = delimiter.join(row).encode("utf-8", "surrogateescape")
            reason = f"it has {len(row)} fields instead of {len(head)}"
            reading.refuse(reason, record=number, text=whole)
            continue
        taken.append(row)
        numbers.append(number)
        length += sum(map(len, row))
        if len(taken) >= _ROWS or length > _TEXT_BYTES:
            texts, records = _texts(taken, at, roots), _records(taken, numbers)
            yield frame_of(texts, mapping, records, reading, names)
            taken, numbers, length = [], [], 0
    if taken:
        texts, records = _texts(taken, at, roots), _records(taken, numbers)
        yield frame_of(texts, mapping, records, reading, names)
    text.detach()


def _rows(rows: Iterator[list[str]], reading: Reading) -> Iterator[tuple[int, list[str]]]:
    number = 0
    while True:
        number += 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reading.refuse(f"no CSV: {error}", record=number)
            continue
        if row:  # an empty line is no row
            yield number, row


def _records(taken: list[list[str]], numbers: list[int]) -> Records:
    shown = [",".join(row)[:_SHOWN].encode("utf-8", "surrogateescape") for row in taken]
    return Records(shown, lambda at: (numbers[at], None))


def _texts(taken: list[list[str]], at: dict[str, int], roots: set[str]) -> dict[str, pl.Series]:
    """Return the columns of rows; an empty field is no value, but as a directory the root."""
    import polars as pl

    return {
        column: pl.Series(
            column,
            [
                row[i].encode("utf-8", "surrogateescape") or (b"" if column in roots else None)
                for row in taken
            ],
            dtype=pl.Binary,
        )
        for column, i in at.items()
    }


def read_parquet(
    file: str, reading: Reading, *, mapping: Sequence[Mapped], names: Names = NO_NAMES
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a Parquet file.

    Raises
    ------
    UsageError
        The map names a column that is not there, or is of a kind that cannot be read exactly.
    DataError
        It is no Parquet, or damaged.
    """
    import polars as pl

    _begin(mapping, reading)
    shown = visible(file)
    try:
        table = pl.scan_parquet(file, glob=False)
        schema = table.collect_schema()
        at = _places(mapping, schema.names())
        columns = {mapped.column: _exactly(schema, mapped) for mapped in mapping}
        table = table.select(text.alias(column) for column, text in columns.items())
        first = 0
        while True:
            batch = table.slice(first, _ROWS).collect()
            if not batch.height:
                return
            records = one_after_another([b""] * batch.height, first + 1, 0)
            texts = {column: batch[column] for column in at}
            yield frame_of(texts, mapping, records, reading, names)
            first += batch.height
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"it cannot be read as Parquet: {visible(str(error))}",
            code="table-malformed",
            file=shown,
        ) from error
    except OSError as error:
        raise DataError(
            f"it cannot be read: {visible(str(error))}", code="unreadable-file", file=shown
        ) from error


def _begin(mapping: Sequence[Mapped], reading: Reading) -> None:
    learn(mapping, reading)
    exact = reading.resolution_ns < 10**9
    reading.times = TimeTrust.EXACT_NS if exact else TimeTrust.SECONDS
    if "type" not in reading.columns:
        reading.note("the table does not tell types: all were taken to be regular files")


def _places(mapping: Sequence[Mapped], head: Sequence[str]) -> dict[str, int]:
    places = {}
    for mapped in mapping:
        if head.count(mapped.column) != 1:
            several = "has several columns" if mapped.column in head else "has no column"
            raise UsageError(
                f"the table {several} {visible(mapped.column)!r}, which the map names",
                code="column-missing",
                hint=f"its columns are {', '.join(map(visible, head))}",
            )
        places[mapped.column] = head.index(mapped.column)
    return places


def _exactly(schema: pl.Schema, mapped: Mapped) -> pl.Expr:
    """Return a column as `frame_of` takes it; null where a value cannot be said exactly."""
    import polars as pl

    column, kind = pl.col(mapped.column), schema[mapped.column]
    if kind == pl.Binary:
        return column
    if kind.is_float():
        # What is whole and below 2^53 is exact; a fraction of a second in a double is not.
        whole = (column == column.floor()) & (column.abs() < 2**53)
        column, kind = pl.when(whole).then(column.cast(pl.Int64, strict=False)), pl.Int64()
    if kind.is_integer() and mapped.unit in NUMBER_UNITS:
        return column
    if kind.is_integer() or kind in (pl.String, pl.Categorical):
        return column.cast(pl.String).cast(pl.Binary)
    if isinstance(kind, pl.Datetime):
        return _datetime(column, kind, mapped)
    if isinstance(kind, pl.List) and mapped.target == "osts":
        return column.cast(pl.List(pl.String)).list.join(",").cast(pl.Binary)
    raise UsageError(
        f"column {visible(mapped.column)!r} holds {kind}, which is not readable as {mapped.target}",
        code="column-type",
        hint="write it as a whole number or as text",
    )


def _datetime(column: pl.Expr, kind: pl.Datetime, mapped: Mapped) -> pl.Expr:
    import polars as pl

    if mapped.unit != "iso":
        raise UsageError(
            f"the column {visible(mapped.column)!r} holds times, not numbers of {mapped.unit}",
            code="unit-mismatch",
            hint=f"write {mapped.target}={visible(mapped.column)}:iso",
        )
    if kind.time_zone is None:
        raise UsageError(
            f"the times in {visible(mapped.column)!r} are without a zone",
            code="zone-missing",
            hint="write them with one, or as seconds since 1970",
        )
    utc = column.dt.convert_time_zone("UTC")
    return utc.dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").cast(pl.Binary)
