"""How far runs scatter and how long they remember, told so that a change of level spoils neither.

The spread of a series about its mean grows with every step in it, and its autocorrelation tends
to 1. Differences between neighbours meet a step once and forget it. For an AR(1) series with
variance s and autocorrelation phi::

    variance of x[t] - x[t-1]:  2 s (1 - phi)
    variance of x[t] - x[t-2]:  2 s (1 - phi^2)       their ratio: 1 + phi

Both are trimmed, since a single dip is four large differences. Memory of another kind than AR(1)
shows in the means of days, which then scatter more than phi promises: `Noise.slow`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.judge.changes.runs import Floats

CLIP: Final = 2.5
"""Scales at which a residual is cut off: an unfinished run weighs as much, and no dip more."""

SCALE_MINIMUM: Final = 1e-3
"""Runs that are equal to a tenth of a per cent are equal: no smaller change is of interest."""

AUTOCORRELATION_MAXIMUM: Final = 0.95

_PRIOR: Final = 0.4
_PRIOR_RUNS: Final = 24
"""What is believed of the memory before there are runs, and how many runs that is worth."""

_TRIM: Final = 3.0
_TRIMMED_VARIANCE: Final = 0.9733
"""Variance that a normal variable keeps when what lies beyond 3 of its scales is left out."""

_BLOCK: Final = 24


@dataclass(frozen=True, slots=True)
class Noise:
    """What a series does when nothing happens.

    Attributes
    ----------
    scale
        Robust standard deviation of the heights about their level: a fraction, nearly.
    autocorrelation
        Of neighbouring runs, 0 to 0.95, on the cautious side.
    innovation
        Standard deviation of the whitened residuals, in scales.
    slow
        How much more the means of 24 whitened residuals vary than single ones promise, 1 or more.
    """

    scale: float
    autocorrelation: float
    innovation: float
    slow: float


def noise_of(heights: Floats) -> Noise:
    """Return the noise of heights by time, levels taken out; NaN where a run did not finish."""
    import numpy as np

    finished = heights[~np.isnan(heights)]
    phi = _autocorrelation(finished)
    scale = max(SCALE_MINIMUM, _scale(finished, phi))
    clipped = residuals(heights, 0.0, scale)
    white = whitened(clipped, phi)
    innovation = max(0.1, _local_deviation(white))
    return Noise(scale, phi, innovation, _slow(white, innovation))


def residuals(heights: Floats, level: float | Floats, scale: float) -> Floats:
    """Return heights about a level in scales, cut off at `CLIP`; unfinished runs are the worst."""
    import numpy as np

    found = np.clip((heights - level) / scale, -CLIP, CLIP)
    found[np.isnan(found)] = -CLIP
    return found


def whitened(clipped: Floats, phi: float) -> Floats:
    """Return what each residual adds to what the one before it promised; one fewer."""
    import numpy as np

    limit = CLIP * math.sqrt(1 - phi * phi)
    return np.clip(clipped[1:] - phi * clipped[:-1], -limit, limit)


def _trimmed_variance(differences: Floats) -> float:
    import numpy as np

    size = np.abs(differences)
    robust = 1.4826 * float(np.median(size)) if len(size) else 0.0
    if robust <= 0:
        return 0.0
    kept = differences[size <= _TRIM * robust]
    return float(np.mean(kept * kept)) / _TRIMMED_VARIANCE


def _autocorrelation(finished: Floats) -> float:
    """Return phi, drawn towards what is usual while there are few runs, plus a standard error."""
    n = len(finished)
    near = _trimmed_variance(finished[1:] - finished[:-1])
    far = _trimmed_variance(finished[2:] - finished[:-2])
    found = far / near - 1 if near > 0 and far > 0 else _PRIOR
    weighed = (n * found + _PRIOR_RUNS * _PRIOR) / (n + _PRIOR_RUNS)
    cautious = weighed + 1 / math.sqrt(n + _PRIOR_RUNS)
    return min(max(cautious, 0.0), AUTOCORRELATION_MAXIMUM)


def _scale(finished: Floats, phi: float) -> float:
    import numpy as np

    if len(finished) < 2:
        return 0.0
    near = math.sqrt(_trimmed_variance(finished[1:] - finished[:-1]) / (2 * (1 - phi)))
    middle = float(np.median(finished))
    spread = 1.4826 * float(np.median(np.abs(finished - middle)))
    return min(near, spread) if spread > 0 else near


def _local_deviation(white: Floats) -> float:
    """Return the standard deviation about the means of blocks, which steps do not raise."""
    import numpy as np

    blocks = len(white) // _BLOCK
    if blocks == 0:
        return float(np.std(white)) if len(white) > 1 else 1.0
    parts = white[len(white) - blocks * _BLOCK :].reshape(blocks, _BLOCK)
    about = parts - parts.mean(axis=1, keepdims=True)
    return math.sqrt(float(np.sum(about * about)) / (blocks * (_BLOCK - 1)))


def _slow(white: Floats, innovation: float) -> float:
    import numpy as np

    blocks = len(white) // _BLOCK
    if blocks < 8:
        return 1.0
    means = white[len(white) - blocks * _BLOCK :].reshape(blocks, _BLOCK).mean(axis=1)
    found = _trimmed_variance(np.diff(means)) / 2 * _BLOCK / (innovation * innovation)
    # Of a variance from so few differences one standard error is taken off: 1 stays 1 mostly.
    return max(1.0, found * (1 - math.sqrt(3 / blocks)))
