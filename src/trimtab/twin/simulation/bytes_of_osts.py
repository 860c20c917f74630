"""Folded bytes per real OST, for actions of guests and the diary.

Each number of bytes occurs once, with the ranges of its OSTs: a job writes equally to most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.errors import UsageError
from trimtab.twin.arrays import Array, Integers


def folded(values: Array) -> list[tuple[float, str]]:
    """Return each nonzero value with its OSTs.

    Examples
    --------
    >>> folded(np.array([8.0, 8.0, 0.0, 7.0]))
    [(8.0, '0-1'), (7.0, '3')]
    """
    distinct = sorted(set(values[values != 0.0].tolist()), reverse=True)
    return [(value, _ranges(np.flatnonzero(values == value))) for value in distinct]


def unfolded(folded: Sequence[tuple[float, str]], osts: int) -> Array:
    """Return a value for each real OST: that of its range, or 0.

    Raises
    ------
    UsageError
        A range is invalid or goes beyond the last OST.

    Examples
    --------
    >>> unfolded([(8.0, "0-1"), (7.0, "3")], 5).tolist()
    [8.0, 8.0, 0.0, 7.0, 0.0]
    """
    values = np.zeros(osts)
    for value, ranges in folded:
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            whole = first.isdecimal() and (last or first).isdecimal()
            if not whole or not int(first) <= int(last or first) < osts:
                raise UsageError(f"{part!r} is not a range of {osts} OSTs", code="ost-unknown")
            values[int(first) : int(last or first) + 1] = value
    return values


def _ranges(numbers: Integers) -> str:
    """Return ascending numbers as ranges: ``0-3,7``."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    parts = np.split(numbers, breaks)
    return ",".join(f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
