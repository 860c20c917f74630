"""Residuals of each figure without the effects of its survey and its target.

Tukey's median polish (Exploratory Data Analysis, 1977) on logarithms::

    log rate[survey, target] = whole + survey effect + target effect + residual

A night in which every target was slow is in the survey effect, a target that is always slow is in
the target effect: a large residual is a target that was slow that night, and only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from trimtab.judge.arrays import Floats, medians
from trimtab.judge.targets.table import survey_table

_SWEEPS_MAXIMUM: Final = 20
_SETTLED: Final = 1e-4
"""Of a logarithm: a hundredth of a per cent."""


@dataclass(frozen=True, slots=True)
class MedianPolish:
    """A table taken apart; every figure is a logarithm.

    Attributes
    ----------
    survey_effects, target_effects
        Of each row and column, not a number for one without a positive value. Their medians are
        0.
    residuals
        Shape (surveys, targets); not a number where there is no positive value.
    """

    whole: float
    survey_effects: Floats
    target_effects: Floats
    residuals: Floats


def median_polish(values: Floats) -> MedianPolish:
    """Return a table of rates taken apart by median polish.

    Parameters
    ----------
    values
        Shape (surveys, targets). 0 (a silent target) has no logarithm: it is not polished, and
        does not pull at the others.
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


def robust_residuals(surveys: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return the deviation of each target from the level of its survey and its own.

    Parameters
    ----------
    surveys
        ``at`` (UTC), ``run``, ``target``, ``metric``, ``value`` in the metric's unit, and
        ``server`` where known; one row per target and survey.
    metric
        A key of `METRIC_UNITS`.

    Returns
    -------
    polars.DataFrame
        One row a measured target and survey, by time and target: ``at``, ``run``, ``target``,
        ``server``, ``value``, ``relative`` (over the median of its survey; null where that is 0),
        ``residual`` (logarithm; null for a value of 0) and ``z`` (residual over 1.4826 x the
        median absolute residual of the whole table; null where that is 0).
    """
    table = survey_table(surveys, metric)
    parts = median_polish(table.values)
    places = np.argwhere(np.isfinite(table.values))
    residuals = parts.residuals[places[:, 0], places[:, 1]]
    spread = _spread(residuals)
    middles = medians(table.values, 1)
    measured = table.values[places[:, 0], places[:, 1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = measured / middles[places[:, 0]]
        z = residuals / spread
    return pl.DataFrame(
        {
            "at": [table.at[row] for row in places[:, 0]],
            "run": [table.runs[row] for row in places[:, 0]],
            "target": [table.targets[column] for column in places[:, 1]],
            "server": [table.servers[column] for column in places[:, 1]],
            "value": measured,
            "relative": relative,
            "residual": residuals,
            "z": z,
        },
        schema_overrides={"at": pl.Datetime("us", "UTC"), "server": pl.String},
    ).with_columns(
        pl.when(pl.col(name).is_finite()).then(name).alias(name)
        for name in ("relative", "residual", "z")
    )


def _spread(residuals: Floats) -> float:
    """Return 1.4826 x the median absolute residual, not a number where it is 0 or there is none."""
    known = np.abs(residuals[np.isfinite(residuals)])
    spread = 1.4826 * float(np.median(known)) if known.size else 0.0
    return spread if spread > 0 else float("nan")
