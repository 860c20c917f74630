"""Finds the simulated policy that serves users best, and ties with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.whatif.figures import KINDS, FigureKind
from trimtab.whatif.sweep import Row, Swept

GOALS: Final = ("ior_write", "ost_write", "ior_read")
"""Deciding figures: the first one known for every combination counts; more is better."""
NEVER_RECOMMENDED: Final = frozenset({"clients.checksums", "clients.saferet"})
"""Integrity and security settings: their cost is shown, but none is called the best."""
_KINDS: Final = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Best:
    """The best combination by one figure.

    Attributes
    ----------
    row
        Its index in the sweep.
    tied
        Indices of combinations with overlapping intervals; empty without intervals.
    tested
        Whether there are enough seeds for intervals.
    """

    goal: FigureKind
    row: int
    tied: tuple[int, ...]
    tested: bool


def best_of(swept: Swept) -> Best | None:
    """Return the combination with the highest goal figure.

    ``None`` for a single combination, without a goal figure known for all, if all are equal, or if
    an integrity or security setting is varied.
    """
    names = {name for row in swept.rows for name, _ in row.combination.settings}
    if len(swept.rows) < 2 or names & NEVER_RECOMMENDED:
        return None
    for name in GOALS:
        values = [row.figure(name).median for row in swept.rows]
        known = [value for value in values if value is not None]
        if len(known) == len(values) and max(known) > min(known):
            return _best(swept.rows, known, _KINDS[name])
    return None


def _best(rows: tuple[Row, ...], values: list[float], goal: FigureKind) -> Best:
    place = values.index(max(values))
    intervals = [row.figure(goal.name).interval for row in rows]
    best = intervals[place]
    tied = tuple(
        other
        for other, interval in enumerate(intervals)
        if other != place and best is not None and interval and interval.high >= best.low
    )
    return Best(goal, place, tied, tested=None not in intervals)


def varying(swept: Swept) -> tuple[FigureKind, ...]:
    """Return the figures that differ between combinations by more than 1 % of the largest."""
    differing = []
    for kind in KINDS:
        values = [row.figure(kind.name).median for row in swept.rows]
        known = [value for value in values if value is not None]
        if known and max(known) - min(known) > 0.01 * max(abs(value) for value in known):
            differing.append(kind)
    return tuple(differing)
