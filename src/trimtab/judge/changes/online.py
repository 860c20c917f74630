"""The online tier: has the level just changed? Tested after every run, for every recent moment.

For each moment s within the last weeks, the runs since s are compared with those before. A step of
size d in an AR(1) series shows in the whitened residuals as d at s and as d (1 - phi) in each run
after it, which is what the statistic is matched to::

    residuals                     whitened
         ____                        |
    ____|                        ____|'''''''     first d, then d (1 - phi)

The generalised likelihood ratio of a step at s, with the level before it unknown, is Z^2 / 2; the
largest |Z| over all s is compared with a threshold (T. L. Lai, "Sequential changepoint
detection in quality control and dynamical systems", JRSS B 57 (1995)).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trimtab.judge.arrays import Floats, Ints
from trimtab.judge.changes.noise import Noise

LENGTHS: Final = (
    3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40, 48, 57, 68, 80, 96, 114, 135, 160, 192,
    228, 272, 336,
)  # fmt: skip
"""Runs since s: after a day every fifth hour is enough, since the statistic changes slowly."""

BEFORE_MINIMUM: Final = 18
"""Runs before s: with fewer there is no level to change from."""


def scores(
    white: Floats, noise: Noise, ends: Ints, lengths: Ints, before: int = BEFORE_MINIMUM
) -> Floats:
    """Return Z of a step ``lengths`` runs before each of ``ends``, one row per end.

    Parameters
    ----------
    white
        Whitened residuals of one level, from its second run on.
    ends
        Positions in ``white`` of the last run used.
    before
        Fewest runs in a level.

    Returns
    -------
    Floats
        Positive if the level went up; 0 if fewer runs precede.
    """
    running = np.concatenate(([0.0], np.cumsum(white)))
    whole = ends[:, None] + 1
    start = whole - lengths
    seen = start >= before
    start = np.where(seen, start, 0)
    share = 1 - noise.autocorrelation
    later = lengths - 1
    weight = 1 + share * later
    # Least squares of a step on an unknown level, both whitened.
    first = white[start] + share * (running[whole] - running[np.minimum(start + 1, whole)])
    excess = first - weight / whole * running[whole]
    norm = 1 + share * share * later - weight * weight / whole
    error = noise.innovation * np.sqrt(
        np.maximum(norm, 1e-9)
        * np.where(
            excess < 0,
            *(
                _inflation(lengths, *side, noise.slow)
                for side in zip(noise.runs, noise.hours, strict=True)
            ),
        )
    )
    return np.where(seen, excess / error, 0.0)


def _inflation(lengths: Ints, runs: float, hours: float, slow: float) -> Floats:
    """Return the excess variance of sums of ``lengths`` residuals relative to independent ones."""
    return np.interp(np.log(lengths), np.log([3, 12, 24]), [1.2 * runs, hours, max(hours, slow)])
