"""The pages of a survey: the plan, and the speed of each target."""

from __future__ import annotations

from typing import Final

from trimtab.base.units import enumerated, format_bytes_per_s, format_percent, plural
from trimtab.probe.survey.survey_result import (
    METRICS,
    SLOW,
    Candidate,
    Spread,
    Standing,
    Survey,
    SurveyPlan,
)
from trimtab.show import text
from trimtab.show.document import Cell, Document, Row, Section, row, table

_NAMED: Final = 4
_WAYS: Final = {"client": "from this client", "server": "on its servers"}


def plan_document(plan: SurveyPlan) -> Document:
    """Return the page of a planned survey: its waves, one after the other."""
    targets = plural(len(plan.targets), "OST")
    settings = (
        row(name, "none" if value is None else text.parameter_text(name, value))
        for name, value in plan.parameters.items()
    )
    steps = (f"{number}. {step}" for number, step in enumerate(plan.steps, start=1))
    waves = (
        f"wave {number}: {', '.join(map(_where, wave))}"
        for number, wave in enumerate(plan.waves, start=1)
    )
    refused = (row(each.target, each.refusal or "") for each in plan.refused)
    return Document(
        kind="survey",
        heading=plan.site,
        subtitle=f"planned {_WAYS[plan.way]}",
        tone="info",
        answer=f"survey of {plan.site} {_WAYS[plan.way]}: {targets}",
        sections=(
            Section("Settings", tables=(table(("setting", "value"), settings),)),
            Section("For each wave, one after the other", lines=(*steps, *waves)),
            Section("Left out", tables=(table(("target", "why"), refused),)),
        ),
    )


def _where(candidate: Candidate) -> str:
    return f"{candidate.target} on {candidate.server}" if candidate.server else candidate.target


def survey_document(survey: Survey) -> Document:
    """Return the page of a survey: every target, slowest first, and their spread."""
    run = survey.run
    metrics = [spread.metric for spread in survey.spreads] or list(METRICS[:1])
    columns = ("target", "server", *(f"{_title(metric)}>" for metric in metrics), "result")
    return Document(
        kind="survey",
        heading=run.site,
        subtitle=f"survey {_WAYS[survey.plan.way]} ({run.kind}), {run.status.value}, "
        f"{text.moment_text(run.at)}; trimtab show {run.id[:13]}",
        tone="warning" if any(standing.slow for standing in survey.standings) else "info",
        answer=_answer(survey),
        sections=(
            Section(
                "Targets, the slowest first",
                lines=tuple(map(_spread, survey.spreads)),
                tables=(table(columns, (_row(each, metrics) for each in survey.standings)),),
                notes=survey.notes,
            ),
        ),
    )


def _answer(survey: Survey) -> str:
    """Return which targets are slow."""
    slow = [standing.result.target for standing in survey.standings if standing.slow]
    under, count = format_percent(SLOW, 0), plural(len(survey.standings), "OST")
    if not survey.spreads:
        return f"No rate of {count} was measured."
    if not slow:
        return f"None of {count} is below {under} of the median."
    return f"{len(slow)} of {count} below {under} of the median: {enumerated(slow, _NAMED)}."


def _row(standing: Standing, metrics: list[str]) -> Row:
    result, rates, ratios = standing.result, standing.rates, standing.ratios
    return row(
        Cell(result.target, tone="warning" if standing.slow else None),
        result.server or "?",
        *(
            Cell(
                format_bytes_per_s(rates[metric]) if metric in rates else "?",
                f"{format_percent(ratios[metric])} of median" if metric in ratios else "",
            )
            for metric in metrics
        ),
        result.outcome.value + ("" if result.reason is None else f": {result.reason}"),
    )


def _spread(spread: Spread) -> str:
    cov = "" if spread.cov is None else f", COV {format_percent(spread.cov)}"
    return (
        f"{_title(spread.metric)}: median {format_bytes_per_s(spread.median_bytes_per_s)},"
        f" {format_bytes_per_s(spread.least_bytes_per_s)} to"
        f" {format_bytes_per_s(spread.most_bytes_per_s)} over"
        f" {plural(spread.targets, 'OST')}{cov}"
    )


def _title(metric: str) -> str:
    return metric.removesuffix("_bandwidth")
