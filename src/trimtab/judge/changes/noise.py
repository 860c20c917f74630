"""How far runs scatter and how long they remember, told so that a change of level spoils neither.

Over a whole series every step adds to the spread and drives the autocorrelation towards 1. Both
are therefore taken about the means of blocks of a few days, of which a step is in one only, and
the median over the blocks is what counts. Everything is measured on residuals that are cut off as
the detectors see them: of 3 % dips and of heavy tails they see only the cut-off part.

Memory of another kind than AR(1) shows in the means of days, which then scatter more than the
autocorrelation promises: `Noise.slow`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trimtab.judge.arrays import Bools, Floats, median, scatter

CLIP: Final = 3.5
"""Scales at which a residual is cut off: an unfinished run weighs as much, and no dip more."""

CLIP_WHITE: Final = 2.5
"""The same of a whitened residual, in what its scale would be without any cutting."""

STRANGE: Final = 3.0
"""Scales from what was promised at which a run has come out of nothing."""

SCALE_MINIMUM: Final = 1e-3
"""Runs that are equal to a tenth of a per cent are equal: no smaller change is of interest."""

AUTOCORRELATION_MAXIMUM: Final = 0.95

_PRIOR: Final = 0.4
_PRIOR_RUNS: Final = 24
"""What is believed of the memory before there are runs, and how many runs that is worth."""

_BLOCK_OF_MEMORY: Final = 120
_BLOCK: Final = 24
"""Runs to a block: five days of hourly runs, and one."""

_TAIL: Final = 0.015
_NORMAL_TAIL: Final = 2.17
"""The quantile by which tails are measured, and where a normal variable has it: further out there
are too few independent sums in two months, further in there is no tail."""

SPLIT: Final = 6.0
"""Standard errors apart from which two levels within a short history are not one, for its noise."""

SPLIT_RUNS: Final = (6, 3)
"""Runs before such a split, and after it. Their noise is that about both levels together."""

_TRIM: Final = 4.0
"""A change between two blocks counts as so many of their scales at most: there may be a step."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What a series does when nothing happens.

    Attributes
    ----------
    scale
        Robust standard deviation of the heights about their level: a fraction, nearly.
    autocorrelation
        Of neighbouring runs, 0 to 0.95, on the cautious side.
    aftermath
        How much of that holds after a run that came out of nothing: 0 after dips, 1 after shocks.
    innovation
        Standard deviation of the whitened residuals, in scales.
    runs, hours
        How much further sums of 3 and of 12 whitened residuals go, down and up, than normal ones
        would, squared; 1 or more. Bad hours come together, and slow ones are slower than fast
        ones are fast.
    slow
        How much more sums of 24 vary than independent ones would, 1 or more.
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
        """How much more sums over a day and longer vary than independent ones."""
        return max(self.slow, *self.hours)


def noise_of(heights: Floats) -> Noise:
    """Return the noise of heights by time, levels taken out; NaN where a run did not finish."""
    finished = heights[~np.isnan(heights)]
    scale = max(SCALE_MINIMUM, _spread(finished))
    clipped = residuals(finished, 0.0, scale)
    rough = _autocorrelation(clipped, clipped, STRANGE)
    aftermath = _aftermath(clipped, rough)
    phi = _cautious(
        _autocorrelation(clipped, _known(clipped, rough, aftermath)[0], CLIP), len(clipped)
    )
    first = Noise(scale, phi, aftermath, 1.0, (1.0, 1.0), (1.0, 1.0), 1.0)
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
    """Return the first run of a second level that stands out of its own noise; ``None``: one level.

    A change not yet reported is in every block of a short history: it would hide in the noise that
    it makes. The best split of the ranks (A. N. Pettitt, Applied Statistics 28 (1979)) counts when
    the two levels are `SPLIT` standard errors apart in the noise about each of them.

    Parameters
    ----------
    heights
        By time; NaN where a run did not finish, which is the lowest.
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
    """Return heights about a level in scales, cut off at `CLIP`; unfinished runs are the worst."""
    clipped = np.clip((heights - level) / scale, -CLIP, CLIP)
    clipped[np.isnan(clipped)] = -CLIP
    return clipped


def whitened(clipped: Floats, noise: Noise) -> Floats:
    """Return what each residual adds to what the one before it promised; one fewer."""
    phi = noise.autocorrelation
    deviation = math.sqrt(1 - phi * phi)
    known, _ = _known(clipped, phi, noise.aftermath)
    limit = CLIP_WHITE * deviation
    return np.clip(clipped[1:] - phi * known[:-1], -limit, limit)


def _known(clipped: Floats, phi: float, aftermath: float) -> tuple[Floats, Bools]:
    """Return what each residual says of the next one, and which of them came out of nothing."""
    promised = phi * clipped[:-1]
    strange = np.abs(clipped[1:] - promised) > STRANGE * math.sqrt(1 - phi * phi)
    known = clipped.copy()
    known[1:][strange] = (promised + aftermath * (clipped[1:] - promised))[strange]
    return known, np.concatenate(([False], strange))


def _aftermath(clipped: Floats, phi: float) -> float:
    """Return how much of the memory holds after a run out of nothing: 0 to 1.

    A dip is gone with the next run; a shock to the file system fades as everything else does.
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
    """Return how much of what is ``known`` of each run is in the next one, 0 to 0.95."""
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
    # F. H. C. Marriott and J. A. Pope, Biometrika 41 (1954): the bias of a mean's own block.
    return min(max((length * raw + 1) / (length - 4), 0.0), AUTOCORRELATION_MAXIMUM)


def _cautious(phi: float, n: int) -> float:
    """Return phi drawn towards what is usual while there are few runs, and a little up."""
    weighed = (n * phi + _PRIOR_RUNS * _PRIOR) / (n + _PRIOR_RUNS)
    error = math.sqrt((1 - weighed * weighed) / (n + _PRIOR_RUNS))
    return min(weighed + 0.5 * error, AUTOCORRELATION_MAXIMUM)


def _local_deviation(white: Floats) -> float:
    """Return the standard deviation about the means of blocks, which steps do not raise."""
    blocks = len(white) // _BLOCK
    if blocks == 0:
        return float(np.std(white)) if len(white) > 1 else 1.0
    parts = white[len(white) - blocks * _BLOCK :].reshape(blocks, _BLOCK)
    about = parts - parts.mean(axis=1, keepdims=True)
    return math.sqrt(float(np.sum(about * about)) / (blocks * (_BLOCK - 1)))


def _excess(white: Floats, innovation: float, length: int) -> float:
    """Return how much more sums of ``length`` vary than independent ones, 1 or more."""
    blocks = len(white) // length
    if blocks < 8:
        return 1.0
    sums = white[len(white) - blocks * length :].reshape(blocks, length).sum(axis=1)
    # Two blocks apart: of a memory longer than a block, neighbours would show little.
    differences = np.abs(sums[2:] - sums[:-2])
    limit = _TRIM * 1.4826 * median(differences)
    mean_square = float(np.mean(np.minimum(differences, limit) ** 2))
    excess = mean_square / (2 * length * innovation * innovation)
    # Of a variance from so few differences one standard error is taken off: 1 stays 1 mostly.
    return max(1.0, excess * (1 - math.sqrt(3 / blocks)))


def _tails(white: Floats, innovation: float, length: int) -> tuple[float, float]:
    """Return how much further sums of ``length`` go down and up than normal ones, squared."""
    independent = len(white) / length
    if independent < 16:
        return 1.0, 1.0
    running = np.concatenate(([0.0], np.cumsum(white - white.mean())))
    sums = (running[length:] - running[:-length]) / innovation
    ends = np.quantile(sums, [_TAIL, 1 - _TAIL])
    usual = _NORMAL_TAIL * _NORMAL_TAIL * length
    # Relative error of the square of such a quantile, of so many independent normal sums.
    error = 1.2 / math.sqrt(independent)
    down, up = (max(1.0, float(end * end) / usual * (1 - error)) for end in ends)
    return down, up
