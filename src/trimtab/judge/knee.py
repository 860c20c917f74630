"""Curves with a knee, fitted to rates on logarithmic axes and compared with a straight line.

::

    log rate                 ______            a broken line: two lines that meet at the knee, or
                          .-'                  a saturating curve: plateau x^b / (1 + x^b), whose
                        .'  knee               asymptotes meet at the knee x = 1
                      .'
                    .'        log amount

Every round of a sweep has its own intercept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from trimtab.judge.arrays import Floats
from trimtab.judge.quantiles import t_quantile
from trimtab.model.verdict import LEVEL, Interval

_SIMULATED: Final = 999
_PLACES: Final = 61
_GROWTHS: Final = tuple(0.1 + 0.05 * step for step in range(49))


@dataclass(frozen=True, slots=True)
class Curve:
    """Logarithms of amounts and rates, and the round of each."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    rounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KneeFit:
    """A fitted curve with a knee at each place tried; ``before`` and ``after`` are its slopes."""

    places: tuple[float, ...]
    squares: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    parameters: int
    soft: bool = False

    @property
    def best(self) -> int:
        """Index of the place with the smallest sum of squares."""
        return min(range(len(self.squares)), key=self.squares.__getitem__)


def line_parameters(curve: Curve) -> int:
    """Return the number of parameters of the straight line: an intercept per round, and a slope."""
    return 1 + len(set(curve.rounds))


def _design(curve: Curve, *columns: Floats) -> Floats:
    """Return a design matrix with an intercept per round and these columns."""
    numbers = sorted(set(curve.rounds))
    intercepts = np.array(
        [[number == of_column for of_column in numbers] for number in curve.rounds], dtype=float
    )
    return np.column_stack([intercepts, *columns])


def straight_line(curve: Curve) -> tuple[float, float, float]:
    """Return a straight line's residual sum of squares, slope and standard error of the slope."""
    design, y = _design(curve, np.asarray(curve.x)), np.asarray(curve.y)
    solution, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    squares = float(((y - design @ solution) ** 2).sum())
    degrees = max(1, len(y) - int(rank))
    inverse = np.linalg.pinv(design.T @ design)
    return squares, float(solution[-1]), math.sqrt(squares / degrees * float(inverse[-1, -1]))


def _places(curve: Curve) -> tuple[float, ...]:
    """Return the candidate places of a knee: from the second amount to the last but one."""
    amounts = sorted(set(curve.x))
    low, high = amounts[1], amounts[-2]
    even = [low + (high - low) * step / (_PLACES - 1) for step in range(_PLACES)]
    return tuple(sorted({*even, *amounts[1:-1]}))


def broken_line(curve: Curve) -> KneeFit:
    """Return the broken line: the best-fitting slopes at each place."""
    x, y = np.asarray(curve.x), np.asarray(curve.y)
    places, squares, before, after = _places(curve), [], [], []
    for place in places:
        design = _design(curve, np.minimum(x, place), np.maximum(x - place, 0.0))
        solution = np.linalg.lstsq(design, y, rcond=None)[0]
        squares.append(float(((y - design @ solution) ** 2).sum()))
        before.append(float(solution[-2]))
        after.append(float(solution[-1]))
    return KneeFit(places, tuple(squares), tuple(before), tuple(after), line_parameters(curve) + 2)


def saturating_curve(curve: Curve) -> KneeFit:
    """Return the saturating curve: the best-fitting growth at each place."""
    x, y = np.asarray(curve.x), np.asarray(curve.y)
    basis, _ = np.linalg.qr(_design(curve))
    places, squares, before = _places(curve), [], []
    for place in places:
        shapes = np.array([g * (x - place) - np.logaddexp(0.0, g * (x - place)) for g in _GROWTHS])
        left = y - shapes
        sums = (left**2).sum(axis=1) - ((left @ basis) ** 2).sum(axis=1)
        best = int(np.argmin(sums))
        squares.append(max(0.0, float(sums[best])))
        before.append(_GROWTHS[best])
    flat = (0.0,) * len(places)
    return KneeFit(
        places, tuple(squares), tuple(before), flat, line_parameters(curve) + 1, soft=True
    )


def better_fit(curve: Curve, lines: KneeFit, soft: KneeFit) -> KneeFit:
    """Return the curve with the lower Akaike information criterion, corrected for few runs."""
    return min((lines, soft), key=lambda fit: _criterion(curve, fit))


def _criterion(curve: Curve, fit: KneeFit) -> float:
    n, k = len(curve.y), fit.parameters + 1  # the scatter is a parameter too
    squares = max(fit.squares[fit.best], _nothing(curve))
    correction = 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf
    return n * math.log(squares / n) + 2 * k + correction


def _nothing(curve: Curve) -> float:
    """Return the sum of squares from rounding of the logarithms alone."""
    return len(curve.y) * (1e-12 * max(1.0, *(abs(value) for value in curve.y))) ** 2


def knee_interval(curve: Curve, fit: KneeFit) -> Interval:
    """Return the confidence interval of the knee: amounts with a sum of squares near the least."""
    least = max(fit.squares[fit.best], _nothing(curve))
    degrees = max(1, len(curve.y) - fit.parameters)
    limit = least * (1 + t_quantile((1 + LEVEL) / 2, degrees) ** 2 / degrees)
    squares = enumerate(fit.squares)
    within = [place for place, square in squares if square <= limit] or [fit.best]
    # The end is somewhere up to the next place tried.
    low, high = max(0, within[0] - 1), min(len(fit.places) - 1, within[-1] + 1)
    return Interval(math.exp(fit.places[low]), math.exp(fit.places[high]))


def knee_p_value(curve: Curve, straight: float, bent: float) -> float:
    """Return the p-value of a knee: how often noise about a straight line gains as much."""
    nothing = _nothing(curve)
    if straight <= nothing:
        return 1.0
    gain = straight / max(bent, nothing)
    gains = _gains_by_chance(curve.x, curve.rounds)
    return (1 + sum(by_chance >= gain for by_chance in gains)) / (1 + len(gains))


@lru_cache(maxsize=64)
def _gains_by_chance(x: tuple[float, ...], rounds: tuple[int, ...]) -> tuple[float, ...]:
    """Return the factors by which the best knee lowers the squares of noise about a straight line.

    The same for every straight line and scatter: only amounts and rounds matter. Seeded, so the
    same sweep always gives the same answer.
    """
    curve = Curve(x, (0.0,) * len(x), rounds)
    noise = np.random.default_rng(20).standard_normal((_SIMULATED, len(x)))
    total = (noise**2).sum(axis=1)

    def left(*columns: Floats) -> Floats:
        basis, _ = np.linalg.qr(_design(curve, *columns))
        return total - ((noise @ basis) ** 2).sum(axis=1)

    amounts = np.asarray(x)
    bent = np.min(
        [
            left(np.minimum(amounts, place), np.maximum(amounts - place, 0.0))
            for place in _places(curve)
        ],
        axis=0,
    )
    return tuple((left(amounts) / bent).tolist())
