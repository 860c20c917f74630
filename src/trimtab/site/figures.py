"""Figures as data sheets, slides and papers print them: ``3.2 GB/s``, ``1600 kIOPS``, ``8+2``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from trimtab.errors import UsageError
from trimtab.model.hardware import Figure, Parity
from trimtab.units import parse_unit

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


def parse_figure(text: str, unit: str | None = None) -> Figure:
    """Return the figure that ``text`` prints, in base SI, with the worth of its last digit.

    Parameters
    ----------
    text
        A number with its unit, a range (``6 to 8 GB/s``), or a number that is said to be rounded
        more coarsely than to its last digit (``150 +- 5 GB/s``). MB and MiB are what they say;
        small ``b`` is bits.
    unit
        The base unit that it is to have: ``B/s``, ``1/s``, ``s`` or ``1``.

    Raises
    ------
    UsageError
        It is no such figure. A comma is refused: it means thousands to some and decimals to others.

    Examples
    --------
    >>> parse_figure("3.2 GB/s").possible()
    (3150000000.0, 3250000000.0)
    >>> parse_figure("200 Gb/s").value
    25000000000.0
    """
    shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
    found = _FIGURE.match(text) if len(text) <= _TEXT_MAX else None
    if found is None or "," in text:
        hint = "write no comma: 9600, 3.2" if "," in text else f"write {_NAMES[unit or 'B/s']}"
        raise UsageError(f"{shown!r} is not a figure", hint=hint)
    number, upper, around, of = found.groups()
    factor, base = parse_unit(of or "")
    if unit is not None and base != unit:
        raise UsageError(f"{shown!r} is not {_NAMES[unit].partition(':')[0]}", hint=_NAMES[unit])
    step, filling = _steps(number)
    if around is not None:
        step = filling = 2 * Decimal(around)
    if upper is not None:
        if Decimal(upper) < Decimal(number):
            raise UsageError(f"{shown!r} is a range that ends before it begins")
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
    """Return the parity that ``8+2`` or ``8+2+1`` names; ``none`` is no parity at all.

    Raises
    ------
    UsageError
        It names none.

    Examples
    --------
    >>> parse_parity("8+2").written_per_byte, parse_parity("none").written_per_byte
    (1.25, 1.0)
    """
    if text.strip() == "none":
        return Parity(1, 0)
    found = _PARITY.match(text)
    if found is None or int(found.group(1)) == 0:
        hint = "write data + parity blocks: 8+2; 1+1 for mirrors, none for no parity"
        raise UsageError(f"{text[:_TEXT_MAX]!r} is not a parity", hint=hint)
    data, parity, spares = (int(part or 0) for part in found.groups())
    return Parity(data, parity, spares)


def _steps(number: str) -> tuple[Decimal, Decimal]:
    """Return the worth of the last digit, and of the last that is no zero at the end of a whole."""
    whole, point, decimals = number.partition(".")
    if point:
        step = Decimal(1).scaleb(-len(decimals))
        return step, step
    zeros = len(whole) - len(whole.rstrip("0")) if whole.strip("0") else 0
    return Decimal(1), Decimal(1).scaleb(zeros)


def _times(number: str, factor: Decimal) -> float:
    return float(Decimal(number) * factor)
