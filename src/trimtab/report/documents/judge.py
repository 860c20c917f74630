"""``trimtab judge --json``: what months of each series say, and what single targets say."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from pydantic import Field

from trimtab.model.series import (
    CovAt,
    Day,
    Dispersion,
    Regime,
    SeriesJudgement,
    SiteJudgement,
    SlowEnd,
    TargetTails,
)
from trimtab.report.documents.base import Bounds, Document, bounds, fields, level
from trimtab.report.documents.changes import ChangePointDocument, change_document
from trimtab.report.documents.check import VerdictDocument, verdict_document
from trimtab.report.documents.kept import TrendDocument, trend_document


class DispersionDocument(Document):
    """How a series spreads, by several measures; all are fractions."""

    n: int
    unfinished: int
    cov: float | None
    cov_interval: Bounds
    level: float | None
    cov_finished: float | None
    cov_within_regimes: float | None
    mad_cv: float | None
    quartile_dispersion: float | None
    cov_over_mad_cv: float | None
    autocorrelation: float | None
    noise: str
    reason: str


class RegimeDocument(Document):
    """A stretch between two confirmed changes."""

    from_: datetime = Field(alias="from")
    to: datetime
    n: int
    unfinished: int
    median: float | None
    mean: float | None
    cov: float | None


class DayDocument(Document):
    """One day in the site's time zone; unfinished runs count as 0 in mean, deviation and COV."""

    day: date
    n: int
    unfinished: int
    missing: int | None
    mean: float | None
    standard_deviation: float | None
    cov: float | None
    median: float | None


class CovAtDocument(Document):
    """The COV over the window that ends with one run."""

    at: datetime
    n: int
    cov: float | None
    interval: Bounds
    level: float | None
    status: str


class InvalidRunDocument(Document):
    """A run that is not judged, and why."""

    run: str
    at: datetime | None
    reason: str


class JudgedSeriesDocument(Document):
    """Everything that is said of one series; ``verdicts`` as in ``check``."""

    site: str
    probe: str
    kind: str
    metric: str
    unit: str
    target: str | None
    more_is_better: bool
    asked: dict[str, Any]
    runs: int
    unfinished: int
    expected: int | None
    missing: int | None
    seasonal: bool
    verdicts: tuple[VerdictDocument, ...]
    trend: TrendDocument
    dispersion: DispersionDocument
    overall: DispersionDocument
    change_points: tuple[ChangePointDocument, ...]
    regimes: tuple[RegimeDocument, ...]
    days: tuple[DayDocument, ...]
    rolling: tuple[CovAtDocument, ...]
    invalid: tuple[InvalidRunDocument, ...]


class SlowEndDocument(Document):
    """The slow end of all targets in a stretch; ``stripe_loss``: of a job striped over all."""

    from_: datetime = Field(alias="from")
    to: datetime
    surveys: int
    targets: int
    mean: float
    minimum: float
    p1: float
    p1_interval: Bounds
    p10: float
    p10_interval: Bounds
    level: float | None
    median: float
    of_targets: int
    expected_minimum: float
    stripe_loss: float


class StragglerDocument(Document):
    """A target that is slow again and again; ``q_value`` after Benjamini-Hochberg."""

    target: str
    server: str | None
    surveys: int
    slow: int
    relative: float
    p_value: float
    q_value: float


class TailsDocument(Document):
    """What surveys of single targets say of one metric."""

    metric: str
    unit: str
    surveys: int
    targets: int
    overall: SlowEndDocument | None
    by_month: tuple[SlowEndDocument, ...]
    stragglers: tuple[StragglerDocument, ...]
    reason: str


class JudgeDocument(Document):
    """``trimtab judge --json``."""

    store: str | None
    file: str | None
    site: str
    from_: datetime | None = Field(alias="from")
    to: datetime | None
    series: tuple[JudgedSeriesDocument, ...]
    tails: tuple[TailsDocument, ...]
    notes: tuple[str, ...]
    report: str | None


def judge_document(
    judgement: SiteJudgement,
    *,
    store: str | None = None,
    file: str | None = None,
    report: str | None = None,
) -> JudgeDocument:
    """Return what is said of a site, or of a file's series, as its JSON document."""
    return JudgeDocument.model_validate(
        {
            **fields(judgement, JudgeDocument),
            "from_": judgement.from_,
            "store": store,
            "file": file,
            "report": report,
            "series": [series_document(one) for one in judgement.series],
            "tails": [_tails(one) for one in judgement.tails],
        }
    )


def series_document(one: SeriesJudgement) -> JudgedSeriesDocument:
    """Return what is said of one series as its JSON document."""
    key = one.key
    return JudgedSeriesDocument.model_validate(
        {
            **fields(one, JudgedSeriesDocument),
            **fields(key, JudgedSeriesDocument),
            "asked": dict(one.asked),
            "runs": one.overall.n,
            "unfinished": one.overall.unfinished,
            "verdicts": [verdict_document(one.verdict)],
            "trend": trend_document(one.trend),
            "dispersion": _dispersion(one.dispersion),
            "overall": _dispersion(one.overall),
            "change_points": [change_document(change) for change in one.changes],
            "regimes": [_regime(regime) for regime in one.regimes],
            "days": [_day(day) for day in one.days],
            "rolling": [_cov_at(cov) for cov in one.rolling],
            "invalid": [fields(run, InvalidRunDocument) for run in one.invalid],
        }
    )


def _dispersion(one: Dispersion) -> dict[str, Any]:
    return {
        **fields(one, DispersionDocument),
        "cov_interval": bounds(one.cov_interval),
        "level": level(one.cov_interval),
        "noise": one.noise.value,
    }


def _regime(one: Regime) -> dict[str, Any]:
    return {**fields(one, RegimeDocument), "from_": one.from_}


def _day(one: Day) -> dict[str, Any]:
    return fields(one, DayDocument)


def _cov_at(one: CovAt) -> dict[str, Any]:
    return {
        **fields(one, CovAtDocument),
        "interval": bounds(one.interval),
        "level": level(one.interval),
        "status": one.status.value,
    }


def _tails(one: TargetTails) -> dict[str, Any]:
    return {
        **fields(one, TailsDocument),
        "overall": None if one.overall is None else _slow_end(one.overall),
        "by_month": [_slow_end(month) for month in one.by_month],
        "stragglers": [fields(target, StragglerDocument) for target in one.stragglers],
    }


def _slow_end(one: SlowEnd) -> dict[str, Any]:
    return {
        **fields(one, SlowEndDocument),
        "from_": one.from_,
        "p1_interval": bounds(one.p1_interval),
        "p10_interval": bounds(one.p10_interval),
        "level": level(one.p1_interval, one.p10_interval),
    }
