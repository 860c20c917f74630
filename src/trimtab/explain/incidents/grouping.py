"""Bad runs that follow one another closely, brought together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

TOGETHER: Final = timedelta(hours=6)
"""Bad runs so near to one another are of one trouble; two distances where runs are sparse."""


def apart(times: Sequence[datetime]) -> timedelta:
    """Return how far apart bad runs of a series may be and still are of one trouble.

    Examples
    --------
    >>> apart([datetime(2026, 3, day) for day in (2, 3, 4)]).days
    2
    """
    steps = sorted(later - earlier for earlier, later in pairwise(times))
    return max(TOGETHER, 2 * steps[len(steps) // 2]) if steps else TOGETHER


def grouped(times: Iterable[datetime], longest: timedelta) -> list[int]:
    """Return for each time, in order, the number of its group; a longer gap begins a new one.

    Examples
    --------
    >>> hours = [datetime(2026, 3, 2, hour) for hour in (0, 1, 9, 10)]
    >>> grouped(hours, timedelta(hours=6))
    [0, 0, 1, 1]
    """
    numbers: list[int] = []
    last: datetime | None = None
    for at in times:
        new = last is not None and at - last > longest
        numbers.append((numbers[-1] if numbers else 0) + int(new))
        last = at
    return numbers
