"""``trimtab sweep --json``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimtab.model.sweep import (
    BestSetting,
    FactorEffect,
    HeatMap,
    Level,
    Scaling,
    SettingResult,
    SweepAnalysis,
)
from trimtab.model.verdict import Interval
from trimtab.report.documents.base import Bounds, Document, bounds, fields, level

if TYPE_CHECKING:
    from trimtab.model.run import Run


class PointDocument(Document):
    """One point of one round, and the run that measured it."""

    levels: dict[str, Level]
    round: int
    run: str | None
    status: str | None


class DoubtDocument(Document):
    """One reason for which kept runs hold no believed figure, and how many runs it is of."""

    reason: str
    runs: int


class SettingDocument(Document):
    """One setting beside the best."""

    levels: dict[str, Level]
    middle: float | None
    n: int
    of_best: float | None
    of_best_interval: Bounds
    level: float | None
    may_be_best: bool | None
    reason: str | None


class BestDocument(Document):
    """The best setting of one metric in one workload, and all others."""

    metric: str
    unit: str
    workload: dict[str, Level]
    best: dict[str, Level] | None
    settings: tuple[SettingDocument, ...]
    reason: str
    method: str
    scatter: float | None
    degrees: int


class EffectDocument(Document):
    """How much a factor, or two together, matters."""

    metric: str
    factors: tuple[str, ...]
    share: float
    ratio: float | None
    probability: float | None
    matters: bool | None


class MapDocument(Document):
    """A metric over two factors."""

    metric: str
    unit: str
    row_factor: str
    column_factor: str
    rows: tuple[Level, ...]
    columns: tuple[Level, ...]
    cells: tuple[tuple[float | None, ...], ...]
    fixed: dict[str, Level]


class AmountDocument(Document):
    """One amount and the rate there."""

    amount: float
    middle: float
    n: int


class ScalingDocument(Document):
    """A rate against an amount, with the knee where there is one."""

    metric: str
    unit: str
    factor: str
    fixed: dict[str, Level]
    points: tuple[AmountDocument, ...]
    shape: str
    reason: str
    knee: float | None
    knee_interval: Bounds
    growth: float | None
    growth_interval: Bounds
    growth_after: float | None
    level: float | None
    enough: float | None
    probability: float | None


class SweepDocument(Document):
    """``trimtab sweep --json``: how far it is, and what it showed."""

    store: str
    site: str
    name: str
    points: tuple[PointDocument, ...]
    waiting: tuple[dict[str, Level], ...]
    failures: tuple[str, ...]
    doubts: tuple[DoubtDocument, ...]
    best: tuple[BestDocument, ...]
    effects: tuple[EffectDocument, ...]
    maps: tuple[MapDocument, ...]
    scaling: tuple[ScalingDocument, ...]
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is, as the document needs it."""

    points: Sequence[tuple[Mapping[str, Level], int, Run | None]]
    waiting: Sequence[Mapping[str, Level]]
    failures: Sequence[str]
    doubts: Sequence[tuple[str, int]] = ()


def sweep_document(
    store: str, site: str, name: str, progress: Progress, analysis: SweepAnalysis
) -> SweepDocument:
    """Return a sweep as its JSON document."""
    return SweepDocument(
        store=store,
        site=site,
        name=name,
        points=tuple(
            PointDocument(
                levels=dict(levels),
                round=number,
                run=None if run is None else run.id,
                status=None if run is None else run.status.value,
            )
            for levels, number, run in progress.points
        ),
        waiting=tuple(map(dict, progress.waiting)),
        failures=tuple(progress.failures),
        doubts=tuple(DoubtDocument(reason=why, runs=runs) for why, runs in progress.doubts),
        best=tuple(map(_best, analysis.best)),
        effects=tuple(
            _effect(metric, one)
            for metric, effects in (analysis.effects or {}).items()
            for one in effects
        ),
        maps=tuple(map(_map, analysis.maps)),
        scaling=tuple(map(_scaling, analysis.scaling)),
        notes=analysis.notes,
    )


def _best(one: BestSetting) -> BestDocument:
    values = {**fields(one, BestDocument), "settings": tuple(map(_setting, one.settings))}
    return BestDocument.model_validate(values)


def _setting(one: SettingResult) -> SettingDocument:
    return SettingDocument.model_validate(
        {
            **fields(one, SettingDocument),
            "of_best_interval": bounds(one.of_best_interval),
            "level": level(one.of_best_interval),
        }
    )


def _effect(metric: str, one: FactorEffect) -> EffectDocument:
    return EffectDocument.model_validate({**fields(one, EffectDocument), "metric": metric})


def _map(one: HeatMap) -> MapDocument:
    return MapDocument.model_validate(fields(one, MapDocument))


def _scaling(one: Scaling) -> ScalingDocument:
    values: dict[str, Any] = fields(one, ScalingDocument)
    intervals: dict[str, Interval | None] = {
        "knee_interval": one.knee_interval,
        "growth_interval": one.growth_interval,
    }
    return ScalingDocument.model_validate(
        {
            **values,
            **{name: bounds(interval) for name, interval in intervals.items()},
            "level": level(*intervals.values()),
            "shape": one.shape.value,
            "points": tuple(AmountDocument(**dataclasses.asdict(point)) for point in one.points),
        }
    )
