"""A figure with the formula and the source that it rests on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a sizing.

    Attributes
    ----------
    value
        Base SI; ``None``: there is none, for ``reason``.
    unit
        ``B``, ``B/s``, ``s``, ``1`` for a fraction, ``years``, or empty for a count.
    formula
        With the names of other figures, or ``simulated``.
    """

    name: str
    title: str
    value: float | None
    unit: str
    formula: str
    source: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Figures that belong together."""

    title: str
    figures: tuple[Figure, ...]
