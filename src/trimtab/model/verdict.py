"""What Trimtab says about a series: met, missed, or cannot tell yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class VerdictStatus(StrEnum):
    """The three answers."""

    MET = "met"
    MISSED = "missed"
    CANNOT_TELL = "cannot_tell"


class Scope(StrEnum):
    """What the numbers of a verdict are."""

    REPETITIONS = "repetitions"
    """Back to back within one run: never meets or misses the goal over 48 hours."""
    HISTORY = "history"
    """Runs of one probe over time."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: ``low`` to ``high`` at confidence ``level``."""

    low: float
    high: float
    level: float = 0.95


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
        First and last time of what was judged.
    n
        How many numbers were judged.
    mean, median, slowest
        In the metric's unit.
    mean_interval
        Confidence interval of the mean.
    cov, cov_interval
        Coefficient of variation (standard deviation over mean) as a fraction.
    goal
        The COV not to exceed.
    mad_cv
        1.4826 x the median absolute deviation over the median: COV without the few bad events.
    unfinished
        Runs that did not end in their time and count as 0 in ``cov``.
    cov_finished
        COV without those.
    reason
        In words: why this status.
    """

    metric: str
    unit: str
    probe: str
    scope: Scope
    status: VerdictStatus
    reason: str
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run against earlier runs of the same probe on the same site."""

    metric: str
    unit: str
    probe: str
    n_earlier: int
    earlier_median: float | None
    this_median: float | None
    ratio: float | None
    ratio_interval: Interval | None
    reason: str


class TrendDirection(StrEnum):
    """Where a series is heading; whether that is good depends on the metric."""

    RISING = "rising"
    FALLING = "falling"
    NONE_SEEN = "none_seen"
    """The interval of the slope holds 0."""
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Trend:
    """How a metric of one probe changes from day to day.

    Attributes
    ----------
    days
        Days with runs that the slope rests on.
    from_, to
        First and last run of those days.
    change_per_day, change_per_day_interval
        Slope per day (1/d) as a fraction of the median; 0.01 is one per cent a day.
    reason
        In words: what was found, or why nothing can be told.
    """

    metric: str
    unit: str
    probe: str
    direction: TrendDirection
    reason: str
    days: int
    from_: datetime | None = None
    to: datetime | None = None
    change_per_day: float | None = None
    change_per_day_interval: Interval | None = None
