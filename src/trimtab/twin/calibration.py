"""The printed figures that the twin is held against, row by row.

`trimtab.twin.targets` has what the five documents print; `static_rows` sets those rows that need no
time beside what the layers say. Rows that need a simulation are made with `row` from its `TIMED`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from trimtab.twin.constants import FITTED, FITTED_ON, Constants

Kind = Literal["fitted", "predicted", "data", "not printed"]
Relation = Literal["=", ">=", "<="]


@dataclass(frozen=True, slots=True)
class Figure:
    """A printed number.

    Attributes
    ----------
    relation
        ``>=`` where the text says "over" or "at least".
    """

    value: float
    relation: Relation = "="


@dataclass(frozen=True, slots=True)
class Target:
    """A statement of a document.

    Attributes
    ----------
    id
        Number of the row in the list of targets, and what of it.
    seed
        The document, as docs/sources.md numbers it: ``000`` paper of NERSC, 2024, ``001`` its
        slides, ``002`` SC21, ``003`` ETH, 2021, ``004`` HPE, 2025.
    printed
        The number in base units, or the words where there is none.
    unit
        ``1`` for ratios and fractions.
    data
        Outside the model: shown, never reproduced.
    note
        Conditions, and where documents contradict each other.
    """

    id: str
    seed: str
    layer: str
    quantity: str
    printed: Figure | str
    unit: str
    note: str = ""
    data: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A target beside what the twin says.

    Attributes
    ----------
    twin
        ``None`` where the twin says nothing.
    error
        Twin over printed, less 1; for "over" and "at least" 0 where it holds. ``None`` without
        either number.
    """

    id: str
    seed: str
    layer: str
    quantity: str
    printed: Figure | str
    unit: str
    twin: float | None
    error: float | None
    kind: Kind
    note: str

    @property
    def missed(self) -> bool:
        """Whether the twin is off by more than the tenth that is aimed at."""
        return self.error is not None and not abs(self.error) <= AIM


AIM: Final = 0.10


def error(printed: Figure | str, twin: float | None) -> float | None:
    """Return how far the twin is off, as a fraction of what is printed.

    >>> error(Figure(2.0), 2.5), error(Figure(2.0, ">="), 2.5), error(Figure(2.0, ">="), 1.0)
    (0.25, 0.0, -0.5)
    """
    if isinstance(printed, str) or twin is None:
        return None
    if math.isnan(twin):
        return math.nan
    if (printed.relation == ">=" and twin >= printed.value) or (
        printed.relation == "<=" and twin <= printed.value
    ):
        return 0.0
    return twin / printed.value - 1


def row(target: Target, twin: float | None, note: str = "", *, fitted: bool = False) -> Row:
    """Return a target beside what the twin says.

    Parameters
    ----------
    twin
        In the target's unit; ``None`` where the twin says nothing.
    note
        What the twin's number rests on; the target's own note stands before it.
    """
    kind: Kind = "fitted" if fitted else "predicted"
    if target.data:
        kind = "data"
    elif isinstance(target.printed, str):
        kind = "not printed"
    return Row(
        id=target.id,
        seed=target.seed,
        layer=target.layer,
        quantity=target.quantity,
        printed=target.printed,
        unit=target.unit,
        twin=None if target.data else twin,
        error=None if target.data else error(target.printed, twin),
        kind=kind,
        note="; ".join(part for part in (target.note, note) if part),
    )


def static_rows(constants: Constants = FITTED) -> list[Row]:
    """Return every row that needs no simulation."""
    from trimtab.twin.stack.predict import predictions
    from trimtab.twin.targets import STATIC

    said = predictions(constants)
    rows: list[Row] = []
    for target in STATIC:
        found = said.get(target.id)
        rows.append(
            row(
                target,
                None if found is None else found.value,
                "" if found is None else found.rests_on,
                fitted=target.id in FITTED_ON,
            )
        )
    return rows
