"""How printed numbers are written down."""

from __future__ import annotations

from typing import Final

from trimtab.twin.calibration import Figure

BYTES_PER_S: Final = "B/s"


def figure(value: float, unit: float = 1.0) -> Figure:
    """Return a number as it is printed, in base units."""
    return Figure(value * unit)


def over(value: float, unit: float = 1.0) -> Figure:
    """Return a number that the text says is reached or passed."""
    return Figure(value * unit, ">=")
