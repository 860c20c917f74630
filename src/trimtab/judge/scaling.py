"""A rate against nodes, tasks per node or stripe count: where it stops paying, and how surely.

On logarithmic axes a rate that grows with a power of the amount is a straight line, and a limit is
a bend. Two curves with a bend are fitted beside the straight line (`trimtab.judge.knee`).

That there is a bend at all must hold against chance: the best place for one is searched for among
all, which finds one in any noise. So the gain is set against gains in simulated noise about a
straight line, measured at the same amounts. Which of the two curves then says where it is, Akaike's
criterion decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from trimtab.judge.knee import (
    LEVEL,
    Curve,
    KneeFit,
    better_fit,
    broken_line,
    knee_interval,
    knee_p_value,
    line_parameters,
    saturating_curve,
    straight_line,
)
from trimtab.judge.quantiles import t_quantile
from trimtab.judge.settings import amount_of, geometric_mean
from trimtab.judge.variability import higher_is_better
from trimtab.model.run import METRIC_UNITS
from trimtab.model.sweep import Level, MeasuredPoint, Scaling, ScalingPoint, Shape
from trimtab.model.verdict import Interval
from trimtab.units import format_percent

AMOUNTS_MINIMUM: Final = 4
"""Two on either side of a knee, one of which may be the knee."""

_CHANCE: Final = 0.05
_STILL_GROWING: Final = 0.1
"""Under this exponent twice the amount gives 7 % more: nobody doubles a job for that."""


def scaling(
    points: Sequence[MeasuredPoint],
    metric: str,
    factor: str,
    *,
    fixed: Mapping[str, Level] | None = None,
    margin: float = 0.05,
) -> Scaling:
    """Return how a rate goes with one factor, and the knee if there is one.

    Parameters
    ----------
    factor
        Whose levels are amounts (or sizes, as text).
    fixed
        Levels of the other factors; points with others are passed over.
    margin
        `Scaling.enough` is the least amount that gives all but this fraction of the best.

    Raises
    ------
    KeyError
        The metric is not known.
    ValueError
        A value is not finite, or negative.

    Notes
    -----
    A knee is stated when a bend holds against chance at 5 %, and beyond it the rate grows with less
    than half the exponent. Its interval is where the sum of squares stays under its least by what
    the 95 % quantile of t^2 allows. Simulated (1 to 32 nodes in powers of two, three rounds, 3 and
    8 % scatter, 200 series a case): without a bend (growth 0, 0.4, 0.7, 1) 0 to 2 % had a knee;
    with a sharp one at 4, 8 or 12.5 all had, and the interval held it in 96 to 99 %; with a soft
    one at 4 all had, held in 90 and 95 %.
    """
    others = {} if fixed is None else {k: v for k, v in fixed.items() if k != factor}
    own = [p for p in points if all(p.levels.get(key) == one for key, one in others.items())]
    curve = _curve_of(own, metric, factor)
    found = Scaling(
        metric, METRIC_UNITS[metric], factor, others, _points(own, metric, factor),
        Shape.CANNOT_TELL, "",
    )  # fmt: skip
    lacking = _lacking(curve, own, metric)
    if lacking is not None:
        return replace(found, reason=lacking)
    return _judged(curve, replace(found, enough=_enough(found, margin)))


def _curve_of(points: Sequence[MeasuredPoint], metric: str, factor: str) -> Curve:
    sign = 1.0 if higher_is_better(metric) else -1.0
    x, y, rounds = [], [], []
    for point in points:
        amount = amount_of(point.levels.get(factor, "not set"))
        for number, value in enumerate(point.values.get(metric, ())):
            if value is not None and (not math.isfinite(value) or value < 0):
                raise ValueError(f"{value} cannot be judged")
            if value and amount is not None and amount > 0:
                x.append(math.log(amount))
                y.append(sign * math.log(value))
                rounds.append(number)
    return Curve(tuple(x), tuple(y), tuple(rounds))


def _points(points: Sequence[MeasuredPoint], metric: str, factor: str) -> tuple[ScalingPoint, ...]:
    found = []
    for point in points:
        amount = amount_of(point.levels.get(factor, "not set"))
        middle = geometric_mean(point, metric)
        if amount is not None and amount > 0 and middle is not None:  # -1 stripes are all of them
            n = sum(value is not None for value in point.values[metric])
            found.append(ScalingPoint(amount, middle, n))
    return tuple(sorted(found, key=lambda one: one.amount))


def _lacking(curve: Curve, points: Sequence[MeasuredPoint], metric: str) -> str | None:
    """Return what is missing for an answer; ``None`` when nothing."""
    if any(0 in point.values.get(metric, ()) for point in points):
        return "a run did not finish in its time: what it would have been is not known"
    amounts = len(set(curve.x))
    if amounts < AMOUNTS_MINIMUM:
        return f"{amounts} amounts were measured; a knee takes {AMOUNTS_MINIMUM}"
    if len(curve.x) < line_parameters(curve) + 5:  # two more for the bend, and Akaike's own three
        return f"{len(curve.x)} runs leave too little to tell chance by: it takes another round"
    return None


def _enough(found: Scaling, margin: float) -> float:
    sign = 1.0 if higher_is_better(found.metric) else -1.0
    best = max(sign * math.log(point.middle) for point in found.points)
    near = best + math.log(1 - margin)
    return min(point.amount for point in found.points if sign * math.log(point.middle) >= near)


def _judged(curve: Curve, found: Scaling) -> Scaling:
    """Return the curve with its shape, and the knee if there is one."""
    straight, slope, error = straight_line(curve)
    lines = broken_line(curve)
    probability = knee_p_value(curve, straight, lines.squares[lines.best])
    degrees = len(curve.x) - line_parameters(curve)
    half = t_quantile((1 + LEVEL) / 2, degrees) * error
    interval = Interval(slope - half, slope + half, LEVEL)
    found = replace(found, probability=probability, growth=slope)
    if probability >= _CHANCE:
        shape, reason = _shape_of_line(interval, slope, found)
        return replace(found, shape=shape, reason=reason, growth_interval=interval)
    fit = better_fit(curve, lines, saturating_curve(curve))
    before, after = fit.before[fit.best], fit.after[fit.best]
    within = knee_interval(curve, fit)
    knee = math.exp(fit.places[fit.best])
    where = f"about {_round(knee)} ({_in_words(within, fit)}) {found.factor}"
    found = replace(found, growth=before, growth_after=after)
    if after >= before / 2 or before <= _STILL_GROWING:
        shape = Shape.FALLING if after < 0 else Shape.FLAT
        if after > _STILL_GROWING:
            shape = Shape.GROWING
        reason = (
            f"no knee: at {where} the growth changes from {before:.2f} to {after:.2f} "
            "(1: twice as many, twice the rate)"
        )
        return replace(found, shape=shape, reason=reason)
    reason = _reason_of_knee(found, where, fit)
    return replace(found, shape=Shape.KNEE, reason=reason, knee=knee, knee_interval=within)


def _reason_of_knee(found: Scaling, where: str, fit: KneeFit) -> str:
    before, after = fit.before[fit.best], fit.after[fit.best]
    beyond = "it falls" if after < -_STILL_GROWING else "it hardly grows"
    if fit.soft:
        beyond = "it nears its limit, half of which it has at the knee"
    elif after > _STILL_GROWING:
        beyond = f"it grows with {after:.2f}"
    middles = [point.middle for point in found.points]
    own = next(point for point in found.points if point.amount == found.enough)
    share = own.middle / max(middles)
    if not higher_is_better(found.metric):
        share = min(middles) / own.middle
    return (
        f"knee at {where}: up to it the rate grows with {before:.2f} (1: twice as many, twice the "
        f"rate), beyond {beyond}; {_round(own.amount)} give {format_percent(share, 0)} of the best"
    )


def _shape_of_line(interval: Interval, slope: float, about: Scaling) -> tuple[Shape, str]:
    found = f"growth {slope:.2f} ({interval.low:.2f} to {interval.high:.2f})"
    least, most = (_round(about.points[place].amount) for place in (0, -1))
    within = f"no knee from {least} to {most} {about.factor}"
    if interval.high < -_STILL_GROWING:
        return Shape.FALLING, f"{within}: the more, the slower, {found}"
    if interval.low > _STILL_GROWING:
        return Shape.GROWING, f"{within}: it still grows at the end, {found}"
    if max(-interval.low, interval.high) <= 2 * _STILL_GROWING:
        why = "the limit was reached before, or lies elsewhere"
        return Shape.FLAT, f"{within}: it hardly changes, {found}; {why}"
    return Shape.CANNOT_TELL, f"{within} is shown, and whether it grows is not: {found}"


def _in_words(interval: Interval, fit: KneeFit) -> str:
    """Return a knee's interval; at the ends of what can be seen it says so."""
    low, high = _round(interval.low), _round(interval.high)
    if interval.low <= math.exp(fit.places[0]):
        low = f"{low} or less"
    if interval.high >= math.exp(fit.places[-1]):
        high = f"{high} or more"
    return f"{low} to {high}"


def _round(amount: float) -> str:
    """Return an amount with two figures and a half: 12, 3.5, 1048576."""
    if amount >= 100 or float(amount).is_integer():
        return f"{amount:.0f}"
    return f"{amount:.2g}" if amount < 10 else f"{amount:.0f}"
