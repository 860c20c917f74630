"""``trimtab survey --json``: the plan, and what came of it where it was carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.model.run import METRIC_UNITS
from trimtab.model.survey import SLOW, Candidate, Spread, Standing, Survey, SurveyPlan
from trimtab.report.documents.base import Document
from trimtab.report.documents.check import (
    ErrorDocument,
    RunDocument,
    error_document,
    run_document,
)


class CandidateDocument(Document):
    """One target of a plan; ``refusal`` says why it is left out."""

    target: str
    server: str | None
    available_bytes: float | None
    load_bytes_per_s: float | None
    refusal: str | None


class RateDocument(Document):
    """One figure of one target: ``ratio`` is to the median of all that were measured."""

    metric: str
    unit: str
    value: float
    ratio: float | None
    slow: bool


class SurveyedTargetDocument(Document):
    """One target, measured or not, with the reason."""

    target: str
    server: str | None
    outcome: str
    reason: str | None
    rates: tuple[RateDocument, ...]


class SpreadDocument(Document):
    """All measured targets in one metric."""

    metric: str
    unit: str
    targets: int
    median: float
    least: float
    most: float
    cov: float | None


class SurveyDocument(Document):
    """``trimtab survey --json``: what would be done, and with ``--apply`` what came of it.

    ``targets`` are the slowest first. Without ``--apply`` nothing was done: ``applied`` is false,
    ``store`` null, and there is no target, spread or run.
    """

    site: str
    way: str
    applied: bool
    parameters: Mapping[str, Any]
    steps: tuple[str, ...]
    waves: tuple[tuple[CandidateDocument, ...], ...]
    refused: tuple[CandidateDocument, ...]
    slow_under: float
    store: str | None
    targets: tuple[SurveyedTargetDocument, ...]
    spreads: tuple[SpreadDocument, ...]
    notes: tuple[str, ...]
    runs: tuple[RunDocument, ...]
    error: ErrorDocument | None


def plan_document(plan: SurveyPlan) -> SurveyDocument:
    """Return a plan that was not carried out as its JSON document."""
    return _document(plan, None, None, None)


def survey_document(survey: Survey, store: str, error: TrimtabError | None) -> SurveyDocument:
    """Return a survey that was carried out as its JSON document."""
    return _document(survey.plan, survey, store, error)


def _document(
    plan: SurveyPlan, survey: Survey | None, store: str | None, error: TrimtabError | None
) -> SurveyDocument:
    return SurveyDocument(
        site=plan.site,
        way=plan.way,
        applied=survey is not None,
        parameters=plan.parameters,
        steps=plan.steps,
        waves=tuple(tuple(map(_candidate, wave)) for wave in plan.waves),
        refused=tuple(map(_candidate, plan.refused)),
        slow_under=SLOW,
        store=store,
        targets=() if survey is None else tuple(map(_target, survey.standings)),
        spreads=() if survey is None else tuple(map(_spread, survey.spreads)),
        notes=() if survey is None else survey.notes,
        runs=() if survey is None else (run_document(survey.run),),
        error=None if error is None else error_document(error),
    )


def _candidate(one: Candidate) -> CandidateDocument:
    return CandidateDocument(
        target=one.target,
        server=one.server,
        available_bytes=one.available_bytes,
        load_bytes_per_s=one.load_bytes_per_s,
        refusal=one.refusal,
    )


def _target(one: Standing) -> SurveyedTargetDocument:
    return SurveyedTargetDocument(
        target=one.result.target,
        server=one.result.server,
        outcome=one.result.outcome.value,
        reason=one.result.reason,
        rates=tuple(
            RateDocument(
                metric=metric,
                unit=METRIC_UNITS[metric],
                value=value,
                ratio=one.ratios.get(metric),
                slow=metric in one.slow,
            )
            for metric, value in one.rates.items()
        ),
    )


def _spread(one: Spread) -> SpreadDocument:
    return SpreadDocument(
        metric=one.metric,
        unit=METRIC_UNITS[one.metric],
        targets=one.targets,
        median=one.median_bytes_per_s,
        least=one.least_bytes_per_s,
        most=one.most_bytes_per_s,
        cov=one.cov,
    )
