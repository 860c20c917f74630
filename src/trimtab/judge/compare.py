"""Compare two sides: effect, interval and answer.

With `bootstrap.N_MINIMUM` values per side the interval comes from `bootstrap.ratio_interval`, with
fewer from `bootstrap.exact_ratio_interval`. ``better`` and ``worse``: the interval excludes 1 and
is not entirely within the margin; ``no_difference``: it is; otherwise ``cannot_tell``.
Repetitions of single runs are always ``cannot_tell``: back to back they vary by a fiftieth of the
variation between days.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.judge.bootstrap import (
    N_MINIMUM,
    estimate,
    exact_ratio_interval,
    ratio_interval,
)
from trimtab.judge.effect import (
    UNDECIDED,
    decided,
    interval_without,
    minimum_detectable_effect,
    n_effective,
    ratio_without,
)
from trimtab.judge.hour_weights import (
    NEARLY_A_WEEK_S,
    NOT_BALANCED,
    Weights,
    covered_s,
    hour_weights,
)
from trimtab.judge.spread import (
    corrected_autocorrelation,
    cov,
    effective_n_mean,
    mad_cv,
)
from trimtab.judge.target_count import TargetCount, taken_out
from trimtab.judge.variability import sense_of
from trimtab.message import Message
from trimtab.model.compare import (
    Basis,
    Change,
    Effect,
    Side,
    Stretch,
)
from trimtab.model.verdict import Interval

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


def _side(side: Stretch, weights: Sequence[float] | None, n_given: int) -> Side:
    values = side.values
    counting = len(values) if weights is None else sum(weight > 0 for weight in weights)
    return Side(
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


def _ratio(sides: tuple[Side, Side]) -> float | None:
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


def _detectable_of(before: Stretch, sides: tuple[Side, Side]) -> float | None:
    """Return the minimum detectable effect from the robust scatter of the first side."""
    scatter = mad_cv(before.values) or cov(before.values)
    if not scatter or len(before.values) < 4 or sides[1].n == 0:
        return None
    return minimum_detectable_effect(scatter, n_effective(sides[0]), n_effective(sides[1]))


def _provisional(stretches: tuple[Stretch, Stretch]) -> bool | None:
    if not all(side.times for side in stretches):
        return None
    return min(covered_s(side.times) for side in stretches) < NEARLY_A_WEEK_S
