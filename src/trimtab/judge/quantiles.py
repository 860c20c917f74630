"""Quantiles of the normal, chi-square and t distributions for any positive degrees of freedom.

scipy has them all. It also weighs 115 MB and takes 0.3 s of CPU to import, a third of the budget of
`trimtab status`, so the functions that verdicts need are here and in `distributions.py`. The tests
compare them with scipy.

Quantiles are found by bisection: some fifty halvings of a bracket that certainly contains the
answer, rather than fewer steps of a method that can diverge. Only `chi_square_quantiles`, which
computes many at once, uses Newton's steps, where they cannot diverge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from trimtab.judge.distributions import (
    gamma_lower,
    gamma_lower_and_density,
    log_gamma,
    t_above,
)

if TYPE_CHECKING:
    from trimtab.judge.arrays import Floats

_STANDARD_NORMAL = NormalDist()
_AT_ONCE = 8192
_STEPS_MAXIMUM = 100


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile.

    Examples
    --------
    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    return _STANDARD_NORMAL.inv_cdf(probability)


@lru_cache(maxsize=256)  # for the series at hand: degrees of freedom rarely repeat
def chi_square_quantile(probability: float, degrees: float) -> float:
    """Return the chi-square quantile for ``degrees`` of freedom, integer or not.

    Examples
    --------
    >>> round(chi_square_quantile(0.975, 7), 3)
    16.013
    """
    _require(probability, degrees)
    return bisected(lambda x: gamma_lower(degrees / 2, x / 2), probability, start=degrees)


@lru_cache(maxsize=256)  # for the series at hand: degrees of freedom rarely repeat
def t_quantile(probability: float, degrees: float) -> float:
    """Return the quantile of Student's t for ``degrees`` of freedom, integer or not.

    Examples
    --------
    >>> round(t_quantile(0.975, 7), 4), round(t_quantile(0.025, 7), 4)
    (2.3646, -2.3646)
    """
    _require(probability, degrees)
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    if probability == 0.5:
        return 0.0
    return bisected(lambda t: 1 - t_above(t, degrees), probability, start=2.0)


def _require(probability: float, degrees: float) -> None:
    if not 0 < probability < 1 or not 0 < degrees < math.inf:
        raise ValueError(f"no quantile for probability {probability}, {degrees} degrees of freedom")


def bisected(
    function: Callable[[float], float],
    wanted: float,
    *,
    start: float,
    within: float = 1e-13,
    most: float = math.inf,
) -> float:
    """Return where a function increasing from x = 0 reaches ``wanted``.

    Parameters
    ----------
    start
        First upper end of the bracket; doubled until it contains the answer or exceeds ``most``.
    within
        Relative width of the bracket that is narrow enough.
    """
    low, high = 0.0, start
    while function(high) < wanted and high < most:
        low, high = high, 2 * high
    while high - low > within * high and high > 1e-250:
        middle = (low + high) / 2
        if function(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def chi_square_quantiles(probability: float, degrees: Floats) -> Floats:
    """Return the chi-square quantile for each of many degrees of freedom, shape (n,).

    Notes
    -----
    Newton's steps for log P(a, x) as a function of log x. That function is concave and increasing,
    so every step from the left of the answer stays on the left, and one from the right moves there.
    The start is Wilson and Hilferty's cube (1931), or the bound P(a, x) <= x^a / Gamma(a + 1).
    """
    import numpy as np

    quantiles = np.empty(len(degrees))
    for begin in range(0, len(degrees), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        quantiles[part] = _chi_square_part(probability, np.asarray(degrees[part], dtype=float))
    return quantiles


def _chi_square_part(probability: float, degrees: Floats) -> Floats:
    import numpy as np

    shape, goal = degrees / 2, math.log(probability)
    scale = log_gamma(shape)
    variance = 2 / (9 * degrees)
    cube = 1 - variance + normal_quantile(probability) * np.sqrt(variance)
    least = (goal + scale + np.log(shape)) / shape
    with np.errstate(invalid="ignore", divide="ignore"):
        place = np.fmax(least, np.log(shape * cube**3))
    open_ = np.arange(len(degrees))
    for _ in range(_STEPS_MAXIMUM):
        a, u = shape[open_], place[open_]
        lower, density = gamma_lower_and_density(a, np.exp(u), u, scale[open_])
        step = (goal - np.log(lower)) * lower / density
        place[open_] = u + step
        open_ = open_[np.abs(step) > 1e-14 * np.maximum(1.0, np.abs(u))]
        if not len(open_):
            break
    return 2 * np.exp(place)
