"""Two sides compared: their data, and by how much the second differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.base.encode import shape
from trimtab.base.error import Message
from trimtab.base.verdict import Change, Interval


class Basis(StrEnum):
    """What the values of a comparison were measured on."""

    RUNS = "runs"
    """One number per run, the median of its repetitions."""
    REPETITIONS = "repetitions"
    """Repetitions of single runs: they do not show the variance between days."""
    SUMMARY = "summary"
    """Mean, standard deviation and number of runs only, as in published results."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The values of one metric on one side.

    Attributes
    ----------
    values
        In the metric's unit, one per run; 0 for an unfinished run.
    times
        Aware time of each; empty if unknown, and then the order is that of the runs.
    unfinished
        Which of the values belong to unfinished runs; empty: none.
    """

    values: tuple[float, ...]
    times: tuple[datetime, ...] = ()
    unfinished: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        for column in (self.times, self.unfinished):
            if column and len(column) != len(self.values):
                raise ValueError(f"{len(column)} entries for {len(self.values)} values")


@dataclass(frozen=True, slots=True)
class Summary:
    """A published result for one side.

    Attributes
    ----------
    mean, deviation
        Mean and standard deviation (not the standard error of the mean), in ``unit``.
    n
        Number of runs.
    unit
        ``B/s``, ``1/s`` or ``s``.
    metric, layer
        What was measured, and at which layer of the stack; ``None`` if not stated.
    window_s
        Time span of the runs in seconds; ``None`` if not stated.
    """

    mean: float
    deviation: float
    n: int
    unit: str
    metric: str | None = None
    layer: str | None = None
    window_s: float | None = None


@dataclass(frozen=True, slots=True)
class EffectSide:
    """The data of one side of an effect.

    Attributes
    ----------
    middle
        Median over runs in the metric's unit, weighted if the comparison is; for summaries the
        mean. ``None`` for an empty side.
    n, n_effective
        Number of values, and the effective number of independent values.
    cov
        Standard deviation over mean, as a fraction.
    from_, to
        First and last run, aware; ``None`` if the times are unknown.
    unfinished
        Unfinished runs among the values, counted as 0.
    washed_out
        Runs excluded because they were too close to the change.
    """

    middle: float | None
    n: int
    n_effective: float | None = None
    cov: float | None = None
    from_: datetime | None = None
    to: datetime | None = None
    unfinished: int = 0
    washed_out: int = 0


@dataclass(frozen=True, slots=True)
class TakenOut:
    """A changed number of targets, and its expected effect on the rate.

    Attributes
    ----------
    factor
        Expected rate of the second side over that of the first, from the target counts alone.
    applied
        Whether the effect was corrected for it.
    reason
        Codes: ``targets-limit`` (applied), ``other-limit``, ``limit-unknown``, ``no-rate``,
        ``not-data-rate``.
    remaining, remaining_interval
        The corrected ratio if the correction was not applied because it is unknown whether the
        targets limit the job.
    """

    factor: float
    applied: bool
    reason: Message
    remaining: float | None = None
    remaining_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """By how much one metric of the second side differs from the first.

    Attributes
    ----------
    metric
        ``None`` if a published figure does not state it.
    ratio, ratio_interval
        Second over first, after corrections; ``None`` with the reason in ``reason``.
    ratio_measured
        The same without corrections.
    method
        How the interval was computed. Codes: ``bootstrap``, ``bootstrap-order-unknown``,
        ``exact-pairs``, ``fieller``, ``fieller-autocorrelated``, ``none``.
    margin
        Smaller differences are irrelevant; a fraction.
    change, reason
        The answer, and why. Codes: ``better``, ``worse``, ``within-margin``, ``inconclusive``,
        ``repetitions-only``, ``side-empty``, ``median-zero``, ``ratio-zero``,
        ``unfinished-runs``, ``too-few-runs``, ``mean-near-zero``.
    detectable
        Minimum detectable effect with a power of 80 % for this many runs and the first side's
        variance, as a fraction; ``None`` if unknown.
    provisional
        Whether a side covers less than a week, so that some hours of the week are missing;
        ``None`` if the span is unknown.
    weighted
        How hours of the week were balanced, or why not. Codes: ``hours-balanced``,
        ``under-a-week``, ``hours-not-shared``, ``times-unknown``.
    """

    metric: str | None
    unit: str
    basis: Basis
    before: EffectSide
    after: EffectSide
    ratio: float | None
    ratio_interval: Interval | None
    ratio_measured: float | None
    method: Message
    margin: float
    change: Change
    reason: Message
    detectable: float | None = None
    provisional: bool | None = None
    weighted: Message | None = None
    taken_out: TakenOut | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A parameter that differs between the two sides; ``None`` if not set."""

    name: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class SeriesComparison:
    """One series that both sides have, with an effect per metric.

    Attributes
    ----------
    probe, kind
        Names on the first side; ``probe_after`` if the second uses another name.
    layer
        Layer of the stack that it measures; ``None`` if not recorded.
    differences
        Differing parameters: if there are any, two settings are compared rather than two times.
    asked
        Parameters that both sides share.
    """

    probe: str
    probe_after: str
    kind: str
    layer: str | None
    effects: tuple[Effect, ...]
    differences: tuple[Difference, ...] = ()
    asked: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompareResult:
    """The result of ``trimtab compare A B``.

    Attributes
    ----------
    before, after
        Names of the two sides.
    margin
        Smaller differences are irrelevant; a fraction.
    level
        Confidence level of the intervals, 0 to 1.
    series
        The series that both sides have.
    only_before, only_after
        Descriptions of the series that only one side has.
    notes
        Caveats to read before the numbers.
    store
        Locations of the stores that were read; ``None`` if there are none.
    """

    before: str
    after: str
    margin: float
    level: float
    series: tuple[SeriesComparison, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    store: str | None = None


@dataclass(frozen=True, slots=True)
class PlanEffect:
    """Performance after a plan was applied, or why it is not known yet.

    Attributes
    ----------
    at
        When its first action began.
    """

    plan: str
    at: datetime
    effect: CompareResult | None = None
    reason: Message | None = None


shape(Effect, omit=["level"])
shape(TakenOut, omit=["level"])
