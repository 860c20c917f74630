"""The uncertainty of a rate, and the ratio of two rates.

Two kinds of uncertainty are kept apart. A printed figure may be anything that rounds to it: its
interval is certain and has no confidence level, and ratios use interval arithmetic. A measured
rate has repetitions: its interval is a confidence interval, and ratios are taken on log values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, stdev
from typing import Final

from trimtab.judge.bootstrap import N_MINIMUM, ratio_interval, series_interval
from trimtab.judge.quantiles import t_quantile
from trimtab.model.hardware import Figure
from trimtab.model.ladder import Basis, Estimate
from trimtab.model.verdict import LEVEL

_HALF_MAXIMUM: Final = 50.0
"""On log values: 22 powers of ten either way mean that nothing is known, and stay finite."""


def of_figure(figure: Figure, *, exact: bool = False) -> Estimate:
    """Return a printed figure as a rate; ``exact`` ones are exact by definition (a line rate)."""
    if exact:
        return Estimate(figure.middle, figure.middle, figure.middle)
    low, high = figure.possible()
    return Estimate(figure.middle, low, high, Basis.ROUNDING)


def of_values(values: Sequence[float], basis: Basis) -> Estimate:
    """Return the median of repetitions or runs, by time, with its interval.

    Raises
    ------
    ValueError
        There are no values, or one is not positive and finite.

    Notes
    -----
    From `N_MINIMUM` values the interval is a block bootstrap. Below, log values are assumed normal:
    the half-width is t(n - 1) s sqrt(pi / (2 n)), where pi / 2 is the cost of a median relative to
    a mean. One value has no interval.
    """
    if not values or not all(0 < value < math.inf for value in values):
        raise ValueError("a rate has positive, finite values")
    middle = median(values)
    if len(values) < 2:
        return Estimate(middle, basis=basis, values=tuple(values))
    interval = series_interval(values)
    if interval is not None and interval.low > 0:
        low, high = interval.low, interval.high
    else:
        half = t_quantile((1 + LEVEL) / 2, len(values) - 1) * math.sqrt(_variance(values))
        half = min(half, _HALF_MAXIMUM)
        low, high = middle * math.exp(-half), middle * math.exp(half)
    return Estimate(middle, low, high, basis, LEVEL, tuple(values))


def scaled(rate: Estimate, factor: float) -> Estimate:
    """Return the rate scaled by a factor of hardware, including interval and values."""
    low = None if rate.low is None else rate.low * factor
    high = None if rate.high is None else rate.high * factor
    values = tuple(value * factor for value in rate.values)
    return Estimate(rate.value * factor, low, high, rate.basis, rate.level, values)


def ratio(above: Estimate, beneath: Estimate) -> Estimate:
    """Return one rate as a fraction of another, with its uncertainty.

    Notes
    -----
    With `N_MINIMUM` values or more on both sides: independent block bootstraps of the two medians.
    With fewer, but at least two each: Welch's interval on log values, degrees of freedom after
    Satterthwaite. If only one has values, the other's interval counts as certain bounds (a data
    sheet, a printed figure), which is cautious. If one has no interval, neither has the ratio.
    """
    value = above.value / beneath.value
    if min(len(above.values), len(beneath.values)) >= 2:
        interval = ratio_interval(above.values, beneath.values)
        if interval is not None and min(len(above.values), len(beneath.values)) >= N_MINIMUM:
            low, high = interval.low, interval.high
        else:
            half = _welch(above.values, beneath.values)
            low, high = value * math.exp(-half), value * math.exp(half)
        basis = Basis.RUNS
        if Basis.REPETITIONS in (above.basis, beneath.basis):
            basis = Basis.REPETITIONS
        return Estimate(value, low, high, basis, LEVEL)
    if above.low is None or above.high is None or beneath.low is None or beneath.high is None:
        return Estimate(value)
    basis = above.basis if above.basis is not Basis.STATED else beneath.basis
    level = beneath.level if above.level is None else above.level
    return Estimate(value, above.low / beneath.high, above.high / beneath.low, basis, level)


def _variance(values: Sequence[float]) -> float:
    """Return the variance of the log of the median of independent values."""
    spread = stdev(math.log(value) for value in values)
    return spread * spread * math.pi / (2 * len(values))


def _welch(above: Sequence[float], beneath: Sequence[float]) -> float:
    """Return the half-width of the interval of the log ratio of two medians."""
    variances = [_variance(values) for values in (above, beneath)]
    total = math.fsum(variances)
    if total == 0:
        return 0.0
    degrees = (
        total
        * total
        / math.fsum(
            variance * variance / (len(values) - 1)
            for variance, values in zip(variances, (above, beneath), strict=True)
        )
    )
    return min(t_quantile((1 + LEVEL) / 2, degrees) * math.sqrt(total), _HALF_MAXIMUM)
