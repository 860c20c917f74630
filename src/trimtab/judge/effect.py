"""What an effect with its interval says: better, worse, no difference that matters, cannot tell."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from trimtab.model.compare import Basis, Change, Effect, Side, TakenOut
from trimtab.model.verdict import Interval
from trimtab.units import plural

MEDIAN_COST: Final = math.sqrt(math.pi / 2)
"""By how much the error of a median is larger than that of a mean of as many normal numbers."""

_POWER: Final = 2.8
"""1.96 for 95 % confidence and 0.84 for four chances in five of seeing it (both normal)."""


def minimum_detectable_effect(
    scatter: float,
    n_before: float,
    n_after: float | None = None,
    *,
    statistic: str = "median",
) -> float:
    """Return the smallest relative difference with four chances in five of being seen at 95 %.

    Parameters
    ----------
    scatter
        COV of single runs, a fraction.
    n_before, n_after
        Independent runs of either side (`spread.effective_n_mean`); the same where one is given.

    Examples
    --------
    >>> round(minimum_detectable_effect(0.08, 48, statistic="mean"), 3)
    0.046
    >>> round(minimum_detectable_effect(0.08, 168, statistic="mean"), 3)
    0.024
    """
    other = n_before if n_after is None else n_after
    cost = MEDIAN_COST if statistic == "median" else 1.0
    return _POWER * cost * scatter * math.sqrt(1 / n_before + 1 / other)


def ratio_without(ratio: float | None, removed: TakenOut | None) -> float | None:
    """Return a measured ratio without what the targets alone make of it, where that applies."""
    if ratio is None or removed is None or not removed.applied:
        return ratio
    return ratio / removed.factor


def interval_without(interval: Interval | None, removed: TakenOut | None) -> Interval | None:
    """Return the interval of a measured ratio without what the targets alone make of it."""
    if interval is None or removed is None or not removed.applied:
        return interval
    low, high = interval.low / removed.factor, interval.high / removed.factor
    return Interval(low, high, interval.level)


def n_effective(side: Side) -> float:
    """Return how many independent numbers a side has, at least 1."""
    return max(1.0, side.n_effective or 1.0)


def decided(effect: Effect, *, more_is_better: bool) -> Effect:
    """Return the effect with its answer and the reason for it.

    Notes
    -----
    ``no_difference``: the interval lies within 1 / (1 + margin) and 1 + margin, whether or not it
    holds 1. ``better`` and ``worse``: it does not, and 1 lies outside. Repetitions of single runs
    are always ``cannot_tell``.
    """
    change, reason = _decide(effect, more_is_better)
    return replace(effect, change=change, reason=reason)


def _decide(effect: Effect, more_is_better: bool) -> tuple[Change, str]:
    if effect.ratio is None:
        return Change.CANNOT_TELL, _why_no_ratio(effect)
    if effect.ratio_interval is None:
        return Change.CANNOT_TELL, f"{_found(effect)}; {_why_no_interval(effect)}"
    found, interval = _found(effect), effect.ratio_interval
    if effect.basis is Basis.REPETITIONS:
        return Change.CANNOT_TELL, (
            f"{found} between the repetitions of single runs, which differ less than runs on other "
            "days: four runs a side or more tell"
        )
    if 1 / (1 + effect.margin) < interval.low and interval.high < 1 + effect.margin:
        limit = _percent(effect.margin)
        return Change.NO_DIFFERENCE, f"{found}: within {limit}, which does not matter"
    if interval.low <= 1 <= interval.high:
        return Change.CANNOT_TELL, f"{found}: {_what_would_tell(effect)}"
    better = (interval.low > 1) == more_is_better
    change = Change.BETTER if better else Change.WORSE
    return change, f"{found}: {change.value}"


def _why_no_ratio(effect: Effect) -> str:
    for side, name in ((effect.before, "first"), (effect.after, "second")):
        if side.n == 0:
            return f"nothing is left of the {name} side"
    return "the first side's median is 0"


def _why_no_interval(effect: Effect) -> str:
    if effect.basis is Basis.SUMMARY:
        return "the first mean is not told apart from 0"
    if not effect.ratio:
        return "the second side's median is 0: there is no interval of a ratio of 0"
    if effect.before.unfinished or effect.after.unfinished:
        return "runs that did not finish count as 0, and a ratio with 0 has no interval"
    fewest = min(effect.before.n, effect.after.n)
    runs = plural(fewest, "run")
    return f"{runs} on a side tell nothing of chance: at least four a side do"


def _found(effect: Effect) -> str:
    """Return the effect in words: ``17.7 % lower (16.8 to 18.6 %)``."""
    ratio, interval = effect.ratio, effect.ratio_interval
    if ratio is None:
        return "no ratio"
    word = "higher" if ratio >= 1 else "lower"
    found = f"{_percent(abs(ratio - 1))} {word}"
    if _percent(abs(ratio - 1)) == "0.0 %":
        found = "the same"
    if interval is None:
        return found
    return f"{found} ({(interval.low - 1) * 100:+.1f} to {(interval.high - 1) * 100:+.1f} %)"


def _what_would_tell(effect: Effect) -> str:
    """Return what it would take for an answer, from the width of the interval found."""
    interval = effect.ratio_interval
    if interval is None or interval.low <= 0:
        return "neither a difference nor that there is none is shown"
    half = math.log(interval.high / interval.low) / 2
    times = (half / math.log(1 + effect.margin)) ** 2
    more = max(effect.before.n, effect.after.n) * times
    told = f"neither a difference nor that there is none over {_percent(effect.margin)} is shown"
    if not math.isfinite(more) or more > 1e6:
        return told
    return f"{told}; about {_round_up(more)} runs a side like these would show one of them"


def _round_up(number: float) -> int:
    """Return the number with two figures, rounded up: it is a rough one."""
    step = 10 ** max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return math.ceil(number / step) * step


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"
