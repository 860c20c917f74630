"""``trimtab reproduce --json``."""

from __future__ import annotations

import math
from typing import Literal

from trimtab.report.documents.base import Bounds, Document, fields
from trimtab.validation.statements import Figure, SeededRow
from trimtab.whatif.reproduce.reproduce import Reproduction


class PrintedDocument(Document):
    """What a document prints: a number in base units, or words where there is none."""

    value: float | None
    relation: Literal["=", ">=", "<="] | None
    words: str | None


class RowDocument(Document):
    """One statement of a document beside what the twin says of it.

    ``range`` holds the least and greatest of several seeds; ``error`` is the twin's over the
    printed, less 1, and null with a reason where either number is missing.
    """

    id: str
    seed: str
    layer: str
    quantity: str
    printed: PrintedDocument
    unit: str
    twin: float | None
    range: Bounds
    error: float | None
    kind: Literal["fitted", "predicted", "data", "not printed"]
    missed: bool
    note: str
    reason: str | None


class TensionDocument(Document):
    """A contradiction of a document, and where the twin stands."""

    document: str
    title: str
    verdict: str
    text: str


class SummaryDocument(Document):
    """How many rows of each kind there are; ``silent``: printed, and the twin says nothing."""

    rows: int
    within: int
    missed: int
    fitted: int
    data: int
    not_printed: int
    silent: int


class ReproduceDocument(Document):
    """The table; all of the twin's figures are simulation."""

    documents: list[str]
    seeds: int
    version: str
    summary: SummaryDocument
    rows: list[RowDocument]
    tensions: list[TensionDocument]
    report: str | None


def reproduction_document(found: Reproduction, *, report: str | None = None) -> ReproduceDocument:
    """Return a reproduction as its JSON document."""
    return ReproduceDocument(
        documents=list(found.terms.documents),
        seeds=found.terms.seeds,
        version=found.version,
        summary=SummaryDocument(**fields(found.summary, SummaryDocument)),
        rows=[row_document(one) for one in found.rows],
        tensions=[TensionDocument(**fields(one, TensionDocument)) for one in found.tensions],
        report=report,
    )


def row_document(told: SeededRow) -> RowDocument:
    """Return one row."""
    row = told.row
    printed = row.printed
    number = printed if isinstance(printed, Figure) else None
    both = None if told.low is None or told.high is None else (told.low, told.high)
    return RowDocument(
        id=row.id,
        seed=row.seed,
        layer=row.layer,
        quantity=row.quantity,
        printed=PrintedDocument(
            value=None if number is None else number.value,
            relation=None if number is None else number.relation,
            words=printed if isinstance(printed, str) else None,
        ),
        unit=row.unit,
        twin=_finite(row.twin),
        range=both,
        error=_finite(row.error),
        kind=row.kind,
        missed=row.missed,
        note=row.note,
        reason=_reason(told),
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _reason(told: SeededRow) -> str | None:
    row = told.row
    if row.error is not None and math.isfinite(row.error):
        return None
    if row.kind == "data":
        return "shown, not reproduced"
    if row.twin is None:
        return "the twin says nothing"
    return "no number is printed"
