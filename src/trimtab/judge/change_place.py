"""Where a level changed: the runs at which it may have begun, given the levels on both sides."""

from __future__ import annotations

from typing import Final

import numpy as np

from trimtab.judge.array import Floats

WITHIN: Final = 3.0
"""Distance from the highest log-likelihood within which a place is possible. For estimated levels
the interval then holds the true place 95 times in 100 (tests/judge/test_change_place.py)."""
_CLIPPED: Final = 4.0
"""Standard deviations beyond either level at which a run is clipped: one outlier, or a dip beside
the change, must not place it."""


def onset_places(
    logs: Floats, before: float, after: float, scale: float, memory: float
) -> tuple[int, int]:
    """Return the first and the last run at which the level may have changed.

    Parameters
    ----------
    logs
        Logarithms of the finished runs around the change, by time, shape (n,) with n of at least 1.
    before, after
        Logarithms of the two levels.
    scale
        Standard deviation of the runs about their level, in logarithms.
    memory
        Number of runs that count as one independent run: (1 + phi) / (1 - phi).

    Notes
    -----
    If the level changed at run k, the runs before k are of the old level and the others of the new
    one. Among normal runs of known levels, the log-likelihoods of two places differ by the sum over
    the runs between them of half the difference of their squared distances from both levels, in
    standard deviations; autocorrelated runs repeat what their neighbours say.

    Examples
    --------
    >>> onset_places(np.array([0.0, 0.1, -0.1, -1.0, -1.1, -0.9]), 0.0, -1.0, 0.1, 1.0)
    (3, 3)
    >>> onset_places(np.array([0.0, 0.1, -0.1, -0.5, -1.1, -0.9]), 0.0, -1.0, 0.1, 1.0)
    (3, 4)
    """
    low, high = sorted((before, after))
    clipped = np.clip(logs, low - _CLIPPED * scale, high + _CLIPPED * scale)
    gain = ((clipped - before) ** 2 - (clipped - after) ** 2) / (2 * scale**2 * memory)
    total = np.cumsum(gain[::-1])[::-1]
    likely = np.flatnonzero(total >= total.max() - WITHIN)
    return int(likely[0]), int(likely[-1])
