"""Numbers as people write them: with decimal commas, thousands apart, and units.

All of a column is read at once, since 12,014 alone may be twelve or twelve thousand. What the
column leaves open is asked for.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from trimtab.errors import DataError, UsageError
from trimtab.units import parse_bytes, parse_duration, parse_unit
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

_SIZES: Final = (1e-100, 1e100)
"""Between these the squares and sums of squares of a spread neither overflow nor vanish."""
_MARKS: Final = "[ '\u2019_\u00a0\u2009\u202f]"
"""Between thousands, beside a comma or a point."""
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
"""What numbers look like with either decimal mark."""
_UNITS_MAXIMUM: Final = 12


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column as numbers.

    Attributes
    ----------
    values
        0 or more; null where a cell is no number of this kind.
    unit
        Of the values: base SI where it is known, else as it is written; empty: none is written.
    note
        What was decided about commas; ``None``: nothing was to be.
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
        Of its cells, for errors.
    decimal
        ``.`` or ``,``; ``None``: as the column shows.
    separator
        Of the table's cells: a comma is seldom a decimal comma too.

    Raises
    ------
    UsageError
        It is not clear what a comma or a point means.
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
    """Return numbers that can be judged; null where a cell is none, or less than 0."""
    import polars as pl

    if column.dtype != pl.String and not column.dtype.is_numeric():
        return pl.Series(column.name, [None] * len(column), dtype=pl.Float64)
    numbers = column.cast(pl.Float64, strict=False)
    usable = (numbers == 0) | numbers.is_between(*_SIZES)
    return numbers.zip_with(usable.fill_null(value=False), numbers.clear(len(numbers)))


def _may_be_grouped(text: pl.Series) -> bool:
    """Return whether points may stand between thousands: 987 beside 1.012 and 12.014."""
    pointed = text.filter(text.str.contains(".", literal=True))
    return (
        len(pointed) > 0
        and bool(pointed.str.contains("^[-+]?[1-9][0-9]{0,2}[.][0-9]{3}$").all())
        and bool(text.str.contains("^[-+]?[1-9][0-9]{0,2}$").any())
    )


def _decimal_mark(
    digits: pl.Series, name: str, separator: str | None, lines: Sequence[int]
) -> tuple[str, str | None]:
    """Return the decimal mark of a column, and a note where it was decided by what is usual."""
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
        # A column with three decimals has them in every cell, and a comma seldom parts both.
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
    """Return numbers in base SI where their units are known."""
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
    # A number without a unit among others may be of any; 0 is 0 in each.
    factor = pl.select(
        pl.when(units.is_null() & (values == 0)).then(1.0).otherwise(factor)
    ).to_series()
    return Numbers(_usable(values * factor), bases.pop() or "", note)


def _factor(unit: str) -> tuple[Decimal, str] | None:
    """Return the factor to base SI and the base unit; ``None`` where the unit is not known."""
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
