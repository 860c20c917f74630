"""Residuals of each figure after removing the effects of its survey and its target.

Tukey's median polish (Exploratory Data Analysis, 1977) on logarithms::

    log rate[survey, target] = whole + survey effect + target effect + residual

A night in which every target was slow is in the survey effect, a target that is always slow is in
the target effect: a large residual is a target that was slow in that night only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.judge.arrays import Floats, medians

_SWEEPS_MAXIMUM: Final = 20
_SETTLED: Final = 1e-4
"""Of a logarithm: a hundredth of a per cent."""


@dataclass(frozen=True, slots=True)
class MedianPolish:
    """A decomposed table; every figure is a logarithm.

    Attributes
    ----------
    survey_effects, target_effects
        Effect of each row and column, NaN for one without a positive value. Their medians are 0.
    residuals
        Shape (surveys, targets); NaN if there is no positive value.
    """

    whole: float
    survey_effects: Floats
    target_effects: Floats
    residuals: Floats


def median_polish(values: Floats) -> MedianPolish:
    """Return a table of rates decomposed by median polish.

    Parameters
    ----------
    values
        Shape (surveys, targets). 0 (a silent target) has no logarithm: it is excluded and does not
        affect the others.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = np.where(values > 0, np.log(values), np.nan)
    rows, columns = np.zeros(values.shape[0]), np.zeros(values.shape[1])
    for _ in range(_SWEEPS_MAXIMUM):
        by_row = medians(residuals, 1)
        residuals = residuals - by_row[:, None]
        by_column = medians(residuals, 0)
        residuals = residuals - by_column[None, :]
        rows, columns = rows + by_row, columns + by_column
        moved = np.concatenate([by_row, by_column])
        if not np.any(np.abs(moved[np.isfinite(moved)]) > _SETTLED):
            break
    middles = [float(medians(effects, 0)) if effects.size else 0.0 for effects in (rows, columns)]
    middles = [middle if np.isfinite(middle) else 0.0 for middle in middles]
    return MedianPolish(sum(middles), rows - middles[0], columns - middles[1], residuals)
