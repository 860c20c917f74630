"""Occasions: runs so close together that they share the conditions of their moment.

Three runs in a night, a burst of runs, a row stored twice: they measure the file system once.
Counted individually they would make a night a trend and a burst a level. Anything that needs the
number of runs, or their usual distance, uses occasions.

Standard library only: this is on the path of `trimtab status`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

OCCASIONS_MINIMUM: Final = 24
"""Occasions needed before a series is judged: day and night, or nearly a month of nights."""

TOGETHER: Final = 0.25
"""Runs of one occasion are closer than this part of the usual gap: the two kinds of gap differ by
at least a factor of four."""

_OCCASION: Final = 0.75
_OCCASION_LONGEST_S: Final = 12 * 3600.0
"""An occasion is shorter than this part of the usual gap, and than the shortest level."""

_OUTAGES = (24, 5)
"""One outage per this many gaps, and at most this many in total."""

_WEEK_S: Final = 7 * 86400.0
_ABOUT_S: Final = 4 * _WEEK_S
"""For each week, the usual gap covers this much time before and after."""


def usual_gap_s(times_s: Sequence[float]) -> float:
    """Return the usual distance of occasions in seconds; 0 without two different times.

    Parameters
    ----------
    times_s
        Start times of runs, ascending, seconds.

    Notes
    -----
    The smallest gap g of the record such that, with each run covering the time g after it, half of
    the time is covered, ignoring the longest gaps: outages. The median of the gaps would be that
    between the three runs of a night, the mean would be that of an outage. Runs from nine to five
    are one burst a day; for hourly runs that stop over the weekend the gap is an hour.

    Examples
    --------
    >>> nights = [86400.0 * night + 300 * run for night in range(9) for run in range(3)]
    >>> round(usual_gap_s(nights) / 3600, 1)
    23.8
    >>> hours = [3600.0 * hour for hour in (*range(50), *range(1000, 1050))]
    >>> usual_gap_s(hours) / 3600
    1.0
    """
    gaps = sorted(gap for earlier, later in pairwise(times_s) if (gap := later - earlier) > 0)
    every, most = _OUTAGES
    gaps = gaps[: len(gaps) - min(most, len(gaps) // every)]
    if not gaps:
        return 0.0
    running = [0.0, *accumulate(gaps)]

    def covered_s(gap_s: float) -> float:
        place = bisect_right(gaps, gap_s)
        return running[place] + gap_s * (len(gaps) - place)

    return gaps[bisect_left(gaps, running[-1] / 2, key=covered_s)]


def occasions(times_s: Sequence[float]) -> list[int]:
    """Return the index of the first run of each occasion, by time.

    If no two runs are much closer than usual, each run is an occasion.

    Parameters
    ----------
    times_s
        Start times of runs, ascending, seconds.

    Notes
    -----
    In a record that starts with a burst, only later runs show that it was one: this is the only
    judgement that looks ahead.

    Examples
    --------
    >>> occasions([0.0, 300.0, 600.0, 86400.0, 86700.0, 87000.0, 172800.0])
    [0, 3, 6]
    """
    gaps = [later - earlier for earlier, later in pairwise(times_s)]
    if not gaps or min(gaps) > TOGETHER * max(gaps):
        return list(range(len(times_s)))
    starts = [0]
    begin = 1
    while begin < len(times_s):
        end = max(begin + 1, bisect_left(times_s, times_s[begin] + _WEEK_S))
        first = bisect_left(times_s, times_s[begin] - _ABOUT_S)
        last = bisect_right(times_s, times_s[end - 1] + _ABOUT_S)
        usual_s = usual_gap_s(times_s[first:last])
        longest_s = min(_OCCASION * usual_s, _OCCASION_LONGEST_S)
        for place in range(begin, end):
            near = gaps[place - 1] <= TOGETHER * usual_s
            if not near or times_s[place] - times_s[starts[-1]] > longest_s:
                starts.append(place)
        begin = end
    return starts
