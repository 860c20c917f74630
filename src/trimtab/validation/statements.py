"""The figures that five documents print, read from one table, and how far the twin is from each.

``statements.csv`` has a row for each statement, in base units. `row` sets the twin's value beside a
statement; `seeded_row` does so for the runs of several seeds.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import StringIO
from statistics import fmean
from typing import Final, Literal, get_args

Kind = Literal["fitted", "predicted", "data", "not printed"]
Relation = Literal["=", ">=", "<="]
Needs = Literal["layers", "time", "nothing", "runs"]
"""What the twin needs for its value: the layers alone, a simulation that answers it directly,
nothing since the statement is only listed, or the runs of a simulation."""

AIM: Final = 0.10
"""The relative error that the twin aims at."""


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
class Statement:
    """A statement of a document.

    Attributes
    ----------
    id
        Number of the row in the list of statements, and what of it.
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
    needs
        What the twin needs for its value.
    """

    id: str
    seed: str
    layer: str
    quantity: str
    printed: Figure | str
    unit: str
    note: str = ""
    data: bool = False
    needs: Needs = "layers"


@dataclass(frozen=True, slots=True)
class Row:
    """A statement beside the twin's value.

    Attributes
    ----------
    twin
        ``None`` where the twin has no value.
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
        """Whether the twin is off by more than `AIM`."""
        return self.error is not None and not abs(self.error) <= AIM


@dataclass(frozen=True, slots=True)
class SeededRow:
    """A row, and the spread over the runs of several seeds.

    Attributes
    ----------
    row
        Its twin's value is the mean over seeds.
    low, high
        Least and greatest of them; ``None`` for fewer than two runs, and for deterministic values.
    """

    row: Row
    low: float | None = None
    high: float | None = None


@cache
def statements() -> Mapping[str, Statement]:
    """Return every statement by its id, in the order of the table."""
    table = (files("trimtab.validation") / "statements.csv").read_text(encoding="utf-8")
    rows = [_statement(record) for record in csv.DictReader(StringIO(table), strict=True)]
    by_id = {statement.id: statement for statement in rows}
    if len(by_id) != len(rows):
        raise ValueError("statements.csv: an id stands twice")
    return by_id


def needing(*needs: Needs) -> tuple[Statement, ...]:
    """Return the statements of which the twin's value needs one of these, in the table's order."""
    return tuple(statement for statement in statements().values() if statement.needs in needs)


def _statement(record: Mapping[str, str]) -> Statement:
    relation, needs = record["relation"], record["needs"]
    if relation and relation not in get_args(Relation):
        raise ValueError(f"statements.csv: {record['id']}: relation {relation!r}")
    if needs not in get_args(Needs):
        raise ValueError(f"statements.csv: {record['id']}: needs {needs!r}")
    printed = record["printed"]
    return Statement(
        id=record["id"],
        seed=record["document"],
        layer=record["layer"],
        quantity=record["quantity"],
        printed=Figure(float(printed), relation) if relation else printed,  # pyright: ignore[reportArgumentType]
        unit=record["unit"],
        note=record["note"],
        data=record["data"] == "data",
        needs=needs,  # pyright: ignore[reportArgumentType]
    )


def error(printed: Figure | str, twin: float | None) -> float | None:
    """Return the relative error of the twin's value.

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


def row(statement: Statement, twin: float | None, note: str = "", *, fitted: bool = False) -> Row:
    """Return a statement beside the twin's value.

    Parameters
    ----------
    twin
        In the statement's unit; ``None`` where the twin has no value.
    note
        What the twin's value rests on; it follows the statement's own note.
    fitted
        Whether a constant or a scenario was chosen so that this row is met.
    """
    kind: Kind = "fitted" if fitted else "predicted"
    if statement.data:
        kind = "data"
    elif isinstance(statement.printed, str):
        kind = "not printed"
    return Row(
        id=statement.id,
        seed=statement.seed,
        layer=statement.layer,
        quantity=statement.quantity,
        printed=statement.printed,
        unit=statement.unit,
        twin=None if statement.data else twin,
        error=None if statement.data else error(statement.printed, twin),
        kind=kind,
        note="; ".join(part for part in (statement.note, note) if part),
    )


def seeded_row(
    id: str, values: Sequence[float | None], note: str = "", *, fitted: str | None = None
) -> SeededRow:
    """Return a statement beside the values of several runs.

    Parameters
    ----------
    id
        Of a statement.
    values
        One a run; ``None``: the run did not come that far.
    note
        What the values rest on.
    fitted
        Which assumption of a scenario, or which constant, was chosen so that the row is met;
        ``None``: nothing was.
    """
    known = [float(value) for value in values if value is not None]
    parts = [note] if note else []
    if fitted is not None:
        parts.append(f"fitted by {fitted}")
    if values and not known:
        parts.append("no run came that far")
    twin = fmean(known) if known else None
    mean_row = row(statements()[id], twin, "; ".join(parts), fitted=fitted is not None)
    if len(known) < 2 or min(known) == max(known):
        return SeededRow(mean_row)
    return SeededRow(mean_row, min(known), max(known))
