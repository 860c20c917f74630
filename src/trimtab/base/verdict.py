"""Verdicts on runs of one probe: the goal met or missed, comparisons, history, and trend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from trimtab.base.error import Message
from trimtab.base.run import METRIC_UNITS


class VerdictStatus(StrEnum):
    """Whether the goal is met."""

    MET = "met"
    MISSED = "missed"
    CANNOT_TELL = "cannot_tell"


class Scope(StrEnum):
    """The data on which a verdict is based."""

    REPETITIONS = "repetitions"
    """Back to back within one run: never enough to judge the goal over 48 hours."""
    HISTORY = "history"
    """Runs of one probe over time."""


LEVEL: Final = 0.95
"""Confidence level of intervals that state no other."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval.

    Attributes
    ----------
    low, high
        Its ends, in the unit of the estimated value.
    level
        Confidence level, 0 to 1.
    """

    low: float
    high: float
    level: float = LEVEL


@dataclass(frozen=True, slots=True)
class Verdict:
    """Mean, variability and status of one metric of one probe.

    Attributes
    ----------
    metric, unit
        What was measured.
    probe
        The probe's name and benchmark.
    target
        ``None`` is the whole file system.
    from_, to
        First and last time of the runs judged; aware UTC.
    n
        Number of values judged.
    mean, median, slowest
        In the metric's unit.
    mean_interval
        Confidence interval of the mean.
    cov, cov_interval
        Coefficient of variation (standard deviation over mean) as a fraction.
    goal
        Highest COV allowed, as a fraction.
    mad_cv
        1.4826 x median absolute deviation over median: a COV that ignores a few outliers.
    unfinished
        Runs that timed out and count as 0 in ``cov``.
    cov_finished
        COV without the unfinished runs.
    window_s
        Length of the window judged, s, if a longer one was chosen than requested; else ``None``.
    cov_of_window, cov_of_window_interval
        COV of the requested window alone, if autocorrelation asked for a longer one.
    reason
        Why this status. Codes of a history: ``goal-met``, ``goal-missed``, ``goal-in-interval``,
        ``too-few-independent-runs``, ``constant-values``, ``unfinished-not-counted``,
        ``none-finished``, ``mean-zero``, ``too-few-runs``, ``window-too-short``; of repetitions:
        ``repetitions-only``, ``one-repetition``, ``mean-zero``, ``no-believed-repetition``,
        ``no-repetition``.
    """

    metric: str
    unit: str
    probe: str
    scope: Scope
    status: VerdictStatus
    reason: Message
    n: int
    target: str | None = None
    from_: datetime | None = None
    to: datetime | None = None
    mean: float | None = None
    mean_interval: Interval | None = None
    median: float | None = None
    slowest: float | None = None
    cov: float | None = None
    cov_interval: Interval | None = None
    goal: float | None = None
    mad_cv: float | None = None
    unfinished: int = 0
    cov_finished: float | None = None
    window_s: float | None = None
    cov_of_window: float | None = None
    cov_of_window_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run compared with earlier runs of the same probe on the same site.

    Attributes
    ----------
    n_earlier
        Number of earlier runs.
    earlier_median, this_median
        In the metric's unit; ``None`` if there is no value.
    ratio, ratio_interval
        This run over the earlier ones; the interval is a prediction interval.
    reason
        Codes: ``within-earlier``, ``better-than-earlier``, ``worse-than-earlier``,
        ``too-few-earlier-runs``, ``no-earlier-run``, ``measured-zero``,
        ``no-believed-repetition``.
    """

    metric: str
    unit: str
    probe: str
    n_earlier: int
    earlier_median: float | None
    this_median: float | None
    ratio: float | None
    ratio_interval: Interval | None
    reason: Message


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One earlier run of the same probe on the same site, one metric.

    Attributes
    ----------
    at
        Start of the run, aware UTC.
    metric
        A key of `trimtab.base.run.METRIC_UNITS`.
    value
        Median over the credible repetitions, in the metric's unit; 0 for an unfinished run.
    unfinished
        Whether the run exceeded its time limit.
    run
        Id of the run.
    """

    at: datetime
    metric: str
    value: float
    unfinished: bool
    run: str


class TrendDirection(StrEnum):
    """Direction of a trend; whether it is good depends on the metric."""

    RISING = "rising"
    FALLING = "falling"
    NONE_SEEN = "none_seen"
    """The interval of the slope includes 0."""
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Trend:
    """Trend of a metric of one probe over days.

    Attributes
    ----------
    days
        Days with runs from which the slope is estimated.
    from_, to
        First and last run of those days.
    change_per_day, change_per_day_interval
        Slope per day (1/d) as a fraction of the median; 0.01 is one per cent a day.
    reason
        Codes: ``rising``, ``falling``, ``no-trend``, ``too-few-days``, ``median-zero``,
        ``no-interval``.
    """

    metric: str
    unit: str
    probe: str
    direction: TrendDirection
    reason: Message
    days: int
    from_: datetime | None = None
    to: datetime | None = None
    change_per_day: float | None = None
    change_per_day_interval: Interval | None = None


def by_metric(points: Sequence[HistoryPoint]) -> Iterator[tuple[str, list[HistoryPoint]]]:
    """Yield each metric with its points; amounts of bytes are what was done, not how well."""
    for metric in dict.fromkeys(point.metric for point in points):
        if METRIC_UNITS.get(metric) != "B":
            yield metric, [point for point in points if point.metric == metric]


class Change(StrEnum):
    """Whether the second side differs from the first."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no_difference"
    """No relevant difference: the whole interval is within the margin."""
    CANNOT_TELL = "cannot_tell"
