"""Which rows of the layers are worth something: by the constants that move them.

A row that no constant moves follows from inputs. Of the others a row says nothing new whose
gradient over the constants lies in the span of the fitted rows' gradients: to first order its value
is theirs, whatever the mechanism between. Only what is left is a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Protocol

import numpy as np
from benchmarks.reproduction.statements import RowClass, needing
from numpy.typing import NDArray

from trimtab.twin.simulation.hardware import FITTED, TABLE, Constants

Array = NDArray[np.float64]
NAMES: Final = tuple(constant.name for constant in TABLE)
FITTED_ON: Final = tuple(
    target.id
    for target in needing("layers")
    if any(target.id in constant.fitted_on for constant in TABLE)
)
"""Rows that the fit of some constant may see. Most others say nothing new all the same."""
_STEP: Final = 1e-4
_ROUNDING: Final = 1e-6
"""Of a gradient: differences that small come from the step, not from the row."""


class Valued(Protocol):
    """What has a value."""

    @property
    def value(self) -> float:
        """The value."""
        ...


Predictions = Callable[[Constants], Mapping[str, Valued]]


@dataclass(frozen=True, slots=True)
class LayerClass:
    """What a row of the layers is worth if it is neither declared, fitted nor a bound.

    Attributes
    ----------
    rests_on
        Fitted rows of the constants that move it.
    """

    row_class: RowClass
    rests_on: tuple[str, ...]


@cache
def classes_of(predictions: Predictions) -> Mapping[str, LayerClass]:
    """Return the class of each row by its id."""
    gradients = jacobian(predictions)
    fitted = np.array([gradients[id] for id in FITTED_ON])
    # Whole numbers have no gradient, and pin no constant: they bound it.
    ways = jacobian(predictions, from_bound_to_bound=True)
    return {
        id: _class_of(gradient if gradient.any() else ways[id], fitted)
        for id, gradient in gradients.items()
    }


def jacobian(predictions: Predictions, *, from_bound_to_bound: bool = False) -> dict[str, Array]:
    """Return for each row how it moves with each constant, both on a logarithmic scale."""
    low, high = {}, {}
    for constant in TABLE:
        ends = constant.value * math.exp(-_STEP), constant.value * math.exp(_STEP)
        if from_bound_to_bound:
            ends = max(constant.low, _ROUNDING * constant.value), constant.high
        low[constant.name], high[constant.name] = (
            (predictions(replace(FITTED, **{constant.name: end})), math.log(end)) for end in ends
        )
    return {
        id: np.array([_slope(id, low[name], high[name]) for name in NAMES])
        for id in predictions(FITTED)
    }


def _slope(
    id: str, low: tuple[Mapping[str, Valued], float], high: tuple[Mapping[str, Valued], float]
) -> float:
    before, after = low[0][id].value, high[0][id].value
    if before == after or before * after <= 0.0:
        return 0.0
    return math.log(after / before) / (high[1] - low[1])


def rank(gradients: Sequence[Array]) -> int:
    """Return how many of these rows are independent.

    >>> rank([np.array([1.0, 0.0]), np.array([2.0, 0.0]), np.array([0.0, 1.0])])
    2
    """
    if not gradients:
        return 0
    return int(np.linalg.matrix_rank(np.array(gradients), tol=1e-4))


def spanned(gradient: Array, rows: Array) -> bool:
    """Return whether a gradient is a combination of those of other rows.

    >>> spanned(np.array([1.0, 1.0]), np.array([[1.0, 0.0], [0.0, 2.0]]))
    True
    >>> spanned(np.array([0.0, 0.0, 1.0]), np.array([[1.0, 0.0, 0.0]]))
    False
    """
    solution = np.linalg.lstsq(rows.T, gradient, rcond=1e-6)[0]
    left = gradient - rows.T @ solution
    return bool(np.linalg.norm(left) <= 1e-3 * np.linalg.norm(gradient))


def _class_of(gradient: Array, fitted: Array) -> LayerClass:
    moved_by = _moving(gradient)
    rests_on = tuple(
        id
        for id in FITTED_ON
        if any(id in constant.fitted_on for constant in TABLE if constant.name in moved_by)
    )
    if not moved_by or spanned(gradient, fitted):
        return LayerClass("identity", rests_on)
    return LayerClass("prediction", rests_on)


def _moving(gradient: Array) -> Collection[str]:
    least = _ROUNDING * float(np.abs(gradient).max(initial=0.0))
    return {name for name, slope in zip(NAMES, gradient, strict=True) if abs(slope) > least}
