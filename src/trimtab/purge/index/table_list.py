"""Read CSV and Parquet, the formats of vendors' indexes, with a column map.

CSV is read byte for byte: names may be any bytes, quoted with ``"`` if they contain the delimiter,
a quote or a line feed. Parquet is read in slices; values are converted as integers or as text,
which is exact for times with a zone and for bytes too, and inexact values are rejected (a fraction
in a ``double`` does not give nanoseconds).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO, Final

import polars as pl

from trimtab.base.error import DataError, UsageError
from trimtab.base.visible import visible
from trimtab.purge.index.column_map import NO_NAMES, NUMBER_UNITS, Mapped, Names, frame_of, learn
from trimtab.purge.index.list_reading import CHUNK_BYTES, RECORD_MAX_BYTES, ListReading, Locate
from trimtab.purge.index.manifest import TimeTrust

_ROWS: Final = 100_000
_SHOWN: Final = 200
"""Bytes of a row to show if it is rejected."""


def read_csv(
    file: BinaryIO,
    reading: ListReading,
    *,
    mapping: Sequence[Mapped],
    names: Names = NO_NAMES,
    delimiter: str = ",",
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a CSV file whose first line names its columns.

    Raises
    ------
    UsageError
        The map names a missing column, or the delimiter is not one character.
    DataError
        The first line is missing or malformed.
    """
    from trimtab._core import csv_rows
    from trimtab.purge.index.shard import TIMES

    _begin(mapping, reading)
    reading.bounded = TIMES
    part = _delimiter(delimiter)
    data, head, offset = _head(file, part)
    at = _places(mapping, head)
    wanted = [(i, _are_numbers(mapping, column)) for column, i in at.items()]
    roots = {mapped.column for mapped in mapping if mapped.target == "parent"}
    number, ended = 1, False
    while not ended:
        chunk = file.read(CHUNK_BYTES)
        data, ended = data + chunk, not chunk
        cut = ended and not data.endswith((b"\n", b"\r"))
        rows, refused, records, length = csv_rows(data, part, wanted, len(head), ended and not cut)
        for record, place, reason in refused:
            shown = data[place : place + _SHOWN]
            reading.refuse(reason, record=number + record, offset=offset + place, text=shown)
        frame = pl.DataFrame(rows)
        if frame.height:
            columns = frame.get_columns()
            texts = dict(zip(at, columns[3:], strict=True))
            # An empty field is no value, but for a directory it is the root.
            texts |= {column: texts[column].fill_null(b"") for column in roots}
            located = _located(data, columns[:3], number, offset)
            yield frame_of(texts, mapping, located, reading, names)
        number, offset, data = number + records, offset + length, data[length:]
        if cut and data:
            reading.refuse(
                "the list ends within this record", record=number, offset=offset, text=data
            )
            return
        if len(data) > RECORD_MAX_BYTES:
            reading.refuse("it has no end", record=number, offset=offset, text=data)
            return


def _delimiter(delimiter: str) -> bytes:
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UsageError(f"{visible(delimiter)!r} cannot be a delimiter", code="option-unfitting")
    return delimiter.encode("utf-8", "surrogateescape")


def _head(file: BinaryIO, delimiter: bytes) -> tuple[bytes, list[str], int]:
    """Return the data after the first line, its column names, and its length in bytes."""
    from trimtab._core import csv_head

    data = file.read(CHUNK_BYTES)
    ended, marked = len(data) < CHUNK_BYTES, data.startswith(codecs.BOM_UTF8)
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data:
        raise DataError("empty: the first line must have the column names", code="table-empty")
    try:
        head = csv_head(data, delimiter, ended)
    except ValueError as error:
        raise DataError(
            f"its first line is not CSV: {error}", code="table-malformed", line=1
        ) from error
    if head is None:
        raise DataError("its first line has no end", code="table-malformed", line=1)
    names, end = head
    columns = [name.decode("utf-8", "surrogateescape") for name in names]
    return data[end:], columns, end + len(codecs.BOM_UTF8) * marked


def _are_numbers(mapping: Sequence[Mapped], column: str) -> bool:
    return all(mapped.unit in NUMBER_UNITS for mapped in mapping if mapped.column == column)


def _located(data: bytes, places: list[pl.Series], number: int, offset: int) -> Locate:
    numbers, begins, ends = places

    def locate(at: int) -> tuple[int, int, bytes]:
        begin = begins[at]
        shown = data[begin : min(ends[at], begin + _SHOWN)]
        return number + numbers[at], offset + begin, shown

    return locate


def read_parquet(
    file: str, reading: ListReading, *, mapping: Sequence[Mapped], names: Names = NO_NAMES
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a Parquet file.

    Raises
    ------
    UsageError
        The map names a column that is missing, or of a type that cannot be read exactly.
    DataError
        Not Parquet, or damaged.
    """
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
            texts = {column: batch[column] for column in at}
            located = partial(_row, first + 1)
            yield frame_of(texts, mapping, located, reading, names)
            first += batch.height
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        # A panic is not an Exception: Polars panics on some damaged pages.
        raise DataError(
            f"it cannot be read as Parquet: {visible(str(error))}",
            code="table-malformed",
            file=shown,
        ) from error
    except OSError as error:
        raise DataError(
            f"it cannot be read: {visible(str(error))}", code="unreadable-file", file=shown
        ) from error


def _row(number: int, at: int) -> tuple[int, int, bytes]:
    return number + at, at, b""


def _begin(mapping: Sequence[Mapped], reading: ListReading) -> None:
    learn(mapping, reading)
    exact = reading.resolution_ns < 10**9
    reading.times = TimeTrust.EXACT_NS if exact else TimeTrust.SECONDS
    if "type" not in reading.columns:
        reading.note("the table has no types: all names are taken to be regular files")


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
    """Return a column in the form for `frame_of`; null if a value is not exact."""
    column, kind = pl.col(mapped.column), schema[mapped.column]
    if kind == pl.Binary:
        return column
    if kind.is_float():
        # Integers below 2^53 are exact; fractions of a second in a double are not.
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
        f"column {visible(mapped.column)!r} has type {kind}, which cannot be read as "
        f"{mapped.target}",
        code="column-type",
        hint="write it as integer or text",
    )


def _datetime(column: pl.Expr, kind: pl.Datetime, mapped: Mapped) -> pl.Expr:
    if mapped.unit != "iso":
        raise UsageError(
            f"column {visible(mapped.column)!r} has times, not numbers of {mapped.unit}",
            code="unit-mismatch",
            hint=f"write {mapped.target}={visible(mapped.column)}:iso",
        )
    if kind.time_zone is None:
        raise UsageError(
            f"the times in {visible(mapped.column)!r} have no zone",
            code="zone-missing",
            hint="write them with one, or as seconds since 1970",
        )
    utc = column.dt.convert_time_zone("UTC")
    return utc.dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").cast(pl.Binary)
