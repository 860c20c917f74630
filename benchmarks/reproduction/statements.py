"""The figures that [S1] to [S5] print, read from one table, and how far the twin is from each.

``statements.csv`` has a row for each statement, in base units. `row` sets the twin's value beside a
statement; `seeded_row` does so for the runs of several seeds.

==========  ==================================================================================
class       what a row that is met says
==========  ==================================================================================
identity    nothing: it follows from inputs, or from rows that constants were fitted on
input       nothing: what is printed was typed in, or what decides the row was
bound       little: "over", "at least", "at most"
fitted      nothing: a constant or an assumption of a scenario was chosen in view of it
prediction  that the model is right there
outside     nothing: the model has no part that it could be held against
==========  ==================================================================================
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
RowClass = Literal["identity", "input", "bound", "fitted", "prediction", "outside"]
CLASSES: Final[tuple[RowClass, ...]] = get_args(RowClass)
Verdict = Literal["met", "open", "missed"]
"""Whether all of the twin's interval is where the document has it, a part of it, or nothing."""
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
    upto
        The upper end where a range is printed: "25 to 50 %".
    """

    value: float
    relation: Relation = "="
    upto: float | None = None

    @property
    def accepted(self) -> tuple[float, float]:
        """What counts as met: a tenth beside a number or a printed range, nothing beside a bound.

        >>> Figure(2.0).accepted, Figure(2.0, ">=").accepted, Figure(2.0, upto=3.0).accepted
        ((1.8, 2.2), (2.0, inf), (1.8, 3.3))
        """
        if self.relation == ">=":
            return self.value, math.inf
        if self.relation == "<=":
            return -math.inf, self.value
        most = self.value if self.upto is None else self.upto
        return self.value - AIM * abs(self.value), most + AIM * abs(most)

    def verdict(self, low: float, high: float) -> Verdict:
        """Return how an interval of the twin's stands to what is accepted.

        >>> Figure(10.0).verdict(9.5, 10.5), Figure(10.0).verdict(9.5, 20.0)
        ('met', 'open')
        >>> Figure(10.0, ">=").verdict(9.9, 9.9)
        'missed'
        """
        least, most = self.accepted
        if least <= low and high <= most:
            return "met"
        return "open" if low <= most and high >= least else "missed"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a document.

    Attributes
    ----------
    id
        Number of the row in the list of statements, and what of it.
    seed
        The document, as docs/sources.md numbers it: ``S1`` paper of NERSC, 2024, ``S2`` its
        slides, ``S3`` SC21, ``S4`` ETH, 2021, ``S5`` HPE, 2025.
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
    declared
        The class of what cannot be worked out; ``None``: by its relation, by what was fitted, and
        for the layers by the constants that move it.
    group
        What it was observed on. Rows of one group are no independent evidence of each other, nor
        is a row of a group that something was fitted on.
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
    declared: RowClass | None = None
    group: str = ""


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
    row_class
        What the row is worth.
    rests_on
        Of an identity: rows that it follows from.
    group
        As `Statement.group`, or the row's own id.
    """

    id: str
    seed: str
    layer: str
    quantity: str
    printed: Figure | str
    unit: str
    twin: float | None
    error: float | None
    row_class: RowClass
    note: str
    rests_on: tuple[str, ...] = ()
    group: str = ""

    @property
    def kind(self) -> Kind:
        """What documents called it before they had classes."""
        if self.row_class in ("input", "outside") and self.twin is None:
            return "data"
        if isinstance(self.printed, str):
            return "not printed"
        return "fitted" if self.row_class == "fitted" else "predicted"

    @property
    def verdict(self) -> Verdict | None:
        """How the twin's one value stands; ``None`` without either number."""
        if isinstance(self.printed, str) or self.twin is None:
            return None
        return self.printed.verdict(self.twin, self.twin)

    @property
    def missed(self) -> bool:
        """Whether the twin's one value is off by more than `AIM`, or outside a bound."""
        return self.verdict == "missed"


@dataclass(frozen=True, slots=True)
class SeededRow:
    """A row, and the spread over the runs of several seeds.

    Attributes
    ----------
    row
        Its twin's value is the mean over seeds.
    low, high
        Least and greatest of them; ``None`` for fewer than two runs, and for deterministic values.
    unscored
        Why it has no verdict although it has numbers; ``None``: it has one.
    """

    row: Row
    low: float | None = None
    high: float | None = None
    unscored: str | None = None

    @property
    def verdict(self) -> Verdict | None:
        """How the interval over seeds stands to what is printed."""
        if self.unscored is not None or self.low is None or self.high is None:
            return None if self.unscored is not None else self.row.verdict
        if isinstance(self.row.printed, str):
            return None
        return self.row.printed.verdict(self.low, self.high)

    @property
    def missed(self) -> bool:
        """Whether no seed is where the document has it."""
        return self.verdict == "missed"


@cache
def statements() -> Mapping[str, Statement]:
    """Return every statement by its id, in the order of the table."""
    table = (files("benchmarks.reproduction") / "statements.csv").read_text(encoding="utf-8")
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
    printed, declared = record["printed"], record["class"]
    if declared and declared not in CLASSES:
        raise ValueError(f"statements.csv: {record['id']}: class {declared!r}")
    upto = float(record["upto"]) if record["upto"] else None
    return Statement(
        id=record["id"],
        seed=record["document"],
        layer=record["layer"],
        quantity=record["quantity"],
        printed=Figure(float(printed), relation, upto) if relation else printed,  # pyrefly: ignore[bad-argument-type]
        unit=record["unit"],
        note=record["note"],
        data=record["data"] == "data",
        needs=needs,  # pyrefly: ignore[bad-argument-type]
        declared=declared or None,
        group=record["group"],
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
    nearest = printed.value
    if printed.relation != "=" and printed.verdict(twin, twin) == "met":
        return 0.0
    if printed.upto is not None:
        nearest = min(max(twin, printed.value), printed.upto)
    return twin / nearest - 1 if nearest else None


def row(
    statement: Statement,
    twin: float | None,
    note: str = "",
    *,
    fitted: bool = False,
    computed: RowClass | None = None,
    rests_on: Sequence[str] = (),
) -> Row:
    """Return a statement beside the twin's value.

    Parameters
    ----------
    twin
        In the statement's unit; ``None`` where the twin has no value.
    note
        What the twin's value rests on; it follows the statement's own note.
    fitted
        Whether a constant or a scenario was chosen so that this row is met.
    computed
        The class of a row that is neither declared, nor fitted, nor a bound; ``None``: a
        prediction.
    rests_on
        Rows that it follows from.
    """
    return Row(
        id=statement.id,
        seed=statement.seed,
        layer=statement.layer,
        quantity=statement.quantity,
        printed=statement.printed,
        unit=statement.unit,
        twin=None if statement.data else twin,
        error=None if statement.data else error(statement.printed, twin),
        row_class=_class_of(statement, fitted, computed),
        note="; ".join(part for part in (statement.note, note) if part),
        rests_on=tuple(rests_on),
        group=statement.group or statement.id,
    )


def _class_of(statement: Statement, fitted: bool, computed: RowClass | None) -> RowClass:
    """Return what a row is worth: the least of what can be said of it."""
    if statement.declared is not None:
        return statement.declared
    if statement.data:
        return "outside"
    if fitted:
        return "fitted"
    if isinstance(statement.printed, Figure) and statement.printed.relation != "=":
        return "bound"
    return computed or "prediction"


def seeded_row(
    id: str,
    values: Sequence[float | None],
    note: str = "",
    *,
    fitted: str | None = None,
    rests_on: Sequence[str] = (),
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
    rests_on
        Rows that it follows from.
    """
    known = [float(value) for value in values if value is not None]
    parts = [note] if note else []
    if fitted is not None:
        parts.append(f"fitted by {fitted}")
    if values and not known:
        parts.append("no run came that far")
    twin = fmean(known) if known else None
    statement = statements()[id]
    mean_row = row(statement, twin, "; ".join(parts), fitted=fitted is not None, rests_on=rests_on)
    if len(known) < 2 or min(known) == max(known):
        return SeededRow(mean_row)
    return SeededRow(mean_row, min(known), max(known))
