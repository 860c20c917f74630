"""Explain an incident: assess every cause, weigh its evidence, and rank the causes. Pure.

::

    pieces of one route ─ shrunk ─▶ weight of the cause ─┐
    (they see the same thing)                            ├─▶ log odds ─ others ─▶ confidence
    prior odds ──────────────────────────────────────────┘   explain it away     (calibrated)

An explanation lists which instruments have data within the incident, and what each could have
detected. A probe limited by its clients cannot see a target that loses half; a survey of single
targets can. An explanation that relies on the probe alone says so (docs/explaining.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from statistics import median
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.incident import (
    NAMED,
    Assessment,
    Evidence,
    Explanation,
    Found,
    Incident,
    Instrument,
    Route,
    Shape,
)
from trimtab.base.run import RunStatus
from trimtab.base.server_message import by_hour
from trimtab.explain.breadth import breadth, surveys_within
from trimtab.explain.causes import TABLE
from trimtab.explain.causes.setting_path import passed_by
from trimtab.explain.context import Cause, Context, RunFact
from trimtab.explain.next_step import deciding
from trimtab.explain.telemetry_frame import OSTS, observe
from trimtab.explain.weighing import Weighed, weigh
from trimtab.judge.effect_size import StripedProbe, probe_limit, survey_limit
from trimtab.judge.spread import corrected_autocorrelation, cov

SHOWN: Final = 0.2
"""Confidence from which a cause with supporting evidence is listed."""

_CHAIN_LEAST: Final = 0.3
"""Own weight from which an earlier link of a chain counts as having triggered a later one."""
_SEEN_LATE: Final = timedelta(hours=3)
"""Snapshots are hours apart: of two conditions that began together, either may be seen first."""
_EXPLAINED_AWAY: Final = 0.5
"""log10 penalty for a cause next to another, outside its chain, that is almost certain.

An incident usually has one cause; two at once do occur, so it is small.
"""

FAINT: Final = -0.7
"""For a dip of one run: of 400 such in records of healthy sites none had a cause."""
NOT_OF_NAMES: Final = -1.5
"""For a cause that slows OSTs if metadata operations are slow."""

CALIBRATION: Final = (0.7, 0.8)
"""Intercept and slope of confidence = logistic(a + b x natural log odds).

Fitted on 608 records of `tests.worlds` with seeds under 10,000 (``scripts/score_worlds.py --fit``),
(0.82, 0.84), and rounded to the cautious side. How much was true of what those list at each
confidence, on later seeds, is in ``benchmarks/results/worlds.json``.
"""


def rank(weighed: Sequence[Weighed]) -> tuple[Weighed, ...]:
    """Return the causes, likeliest first, chained and explained away by better ones.

    Within a chain the proximate cause comes first and names its trigger. A mitigation likely enough
    to be listed comes before all.
    """
    chained = _chained(weighed)
    links = {candidate.cause.id: candidate for candidate in chained}
    adjusted = [
        replace(candidate, log_odds=_lowered(candidate, chained, links)) for candidate in chained
    ]
    # Of two that were lowered alike, the better one stays first.
    adjusted.sort(key=lambda candidate: (-candidate.log_odds, candidate.cause.id))
    capped = [
        replace(candidate, log_odds=min(candidate.log_odds, _most(candidate, adjusted, links)))
        for candidate in adjusted
    ]
    return tuple(
        sorted(
            capped,
            key=lambda candidate: (
                not (candidate.cause.mitigation and confidence(candidate.log_odds) >= NAMED),
                not candidate.could_be_assessed,
                -candidate.log_odds,
            ),
        )
    )


def confidence(log_odds: float) -> float:
    """Return the calibrated probability for log10 odds.

    Examples
    --------
    >>> confidence(-9) < 0.01 < 0.99 < confidence(9)
    True
    """
    intercept, slope = CALIBRATION
    exponent = intercept + slope * log_odds * math.log(10)
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, exponent))))


_SHARED: Final = (math.log(1 / SHOWN - 1) - CALIBRATION[0]) / (CALIBRATION[1] * math.log(10))
"""Log10 odds of the confidence that a cause has at most beside another one that is listed: what
that one leaves at least."""


def assessment(candidate: Weighed, *, standing: bool = False) -> Assessment:
    """Return a cause in its reported form."""
    return Assessment(
        cause=candidate.cause.id,
        title=candidate.cause.title,
        confidence=round(confidence(candidate.log_odds), 4),
        evidence=candidate.evidence,
        because_of=candidate.because_of,
        standing=standing,
        measurement=candidate.deciding,
    )


def _chained(weighed: Sequence[Weighed]) -> list[Weighed]:
    """Link causes to those that triggered them, if both have evidence."""
    named: list[Weighed] = []
    for candidate in weighed:
        before = [
            other
            for other in weighed
            if candidate.cause.id in other.cause.brings_about
            and min(candidate.evidence_weight, other.evidence_weight) >= _CHAIN_LEAST
            and _not_later(other, candidate)
        ]
        first = max(before, key=lambda other: other.evidence_weight, default=None)
        named.append(candidate if first is None else replace(candidate, because_of=first.cause.id))
    return named


def _not_later(earlier: Weighed, later: Weighed) -> bool:
    """Return whether a cause can precede another, as far as their times are known."""
    begins = [
        [
            piece.at
            for piece in candidate.evidence
            if piece.found is Found.FOR and piece.at is not None
        ]
        for candidate in (earlier, later)
    ]
    return not begins[0] or not begins[1] or min(begins[0]) <= min(begins[1]) + _SEEN_LATE


def _lowered(
    candidate: Weighed, everyone: Sequence[Weighed], links: Mapping[str, Weighed]
) -> float:
    """Return the log odds of a cause, lowered by the best other outside its chain."""
    family = _family(candidate, links)
    rivals = [
        other.log_odds
        for other in everyone
        if other.cause.id not in family and other.log_odds > candidate.log_odds
    ]
    best = max(rivals, default=-math.inf)
    share = 0.0 if best == -math.inf else 1 / (1 + 10**-best)
    lowered = candidate.log_odds - _EXPLAINED_AWAY * share
    # A triggered cause is closer to the slow runs: it ranks before its trigger.
    brought = [
        other.log_odds
        for other in everyone
        if other.because_of == candidate.cause.id and other.log_odds > 0
    ]
    return min([lowered, *(log_odds - 0.01 for log_odds in brought)])


def _most(candidate: Weighed, everyone: Sequence[Weighed], links: Mapping[str, Weighed]) -> float:
    """Return the maximum log odds of a cause: less than named if nothing tells it from another.

    If all that supports it is that something changed when the incident began, and another cause
    outside its chain is listed, it is no surer than what that one leaves.
    """
    family = _family(candidate, links)
    has_rival = any(other.cause.id not in family and _is_shown(other) for other in everyone)
    return _SHARED if candidate.is_coincidence and has_rival else math.inf


def _family(candidate: Weighed, links: Mapping[str, Weighed]) -> set[str]:
    """Return the ids of a cause's chain, including its own."""
    family = {candidate.cause.id}
    current: Weighed | None = candidate
    while current is not None and current.because_of is not None:
        if current.because_of in family:
            break
        family.add(current.because_of)
        current = links.get(current.because_of)
    family |= {other for other, link in links.items() if link.because_of in family}
    return family


_MOVED: Final = {"write_bandwidth": "bytes_written", "read_bandwidth": "bytes_read"}
_RUNS_LEAST: Final = 8
"""Fewest runs for a usual bandwidth and its spread."""
_OVERHEAD_MOST: Final = 0.95
"""A lag-1 autocorrelation from so few runs is no more certain than this."""
_SURVEYS_LEAST: Final = 3
_LIMIT: Final = "detection-limit"
"""Code of a limit given as text."""


def instruments(context: Context) -> tuple[Instrument, ...]:
    """Return every probe's metrics and the survey of single targets, with their detection limits.

    Notes
    -----
    A probe's limit assumes its files are spread evenly over all open targets
    (`trimtab.judge.effect_size`); a probe that does not report its bytes has none.
    """
    targets = _open_targets(context)
    probes = [
        _probe(name, metric, runs, targets, context)
        for (name, metric), runs in _by_metric(context).items()
    ]
    return (*probes, *_surveys(context))


def _by_metric(context: Context) -> dict[tuple[str, str], list[RunFact]]:
    """Return the runs of each series by its name and metric: those of several have no one limit."""
    series: dict[str, list[RunFact]] = {}
    for run in context.runs:
        apart = context.apart.get(run.series)
        series.setdefault(f"{run.probe} ({apart})" if apart else run.probe, []).append(run)
    return {
        (name, metric): of_series
        for name, of_series in sorted(series.items())
        for metric in sorted({metric for run in of_series for metric in run.values})
    }


def _open_targets(context: Context) -> int | None:
    """Return the number of targets that accept data, in the bad hours if known."""
    seen = observe(context).values("create_enabled", kinds=OSTS)
    if seen.is_empty():
        return len(context.home) or None
    last = seen.filter(at=seen["at"].max())
    return int((last["value"] > 0).sum()) or None


def _probe(
    name: str, metric: str, runs: Sequence[RunFact], targets: int | None, context: Context
) -> Instrument:
    within = [run for run in runs if context.is_bad(run.at)]
    saw = any(metric in run.values or run.status is RunStatus.UNFINISHED for run in within)
    usual = [run for run in runs if metric in run.values and context.is_good(run.at)]
    limit = None
    moved = _MOVED.get(metric)
    values = [run.values[metric] for run in usual if run.values[metric] > 0]
    bytes_moved = [] if moved is None else [size for run in usual if (size := getattr(run, moved))]
    if moved is None:
        reason = Message("counts-operations", "it counts operations, not bytes per target")
    elif targets is None or not bytes_moved:
        lacking = "what it moves" if targets is not None else "how many targets are open"
        reason = Message("quantity-unknown", f"{lacking} is unknown")
    elif len(values) < _RUNS_LEAST:
        reason = Message(
            "too-few-runs", f"{len(values)} runs of good hours are too few for its spread"
        )
    else:
        limits = probe_limit(
            StripedProbe(
                bytes_moved=median(bytes_moved),
                targets=targets,
                bandwidth_bytes_per_s=median(values),
                cov=cov(values) or 0.0,
                autocorrelation=min(_OVERHEAD_MOST, corrected_autocorrelation(values)),
            ),
            runs=max(1, sum(metric in run.values for run in within)),
            runs_before=len(values),
        )
        limit = limits.notices_below_bytes_per_s
        reason = Message(_LIMIT, limits.reason)
    return Instrument(name=name, metric=metric, notices_below=limit, saw=saw, reason=reason)


def _surveys(context: Context) -> list[Instrument]:
    """Return the survey of single targets, once per metric."""
    frame = surveys_within(context)
    metrics = sorted(frame["metric"].unique().to_list())
    seen = breadth(context)
    if not metrics:
        return [_survey("each target by itself", None, seen.surveyed, seen.reason)]
    return [_of_metric(context, frame, metric) for metric in metrics]


def _of_metric(context: Context, frame: pl.DataFrame, metric: str) -> Instrument:
    of_metric = frame.filter(metric=metric)
    bad, good = (of_metric.filter(bad=side) for side in (True, False))
    spread = (
        good.filter(pl.col("value") > 0)
        .group_by("target")
        .agg(middle=pl.median("value"), n=pl.len(), sd=pl.col("value").std())
        .filter(pl.col("n") >= _SURVEYS_LEAST)
    )
    saw = not bad.is_empty()
    if spread.is_empty():
        return _survey(
            metric,
            None,
            saw,
            Message("too-few-surveys", "too few surveys of good hours for its spread"),
        )
    middle = float(spread["middle"].median())  # pyrefly: ignore[bad-argument-type]
    relative = (spread["sd"] / spread["middle"]).median()
    limits = survey_limit(
        middle,
        float(relative),  # pyrefly: ignore[bad-argument-type]
        runs=max(1, bad["run"].n_unique()),
        runs_before=good["run"].n_unique(),
    )
    limit, reason = limits.notices_below_bytes_per_s, Message(_LIMIT, limits.reason)
    return _survey(metric, limit, saw, reason)


def _survey(metric: str, limit: float | None, saw: bool, reason: Message) -> Instrument:
    return Instrument("survey of single targets", metric, limit, saw, reason)


Gathered = tuple[Cause, tuple[Evidence, ...]]

_MESSAGES_BEFORE: Final = timedelta(days=1)
_MESSAGES_AFTER: Final = timedelta(hours=1)
_MESSAGES_MOST: Final = 100
"""Hours and families of messages that an explanation lists, from the first on."""


def explain(
    context: Context,
    *,
    table: Sequence[Cause] = TABLE,
    standing: Sequence[Assessment] = (),
    stages: Sequence[Context] = (),
) -> Explanation:
    """Return the likely causes of an incident, the others, and the decisive measurement.

    Parameters
    ----------
    context
        The incident with all data that may explain it.
    table
        Causes to assess.
    standing
        Conditions known to be older than the record, from `standing_conditions`.
    stages
        Its stages, as in `gather`.
    """
    explanation = conclude(
        context.incident,
        gather(context, table, stages=stages),
        standing=standing,
        has_site_file=context.has_site_file,
        has_servers=bool(context.home),
    )
    incident, now = context.incident, context.now
    begin, end = incident.at - _MESSAGES_BEFORE, (incident.until or now) + _MESSAGES_AFTER
    near = [event for event in context.messages if begin <= event.at <= min(now, end)]
    messages = by_hour(near)[:_MESSAGES_MOST]
    return replace(explanation, instruments=instruments(context), messages=messages)


def gather(
    context: Context, table: Sequence[Cause] = TABLE, *, stages: Sequence[Context] = ()
) -> tuple[Gathered, ...]:
    """Return every cause with all its evidence: that of the whole incident, or of its best stage.

    Two causes that overlap hide each other in the hours of both: what began with the second loss
    began late for the whole. Of n looks one fits by chance n times as often, so the evidence of a
    stage includes a piece of -log10 n.
    """
    return tuple(
        (
            cause,
            max(
                (cause.evidence(context), *(_of_stage(cause, stage, stages) for stage in stages)),
                key=lambda pieces: weigh(cause, pieces).evidence_weight,
            ),
        )
        for cause in table
    )


def _of_stage(cause: Cause, stage: Context, stages: Sequence[Context]) -> tuple[Evidence, ...]:
    at, looks = stage.incident.at, len(stages) + 1
    hours = f"in the stage from {at:%d %B %H:%M} alone"
    text = f"{hours}, one of {looks} looks at the incident"
    looked = Evidence(
        Found.AGAINST, Message("of-one-stage", text), Route.RUNS, -math.log10(looks), at=at
    )
    # Of other hours, a quantity is another one.
    pieces = (
        replace(piece, quantity=f"{piece.quantity} {hours}") if piece.quantity else piece
        for piece in cause.evidence(stage)
    )
    return (*pieces, looked)


def conclude(
    incident: Incident,
    gathered: Sequence[Gathered],
    *,
    standing: Sequence[Assessment] = (),
    has_site_file: bool = True,
    has_servers: bool = True,
) -> Explanation:
    """Return the explanation that follows from the evidence of all causes.

    Parameters
    ----------
    has_site_file, has_servers
        What the site can still answer: nothing for an archive, servers only if they are known.
    """
    ranked = ranked_for(incident, gathered)
    shown = [candidate for candidate in ranked if _is_shown(candidate)]
    rest = [candidate for candidate in ranked if not _is_shown(candidate)]
    stood = tuple(
        assessment(candidate, standing=True) for candidate in rest if candidate.throughout
    )
    explanation = Explanation(
        incident=incident,
        causes=tuple(assessment(candidate) for candidate in shown),
        cleared=tuple(assessment(candidate) for candidate in rest if candidate.could_be_assessed),
        not_assessed=tuple(
            assessment(candidate) for candidate in rest if not candidate.could_be_assessed
        ),
        standing=stood,
        unexplained=not shown or confidence(shown[0].log_odds) < NAMED,
        deciding=deciding(
            incident, shown, rest, has_site_file=has_site_file, has_servers=has_servers
        ),
    )
    return with_standing(explanation, standing)


def ranked_for(incident: Incident, gathered: Sequence[Gathered]) -> tuple[Weighed, ...]:
    """Return the causes weighed for this incident, likeliest first.

    Most incidents of a single run have no cause that lasts long enough to find. What slows OSTs
    does not slow metadata operations.
    """
    has_beginning = incident.shape is not Shape.STANDING
    alone = not incident.targets and incident.until in (None, incident.at)
    lone = incident.shape is Shape.DIP and incident.runs <= 1 and alone
    faint = FAINT if lone else 0.0
    of_names = "bytes" not in passed_by(incident)
    return rank(
        [
            weigh(
                cause,
                evidence,
                has_beginning=has_beginning,
                shift=faint + (NOT_OF_NAMES if of_names and not cause.slows_metadata else 0.0),
            )
            for cause, evidence in gathered
        ]
    )


def with_standing(explanation: Explanation, standing: Sequence[Assessment]) -> Explanation:
    """Return an explanation with the conditions of the whole record listed before its own."""
    known = {condition.cause for condition in standing}
    new_conditions = (
        condition for condition in explanation.standing if condition.cause not in known
    )
    return replace(explanation, standing=(*standing, *new_conditions))


def _is_shown(candidate: Weighed) -> bool:
    return (
        candidate.has_evidence_for
        and confidence(candidate.log_odds) >= SHOWN
        and not candidate.throughout
    )
