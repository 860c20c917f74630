"""Analysis of months of one series: variability, change points, slow targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Final

from trimtab.base.encode import mapped, shape
from trimtab.base.error import Message, code_of
from trimtab.base.verdict import Interval, Trend, Verdict, VerdictStatus


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """Identifies a series: comparable runs of one probe and metric, of one target or of all.

    Attributes
    ----------
    site, probe, kind
        Site, probe and benchmark.
    metric, unit
        The metric, and the unit of its values.
    comparability
        As in the store: runs with the same requested workload share it. Empty for a file.
    target
        ``None``: the whole file system.
    more_is_better
        True for bandwidths and rates, false for times.
    apart
        Settings that distinguish it from other series of its probe, as text: ``tasks 512``. Part of
        the display name only: it changes when another series is added.
    """

    site: str
    probe: str
    kind: str
    metric: str
    unit: str
    comparability: str = ""
    target: str | None = None
    more_is_better: bool = True
    apart: str = field(default="", compare=False)

    @property
    def id(self) -> str:
        """Its name in URLs of the dashboard."""
        return series_id(self.comparability, self.metric)


def series_id(comparability: str, metric: str) -> str:
    """Return the id of a series: its shortened comparability key, and its metric."""
    return f"{comparability[:16]}.{metric}"


UNIT_CHANGE: Final = "change-of-unit"
"""Reason code of a change as large as the ratio of two units."""


DIRECTION: Final = "direction-not-known"
"""Reason code of a change whose direction the levels do not show."""


class ChangeStatus(StrEnum):
    """Status of a change point."""

    SUSPECT = "suspect"
    """Raised by the online detector, not yet confirmed."""
    CONFIRMED = "confirmed"
    """Both retrospective detectors agree."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A level change of a series.

    Attributes
    ----------
    at
        The first run after the change.
    detected_at
        The run at which it was first reported, as a suspect or as confirmed. Judging the series
        at that time with the data available then reports the same.
    effect, effect_interval
        Ratio of the levels, after over before; ``None`` if a side has too few finished runs, or
        the level before is 0. ``reason`` says which.
    suspected_at, confirmed_at
        Times of each status; ``None`` if it never had it.
    dismissed_at
        When a suspect was dismissed because later runs did not support it.
    before, after
        Median level of the finished runs on either side, in the unit of the series; ``None`` if
        none finished.
    n_before, n_after
        Runs behind the levels.
    reason
        Size and support. Codes: ``change-confirmed``, ``change-suspected``, ``change-dismissed``;
        ``change-of-unit`` if the ratio is that of two units; ``direction-not-known`` if
        the level changed, but the runs do not show in which direction.
    between
        Last run of the level before and first of the level after, if there is a gap in the runs at
        the onset: the change is somewhere in it. ``None``: ``at`` is exact to the usual sampling.
    """

    at: datetime
    detected_at: datetime
    status: ChangeStatus
    effect: float | None
    effect_interval: Interval | None
    before: float | None
    after: float | None
    n_before: int
    n_after: int
    reason: Message
    suspected_at: datetime | None = None
    confirmed_at: datetime | None = None
    dismissed_at: datetime | None = None
    between: tuple[datetime, datetime] | None = None

    @property
    def of_unit(self) -> str | None:
        """The apparent change of unit as text; ``None``: no such change."""
        if code_of(self.reason) != UNIT_CHANGE:
            return None
        return self.reason.partition(";")[0]


@dataclass(frozen=True, slots=True)
class Regime:
    """A segment between two confirmed change points: one level.

    Attributes
    ----------
    from_, to
        First and last run, aware UTC.
    n, unfinished
        Number of runs, and of unfinished ones among them.
    median, mean
        Those of the finished runs, in the unit of the series.
    cov
        Within the segment, without unfinished runs; ``None`` for fewer than two.
    """

    from_: datetime
    to: datetime
    n: int
    unfinished: int
    median: float | None
    mean: float | None
    cov: float | None


class Noise(StrEnum):
    """The main source of the variance."""

    FEW_BAD_EVENTS = "few_bad_events"
    """COV far above MAD-CV: steady except for rare outliers."""
    ALWAYS_NOISY = "always_noisy"
    """COV and MAD-CV similar: broad noise."""
    STEPS = "steps"
    """Level changes explain more than half of the variance."""
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Measures of the dispersion of a series; all are fractions.

    Attributes
    ----------
    n, unfinished
        Runs, and the unfinished ones among them.
    cov, cov_interval
        Standard deviation over mean, unfinished runs as 0; the interval accounts for
        autocorrelation.
    cov_finished
        COV without unfinished runs.
    cov_within_regimes
        COV of the finished runs with the detected level changes removed as well.
    mad_cv
        1.4826 x median absolute deviation over median.
    quartile_dispersion
        (Q3 - Q1) / (Q3 + Q1); a normal series of COV k has 0.6745 k.
    cov_over_mad_cv
        Distinguishes rare outliers from broad noise.
    autocorrelation
        Lag 1.
    reason
        Why this kind of noise. Codes: ``steps``, ``few-bad-events``, ``always-noisy``,
        ``bulk-constant``, ``too-few-runs``, ``too-few-independent-runs``, ``mean-zero``,
        ``constant-values``, ``none-finished``.
    """

    n: int
    unfinished: int
    cov: float | None
    cov_interval: Interval | None
    cov_finished: float | None
    cov_within_regimes: float | None
    mad_cv: float | None
    quartile_dispersion: float | None
    cov_over_mad_cv: float | None
    autocorrelation: float | None
    noise: Noise
    reason: Message


@dataclass(frozen=True, slots=True)
class SeriesDay:
    """One day of a series, in the site's time zone: a point of figure 6 of [S1].

    Attributes
    ----------
    n, unfinished
        Number of runs, and of unfinished ones among them.
    missing
        Runs that were due and did not start; ``None`` without a schedule.
    mean, standard_deviation, cov
        Unfinished runs count as 0, as in the figure; ``None`` if no run counts. Mean and
        deviation are in the unit of the series, the COV is a fraction.
    median
        Median of the finished runs.
    """

    day: date
    n: int
    unfinished: int
    missing: int | None
    mean: float | None
    standard_deviation: float | None
    cov: float | None
    median: float | None


@dataclass(frozen=True, slots=True)
class CovAt:
    """The COV over the window that ends with one run: a point of figure 5 of [S1].

    Attributes
    ----------
    at
        The last run of the window, aware UTC.
    n
        Number of runs in the window.
    cov, interval
        Fractions; ``None`` if undefined.
    status
        Whether the window meets the goal.
    """

    at: datetime
    n: int
    cov: float | None
    interval: Interval | None
    status: VerdictStatus


@dataclass(frozen=True, slots=True)
class InvalidRun:
    """A run that is not judged because its workload differs from its probe's.

    Attributes
    ----------
    run, at
        Id and start of the run; ``at`` is ``None`` if unknown.
    reason
        As read from the store, or with a code: ``workload-differs``, ``workload-unlike-series``,
        ``workload-incomplete``, ``time-missing``, ``value-missing``, ``value-not-finite``,
        ``value-negative``.
    """

    run: str
    at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class SeriesJudgement:
    """The complete analysis of one series.

    Attributes
    ----------
    asked
        Parameters that distinguish the series from others of its probe; empty if there is none.
    verdict
        Over the last window.
    dispersion
        Over the last window; ``overall`` over all runs.
    changes
        Change points by time; dismissed suspects only if requested.
    days, rolling
        Daily figures, and the COV over each window.
    expected, missing
        Runs that were scheduled, and those of them that are missing; ``None`` without a
        schedule.
    invalid
        Runs that were excluded.
    seasonal
        Whether weekly seasonality was removed before detecting changes.
    untested
        Why level changes could not be searched (code ``too-few-runs``); ``None``: they were, so a
        series without changes may be called steady.
    """

    key: SeriesKey
    verdict: Verdict
    trend: Trend
    dispersion: Dispersion
    overall: Dispersion
    changes: tuple[ChangePoint, ...]
    regimes: tuple[Regime, ...]
    days: tuple[SeriesDay, ...]
    rolling: tuple[CovAt, ...]
    expected: int | None = None
    missing: int | None = None
    invalid: tuple[InvalidRun, ...] = ()
    seasonal: bool = False
    untested: Message | None = None
    asked: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LevelNow:
    """The current level of a series relative to earlier, different ones.

    Attributes
    ----------
    since
        First run after the level used for comparison, aware UTC.
    from_last
        Ratio to the last better level; for an improvement, to the last worse one.
    from_best
        Ratio to the best earlier level.
    between
        As `ChangePoint.between`: ``since`` is in a gap of the runs.
    """

    since: datetime
    from_last: float
    from_best: float
    between: tuple[datetime, datetime] | None = None


@dataclass(frozen=True, slots=True)
class Straggler:
    """A target that is slow more often than chance explains.

    Attributes
    ----------
    target, server
        Name, and the server if known.
    surveys, slow
        Number of surveys that measured it, and of those in which it was among the slowest.
    relative
        Current ratio of its rate to the level of the same survey: the median of its last surveys.
    p_value, q_value
        P-value of the beta-binomial tail, and q-value (Benjamini-Hochberg) over all targets.
    """

    target: str
    server: str | None
    surveys: int
    slow: int
    relative: float
    p_value: float
    q_value: float


@dataclass(frozen=True, slots=True)
class SlowEnd:
    """The lower tail of all targets over some surveys.

    Attributes
    ----------
    from_, to
        First and last survey, aware UTC.
    surveys, targets
        Number of surveys, and of measured targets.
    mean, minimum, p1, p10, median
        Over targets and surveys, in the metric's unit.
    p1_interval, p10_interval
        Confidence intervals; ``None`` if there are too few surveys.
    of_targets
        Number of targets over which the job is striped.
    expected_minimum
        Expected minimum of ``of_targets`` targets drawn from one survey: the slowest target of the
        job, in the metric's unit.
    stripe_loss
        1 - expected_minimum / mean: the fraction that such a job loses to its slowest target.
    """

    from_: datetime
    to: datetime
    surveys: int
    targets: int
    mean: float
    minimum: float
    p1: float
    p1_interval: Interval | None
    p10: float
    p10_interval: Interval | None
    median: float
    of_targets: int
    expected_minimum: float
    stripe_loss: float


@dataclass(frozen=True, slots=True)
class TargetTails:
    """Surveys of single targets analysed: one metric of one site.

    Attributes
    ----------
    surveys, targets
        Number of surveys, and of targets in them.
    overall
        Lower tail over all surveys; ``None`` if nothing was measured.
    by_month
        Lower tail of each calendar month in the site's time zone, oldest first.
    stragglers
        Targets with a q-value below the level, slowest first.
    reason
        Codes: ``stragglers``, ``no-straggler``, ``too-few-surveys``, ``one-target``,
        ``not-measured``.
    """

    metric: str
    unit: str
    surveys: int
    targets: int
    overall: SlowEnd | None
    by_month: tuple[SlowEnd, ...]
    stragglers: tuple[Straggler, ...]
    reason: Message


RUNS_LEFT_OUT: Final = "runs-left-out"
"""Code of the note about runs that are in no series."""


@dataclass(frozen=True, slots=True)
class SiteJudgement:
    """The result of ``trimtab judge`` for one site, or for the series of a file.

    Attributes
    ----------
    from_, to
        First and last run, aware UTC; ``None`` without any.
    series
        One analysis per series.
    tails
        Surveys of single targets, one per metric.
    notes
        Caveats.
    """

    site: str
    from_: datetime | None
    to: datetime | None
    series: tuple[SeriesJudgement, ...]
    tails: tuple[TargetTails, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeDocument:
    """``trimtab judge --json``."""

    judgement: SiteJudgement
    store: str | None = None
    file: str | None = None
    report: str | None = None


shape(
    SeriesJudgement,
    omit=["verdict", "changes"],
    inline={"key": ("site", "probe", "kind", "metric", "unit", "target", "more_is_better")},
    derive={
        "id": mapped("key", lambda key: key.id if key.comparability else None, str | None),
        "runs": "overall.n",
        "unfinished": "overall.unfinished",
        "verdicts": (tuple[Verdict, ...], lambda series: (series.verdict,)),
        "change_points": "changes",
    },
)
shape(JudgeDocument, inline={"judgement": ()})
