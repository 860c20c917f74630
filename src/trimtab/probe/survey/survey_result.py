"""Surveys: every OST measured separately, to detect slow ones. Plain values.

A plan describes what a survey would do, a result what happened, with one row per target. A target
is slow relative to the median of the targets measured in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median, stdev
from typing import Final, Literal

from trimtab.base.error import Interrupted, Message, TrimtabError
from trimtab.base.run import METRIC_UNITS, Run, RunStatus
from trimtab.show.encode import Problem, shape

Way = Literal["client", "server"]
"""Files pinned to each OST from this client, or obdfilter-survey on the servers."""

SLOW: Final = 0.75
"""Fraction of the median: NERSC's slow OSTs were 25 to 50 % below the expected rate [S1, III]."""

METRICS: Final = ("write_bandwidth", "rewrite_bandwidth", "read_bandwidth")


class SurveyOutcome(StrEnum):
    """Outcome for one target."""

    MEASURED = "measured"
    REFUSED = "refused"
    """Refused by a safety rule: the target was not touched."""
    CLOSED = "closed"
    """Not open for creation: its files were placed elsewhere and not measured."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """The survey ended before its turn."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A target that may be surveyed.

    Attributes
    ----------
    target, server
        Name, and the server if known.
    partners
        Other servers that can take it over; ``None`` if unknown.
    available_bytes
        Free space for new files.
    load_bytes_per_s
        Current load of the target.
    refusal
        Why it is not surveyed; ``None`` if it may be.
    closed
        Whether the reason is that it accepts no new files.
    """

    target: str
    server: str | None
    partners: frozenset[str] | None = None
    available_bytes: float | None = None
    load_bytes_per_s: float | None = None
    refusal: Message | None = None
    closed: bool = False

    def result(self, outcome: SurveyOutcome, reason: str | None = None) -> TargetResult:
        """Return an outcome for this target."""
        return TargetResult(self.target, self.server, outcome, reason)

    @property
    def refused(self) -> TargetResult:
        """The outcome if it is not surveyed."""
        return self.result(
            SurveyOutcome.CLOSED if self.closed else SurveyOutcome.REFUSED, self.refusal
        )


@dataclass(frozen=True, slots=True)
class SurveyPlan:
    """The plan of a survey; nothing has been done yet.

    Attributes
    ----------
    waves
        Targets measured at the same time, one wave after the other.
    refused
        Targets that are excluded, with the reason.
    steps
        Actions on the targets of a wave, as text.
    parameters
        Requested settings, as plain values.
    """

    site: str
    way: Way
    waves: tuple[tuple[Candidate, ...], ...]
    refused: tuple[Candidate, ...]
    steps: tuple[str, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def targets(self) -> tuple[Candidate, ...]:
        """Every target of the waves, in order."""
        return tuple(candidate for wave in self.waves for candidate in wave)


@dataclass(frozen=True, slots=True)
class TargetResult:
    """The outcome of one target.

    Attributes
    ----------
    reason
        Why it was not measured, or what is wrong although it was.
    """

    target: str
    server: str | None
    outcome: SurveyOutcome
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """One target compared with the others.

    Attributes
    ----------
    rates
        Metric to its median over the repetitions, bytes per second.
    ratios
        Metric to the rate over the median of all targets.
    """

    result: TargetResult
    rates: Mapping[str, float]
    ratios: Mapping[str, float]

    @property
    def worst(self) -> float | None:
        """The lowest ratio; ``None`` if nothing was measured."""
        return min(self.ratios.values(), default=None)

    @property
    def slow(self) -> tuple[str, ...]:
        """The metrics in which it is below `SLOW` times the median."""
        return tuple(metric for metric, ratio in self.ratios.items() if ratio < SLOW)


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of all measured targets in one metric.

    Attributes
    ----------
    targets
        Number of measured targets.
    median_bytes_per_s, least_bytes_per_s, most_bytes_per_s
        Median, minimum and maximum over the targets.
    cov
        Sample standard deviation (n - 1) over mean, a fraction; ``None`` below two targets.
    """

    metric: str
    targets: int
    median_bytes_per_s: float
    least_bytes_per_s: float
    most_bytes_per_s: float
    cov: float | None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a survey brought: one run, and what came of each target.

    Attributes
    ----------
    interrupted
        Set where a person or the system stopped it; to be raised when all is kept.
    """

    run: Run
    results: tuple[TargetResult, ...]
    notes: tuple[str, ...] = ()
    interrupted: Interrupted | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """A completed survey.

    Attributes
    ----------
    standings
        The targets, slowest first.
    spreads
        One per measured metric.
    notes
        Other events: removed objects, lack of space.
    """

    plan: SurveyPlan
    run: Run
    standings: tuple[Standing, ...]
    spreads: tuple[Spread, ...]
    notes: tuple[str, ...] = ()


def status_of(results: Sequence[TargetResult]) -> tuple[RunStatus, str | None]:
    """Return how a survey ended as a whole, and why it is not whole."""
    measured = [result for result in results if result.outcome is SurveyOutcome.MEASURED]
    whole = [sample for sample in measured if sample.reason is None]
    if len(whole) == len(results) and results:
        return RunStatus.OK, None
    reasons = [
        f"{result.target}: {result.reason}" for result in results if result.reason is not None
    ]
    problem = "; ".join(reasons[:8]) + (" ..." if len(reasons) > 8 else "")
    status = RunStatus.PARTIAL if measured else RunStatus.FAILED
    return status, problem or "no target was measured"


def standings(
    run: Run, results: Iterable[TargetResult]
) -> tuple[tuple[Standing, ...], tuple[Spread, ...]]:
    """Return the targets, slowest first and those without a value last, and the spreads.

    Only credible values count.

    Parameters
    ----------
    run
        The run of the survey, with one sample per target, metric and repetition.
    results
        The outcome of each target.

    Returns
    -------
    tuple of Standing
        One per result.
    tuple of Spread
        One per metric with values.
    """
    rates = {metric: run.believed_of_targets(metric) for metric in METRICS}
    spreads = {metric: _spread(metric, list(of.values())) for metric, of in rates.items() if of}
    rows = []
    for result in results:
        target_rates = {
            metric: of[result.target] for metric, of in rates.items() if result.target in of
        }
        ratios = {
            metric: rate / spreads[metric].median_bytes_per_s
            for metric, rate in target_rates.items()
            if spreads[metric].median_bytes_per_s > 0
        }
        rows.append(Standing(result, target_rates, ratios))
    rows.sort(
        key=lambda standing: (
            standing.worst is None,
            standing.worst or 0.0,
            standing.result.target,
        )
    )
    return tuple(rows), tuple(spreads.values())


def _spread(metric: str, rates: list[float]) -> Spread:
    mean = sum(rates) / len(rates)
    cov = stdev(rates) / mean if len(rates) > 1 and mean > 0 else None
    return Spread(metric, len(rates), median(rates), min(rates), max(rates), cov)


@dataclass(frozen=True, slots=True)
class RateRow:
    """One figure of one target: ``ratio`` is relative to the median of all measured targets."""

    metric: str
    unit: str
    value: float
    ratio: float | None
    slow: bool


@dataclass(frozen=True, slots=True)
class SurveyDocument:
    """``trimtab survey --json``: the plan, and with ``--apply`` its outcome.

    ``targets`` are sorted slowest first. Without ``--apply`` nothing was done: ``applied`` is
    false, ``store`` null, and there is no target, spread or run.
    """

    plan: SurveyPlan
    applied: bool
    slow_under: float
    store: str | None
    targets: tuple[Standing, ...] = ()
    spreads: tuple[Spread, ...] = ()
    notes: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    error: Problem | None = None


def document_of_survey(survey: Survey, store: str, error: TrimtabError | None) -> SurveyDocument:
    """Return the document of a completed survey."""
    return SurveyDocument(
        survey.plan,
        applied=True,
        slow_under=SLOW,
        store=store,
        targets=survey.standings,
        spreads=survey.spreads,
        notes=survey.notes,
        runs=(survey.run,),
        error=error,
    )


def _rates(standing: Standing) -> tuple[RateRow, ...]:
    return tuple(
        RateRow(
            metric,
            METRIC_UNITS[metric],
            value,
            standing.ratios.get(metric),
            metric in standing.slow,
        )
        for metric, value in standing.rates.items()
    )


shape(
    Standing,
    omit=["ratios"],
    inline={"result": ()},
    derive={"rates": (tuple[RateRow, ...], _rates)},
)
shape(SurveyDocument, inline={"plan": ()})
