"""The second tier, day by day: are the days after a moment unlike those before it?

The energy distance between two sets is twice the mean distance between them less the mean
distances within them: 0 only for the same distribution, whatever its shape (G. J. Szekely and
M. L. Rizzo; used for changes by D. S. Matteson and N. A. James, JASA 109 (2014))::

    Q = n m / (n + m) (2 E|X - Y| - E|X - X'| - E|Y - Y'|)

Medians of days have no hours, few dips and little memory left. Q is set in proportion to the mean
distance within, which makes it a number without unit whose chance values are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.judge.changes.runs import Floats


def energy_ratio(days: Floats, split: int) -> float:
    """Return Q of the days from ``split`` on against those before, over the distance within.

    0 where either side has no two days. All days alike within both sides and unlike between
    them: infinite.
    """
    import numpy as np

    n, m = split, len(days) - split
    if n < 2 or m < 2:
        return 0.0
    before, after = np.sort(days[:split]), np.sort(days[split:])
    within = _pairs(before) + _pairs(after)
    both = _pairs(np.sort(days))
    between = both - within
    # Each unordered pair stands twice in the mean over all ordered ones, equal ones included.
    distance = 2 * between / (n * m) - 2 * _pairs(before) / n**2 - 2 * _pairs(after) / m**2
    unlike = n * m / (n + m) * max(0.0, distance)
    number = (n * (n - 1) + m * (m - 1)) / 2
    if within <= 0:
        return float("inf") if unlike > 0 else 0.0
    return unlike / (within / number)


def _pairs(rising: Floats) -> float:
    """Return the sum of distances over all unordered pairs of numbers in rising order."""
    import numpy as np

    n = len(rising)
    return float(np.dot(2 * np.arange(n) - (n - 1), rising))
