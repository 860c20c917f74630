"""How odds become confidence: the logistic curve that fits what was true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

FITTED_FROM: Final = -2.0
"""log10 odds. What is less likely is never listed, and there are very many of those."""
STEP_MOST: Final = 0.2


def fit(seen: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    """Return intercept and slope of the logistic curve through natural log odds and truth.

    ``seen`` holds log10 odds and truth.

    Newton's method on the likelihood of what could be listed at all (`FITTED_FROM`), its steps
    bounded, with a faint pull towards (0, 1) that keeps it finite.
    """
    points = [
        (log_odds * math.log(10), true)
        for log_odds, true in seen
        if FITTED_FROM <= log_odds < math.inf
    ]
    intercept, slope = 0.0, 1.0
    for _ in range(200):
        gradient, hessian = [-0.5 * intercept, -0.5 * (slope - 1)], [0.5, 0.0, 0.5]
        for x, true in points:
            p = 1 / (1 + math.exp(-max(-50.0, min(50.0, intercept + slope * x))))
            gradient[0] += true - p
            gradient[1] += (true - p) * x
            weight = p * (1 - p)
            hessian = [
                hessian[0] + weight, hessian[1] + weight * x, hessian[2] + weight * x * x
            ]  # fmt: skip
        determinant = hessian[0] * hessian[2] - hessian[1] ** 2
        step = (hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant
        tilt = (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant
        intercept += max(-STEP_MOST, min(STEP_MOST, step))
        slope += max(-STEP_MOST, min(STEP_MOST, tilt))
    return intercept, slope
