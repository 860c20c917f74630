"""``trimtab compare --json``: by how much one side differs from another."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from trimtab.model.compare import CompareResult, Effect, SeriesComparison, Side
from trimtab.report.documents.base import Bounds, Document, bounds, fields


class SideDocument(Document):
    """What one side of an effect rests on; ``middle`` is the median, of a summary the mean."""

    middle: float | None
    n: int
    n_effective: float | None
    cov: float | None
    from_: datetime | None = Field(alias="from")
    to: datetime | None
    unfinished: int
    washed_out: int


class TakenOutDocument(Document):
    """What a changed number of targets alone makes of the ratio, and what it would leave."""

    factor: float
    applied: bool
    reason: str
    remaining: float | None
    remaining_interval: Bounds


class EffectDocument(Document):
    """One metric: ``ratio`` is B over A, beside what was taken out of ``ratio_measured``."""

    metric: str | None
    unit: str
    basis: str
    before: SideDocument
    after: SideDocument
    ratio: float | None
    ratio_interval: Bounds
    ratio_measured: float | None
    detectable: float | None
    provisional: bool | None
    change: str
    reason: str
    method: str
    weighted: str | None
    taken_out: TakenOutDocument | None


class DifferenceDocument(Document):
    """A parameter that the sides were asked for differently."""

    name: str
    before: Any
    after: Any


class SeriesComparisonDocument(Document):
    """One series that both sides have."""

    probe: str
    probe_after: str
    kind: str
    layer: str | None
    asked: dict[str, Any]
    differences: tuple[DifferenceDocument, ...]
    effects: tuple[EffectDocument, ...]


class CompareDocument(Document):
    """``trimtab compare A B --json``."""

    store: str | None
    before: str
    after: str
    margin: float
    level: float
    series: tuple[SeriesComparisonDocument, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    notes: tuple[str, ...]


def compare_document(result: CompareResult) -> CompareDocument:
    """Return a comparison as its JSON document."""
    return CompareDocument.model_validate(
        {
            **fields(result, CompareDocument),
            "series": tuple(_series(one) for one in result.series),
        }
    )


def _series(one: SeriesComparison) -> SeriesComparisonDocument:
    return SeriesComparisonDocument.model_validate(
        {
            **fields(one, SeriesComparisonDocument),
            "asked": dict(one.asked),
            "differences": tuple(
                DifferenceDocument(name=d.name, before=d.before, after=d.after)
                for d in one.differences
            ),
            "effects": tuple(_effect(effect) for effect in one.effects),
        }
    )


def _effect(effect: Effect) -> EffectDocument:
    removed = effect.taken_out
    return EffectDocument.model_validate(
        {
            **fields(effect, EffectDocument),
            "basis": effect.basis.value,
            "change": effect.change.value,
            "before": _side(effect.before),
            "after": _side(effect.after),
            "ratio_interval": bounds(effect.ratio_interval),
            "taken_out": None
            if removed is None
            else TakenOutDocument.model_validate(
                {
                    **fields(removed, TakenOutDocument),
                    "remaining_interval": bounds(removed.remaining_interval),
                }
            ),
        }
    )


def _side(side: Side) -> SideDocument:
    return SideDocument.model_validate(fields(side, SideDocument))
