"""Compare two sides of runs, or two published summaries: effect, interval and answer.

Sides that do not cover the same hours of the week are balanced first: a busy Monday must not look
like a change.

With `bootstrap.N_MINIMUM` values per side the interval comes from `bootstrap.ratio_interval`, with
fewer from `bootstrap.exact_ratio_interval`. ``better`` and ``worse``: the interval excludes 1 and
is not entirely within the margin; ``no_difference``: it is; otherwise ``cannot_tell``.
Repetitions of single runs are always ``cannot_tell``: back to back they vary by a fiftieth of the
variation between days.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from trimtab.base.error import Message
from trimtab.base.run import higher_is_better
from trimtab.base.verdict import LEVEL, Change, Interval
from trimtab.judge.bootstrap import N_MINIMUM, estimate, exact_ratio_interval, ratio_interval
from trimtab.judge.comparison_result import Basis, Effect, EffectSide, Stretch, Summary
from trimtab.judge.effect_size import (
    UNDECIDED,
    TargetCount,
    decided,
    interval_without,
    minimum_detectable_effect,
    n_effective,
    ratio_without,
    taken_out,
)
from trimtab.judge.quantile import t_quantile
from trimtab.judge.spread import corrected_autocorrelation, cov, effective_n_mean, mad_cv
from trimtab.judge.variability import sense_of

NOT_BALANCED: Final = "hours of the week are not balanced"

WEEK_S: Final = 7 * 86400.0

NEARLY_A_WEEK_S: Final = 0.99 * WEEK_S
"""A week that lacks a run or two at its ends still counts as a week."""

_HOURS_TOGETHER: Final = (1, 3, 6, 12, 24)
_SHARE_MINIMUM: Final = 0.9


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each run on either side; ``None``: equal weights.

    ``method`` says how they were computed, or why there are none.
    """

    before: tuple[float, ...] | None
    after: tuple[float, ...] | None
    method: Message


def hour_weights(
    before: Sequence[datetime], after: Sequence[datetime], *, timezone: str = "UTC"
) -> Weights:
    """Return weights that give every hour of the week equal weight on both sides.

    Parameters
    ----------
    before, after
        Aware times of the runs of either side.
    timezone
        IANA name of the time zone for hours of the week.

    Notes
    -----
    The week is cut into parts of 1, 3, 6, 12 or 24 hours; the finest cut in which 90 % of the runs
    of either side share a part with a run of the other is used. Each part present on both sides
    weighs 1 on both, divided among its runs; runs in parts of only one side weigh 0. It needs a
    week per side: in less, hours and days are confounded.
    """
    if min(covered_s(before), covered_s(after)) < NEARLY_A_WEEK_S:
        return Weights(
            None, None, Message("under-a-week", f"{NOT_BALANCED}: that needs a week per side")
        )
    zone = ZoneInfo(timezone)
    for hours in _HOURS_TOGETHER:
        parts = [[_part(at, zone, hours) for at in side] for side in (before, after)]
        common = set(parts[0]) & set(parts[1])
        if all(
            sum(part in common for part in side) / len(side) >= _SHARE_MINIMUM for side in parts
        ):
            weights = [_weights_within(side, common) for side in parts]
            step = "hour" if hours == 1 else "day" if hours == 24 else f"{hours} hours"
            return Weights(
                weights[0],
                weights[1],
                Message(
                    "hours-balanced", f"every {step} of the week has equal weight on both sides"
                ),
            )
    return Weights(
        None, None, Message("hours-not-shared", f"{NOT_BALANCED}: the sides share too few")
    )


def covered_s(times: Sequence[datetime]) -> float:
    """Return the time that runs cover, including the last one's interval; 0 for fewer than two.

    Examples
    --------
    >>> from datetime import UTC, timedelta
    >>> hourly = [datetime(2026, 3, 2, tzinfo=UTC) + timedelta(hours=h) for h in range(168)]
    >>> covered_s(hourly) == WEEK_S
    True
    """
    if len(times) < 2:
        return 0.0
    span_s = (max(times) - min(times)).total_seconds()
    return span_s * len(times) / (len(times) - 1)


def _part(at: datetime, zone: ZoneInfo, hours: int) -> int:
    local = at.astimezone(zone)
    return (local.weekday() * 24 + local.hour) // hours


def _weights_within(parts: Sequence[int], common: set[int]) -> tuple[float, ...]:
    counts = Counter(parts)
    return tuple(1 / counts[part] if part in common else 0.0 for part in parts)


MARGIN: Final = 0.05
"""Smaller differences are irrelevant next to a COV goal of 8 %."""


@dataclass(frozen=True, slots=True)
class CompareTerms:
    """How two sides are compared.

    Attributes
    ----------
    margin
        Smaller differences are irrelevant; a fraction.
    wash_out_s
        Seconds to exclude at the start of the later side, which the change itself disturbs.
    timezone
        IANA name of the time zone for hours of the week.
    targets
        A changed number of targets to correct for.
    """

    margin: float = MARGIN
    wash_out_s: float = 0.0
    timezone: str = "UTC"
    targets: TargetCount | None = None

    def __post_init__(self) -> None:
        if not 0 < self.margin < 1:
            raise ValueError("the margin must lie between 0 and 1")


DEFAULT_TERMS: Final = CompareTerms()


def compare(
    before: Stretch,
    after: Stretch,
    *,
    metric: str,
    basis: Basis = Basis.RUNS,
    terms: CompareTerms = DEFAULT_TERMS,
    unit: str | None = None,
    more_is_better: bool | None = None,
) -> Effect:
    """Compare the median of ``after`` with that of ``before``.

    Parameters
    ----------
    before, after, metric
        Values of each side; a key of `METRIC_UNITS`, or any name if ``unit`` is given.
    basis, terms
        What the values were measured on; margin, confidence level and corrections.
    unit, more_is_better
        For a custom metric; ``None``: as in `METRIC_UNITS`.

    Returns
    -------
    Effect
        Ratio with interval, minimum detectable effect, answer and reason.

    Raises
    ------
    KeyError
        The metric is unknown and no unit is given.
    ValueError
        A value is negative or not finite.
    """
    unit, more = sense_of(metric, unit, more_is_better)
    stretches = _washed(before, after, terms.wash_out_s)
    weights = _weights(stretches, basis, terms.timezone)
    sides = (
        _side(stretches[0], weights.before, len(before.values)),
        _side(stretches[1], weights.after, len(after.values)),
    )
    measured = _ratio(sides)
    interval, method = _measured_interval(stretches, weights, measured)
    removed = None
    if terms.targets is not None:
        removed = taken_out(
            terms.targets,
            metric=metric,
            unit=unit,
            before=sides[0].middle,
            measured=None if measured is None else (measured, interval),
        )
    effect = Effect(
        metric=metric,
        unit=unit,
        basis=basis,
        before=sides[0],
        after=sides[1],
        ratio=ratio_without(measured, removed),
        ratio_interval=interval_without(interval, removed),
        ratio_measured=measured,
        method=method,
        margin=terms.margin,
        change=Change.CANNOT_TELL,
        reason=UNDECIDED,
        detectable=_detectable_of(stretches[0], sides) if basis is Basis.RUNS else None,
        provisional=_provisional(stretches),
        weighted=weights.method,
        taken_out=removed,
    )
    return decided(effect, more_is_better=more)


def _washed(before: Stretch, after: Stretch, wash_out_s: float) -> tuple[Stretch, Stretch]:
    """Return both sides without the first ``wash_out_s`` seconds of the later one."""
    if wash_out_s <= 0 or not before.times or not after.times:
        return before, after
    if min(after.times) >= min(before.times):
        return before, _from(after, min(after.times) + timedelta(seconds=wash_out_s))
    return _from(before, min(before.times) + timedelta(seconds=wash_out_s)), after


def _from(side: Stretch, begin: datetime) -> Stretch:
    places = [place for place, at in enumerate(side.times) if at >= begin]
    return Stretch(
        values=tuple(side.values[place] for place in places),
        times=tuple(side.times[place] for place in places),
        unfinished=tuple(side.unfinished[place] for place in places) if side.unfinished else (),
    )


def _weights(stretches: tuple[Stretch, Stretch], basis: Basis, timezone: str) -> Weights:
    if basis is not Basis.RUNS or not all(side.times for side in stretches):
        return Weights(
            None, None, Message("times-unknown", f"{NOT_BALANCED}: not every run has a time")
        )
    return hour_weights(stretches[0].times, stretches[1].times, timezone=timezone)


def _side(side: Stretch, weights: Sequence[float] | None, n_given: int) -> EffectSide:
    values = side.values
    counting = len(values) if weights is None else sum(weight > 0 for weight in weights)
    return EffectSide(
        middle=estimate(values, "median", weights) if counting else None,
        n=counting,
        n_effective=_independent(values, weights) if counting else None,
        cov=cov(values),
        from_=min(side.times) if side.times else None,
        to=max(side.times) if side.times else None,
        unfinished=sum(side.unfinished),
        washed_out=n_given - len(values),
    )


def _independent(values: Sequence[float], weights: Sequence[float] | None) -> float:
    """Return the effective number of independent values (Kish's, for weighted values)."""
    n = float(len(values))
    if weights is not None:
        n = math.fsum(weights) ** 2 / math.fsum(weight * weight for weight in weights)
    return max(1.0, effective_n_mean(n, corrected_autocorrelation(values)))


def _ratio(sides: tuple[EffectSide, EffectSide]) -> float | None:
    below, above = sides[0].middle, sides[1].middle
    return None if not below or above is None else above / below


def _measured_interval(
    stretches: tuple[Stretch, Stretch], weights: Weights, ratio: float | None
) -> tuple[Interval | None, Message]:
    """Return the interval of the measured ratio and the method behind it."""
    before, after = stretches[0].values, stretches[1].values
    if not ratio:
        return None, Message("none", "none")
    if min(len(before), len(after)) >= N_MINIMUM:
        pair = (weights.after, weights.before)
        interval = ratio_interval(after, before, weights=pair)
        if stretches[0].times and stretches[1].times:
            return interval, Message("bootstrap", "ratio of medians, block bootstrap")
        return interval, Message(
            "bootstrap-order-unknown", "ratio of medians, bootstrap; the order of runs is unknown"
        )
    interval = exact_ratio_interval(after, before)
    return interval, Message(
        "exact-pairs",
        f"ratio of medians, all pairs (under {N_MINIMUM} per side), assumed independent",
    )


def _detectable_of(before: Stretch, sides: tuple[EffectSide, EffectSide]) -> float | None:
    """Return the minimum detectable effect from the robust scatter of the first side."""
    scatter = mad_cv(before.values) or cov(before.values)
    if not scatter or len(before.values) < 4 or sides[1].n == 0:
        return None
    return minimum_detectable_effect(scatter, n_effective(sides[0]), n_effective(sides[1]))


def _provisional(stretches: tuple[Stretch, Stretch]) -> bool | None:
    if not all(side.times for side in stretches):
        return None
    return min(covered_s(side.times) for side in stretches) < NEARLY_A_WEEK_S


def compare_summaries(
    before: Summary,
    after: Summary,
    *,
    autocorrelation: float = 0.0,
    terms: CompareTerms = DEFAULT_TERMS,
) -> Effect:
    """Compare the mean of ``after`` with that of ``before``.

    Parameters
    ----------
    before, after
        Mean, standard deviation and number of runs of each side, in the same unit.
    autocorrelation
        Lag-1 autocorrelation of the runs, 0 to below 1. Published results do not state it.
    terms
        Margin, confidence level and changed number of targets.

    Returns
    -------
    Effect
        Ratio with interval, minimum detectable effect, answer and reason.

    Raises
    ------
    ValueError
        The units differ, or a value is not meaningful.
    """
    _require_summaries(before, after, autocorrelation)
    metric = before.metric or after.metric
    both = (before, after)
    sides = (_side_of_summary(before, autocorrelation), _side_of_summary(after, autocorrelation))
    measured = after.mean / before.mean
    interval = fieller_interval(both, (n_effective(sides[0]), n_effective(sides[1])))
    removed = None
    if terms.targets is not None:
        removed = taken_out(
            terms.targets,
            metric=metric,
            unit=before.unit,
            before=before.mean,
            measured=(measured, interval),
        )
    windows = [side.window_s for side in both if side.window_s is not None]
    effect = Effect(
        metric=metric,
        unit=before.unit,
        basis=Basis.SUMMARY,
        before=sides[0],
        after=sides[1],
        ratio=ratio_without(measured, removed),
        ratio_interval=interval_without(interval, removed),
        ratio_measured=measured,
        method=_summary_method(autocorrelation),
        margin=terms.margin,
        change=Change.CANNOT_TELL,
        reason=UNDECIDED,
        detectable=minimum_detectable_effect(
            before.deviation / before.mean,
            n_effective(sides[0]),
            n_effective(sides[1]),
            statistic="mean",
        ),
        provisional=min(windows) < NEARLY_A_WEEK_S if len(windows) == 2 else None,
        weighted=None,
        taken_out=removed,
    )
    more = before.unit != "s" if metric is None else higher_is_better(metric)
    return decided(effect, more_is_better=more)


def fieller_interval(summaries: tuple[Summary, Summary], n: tuple[float, float]) -> Interval | None:
    """Return the interval of the second mean over the first; ``None`` if unbounded.

    Parameters
    ----------
    n
        Effective number of independent values behind each mean.

    Notes
    -----
    All rho for which the mean of (b - rho a) is not significantly different from 0:
    (b - rho a)^2 <= t^2 (vb + rho^2 va), a quadratic in rho; va and vb are the squared errors of
    the means. It is unbounded if a itself is not significantly different from 0. This is Fieller's
    interval (1954), with the degrees of freedom of Welch and Satterthwaite. It assumes normal
    means, justified by hundreds of runs.
    """
    a, b = (summary.mean for summary in summaries)
    va, vb = (summary.deviation**2 / count for summary, count in zip(summaries, n, strict=True))
    if va + vb == 0:
        return Interval(b / a, b / a)
    rho = b / a
    parts = (rho**2 * va, vb)
    degrees = sum(parts) ** 2 / sum(
        part**2 / max(count - 1, 1e-9) for part, count in zip(parts, n, strict=True)
    )
    square = t_quantile((1 + LEVEL) / 2, degrees) ** 2
    leading = a * a - square * va
    if leading <= 0:
        return None
    root = math.sqrt((a * b) ** 2 - leading * (b * b - square * vb))
    return Interval(max(0.0, (a * b - root) / leading), (a * b + root) / leading)


def _side_of_summary(summary: Summary, autocorrelation: float) -> EffectSide:
    return EffectSide(
        middle=summary.mean,
        n=summary.n,
        n_effective=max(1.0, effective_n_mean(summary.n, autocorrelation)),
        cov=summary.deviation / summary.mean,
    )


def _summary_method(autocorrelation: float) -> Message:
    method = "ratio of means (Fieller), from means and standard deviations"
    if autocorrelation > 0:
        return Message(
            "fieller-autocorrelated",
            f"{method}, assuming an autocorrelation of {autocorrelation:g}",
        )
    wider = math.sqrt(1.5 / 0.5)
    return Message(
        "fieller",
        f"{method}, assuming independent runs (with an autocorrelation of 0.5 the interval is "
        f"{wider:.2f} times as wide)",
    )


def _require_summaries(before: Summary, after: Summary, autocorrelation: float) -> None:
    if before.unit != after.unit:
        raise ValueError(f"{before.unit} cannot be compared with {after.unit}")
    if before.metric and after.metric and before.metric != after.metric:
        raise ValueError(f"{before.metric} cannot be compared with {after.metric}")
    for side in (before, after):
        numbers = (side.mean, side.deviation)
        if not all(math.isfinite(number) for number in numbers) or side.mean <= 0:
            raise ValueError(f"a mean of {side.mean} has no ratio")
        if side.deviation < 0 or side.n < 2:
            raise ValueError(f"a deviation of {side.deviation} from {side.n} runs is not usable")
    if not 0 <= autocorrelation < 1:
        raise ValueError(f"autocorrelation {autocorrelation} is not within 0 to below 1")
