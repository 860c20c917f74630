"""Weekly seasonality of a series, shrunk towards none if the runs do not support it.

Three layers, each fitted to the residuals of the previous one: a weekly wave (three harmonics), a
daily profile, single hours of the week. Each is shrunk by the amount that chance alone would show.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from trimtab.judge.arrays import Floats, Ints, median
from trimtab.judge.changes.noise import Noise
from trimtab.judge.changes.runs import HOURS_A_WEEK

WEEKS_MINIMUM: Final = 2
"""Weeks of history before seasonality is removed: a pattern seen once is not seasonal."""

HOURS_WEEKS_MINIMUM: Final = 4
"""Weeks before a single hour of the week may have its own level."""

_MANY: Final = 10_000
"""Runs from which medians of parts cost less than sorting all."""
_WAVES: Final = (1, 2, 3)
_DAY_WAVES: Final = (7, 14)
_WEEKEND: Final = 5 * 24
_CELL_ERRORS: Final = 3.0


def weekly_seasonality(clipped: Floats, hour: Ints, week: Ints, noise: Noise) -> Floats:
    """Return the effect of each hour of the week on a run, in scales; an array of 168.

    Parameters
    ----------
    clipped
        Residuals around their level, in scales; NaN for an unfinished run.
    hour
        Hour of the week of each.
    week
        The 168 h stretch of each, from 0. Each has its own level, so only a stretch in which a
        level changed can mistake that for a rhythm.
    """
    seen = ~np.isnan(clipped)
    left, hour, week = clipped[seen], hour[seen], week[seen]
    counts = np.maximum(np.bincount(week), 1)
    left = left - (np.bincount(week, weights=left) / counts)[week]
    seasonality = np.zeros(HOURS_A_WEEK)
    for layer in (_of_day_and_weekend, _wave, _single_hours):
        if layer is _single_hours and week.max() + 1 < HOURS_WEEKS_MINIMUM:
            break
        effect = layer(left, hour, noise)
        seasonality, left = seasonality + effect, left - effect[hour]
    return seasonality


def waves(hour: Ints) -> Floats:
    """Return sine and cosine of the first weekly and daily waves, one column each."""
    angle = 2 * math.pi / HOURS_A_WEEK * np.outer(hour, (*_WAVES, *_DAY_WAVES))
    return np.hstack([np.cos(angle), np.sin(angle)])


def _wave(left: Floats, hour: Ints, noise: Noise) -> Floats:
    angle = 2 * math.pi / HOURS_A_WEEK * np.outer(np.arange(HOURS_A_WEEK), _WAVES)
    table = np.hstack([np.cos(angle), np.sin(angle)])
    columns = table[hour]
    middle = left - left.mean()
    gram = columns.T @ columns + 1e-6 * len(left) * np.eye(columns.shape[1])
    fitted = np.linalg.solve(gram, columns.T @ middle)
    phi = noise.autocorrelation
    spectrum = float(np.var(left)) * (1 + phi) / (1 - phi) * noise.slow
    power = fitted[: len(_WAVES)] ** 2 + fitted[len(_WAVES) :] ** 2
    # Chance gives a wave a mean power of 4 / n of the spectrum: twice that counts as nothing.
    shrinkage = np.maximum(0.0, 1 - 8 * spectrum / len(left) / np.maximum(power, 1e-12))
    return table @ (fitted * np.tile(shrinkage, 2))


def _of_day_and_weekend(left: Floats, hour: Ints, noise: Noise) -> Floats:
    """Return the daily profile, one for Monday to Friday and one for the weekend."""
    weekend = hour >= _WEEKEND
    middles, counts = _medians(left, hour % 24 + 24 * weekend, 48)
    known = counts >= 3
    if known.sum() < 24:
        return np.zeros(HOURS_A_WEEK)
    chance = 1.57 * float(np.var(left)) * float(np.mean(1 / counts[known]))
    about = np.where(known, middles - middles[known].mean(), 0.0)
    spread = float(np.var(about[known]))
    about *= max(0.0, 1 - 1.5 * chance / spread) if spread > 0 else 0.0
    return np.concatenate([np.tile(about[:24], 5), np.tile(about[24:], 2)])


def _single_hours(left: Floats, hour: Ints, noise: Noise) -> Floats:
    middles, counts = _medians(left, hour, HOURS_A_WEEK)
    error = 1.25 * float(np.std(left)) / np.sqrt(np.maximum(counts, 1))
    size = np.maximum(0.0, np.abs(middles) - _CELL_ERRORS * error)
    return np.where(counts >= 3, np.sign(middles) * size, 0.0)


def _medians(left: Floats, groups: Ints, number: int) -> tuple[Floats, Ints]:
    """Return the median of each group (0 if empty) and its size."""
    counts = np.bincount(groups, minlength=number)
    ends = np.cumsum(counts)
    if len(left) > _MANY:
        # Small integers sort in linear time, and the median of a part needs no sorting.
        together = left[np.argsort(groups.astype(np.int16), kind="stable")]
        parts = [together[end - n : end] for n, end in zip(counts, ends, strict=True)]
        return np.array([median(part) if len(part) else 0.0 for part in parts]), counts
    ordered = left[np.lexsort((left, groups))]
    begin = ends - counts
    low = np.minimum(begin + np.maximum(counts - 1, 0) // 2, len(left) - 1)
    high = np.minimum(begin + counts // 2, len(left) - 1)
    return np.where(counts > 0, (ordered[low] + ordered[high]) / 2, 0.0), counts
