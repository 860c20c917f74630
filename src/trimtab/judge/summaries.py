"""Compare two published results from their means and standard deviations.

The interval is Fieller's (1954) for a ratio of two means, with the degrees of freedom of
Welch and Satterthwaite. It assumes normal means, justified by hundreds of runs.
"""

from __future__ import annotations

import math

from trimtab.judge.compare import DEFAULT_TERMS, CompareTerms
from trimtab.judge.effect import (
    UNDECIDED,
    decided,
    interval_without,
    minimum_detectable_effect,
    n_effective,
    ratio_without,
)
from trimtab.judge.hour_weights import NEARLY_A_WEEK_S
from trimtab.judge.quantiles import t_quantile
from trimtab.judge.spread import effective_n_mean
from trimtab.judge.target_count import taken_out
from trimtab.judge.variability import higher_is_better
from trimtab.message import Message
from trimtab.model.compare import Basis, Change, Effect, Side, Summary
from trimtab.model.verdict import LEVEL, Interval


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
    the means. It is unbounded if a itself is not significantly different from 0.
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


def _side_of_summary(summary: Summary, autocorrelation: float) -> Side:
    return Side(
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
