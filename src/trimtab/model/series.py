"""What months of one series say: how steady it is, when its level changed, which targets lag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from trimtab.model.verdict import Interval, Trend, Verdict, VerdictStatus


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """Which series: comparable runs of one probe, one metric, of the whole or of one target.

    Attributes
    ----------
    comparability
        As in the store: runs that were asked for the same. Empty for a series from a file.
    more_is_better
        True of bandwidths and rates, false of times.
    """

    site: str
    probe: str
    kind: str
    metric: str
    unit: str
    comparability: str = ""
    target: str | None = None
    more_is_better: bool = True


class ChangeStatus(StrEnum):
    """How sure a change is."""

    SUSPECT = "suspect"
    """The online detector raised it; the days that would confirm it are not over."""
    CONFIRMED = "confirmed"
    """The retrospective detectors agree."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A time from which a series has another level.

    Attributes
    ----------
    at
        The first run after the change.
    detected_at
        The run at which it was first told: as a suspect where it was one, else as confirmed.
        Somebody who judged the series at that time, with what there was then, saw it then.
    effect, effect_interval
        Ratio of the levels, after over before; ``None`` where either side has no finished run,
        or is at 0 before. ``reason`` says so.
    suspected_at, confirmed_at
        When it came to be either.
    dismissed_at
        When a suspect was given up: the days after it did not bear it out.
    before, after
        Median level of the finished runs on either side, in the unit of the series; ``None``
        where none finished.
    n_before, n_after
        Runs that the levels rest on.
    reason
        In words: what was found.
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
    reason: str
    suspected_at: datetime | None = None
    confirmed_at: datetime | None = None
    dismissed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Regime:
    """A stretch between two confirmed changes: one level.

    Attributes
    ----------
    cov
        Within it, unfinished runs left out; ``None`` for fewer than two.
    """

    from_: datetime
    to: datetime
    n: int
    unfinished: int
    median: float | None
    mean: float | None
    cov: float | None


class Noise(StrEnum):
    """What a COV is made of."""

    FEW_BAD_EVENTS = "few_bad_events"
    """COV far over MAD-CV: steady but for rare dips."""
    ALWAYS_NOISY = "always_noisy"
    """COV and MAD-CV alike: broad noise."""
    STEPS = "steps"
    """Most of it goes when the changes of level are taken out."""
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Dispersion:
    """How a series spreads, by several measures beside one another; all are fractions.

    Attributes
    ----------
    n, unfinished
        Runs, and those of them that did not finish.
    cov, cov_interval
        Standard deviation over mean, unfinished runs as 0; the interval allows for
        autocorrelation.
    cov_finished
        Unfinished runs left out.
    cov_within_regimes
        With the detected changes of level taken out as well.
    mad_cv
        1.4826 x median absolute deviation over median.
    quartile_dispersion
        (Q3 - Q1) / (Q3 + Q1); a normal series of COV k has 0.6745 k.
    cov_over_mad_cv
        What tells rare bad events from broad noise.
    autocorrelation
        Of neighbouring runs.
    reason
        In words: what the noise is made of.
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
    reason: str


@dataclass(frozen=True, slots=True)
class Day:
    """One day of a series, in the site's time zone: a point of the seeds' figure 6.

    Attributes
    ----------
    mean, standard_deviation, cov
        Unfinished runs count as 0, as in the figure; ``None`` where there is nothing to count.
    median
        Of the finished runs.
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
    """The COV over the window that ends with one run: a point of the seeds' figure 5."""

    at: datetime
    n: int
    cov: float | None
    interval: Interval | None
    status: VerdictStatus


@dataclass(frozen=True, slots=True)
class InvalidRun:
    """A run that is not judged, and why: it did not do what its probe asks for."""

    run: str
    at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class SeriesJudgement:
    """Everything that is said of one series.

    Attributes
    ----------
    asked
        What sets the series apart from others of its probe; empty where there is no other.
    verdict
        Over the last window.
    dispersion
        Over the last window; ``overall`` over all that was given.
    changes
        By time; dismissed suspects are among them only where they were asked for.
    days, rolling
        Daily figures, and the COV over each window.
    expected, missing
        Runs that the schedule had asked for, and those of them that are not there; ``None``
        where no schedule is known.
    invalid
        Runs that were left out.
    seasonal
        Whether a weekly rhythm was taken out before changes were looked for.
    """

    key: SeriesKey
    verdict: Verdict
    trend: Trend
    dispersion: Dispersion
    overall: Dispersion
    changes: tuple[ChangePoint, ...]
    regimes: tuple[Regime, ...]
    days: tuple[Day, ...]
    rolling: tuple[CovAt, ...]
    expected: int | None = None
    missing: int | None = None
    invalid: tuple[InvalidRun, ...] = ()
    seasonal: bool = False
    asked: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Straggler:
    """A target that is slow again and again.

    Attributes
    ----------
    surveys, slow
        Surveys that measured it, and those in which it was among the slowest.
    relative
        Its median relative to the targets of the same survey, as a ratio.
    p_value, q_value
        Of the binomial tail, and after Benjamini-Hochberg over all targets.
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
    """The slow end of all targets in a stretch.

    Attributes
    ----------
    minimum, p1, p10, median
        Over targets and surveys, in the metric's unit.
    expected_minimum
        Of ``of_targets`` targets drawn from one survey: what a job striped over all meets.
    stripe_loss
        1 - expected_minimum / mean: what such a job loses to its slowest target.
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
    """What surveys of single targets say: one metric of one site.

    Attributes
    ----------
    by_month
        The slow end of each calendar month of the site's time zone, the oldest first.
    stragglers
        With a q-value under the level, the slowest first.
    """

    metric: str
    unit: str
    surveys: int
    targets: int
    overall: SlowEnd | None
    by_month: tuple[SlowEnd, ...]
    stragglers: tuple[Straggler, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SiteJudgement:
    """What ``trimtab judge`` says of one site, or of a file's series."""

    site: str
    from_: datetime | None
    to: datetime | None
    series: tuple[SeriesJudgement, ...]
    tails: tuple[TargetTails, ...] = ()
    notes: tuple[str, ...] = ()
