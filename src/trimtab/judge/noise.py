"""Scatter, autocorrelation and weekly seasonality of a series, undistorted by level changes.

Over a whole series, every step adds to the spread and drives the autocorrelation towards 1. Both
are therefore estimated around the means of blocks of a few days, of which only one contains a step,
and the median over the blocks is used. Everything is measured on residuals clipped the way the
detectors see them: of 3 % dips and of heavy tails only the clipped part.

Correlation that is not AR(1) shows in daily means, which then scatter more than the
autocorrelation predicts: `SeriesNoise.slow`.

Weekly seasonality has three layers, each fitted to the residuals of the previous one: a weekly wave
(three harmonics), a daily profile, single hours of the week. Each is shrunk by the amount that
chance alone would show, towards none if the runs do not support it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trimtab.judge.array import Bools, Floats, Ints, median, scatter
from trimtab.judge.change import HOURS_A_WEEK

CLIP: Final = 3.5
"""Clipping limit of a residual, in scales: an unfinished run weighs as much, and no dip more."""

CLIP_WHITE: Final = 2.5
"""The same for a whitened residual, in units of its scale without clipping."""

STRANGE: Final = 3.0
"""Distance from the prediction, in scales, from which a run is an isolated event."""

SCALE_MINIMUM: Final = 1e-3
"""Runs equal to a tenth of a per cent count as equal: no smaller change is of interest."""

AUTOCORRELATION_MAXIMUM: Final = 0.95

_PRIOR: Final = 0.4
_PRIOR_RUNS: Final = 24
"""Prior autocorrelation, and its weight in runs."""

_BLOCK_OF_MEMORY: Final = 120
_BLOCK: Final = 24
"""Runs per block: five days of hourly runs, and one day."""

_TAIL: Final = 0.015
_NORMAL_TAIL: Final = 2.17
"""Quantile that measures the tails, and its normal value: further out there are too few independent
sums in two months, further in there is no tail."""

SPLIT: Final = 6.0
"""Standard errors from which two levels within a short history are separated for its noise."""

SPLIT_RUNS: Final = (6, 3)
"""Runs before such a split, and after it. Their noise is that around both levels together."""

_TRIM: Final = 4.0
"""Maximum weight, in scales, of a change between two blocks: there may be a step."""


@dataclass(frozen=True, slots=True)
class SeriesNoise:
    """The behaviour of a series when nothing happens.

    Attributes
    ----------
    scale
        Robust standard deviation of the heights around their level: approximately a fraction.
    autocorrelation
        Between neighbouring runs, 0 to 0.95, on the cautious side.
    aftermath
        Share of it that remains after an isolated event: 0 after dips, 1 after shocks.
    innovation
        Standard deviation of the whitened residuals, in scales.
    runs, hours
        How much further sums of 3 and of 12 whitened residuals reach, down and up, than normal
        ones, squared; at least 1. Bad hours come together, and slow ones are slower than fast ones
        are fast.
    slow
        Excess variance of sums of 24 relative to independent ones, at least 1.
    """

    scale: float
    autocorrelation: float
    aftermath: float
    innovation: float
    runs: tuple[float, float]
    hours: tuple[float, float]
    slow: float

    @property
    def longest(self) -> float:
        """Excess variance of sums over a day and longer relative to independent ones."""
        return max(self.slow, *self.hours)


def noise_of(heights: Floats) -> SeriesNoise:
    """Return the noise of heights by time, without levels; NaN for an unfinished run."""
    finished = heights[~np.isnan(heights)]
    scale = max(SCALE_MINIMUM, _spread(finished))
    clipped = residuals(finished, 0.0, scale)
    rough = _autocorrelation(clipped, clipped, STRANGE)
    aftermath = _aftermath(clipped, rough)
    phi = _cautious(
        _autocorrelation(clipped, _known(clipped, rough, aftermath)[0], CLIP), len(clipped)
    )
    first = SeriesNoise(scale, phi, aftermath, 1.0, (1.0, 1.0), (1.0, 1.0), 1.0)
    white = whitened(residuals(heights, 0.0, scale), first)
    innovation = max(0.1, _local_deviation(white))
    return replace(
        first,
        innovation=innovation,
        runs=_tails(white, innovation, 3),
        hours=_tails(white, innovation, 12),
        slow=_excess(white, innovation, _BLOCK),
    )


def split_of(heights: Floats) -> int | None:
    """Return the first run of a second level that exceeds its own noise; ``None``: one level.

    In a short history a change not yet reported is in every block: it would hide in the noise it
    creates. The best split of the ranks (A. N. Pettitt, Applied Statistics 28 (1979)) counts if the
    two levels are `SPLIT` standard errors apart in the noise around each of them.

    Parameters
    ----------
    heights
        By time; NaN for an unfinished run, which is the lowest.
    """
    n = len(heights)
    if n < sum(SPLIT_RUNS):
        return None
    order = np.argsort(np.argsort(np.nan_to_num(heights, nan=-np.inf), kind="stable"))
    before = np.arange(SPLIT_RUNS[0], n - SPLIT_RUNS[1] + 1)
    sums = np.cumsum(order - (n - 1) / 2)[before - 1]
    split = int(before[np.argmax(np.abs(sums) / np.sqrt(before * (n - before)))])
    sides = [side[np.isfinite(side)] for side in (heights[:split], heights[split:])]
    if any(len(side) < least for side, least in zip(sides, SPLIT_RUNS, strict=True)):
        return None
    levels = [median(side) for side in sides]
    about = np.concatenate([side - level for side, level in zip(sides, levels, strict=True)])
    noise = noise_of(about)
    runs = sum(1 / len(side) for side in sides)
    phi = noise.autocorrelation
    error = noise.scale * math.sqrt(runs * (1 + phi) / (1 - phi))
    return split if abs(levels[1] - levels[0]) >= SPLIT * error else None


def residuals(heights: Floats, level: float | Floats, scale: float) -> Floats:
    """Return heights about a level in scales, clipped at `CLIP`; unfinished runs are the worst."""
    clipped = np.clip((heights - level) / scale, -CLIP, CLIP)
    clipped[np.isnan(clipped)] = -CLIP
    return clipped


def whitened(clipped: Floats, noise: SeriesNoise) -> Floats:
    """Return each residual minus its prediction from the previous one; one value fewer."""
    phi = noise.autocorrelation
    deviation = math.sqrt(1 - phi * phi)
    known, _ = _known(clipped, phi, noise.aftermath)
    limit = CLIP_WHITE * deviation
    return np.clip(clipped[1:] - phi * known[:-1], -limit, limit)


def _known(clipped: Floats, phi: float, aftermath: float) -> tuple[Floats, Bools]:
    """Return each residual's prediction of the next one, and which were isolated events."""
    promised = phi * clipped[:-1]
    strange = np.abs(clipped[1:] - promised) > STRANGE * math.sqrt(1 - phi * phi)
    known = clipped.copy()
    known[1:][strange] = (promised + aftermath * (clipped[1:] - promised))[strange]
    return known, np.concatenate(([False], strange))


def _aftermath(clipped: Floats, phi: float) -> float:
    """Return the share of the correlation that remains after an isolated event, 0 to 1.

    A dip is gone with the next run; a shock to the file system decays like everything else.
    """
    promised = phi * clipped[:-2]
    jump = clipped[1:-1] - promised
    strange = np.abs(jump) > STRANGE * math.sqrt(1 - phi * phi)
    followed = (clipped[2:] - phi * promised)[strange] * np.sign(jump[strange])
    size = phi * np.abs(jump[strange])
    prior = 2 * STRANGE * phi
    share = (followed.sum() + 0.5 * prior) / max(size.sum() + prior, 1e-9)
    return min(max(float(share), 0.0), 1.0)


def _spread(finished: Floats) -> float:
    if len(finished) < 2:
        return 0.0
    return scatter(finished)


def _autocorrelation(clipped: Floats, known: Floats, limit: float) -> float:
    """Return the regression of each run on its prediction ``known``, 0 to 0.95."""
    n = len(clipped)
    length = min(_BLOCK_OF_MEMORY, max(n, 1))
    blocks = n // length
    parts, before = (
        series[n - blocks * length :].reshape(blocks, length) for series in (clipped, known)
    )
    middles = np.median(before, axis=1, keepdims=True)
    usual = np.abs(parts - middles) <= limit
    centre = np.sum(before * usual, axis=1, keepdims=True) / np.maximum(
        1, usual.sum(axis=1, keepdims=True)
    )
    before, after = (before - centre)[:, :-1], (parts - centre)[:, 1:]
    pairs = usual[:, 1:] & usual[:, :-1]
    squares = np.sum(before * before * pairs, axis=1)
    products = np.sum(before * after * pairs, axis=1)
    moved = squares > 0
    if length <= 8 or not moved.any():
        return _PRIOR
    raw = median(products[moved] / squares[moved])
    # F. H. C. Marriott and J. A. Pope, Biometrika 41 (1954): the bias from a block's own mean.
    return min(max((length * raw + 1) / (length - 4), 0.0), AUTOCORRELATION_MAXIMUM)


def _cautious(phi: float, n: int) -> float:
    """Return phi shrunk towards its usual value while there are few runs, plus a margin."""
    weighed = (n * phi + _PRIOR_RUNS * _PRIOR) / (n + _PRIOR_RUNS)
    error = math.sqrt((1 - weighed * weighed) / (n + _PRIOR_RUNS))
    return min(weighed + 0.5 * error, AUTOCORRELATION_MAXIMUM)


def _local_deviation(white: Floats) -> float:
    """Return the standard deviation around block means, which steps do not raise."""
    blocks = len(white) // _BLOCK
    if blocks == 0:
        return float(np.std(white)) if len(white) > 1 else 1.0
    parts = white[len(white) - blocks * _BLOCK :].reshape(blocks, _BLOCK)
    about = parts - parts.mean(axis=1, keepdims=True)
    return math.sqrt(float(np.sum(about * about)) / (blocks * (_BLOCK - 1)))


def _excess(white: Floats, innovation: float, length: int) -> float:
    """Return the excess variance of sums of ``length`` relative to independent ones, at least 1."""
    blocks = len(white) // length
    if blocks < 8:
        return 1.0
    sums = white[len(white) - blocks * length :].reshape(blocks, length).sum(axis=1)
    # Two blocks apart: with correlation longer than a block, neighbours would show little.
    differences = np.abs(sums[2:] - sums[:-2])
    limit = _TRIM * 1.4826 * median(differences)
    mean_square = float(np.mean(np.minimum(differences, limit) ** 2))
    excess = mean_square / (2 * length * innovation * innovation)
    # Subtract one standard error of a variance from so few differences: 1 mostly stays 1.
    return max(1.0, excess * (1 - math.sqrt(3 / blocks)))


def _tails(white: Floats, innovation: float, length: int) -> tuple[float, float]:
    """Return how much further sums of ``length`` reach down and up than normal ones, squared."""
    independent = len(white) / length
    if independent < 16:
        return 1.0, 1.0
    running = np.concatenate(([0.0], np.cumsum(white - white.mean())))
    sums = (running[length:] - running[:-length]) / innovation
    ends = np.quantile(sums, [_TAIL, 1 - _TAIL])
    usual = _NORMAL_TAIL * _NORMAL_TAIL * length
    # Relative error of the squared quantile of this many independent normal sums.
    error = 1.2 / math.sqrt(independent)
    down, up = (max(1.0, float(end * end) / usual * (1 - error)) for end in ends)
    return down, up


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


def weekly_seasonality(clipped: Floats, hour: Ints, week: Ints, noise: SeriesNoise) -> Floats:
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


def _wave(left: Floats, hour: Ints, noise: SeriesNoise) -> Floats:
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


def _of_day_and_weekend(left: Floats, hour: Ints, noise: SeriesNoise) -> Floats:
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


def _single_hours(left: Floats, hour: Ints, noise: SeriesNoise) -> Floats:
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
