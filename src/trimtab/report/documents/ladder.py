"""``trimtab ladder --json``: each layer against what carries it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from trimtab.model.ladder import CheckedClaim, Efficiency, Estimate, Ladder, Step, Track
from trimtab.report.documents.base import Bounds, Document, fields


class RateDocument(Document):
    """A rate in the metric's unit; ``basis`` says what its interval rests on."""

    value: float
    interval: Bounds
    level: float | None
    basis: str
    n: int


class CoverageDocument(Document):
    """How many of each a rate is of."""

    drives: float | None
    osts: float | None
    servers: float | None


class EfficiencyDocument(Document):
    """What a layer delivers of what another one carries: a fraction."""

    of: str
    value: float | None
    interval: Bounds
    level: float | None
    parity_counted: bool
    per: str | None
    reason: str | None
    doubts: tuple[str, ...]


class StepDocument(Document):
    """One rung: its rate as measured, the same at the ladder's scale, and its efficiencies."""

    layer: str
    rate: RateDocument
    coverage: CoverageDocument
    shown: RateDocument | None
    shown_reason: str | None
    beneath: tuple[EfficiencyDocument, ...]
    of_data_sheet: EfficiencyDocument | None
    tool: str | None
    source: str | None
    printed: str | None
    nodes: int | None
    at: datetime | None
    epoch: str | None
    fullness: float | None
    conditions: Mapping[str, str]
    runs: tuple[str, ...]
    notes: tuple[str, ...]


class LimitDocument(Document):
    """What holds the topmost rate down."""

    kind: str
    layer: str | None
    reason: str


class LossDocument(Document):
    """The layer that delivers the least of what carries it."""

    layer: str | None
    efficiency: EfficiencyDocument | None
    reason: str


class TrackDocument(Document):
    """The ladder of one metric."""

    metric: str
    unit: str
    rungs: tuple[StepDocument, ...]
    limit: LimitDocument
    largest_loss: LossDocument


class AbsentDocument(Document):
    """A layer that nothing was measured of."""

    layer: str
    metrics: tuple[str, ...]
    hint: str


class ClaimDocument(Document):
    """A printed value held against its inputs; intervals are of their rounding."""

    what: str
    where: str | None
    printed: str | None
    printed_value: float
    unit: str
    at_least: bool
    formula: str | None
    assumes: str | None
    value: float | None
    interval: Bounds
    interval_if_zeros_are_filling: Bounds
    match: str
    note: str | None


class LadderDocument(Document):
    """``trimtab ladder --json``."""

    name: str
    source: str | None
    scale: str
    margin: float
    tracks: tuple[TrackDocument, ...]
    absent: tuple[AbsentDocument, ...]
    printed: tuple[ClaimDocument, ...]
    notes: tuple[str, ...]


def ladder_document(ladder: Ladder) -> LadderDocument:
    """Return a ladder as its JSON document."""
    return LadderDocument(
        name=ladder.name,
        source=ladder.source,
        scale=ladder.scale,
        margin=ladder.margin,
        tracks=tuple(map(_track, ladder.tracks)),
        absent=tuple(
            AbsentDocument.model_validate(fields(one, AbsentDocument)) for one in ladder.absent
        ),
        printed=tuple(map(_claim, ladder.claims)),
        notes=ladder.notes,
    )


def _track(track: Track) -> TrackDocument:
    return TrackDocument(
        metric=track.metric,
        unit=track.unit,
        rungs=tuple(map(_step, track.steps)),
        limit=LimitDocument(
            kind=track.limit.kind.value, layer=track.limit.layer, reason=track.limit.reason
        ),
        largest_loss=LossDocument(
            layer=track.loss.layer,
            efficiency=None
            if track.loss.efficiency is None
            else _efficiency(track.loss.efficiency),
            reason=track.loss.reason,
        ),
    )


def _step(step: Step) -> StepDocument:
    rung = step.rung
    return StepDocument.model_validate(
        {
            **fields(rung, StepDocument),
            "rate": _rate(rung.rate),
            "coverage": fields(rung.coverage, CoverageDocument),
            "shown": None if step.shown is None else _rate(step.shown),
            "shown_reason": step.shown_reason,
            "beneath": tuple(map(_efficiency, step.beneath)),
            "of_data_sheet": None
            if step.of_data_sheet is None
            else _efficiency(step.of_data_sheet),
            "conditions": dict(rung.conditions),
        }
    )


def _rate(rate: Estimate) -> RateDocument:
    return RateDocument(
        value=rate.value,
        interval=_bounds(rate.low, rate.high),
        level=rate.level,
        basis=rate.basis.value,
        n=len(rate.values) or 1,
    )


def _efficiency(one: Efficiency) -> EfficiencyDocument:
    interval = _bounds(one.low, one.high)
    return EfficiencyDocument.model_validate(
        {**fields(one, EfficiencyDocument), "interval": interval}
    )


def _claim(one: CheckedClaim) -> ClaimDocument:
    claim = one.claim
    return ClaimDocument.model_validate(
        {
            **fields(claim, ClaimDocument),
            "printed": claim.printed.text,
            "printed_value": claim.printed.middle,
            "unit": claim.printed.unit,
            "value": one.value,
            "interval": _bounds(one.low, one.high),
            "interval_if_zeros_are_filling": _bounds(one.loose_low, one.loose_high),
            "match": one.match.value,
        }
    )


def _bounds(low: float | None, high: float | None) -> Bounds:
    return None if low is None or high is None else (low, high)
