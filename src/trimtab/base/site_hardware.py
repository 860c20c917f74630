"""The hardware of a file system, as needed for efficiencies, and figures as they are printed.

Data sheets, slides and papers print ``3.2 GB/s``, ``1600 kIOPS``, ``8+2``. Each figure keeps the
uncertainty of its rounding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from trimtab.base.error import UsageError
from trimtab.base.toml_kind import TEXT, ValueKind, of_text, out_of_range, quoted, whole
from trimtab.base.toml_schema import key
from trimtab.base.units import parse_unit

_TEXT_MAX: Final = 60
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_FIGURE = re.compile(
    rf"\s*({_NUMBER})(?:\s+to\s+({_NUMBER})|\s*(?:\+-|±)\s*({_NUMBER}))?\s*([^\s0-9].*?)?\s*\Z"
)
_PARITY = re.compile(r"\s*([0-9]{1,3})\+([0-9]{1,2})(?:\+([0-9]{1,2}))?\s*\Z")
_NAMES: Final = {
    "B/s": "a rate: 50 GB/s, 1024 MiB/s or 400 Gb/s",
    "1/s": "operations a second: 1600 kIOPS or 29000 IOPS",
    "s": "a time: 2900 s",
    "1": "a share or count: 88.4 % or 12",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A printed number with the uncertainty of its rounding.

    Attributes
    ----------
    value
        In base SI.
    unit
        ``B/s``, ``1/s``, ``s`` or ``1``.
    step
        Value of the last printed digit, in ``unit``: the true value is within half of it.
    step_if_zeros_are_filling
        The same if zeros at the end of a whole number are not significant: 1,600 may be rounded
        to hundreds. Equal to ``step`` without such zeros.
    upper
        Upper end of a printed range; ``None`` for a single value.
    text
        As printed.
    """

    value: float
    unit: str
    step: float = 0.0
    step_if_zeros_are_filling: float = 0.0
    upper: float | None = None
    text: str | None = None

    @property
    def middle(self) -> float:
        """The value, or the middle of the range."""
        return self.value if self.upper is None else (self.value + self.upper) / 2

    def possible(self, *, zeros_are_filling: bool = False) -> tuple[float, float]:
        """Return the smallest and the largest value that round to the printed figure.

        Parameters
        ----------
        zeros_are_filling
            Whether zeros at the end of a whole number are not significant.

        Returns
        -------
        tuple of float
            Lower and upper bound, in ``unit``.

        Examples
        --------
        >>> Figure(1600, "1/s", 1, 100).possible()
        (1599.5, 1600.5)
        >>> Figure(1600, "1/s", 1, 100).possible(zeros_are_filling=True)
        (1550.0, 1650.0)
        """
        half = (self.step_if_zeros_are_filling if zeros_are_filling else self.step) / 2
        return self.value - half, (self.value if self.upper is None else self.upper) + half


@dataclass(frozen=True, slots=True)
class Parity:
    """Layout of a parity group: ``parity`` blocks for every ``data`` blocks.

    Attributes
    ----------
    data, parity
        Number of data and parity blocks in a stripe.
    spares
        Blocks of spare capacity (the last part of 8+2+1). With distributed parity they carry their
        share of the traffic, so they do not change any rate.
    """

    data: int
    parity: int
    spares: int = 0

    @property
    def written_per_byte(self) -> float:
        """Bytes written to the drives per byte written, in full stripes: (d + p) / d."""
        return (self.data + self.parity) / self.data

    def __str__(self) -> str:
        """Return ``8+2`` or ``8+2+1``."""
        parts = (self.data, self.parity, *([self.spares] if self.spares else []))
        return "+".join(map(str, parts))


def parse_figure(text: str, unit: str | None = None) -> Figure:
    """Parse a printed figure into base SI, with the value of its last digit.

    Parameters
    ----------
    text
        A number with its unit, a range (``6 to 8 GB/s``), or a number with an explicit rounding
        coarser than its last digit (``150 +- 5 GB/s``). MB is decimal and MiB binary; lower-case
        ``b`` is bits.
    unit
        The required base unit: ``B/s``, ``1/s``, ``s`` or ``1``; ``None``: any.

    Returns
    -------
    Figure
        Value, unit and rounding.

    Raises
    ------
    UsageError
        ``text`` is not such a figure, or has another unit. A comma is rejected, because it
        separates thousands in some countries and decimals in others.

    Examples
    --------
    >>> parse_figure("3.2 GB/s").possible()
    (3150000000.0, 3250000000.0)
    >>> parse_figure("200 Gb/s").value
    25000000000.0
    """
    shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
    match = _FIGURE.match(text) if len(text) <= _TEXT_MAX else None
    if match is None or "," in text:
        hint = "write no comma: 9600, 3.2" if "," in text else f"write {_NAMES[unit or 'B/s']}"
        raise UsageError(f"{shown!r} is not a figure", code="figure-malformed", hint=hint)
    number, upper, around, of = match.groups()
    factor, base = parse_unit(of or "")
    if unit is not None and base != unit:
        noun = _NAMES[unit].partition(":")[0]
        raise UsageError(f"{shown!r} is not {noun}", code="unit-mismatch", hint=_NAMES[unit])
    step, filling = _steps(number)
    if around is not None:
        step = filling = 2 * Decimal(around)
    if upper is not None:
        if Decimal(upper) < Decimal(number):
            raise UsageError(f"{shown!r} ends before it begins", code="range-reversed")
        step, filling = (min(pair) for pair in zip((step, filling), _steps(upper), strict=True))
    return Figure(
        _times(number, factor),
        base,
        _times(str(step), factor),
        _times(str(filling), factor),
        None if upper is None else _times(upper, factor),
        text.strip(),
    )


def parse_parity(text: str) -> Parity:
    """Return the parity that ``8+2`` or ``8+2+1`` describes; ``none`` is no parity.

    Raises
    ------
    UsageError
        ``text`` does not describe a parity.

    Examples
    --------
    >>> parse_parity("8+2").written_per_byte, parse_parity("none").written_per_byte
    (1.25, 1.0)
    """
    if text.strip() == "none":
        return Parity(1, 0)
    match = _PARITY.match(text)
    if match is None or int(match.group(1)) == 0:
        hint = "write data + parity blocks: 8+2; 1+1 for mirrors, none for no parity"
        raise UsageError(
            f"{text[:_TEXT_MAX]!r} is not a parity", code="parity-malformed", hint=hint
        )
    data, parity, spares = (int(part or 0) for part in match.groups())
    return Parity(data, parity, spares)


def _steps(number: str) -> tuple[Decimal, Decimal]:
    """Return the value of the last digit, and of the last digit before trailing zeros."""
    whole, point, decimals = number.partition(".")
    if point:
        step = Decimal(1).scaleb(-len(decimals))
        return step, step
    zeros = len(whole) - len(whole.rstrip("0")) if whole.strip("0") else 0
    return Decimal(1), Decimal(1).scaleb(zeros)


def _times(number: str, factor: Decimal) -> float:
    return float(Decimal(number) * factor)


def _write_figure(figure: Figure) -> str:
    return quoted(figure.text or "")


def _positive(unit: str, example: str, *more: str) -> ValueKind:
    """Return the kind of single figures of a base unit, greater than 0."""

    def parse(text: str) -> Figure:
        figure = parse_figure(text, unit)
        if figure.value <= 0 or figure.upper is not None:
            raise out_of_range(text, "one number, greater than 0")
        return figure

    return of_text(parse, "figure", example, *more, write=_write_figure)


FIGURE: Final = of_text(
    parse_figure,
    "figure",
    *("38 GB/s", "1600 kIOPS", "88.4 %", "6 to 8 GB/s"),
    write=_write_figure,
)
RATE: Final = _positive("B/s", "3.2 GB/s", "1024 MiB/s", "400 Gb/s")
OPERATIONS: Final = _positive("1/s", "1600 kIOPS", "29000 IOPS")
PARITY: Final = of_text(
    parse_parity, "parity", "8+2", "8+2+1", "1+1", "none", write=lambda value: quoted(str(value))
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The hardware of a file system; every value may be unknown (``None``).

    Figures stated for a drive take precedence over the data sheet of its model. A parity of
    ``None`` is unknown; ``Parity(1, 0)`` is no parity.
    """

    drive: str | None = key(TEXT, "Model of the drives that hold data, for its data sheet.", None)
    drive_write: Figure | None = key(RATE, "Write rate of one drive, before its data sheet.", None)
    drive_read: Figure | None = key(RATE, "Read rate of one drive, before its data sheet.", None)
    drive_write_iops: Figure | None = key(OPERATIONS, "4 KiB random writes of one drive.", None)
    drive_read_iops: Figure | None = key(OPERATIONS, "4 KiB random reads of one drive.", None)
    drive_link: Figure | None = key(RATE, "Rate of a server's link to one drive, each way.", None)
    drives: int | None = key(whole(1, 10_000_000), "Drives of all OSTs.", None)
    drives_per_ost: int | None = key(whole(1, 10_000), "Where no two OSTs share a drive.", None)
    osts: int | None = key(whole(1, 1_000_000), "OSTs of the whole file system.", None)
    oss: int | None = key(whole(1, 1_000_000), "Its object storage servers.", None)
    parity: Parity | None = key(PARITY, "Data and parity blocks of a group: 8+2.", None)
    network: Figure | None = key(RATE, "Line rate of one OSS, all interfaces, each way.", None)
    client_network: Figure | None = key(RATE, "Line rate of one client node, each way.", None)
