"""The answer of an effect with its interval: better, worse, no difference, or inconclusive."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from trimtab.message import Message
from trimtab.model.compare import Basis, Change, Effect, Side, TakenOut
from trimtab.model.verdict import Interval
from trimtab.units import format_percent, plural

MEDIAN_COST: Final = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, for the same number of normal values."""

_POWER: Final = 2.8
"""1.96 for 95 % confidence and 0.84 for a power of 80 % (both normal)."""

UNDECIDED: Final = Message("inconclusive", "not decided yet")
"""The reason of an effect before `decided` is applied."""


def minimum_detectable_effect(
    scatter: float,
    n_before: float,
    n_after: float | None = None,
    *,
    statistic: str = "median",
) -> float:
    """Return the minimum detectable effect: power 80 %, confidence 95 %.

    Parameters
    ----------
    scatter
        COV of single runs, a fraction.
    n_before, n_after
        Effective number of independent runs on each side (`spread.effective_n_mean`);
        ``n_after`` defaults to ``n_before``.
    statistic
        ``median`` or ``mean``: what is compared.

    Returns
    -------
    float
        Relative difference, a fraction.

    Examples
    --------
    >>> round(minimum_detectable_effect(0.08, 48, statistic="mean"), 3)
    0.046
    >>> round(minimum_detectable_effect(0.08, 168, statistic="mean"), 3)
    0.024
    """
    second = n_before if n_after is None else n_after
    cost = MEDIAN_COST if statistic == "median" else 1.0
    return _POWER * cost * scatter * math.sqrt(1 / n_before + 1 / second)


def ratio_without(ratio: float | None, removed: TakenOut | None) -> float | None:
    """Return a measured ratio corrected for the number of targets, if that applies."""
    if ratio is None or removed is None or not removed.applied:
        return ratio
    return ratio / removed.factor


def interval_without(interval: Interval | None, removed: TakenOut | None) -> Interval | None:
    """Return the interval of a measured ratio corrected for the number of targets."""
    if interval is None or removed is None or not removed.applied:
        return interval
    return Interval(interval.low / removed.factor, interval.high / removed.factor)


def n_effective(side: Side) -> float:
    """Return the effective number of independent values of a side, at least 1."""
    return max(1.0, side.n_effective or 1.0)


def decided(effect: Effect, *, more_is_better: bool) -> Effect:
    """Return the effect with its answer and reason.

    Notes
    -----
    ``no_difference``: the interval is within 1 / (1 + margin) and 1 + margin, whether or not it
    includes 1. ``better`` and ``worse``: it is not, and it excludes 1. Repetitions of single runs
    are always ``cannot_tell``.
    """
    change, reason = _decide(effect, more_is_better)
    return replace(effect, change=change, reason=reason)


def _decide(effect: Effect, more_is_better: bool) -> tuple[Change, Message]:
    if effect.ratio is None:
        return Change.CANNOT_TELL, _no_ratio(effect)
    size, interval = _size(effect, effect.ratio), effect.ratio_interval
    if interval is None:
        return Change.CANNOT_TELL, _no_interval(effect, size)
    if effect.basis is Basis.REPETITIONS:
        return Change.CANNOT_TELL, Message(
            "repetitions-only",
            f"inconclusive: {size} between repetitions of single runs, which vary less than runs "
            "on different days; compare at least four runs per side",
        )
    if 1 / (1 + effect.margin) < interval.low and interval.high < 1 + effect.margin:
        return Change.NO_DIFFERENCE, Message(
            "within-margin", f"{size}: within the margin of {format_percent(effect.margin)}"
        )
    if interval.low <= 1 <= interval.high:
        return Change.CANNOT_TELL, Message(
            "inconclusive", f"{size}: inconclusive, {_runs_required(effect, interval)}"
        )
    better = (interval.low > 1) == more_is_better
    change = Change.BETTER if better else Change.WORSE
    return change, Message(change.value, f"{size}: {change.value}")


def _no_ratio(effect: Effect) -> Message:
    for side, name in ((effect.before, "first"), (effect.after, "second")):
        if side.n == 0:
            return Message("side-empty", f"no values remain on the {name} side")
    return Message("median-zero", "the median of the first side is 0")


def _no_interval(effect: Effect, size: str) -> Message:
    if effect.basis is Basis.SUMMARY:
        return Message(
            "mean-near-zero", f"{size}; the first mean is not significantly different from 0"
        )
    if not effect.ratio:
        return Message(
            "ratio-zero",
            f"{size}; the median of the second side is 0: no interval for a ratio of 0",
        )
    if effect.before.unfinished or effect.after.unfinished:
        return Message(
            "unfinished-runs",
            f"{size}; unfinished runs count as 0, and a ratio with 0 has no interval",
        )
    runs = plural(min(effect.before.n, effect.after.n), "run")
    return Message(
        "too-few-runs", f"{size}; {runs} on one side: an interval needs at least four per side"
    )


def _size(effect: Effect, ratio: float) -> str:
    """Return the size of an effect as text: ``17.7 % lower (-18.6 to -16.8 %)``."""
    interval = effect.ratio_interval
    difference = format_percent(abs(ratio - 1))
    word = "higher" if ratio >= 1 else "lower"
    size = "the same" if difference == "0.0 %" else f"{difference} {word}"
    if interval is None:
        return size
    return f"{size} ({(interval.low - 1) * 100:+.1f} to {(interval.high - 1) * 100:+.1f} %)"


def _runs_required(effect: Effect, interval: Interval) -> str:
    """Return how many runs would give an answer, from the width of the interval."""
    if interval.low <= 0:
        return "a difference is neither shown nor ruled out"
    half = math.log(interval.high / interval.low) / 2
    times = (half / math.log(1 + effect.margin)) ** 2
    required = max(effect.before.n, effect.after.n) * times
    open_question = f"a {format_percent(effect.margin)} difference is neither shown nor ruled out"
    if not math.isfinite(required) or required > 1e6:
        return open_question
    return f"{open_question}; about {_round_up(required)} such runs per side would decide"


def _round_up(number: float) -> int:
    """Return the number rounded up to two digits: it is a rough estimate."""
    step = 10 ** max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return math.ceil(number / step) * step
