"""Probabilities and quantiles of the distributions that verdicts need, without scipy.

scipy has them all. It also weighs 115 MB and takes 0.3 s of CPU to import, a third of the budget of
`trimtab status`. The tests compare everything here with scipy.

The regularised incomplete gamma and beta functions use the power series and continued fractions of
the NIST Digital Library of Mathematical Functions (8.7.1, 8.9.2, 8.17.22). The leading factor
follows C. Loader, "Fast and accurate computation of binomial probabilities" (2000) if both
parameters are large: differences of log-gamma functions would lose its digits.

Quantiles are found by bisection: some fifty halvings of a bracket that certainly contains the
answer, rather than fewer steps of a method that can diverge. Only `chi_square_quantiles`, which
computes many at once, uses Newton's steps, where they cannot diverge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.judge.array import Floats, Ints


_TINY: Final = 1e-300
_TERMS_MAXIMUM: Final = 100_000
_LARGE: Final = 10.0
"""From here Stirling's series with the coefficients below is exact to the last bit or two."""
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_HALF_LOG_TWO_PI: Final = 0.5 * math.log(2 * math.pi)


def gamma_lower(shape: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function P(shape, x).

    Raises
    ------
    ArithmeticError
        The series does not converge.
    """
    if x <= 0:
        return 0.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:  # the series converges fast here, the continued fraction does not
        term = total = 1 / shape
        for step in range(1, _TERMS_MAXIMUM):
            term *= x / (shape + step)
            total += term
            if term < total * 1e-16:
                return front * total
        raise ArithmeticError(f"no convergence at {shape=}, {x=}")

    def terms() -> Iterator[tuple[float, float]]:
        for step in range(1, _TERMS_MAXIMUM):
            yield step * (shape - step), x + 2 * step + 1 - shape

    return 1 - front / _continued_fraction(x + 1 - shape, terms())


def beta_lower(x: float, a: float, b: float, *, rest: float | None = None) -> float:
    """Return the regularised incomplete beta function I(x; a, b).

    Parameters
    ----------
    rest
        1 - x, if known more precisely than by subtraction.

    Raises
    ------
    ArithmeticError
        The continued fraction does not converge.

    Examples
    --------
    >>> round(beta_lower(0.3, 2, 5), 6), beta_lower(0.0, 2, 5), beta_lower(1.0, 2, 5)
    (0.579825, 0.0, 1.0)
    """
    rest = 1 - x if rest is None else rest
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    front = _beta_front(x, rest, a, b)
    if x < (a + 1) / (a + b + 2):
        return front / (a * _continued_fraction(1.0, _beta_terms(a, b, x)))
    return 1 - front / (b * _continued_fraction(1.0, _beta_terms(b, a, rest)))


def _beta_front(x: float, rest: float, a: float, b: float) -> float:
    """Return x^a (1 - x)^b / B(a, b)."""
    if min(a, b) < _LARGE:
        gammas = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        return math.exp(a * math.log(x) + b * math.log(rest) + gammas)
    both = a + b
    surplus = (x * b - rest * a) / both  # x - a / both, without its rounding
    exponent = a * math.log1p(surplus * both / a) + b * math.log1p(-surplus * both / b)
    error = _stirling_error(both) - _stirling_error(a) - _stirling_error(b)
    return math.sqrt(a * b / (2 * math.pi * both)) * math.exp(exponent + error)


def _stirling_error(z: float) -> float:
    """Return log Gamma(z) minus Stirling's formula, for z of at least `_LARGE`."""
    return sum(c / z ** (2 * power + 1) for power, c in enumerate(_STIRLING))


def _beta_terms(a: float, b: float, x: float) -> Iterator[tuple[float, float]]:
    for step in range(_TERMS_MAXIMUM):
        yield -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)), 1.0
        even = step + 1
        yield even * (b - even) * x / ((a + 2 * even - 1) * (a + 2 * even)), 1.0


def _continued_fraction(first: float, terms: Iterator[tuple[float, float]]) -> float:
    """Return first + a1/(b1 + a2/(b2 + ...)) for ``terms`` (a, b), by Lentz's method."""
    value = first or _TINY
    upper, lower = value, 0.0
    for numerator, denominator in terms:
        lower = 1 / (denominator + numerator * lower or _TINY)
        upper = denominator + numerator / upper or _TINY
        factor = upper * lower
        value *= factor
        if abs(factor - 1) < 1e-15:
            return value
    raise ArithmeticError("a continued fraction did not converge")


def binomial_above(count: float, trials: float, chance: float) -> float:
    """Return the probability of more than ``count`` hits in ``trials`` at ``chance`` each.

    NaN for more hits than trials.

    Examples
    --------
    >>> round(binomial_above(2, 10, 0.1), 6), binomial_above(-1, 10, 0.1)
    (0.070191, 1.0)
    """
    if count < 0:
        return 1.0
    if count >= trials:
        return 0.0 if count == trials else math.nan
    if count == 0:
        return -math.expm1(trials * math.log1p(-chance)) if chance < 1 else 1.0
    return beta_lower(chance, count + 1, trials - count)


def binomials_above(counts: Ints, trials: Ints, chance: float) -> Floats:
    """Return `binomial_above` for each pair of two arrays of the same shape (n,)."""
    import numpy as np

    pairs, places = np.unique(np.stack([counts, trials]), axis=1, return_inverse=True)
    above = [binomial_above(count, of, chance) for count, of in pairs.T.tolist()]
    return np.array(above, dtype=float)[places.reshape(-1)]


def beta_binomial_above(count: int, trials: int, a: float, b: float) -> float:
    """Return the probability of at least ``count`` hits with a Beta(a, b) distributed chance.

    Notes
    -----
    Sums logarithms of the ratios of successive terms: log-gamma functions of large ``a`` and ``b``
    would lose the digits of their difference.
    """
    import numpy as np

    steps = np.arange(trials)
    none = float(np.log((b + steps) / (a + b + steps)).sum())
    ratios = np.log((trials - steps) / (steps + 1) * (a + steps) / (b + trials - 1 - steps))
    logs = none + np.concatenate(([0.0], np.cumsum(ratios)))
    return min(1.0, float(np.exp(logs[count:]).sum()))


def f_above(ratio: float, numerator: float, denominator: float) -> float:
    """Return the probability that F with these degrees of freedom exceeds ``ratio``.

    Examples
    --------
    >>> round(f_above(3.0, 2, 10), 6)
    0.095367
    """
    if ratio <= 0:
        return 1.0
    whole = denominator + numerator * ratio
    return beta_lower(
        denominator / whole, denominator / 2, numerator / 2, rest=numerator * ratio / whole
    )


def t_above(t: float, degrees: float) -> float:
    """Return the probability that Student's t exceeds ``t`` >= 0.

    Examples
    --------
    >>> round(t_above(2.0, 10), 6)
    0.036694
    """
    square = t * t
    x, rest = degrees / (degrees + square), square / (degrees + square)
    return 0.5 * beta_lower(x, degrees / 2, 0.5, rest=rest)


def normal_lower(values: Floats) -> Floats:
    """Return the standard normal distribution function of each value, of any shape."""
    import numpy as np

    erfc = np.frompyfunc(math.erfc, 1, 1)
    return np.asarray(erfc(values * -math.sqrt(0.5)), dtype=np.float64) / 2


def log_gamma(z: Floats) -> Floats:
    """Return the logarithm of the gamma function of each z > 0, shape (n,)."""
    import numpy as np

    shifted = np.where(z < _LARGE, z + _LARGE, z)
    inverse = 1 / shifted
    error = np.zeros_like(shifted)
    for coefficient in reversed(_STIRLING):
        error = error * inverse**2 + coefficient
    logs = (shifted - 0.5) * np.log(shifted) - shifted + _HALF_LOG_TWO_PI + error * inverse
    steps = np.arange(int(_LARGE))
    product = (z[:, None] + steps).prod(axis=1, where=(z < _LARGE)[:, None])
    return logs - np.log(product)


def gamma_lower_and_density(
    shape: Floats, x: Floats, log_x: Floats, scale: Floats
) -> tuple[Floats, Floats]:
    """Return P(shape, x) and x times its derivative for each pair, shape (n,).

    Parameters
    ----------
    scale
        `log_gamma` of each shape.
    """
    import numpy as np

    density = np.exp(shape * log_x - x - scale)
    lower = np.empty_like(x)
    near = x < shape + 1
    lower[near] = density[near] * _gamma_series(shape[near], x[near])
    far = ~near
    lower[far] = 1 - density[far] * _gamma_fraction(shape[far], x[far])
    return lower, density


def _gamma_series(shape: Floats, x: Floats) -> Floats:
    """Return P(shape, x) over its density, elementwise."""
    import numpy as np

    totals, open_ = np.empty_like(x), np.arange(len(x))
    term = 1 / shape
    total = term.copy()
    for step in range(1, _TERMS_MAXIMUM):
        if not len(open_):
            return totals
        term = term * x / (shape + step)
        total = total + term
        if step % 8 == 0:
            more = term >= total * 1e-16
            totals[open_[~more]] = total[~more]
            open_ = open_[more]
            shape, x, term, total = (each[more] for each in (shape, x, term, total))
    raise ArithmeticError("the series of the incomplete gamma function did not converge")


def _gamma_fraction(shape: Floats, x: Floats) -> Floats:
    """Return Q(shape, x) over its density, by Lentz's method, elementwise like `_gamma_series`."""
    import numpy as np

    values, open_ = np.empty_like(x), np.arange(len(x))
    value = x + 1 - shape
    upper, lower = value.copy(), np.zeros_like(x)
    for step in range(1, _TERMS_MAXIMUM):
        if not len(open_):
            return 1 / values
        numerator, denominator = step * (shape - step), x + 2 * step + 1 - shape
        lower = 1 / (denominator + numerator * lower)
        upper = denominator + numerator / upper
        factor = upper * lower
        value = value * factor
        if step % 8 == 0:
            more = np.abs(factor - 1) >= 1e-15
            values[open_[~more]] = value[~more]
            open_ = open_[more]
            shape, x, value, upper, lower = (each[more] for each in (shape, x, value, upper, lower))
    raise ArithmeticError("the fraction of the incomplete gamma function did not converge")


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
