"""The median of a few hundred numbers, asked for thousands of times along one series."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.judge.changes.runs import Floats


def median(values: Floats) -> float:
    """Return the median of numbers in one row, none of which is NaN.

    What `numpy.median` gives, to the last bit; it takes ten times as long to look for axes and
    NaN as the median of two months of runs does.

    Raises
    ------
    ValueError
        There is none.
    """
    import numpy as np

    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    below, above = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float(below + above) / 2
