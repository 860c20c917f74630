"""Reads people's files as tables, and their cells as numbers.

A table has text cells with the line of each row, or the typed columns of Parquet. Deviations from a
plain table are handled here, once: other separators, quotes that are not doubled (elbencho's
``command``), comments, ``sep=,``, a header that is a comment (``sadf -d``) or is repeated where
files were joined, commas at the end of rows, annotations of InfluxDB, Excel's UTF-16. A row that
does not fit is an error with its line.

Numbers may have decimal commas, thousands separators and units. A column is read as a whole, since
12,014 alone may be twelve or twelve thousand; if the column does not show which, the user must say.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from trimtab.base.error import DataError, UsageError, visible
from trimtab.base.units import parse_bytes, parse_duration, parse_unit
from trimtab.probe.written_time import is_time

if TYPE_CHECKING:
    import polars as pl


_SIZES: Final = (1e-100, 1e100)
"""Range in which squares and sums of squares of a spread neither overflow nor vanish."""
_MARKS: Final = "[ '\u2019_\u00a0\u2009\u202f]"
"""Thousands separators, besides comma and point."""
_GROUPED: Final = rf"[0-9]{{1,3}}(?:[.,]|{_MARKS})[0-9]{{3}}(?:(?:[.,]|{_MARKS})[0-9]{{3}})*"
_NUMBER: Final = (
    rf"(?P<number>[-+\u2212]?(?:{_GROUPED}(?:[.,][0-9]+)?|[0-9]*[.,]?[0-9]+[.,]?)"
    r"(?:[eE][-+]?[0-9]{1,3})?)"
)
_CELL: Final = rf"{_NUMBER}[ \u00a0\u202f]*(?P<unit>[A-Za-z%µμ][A-Za-z%µμ/*. ()^-]{{0,15}})?"
_DECIMAL: Final = {
    mark: rf"^[-+]?(?:[0-9]{{1,3}}(?:{other}[0-9]{{3}})+|[0-9]*)(?:{this}[0-9]*)?(?:[eE].*)?$"
    for mark, this, other in ((".", "[.]", ","), (",", ",", "[.]"))
}
"""Pattern of numbers with either decimal mark."""
_UNITS_MAXIMUM: Final = 12


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column as numbers.

    Attributes
    ----------
    values
        0 or more; null where a cell is no such number.
    unit
        Unit of the values: base SI if known, else as written; empty if none is written.
    note
        Decision about commas; ``None`` if there was nothing to decide.
    """

    values: pl.Series
    unit: str = ""
    note: str | None = None


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, with a unit or without."""
    return re.fullmatch(_CELL, cell.strip()) is not None


def is_numeric(sample: pl.Series) -> bool:
    """Return whether most cells of a column are numbers, whatever their commas mean."""
    import polars as pl

    if sample.dtype != pl.String:
        return sample.dtype.is_numeric() and bool(_usable(sample).is_not_null().any())
    text = sample.str.strip_chars().replace("", None).drop_nulls()
    fields = text.str.extract_groups(f"^{_CELL}$").struct.unnest()
    digits = fields["number"].str.replace_all(_MARKS, "").str.replace_all(",", ".")
    whole = digits.str.replace_all(r"[.](.*[.])", "${1}")
    units = fields["unit"].drop_nulls().unique().head(_UNITS_MAXIMUM + 1)
    known = len(units) <= 1 or all(_factor(unit) or len(unit) <= 2 for unit in units)
    numbers = _usable(whole.fill_null(text))
    return known and len(units) <= _UNITS_MAXIMUM and len(numbers) <= 2 * numbers.count() > 0


def read_numbers(
    column: pl.Series,
    *,
    lines: Sequence[int],
    decimal: str | None = None,
    separator: str | None = None,
) -> Numbers:
    """Return a column as numbers.

    Parameters
    ----------
    lines
        Line numbers of its cells, for errors.
    decimal
        ``.`` or ``,``; ``None``: as the column shows.
    separator
        Separator of the table's cells: a comma is seldom a decimal comma too.

    Raises
    ------
    UsageError
        The meaning of a comma or a point is ambiguous.
    DataError
        The cells have different forms, or units that cannot be converted.
    """
    import polars as pl

    if column.dtype != pl.String:
        return Numbers(_usable(column))
    text = column.str.strip_chars().replace("", None)
    plain = text.cast(pl.Float64, strict=False)
    if decimal is None and plain.null_count() == text.null_count() and not _may_be_grouped(text):
        return Numbers(_usable(plain))
    fields = text.str.extract_groups(f"^{_CELL}$").struct.unnest()
    digits = fields["number"].str.replace_all(_MARKS, "").str.replace("\u2212", "-")
    note = None
    if decimal is None:
        decimal, note = _decimal_mark(digits, column.name, separator, lines)
    digits = pl.select(pl.when(digits.str.contains(_DECIMAL[decimal])).then(digits)).to_series()
    if decimal == ",":
        digits = digits.str.replace_all(".", "", literal=True).str.replace(",", ".")
    values = _usable(digits.str.replace_all(",", ""))
    return _in_one_unit(values, fields["unit"].str.strip_chars(), column.name, lines, note)


def _usable(column: pl.Series) -> pl.Series:
    """Return numbers that can be judged; null where a cell is not a number, or less than 0."""
    import polars as pl

    if column.dtype != pl.String and not column.dtype.is_numeric():
        return pl.Series(column.name, [None] * len(column), dtype=pl.Float64)
    numbers = column.cast(pl.Float64, strict=False)
    usable = (numbers == 0) | numbers.is_between(*_SIZES)
    return numbers.zip_with(usable.fill_null(value=False), numbers.clear(len(numbers)))


def _may_be_grouped(text: pl.Series) -> bool:
    """Return whether points may separate thousands: 987 beside 1.012 and 12.014."""
    pointed = text.filter(text.str.contains(".", literal=True))
    return (
        len(pointed) > 0
        and bool(pointed.str.contains("^[-+]?[1-9][0-9]{0,2}[.][0-9]{3}$").all())
        and bool(text.str.contains("^[-+]?[1-9][0-9]{0,2}$").any())
    )


def _decimal_mark(
    digits: pl.Series, name: str, separator: str | None, lines: Sequence[int]
) -> tuple[str, str | None]:
    """Return the decimal mark of a column, and a note if it was decided by convention."""
    single = digits.str.contains("^[-+]?[0-9]*[.,][0-9]*(?:[eE].*)?$")
    three = digits.str.contains("^[-+]?[1-9][0-9]{0,2}[.,][0-9]{3}$")
    shown = {}
    for mark, this, other in ((".", "[.]", ","), (",", ",", "[.]")):
        evident = digits.str.contains(f"{other}.*{this}|{other}.*{other}")
        shown[mark] = evident | (single & ~three & digits.str.contains(this))
    evident = [mark for mark, cells in shown.items() if cells.any()]
    commas, points = (bool((three & digits.str.contains(mark)).any()) for mark in (",", "[.]"))
    if len(evident) == 2 or (not evident and commas and points):
        mixed = (
            shown if evident else {mark: digits.str.contains(mark, literal=True) for mark in shown}
        )
        places = [lines[int(mixed[mark].fill_null(value=False).arg_max() or 0)] for mark in ".,"]
        raise DataError(
            f"column {visible(name)!r} has decimal points (line {places[0]}) "
            f"and decimal commas (line {places[1]})",
            code="numbers-mixed",
            hint="write all in one form, or select it with --decimal",
        )
    if evident:
        return evident[0], None
    small = bool(digits.str.contains("^[-+]?[1-9][0-9]{0,2}$").any())
    large = bool(digits.str.contains("^[-+]?[0-9]{4,}$").any())
    if points and not small:
        return ".", None
    if commas and not large and (small or separator == ","):
        # A column with three decimals has them in every cell, and a comma rarely separates both.
        example = digits.filter(three)[0]
        note = None if small else f"{example!r} was read as {example.replace(',', '')}: --decimal ,"
        return ".", note
    if not commas and not points:
        return ".", None
    example = digits.filter(three)[0]
    raise UsageError(
        f"{visible(example)!r} in column {visible(name)!r} may be a thousand times as much",
        code="number-ambiguous",
        hint="--decimal , or --decimal . says which is the decimal mark",
    )


def _in_one_unit(
    values: pl.Series, units: pl.Series, name: str, lines: Sequence[int], note: str | None
) -> Numbers:
    """Return numbers in base SI if their units are known."""
    import polars as pl

    names = units.unique(maintain_order=True).drop_nulls().to_list()
    factors = {unit: _factor(unit) for unit in names}
    bases = {None if factor is None else factor[1] for factor in factors.values()}
    if not names:
        return Numbers(values, "", note)
    if bases == {None} and len(names) == 1:
        factors, bases = {names[0]: (Decimal(1), names[0])}, {names[0]}
    if None in bases or len(bases) > 1:
        first = [
            f"{visible(unit)!r} (line {lines[int((units == unit).arg_max() or 0)]})"
            for unit in names[:3]
        ]
        raise DataError(
            f"column {visible(name)!r} has units that cannot be converted: {', '.join(first)}",
            code="units-mixed",
            hint="known: GB/s, MiB/s, Gb/s, kIOPS, GB, GiB, ms, s, %",
        )
    exact = {unit: float(factor[0]) for unit, factor in factors.items() if factor is not None}
    factor = units.replace_strict(exact, default=None, return_dtype=pl.Float64)
    # A number without a unit among others may have any unit; 0 is 0 in each.
    factor = pl.select(
        pl.when(units.is_null() & (values == 0)).then(1.0).otherwise(factor)
    ).to_series()
    return Numbers(_usable(values * factor), bases.pop() or "", note)


def _factor(unit: str) -> tuple[Decimal, str] | None:
    """Return the factor to base SI and the base unit; ``None`` if the unit is unknown."""
    text = unit.strip().replace("/sec", "/s").replace("µ", "u").replace("μ", "u")
    with suppress(UsageError):
        return parse_unit(text)
    if text.lower() in ("ops/s", "op/s", "io/s", "iops", "req/s"):
        return Decimal(1), "1/s"
    with suppress(UsageError):
        if text.endswith("B"):  # a lone letter, and bits, are no such bytes
            return Decimal(parse_bytes(f"1{text}")), "B"
        if text.islower() and text != "m":  # minutes, metres
            return Decimal(str(parse_duration(f"1{text}"))), "s"
    return None


_PARQUET: Final = b"PAR1"
_WORKBOOK: Final = b"PK\x03\x04"
_BLANKS: Final = " "
_SEPARATORS: Final = "\t;|,"
"""A comma comes last: in a table with another separator it may be a decimal comma."""
_SAMPLE: Final = 20
"""Number of rows from which separator and head are recognised."""
_SAMPLE_CHARACTERS: Final = 1 << 20
_SEPARATOR_LINE: Final = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_ODD_LINE: Final = re.compile(r"\n[ \t]*[\r\n#]|\r(?!\n)")
"""Blank lines and comments among the rows, and line ends of Mac OS 9."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as written.

    Attributes
    ----------
    frame
        Text in all cells of a CSV (null: empty), or the types of Parquet.
    lines
        Line number of each row, counted from 1.
    separator
        Separator between the cells; ``None``: Parquet.
    """

    frame: pl.DataFrame
    lines: Sequence[int]
    separator: str | None


class _Record(NamedTuple):
    line: int
    """The first of its lines."""
    cells: list[str]
    is_comment: bool
    height: int
    """Lines that it spans."""


def read_table(content: bytes, shown: str) -> TextTable:
    """Return the table in a file.

    Raises
    ------
    DataError
        It is no table, or a row does not fit: with its line.
    UsageError
        It has no head.
    """
    import polars as pl

    if not content.strip():
        raise DataError(f"{shown} is empty", code="file-empty")
    if content.startswith(_WORKBOOK):
        hint = "save the sheet as CSV, or unpack the archive"
        raise DataError(f"{shown} is a workbook or an archive", code="table-unreadable", hint=hint)
    try:
        if content.startswith(_PARQUET):
            frame = pl.read_parquet(io.BytesIO(content))
            table = TextTable(frame, range(1, frame.height + 1), None)
        else:
            table = _text_table(_decoded(content), shown)
    except (pl.exceptions.PolarsError, ValueError, OSError) as error:
        first = str(error).splitlines()[0]
        raise DataError(
            f"{shown} is not a readable table: {first}", code="table-unreadable"
        ) from error
    if table.frame.is_empty():
        names = ", ".join(map(visible, table.frame.columns[:_SAMPLE]))
        raise DataError(f"{shown} has columns and no row ({names})", code="file-empty")
    return table


def _decoded(content: bytes) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what Excel calls "Unicode text"
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _text_table(text: str, shown: str) -> TextTable:
    import polars as pl

    text = text.rstrip("\r\n ")
    separator = _separator(text)
    records = _records(text, separator, shown)
    comments, sample = _beginning(records)
    if not sample:
        raise DataError(f"{shown} has no row", code="file-empty")
    head = sample[0].cells
    if not _are_figures([record.cells for record in sample if not record.is_comment]):
        del sample[0]
    elif comments and len(comments[-1]) == len(head):
        head = comments[-1]
    else:
        raise _headless(sample, separator, shown)
    if _are_numbered(sample, len(head)):
        head = ["", *head]
    names = _names(head)
    frame = _plain(text, separator, sample, names)
    if frame is not None:
        lines: Sequence[int] = range(sample[0].line, sample[0].line + frame.height)
    else:
        lines, rows = _fitted(chain(sample, records), head, shown)
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        frame = pl.DataFrame(
            [
                pl.Series(name, list(cells), pl.String)
                for name, cells in zip(names, columns, strict=True)
            ]
        ).with_columns(pl.all().replace("", None))
    unnamed = [name for name, title in zip(names, head, strict=True) if not title.strip()]
    empty = [name for name in unnamed if frame[name].is_null().all()]
    return TextTable(frame.drop(empty), lines, separator)


def _are_numbered(sample: Sequence[_Record], width: int) -> bool:
    """Return whether every row begins with its number, for which the head has no name.

    R's ``write.table`` and some of pandas write so; a decimal comma also makes one cell more.
    """
    first = [record.cells[0] for record in sample if len(record.cells) == width + 1]
    numbers = [[str(start + row) for row in range(len(sample))] for start in (0, 1)]
    return bool(first) and first in numbers


def _separator(text: str) -> str:
    """Return the separator of the cells: the most frequent one in each of the first rows."""
    lines = [line for line in text[:_SAMPLE_CHARACTERS].splitlines() if line.strip()]
    if lines and (line := _SEPARATOR_LINE.fullmatch(lines[0])):
        return line[1]
    unquoted = re.sub('"[^"]*"', "_", text[:_SAMPLE_CHARACTERS])
    rows = [row for row in unquoted.splitlines() if row.strip() and not row.startswith("#")]
    rows = rows[:_SAMPLE]
    most = max(_SEPARATORS, key=lambda character: min(row.count(character) for row in rows or [""]))
    if any(most in row for row in rows):
        return most
    return _BLANKS if len({len(row.split()) for row in rows}) == 1 else ","


def _records(text: str, separator: str, shown: str) -> Iterator[_Record]:
    """Yield the records in the lines of a text, without blank lines."""
    number, start, is_comment = 0, 0, False

    def lines() -> Iterator[str]:
        nonlocal number, start, is_comment
        for number, line in enumerate(io.StringIO(text, newline=None), start=1):
            if not line.strip():
                continue
            start = start or number
            is_separator = number == 1 and bool(_SEPARATOR_LINE.fullmatch(line))
            is_comment = line.startswith("#") or is_separator
            cells = line.replace('"', "").lstrip("# ") if is_comment else line
            yield " ".join(cells.split()) if separator == _BLANKS else cells

    try:
        for cells in csv.reader(lines(), delimiter=separator):
            yield _Record(start, cells, is_comment, number - start + 1)
            start = 0
    except csv.Error as error:
        raise _unfit(start, shown, str(error), None) from error


def _beginning(records: Iterator[_Record]) -> tuple[list[list[str]], list[_Record]]:
    """Return the comments before the first row, and the first rows from there on."""
    comments: list[list[str]] = []
    sample: list[_Record] = []
    for record in records:
        if sample or not record.is_comment:
            sample.append(record)
        else:
            comments.append(record.cells)
        if len(sample) > _SAMPLE:
            break
    return comments, sample


def _are_figures(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is like those below: times and numbers, not names."""
    first, below = rows[0], rows[1:]
    if not below:
        return any(map(is_time, first)) and any(map(is_number, first))
    legible = [
        is_number(cell) or is_time(cell)
        for column, cell in enumerate(first)
        if all(
            is_number(row[column]) or is_time(row[column]) or not row[column].strip()
            for row in below
            if column < len(row)
        )
    ]
    return bool(legible) and all(legible)


def _headless(sample: Sequence[_Record], separator: str, shown: str) -> UsageError:
    """Return the error for a table without names, with an example of a line of names."""
    kinds: list[str] = []
    for cell in sample[0].cells:
        kind = "value" if is_number(cell) else "label"
        if is_time(cell, or_number="time" not in kinds):
            kind = "time" if ":" in cell or "date" in kinds or is_number(cell) else "date"
        kinds.append(kind)
    head = _names(kinds)
    return UsageError(
        f"the first row of {shown} (line {sample[0].line}) looks like data, and not like a head",
        code="head-missing",
        hint=f"put a line with the names of its columns first, as {separator.join(head)}",
    )


def _names(head: Sequence[str]) -> list[str]:
    """Return the names of columns, made unique."""
    names: list[str] = []
    for number, title in enumerate(head, start=1):
        name = title.strip() or f"column {number}"
        again = 1
        while name in names:
            again += 1
            name = f"{title.strip()} {again}"
        names.append(name)
    return names


def _plain(
    text: str, separator: str, sample: Sequence[_Record], names: Sequence[str]
) -> pl.DataFrame | None:
    """Return a table of plain rows of cells; ``None`` if it has anything else."""
    import polars as pl

    if not sample or separator == _BLANKS or '"' in text:
        return None
    rows = text.split("\n", sample[0].line - 1)[-1]
    if _ODD_LINE.search(rows):
        return None
    schema = dict.fromkeys(names, pl.String)
    try:
        frame = pl.read_csv(
            rows.encode(), has_header=False, schema=schema, separator=separator, quote_char=None
        )
    except pl.exceptions.PolarsError:
        return None  # a row of another width: its line must be named
    titles = _titles(names)
    again = pl.sum_horizontal(pl.all().str.strip_chars().is_in(titles)) >= _named_by(titles)
    return None if frame.select(again.any()).item() else frame


def _titles(head: Sequence[str]) -> list[str]:
    """Return the names that identify a repeated head; numbers may be in any row."""
    return [title.strip() for title in head if title.strip() and not is_number(title)]


def _named_by(titles: Sequence[str]) -> int:
    """Return how many names of columns make a row a repeated head: no row of figures has two."""
    return min(2, len(titles)) or len(titles) + 1


def _fitted(
    records: Iterable[_Record], head: Sequence[str], shown: str
) -> tuple[list[int], list[list[str]]]:
    """Return the line and the cells of every row, one cell per column."""
    width, titles = len(head), set(_titles(head))
    enough = _named_by(list(titles))
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, written, is_comment, height in records:
        if len(written) == width and height == 1 and not is_comment and titles.isdisjoint(written):
            lines.append(line)  # the usual row
            rows.append(written)
            continue
        cells = written
        if len(titles.intersection(cell.strip() for cell in cells)) >= enough:
            if [cell.strip() for cell in cells] == [cell.strip() for cell in head]:
                continue  # files joined, each with its head
            raise _unfit(line, shown, "another table begins here", "judge each by itself")
        if is_comment:
            continue
        if height > 1 and (len(cells) != width or _swallows_rows(cells, width)):
            raise _unfit(line, shown, "a quote opens here and is not closed", None)
        extra = cells[width - 1 :]
        if len(cells) > width and any('"' in cell for cell in extra):
            # elbencho's command: "a" "b,c" is split at the comma, as its quotes are not proper.
            cells = [*cells[: width - 1], ",".join(extra)]
        if any(cell.strip() for cell in cells[width:]):
            fields = f"{len(cells)} fields, and the head has {width}"
            hint = (
                "a decimal comma needs another separator, or quotes"
                if rows
                else "lines above the names of the columns have to begin with #"
            )
            raise _unfit(line, shown, fields, hint)
        lines.append(line)
        rows.append([*cells[:width], *[""] * (width - len(cells))])
    return lines, rows


def _swallows_rows(cells: Sequence[str], width: int) -> bool:
    """Return whether a cell of several lines holds rows of the table."""
    inner = [line for cell in cells for line in cell.split("\n")[1:-1]]
    ends = [cell.rsplit("\n", 1)[-1] for cell in cells[-1:] if "\n" in cell]
    return any(
        line.count(character) == width - 1 for line in [*inner, *ends] for character in _SEPARATORS
    )


def _unfit(line: int, shown: str, problem: str, hint: str | None) -> DataError:
    return DataError(problem, file=shown, line=line, code="table-unreadable", hint=hint)
