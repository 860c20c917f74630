"""How long a window must be for its COV to be known: as long as the autocorrelation asks for.

A goal is stated over two days because two days of hourly runs hold about fifty independent ones.
If neighbouring runs resemble each other they hold fewer, down to three or four, and hardly any
COV would be known well enough for a verdict. The window is then lengthened until it holds as many
again.

The length follows from the autocorrelation and the times of the runs, never from the COV or the
verdict: trying windows until one gives an answer would make false ones. It stays within the current
level: a step inside would be counted as variability.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from trimtab.base.units import DAY_S
from trimtab.judge.spread import OCCASIONS_MINIMUM, corrected_autocorrelation, effective_n_cov

LENGTHENED_LONGEST_S: Final = 14 * DAY_S
"""Longest window that autocorrelation may ask for: two weeks hold every hour of the week twice. An
hourly series with a lag-1 autocorrelation of 0.85 needs as much; beyond, more stays inconclusive.
"""

INDEPENDENT: Final = 48
"""Independent values that a window should hold, as two days of hourly runs do. The interval of the
COV is then 0.83 to 1.25 times the COV: a true COV of 5 or 12 % is found to meet or miss a goal of
8 % in 86 to 98 % of windows."""


def asked_s(
    starts: Sequence[datetime],
    means: Sequence[float],
    *,
    until: datetime,
    requested: int,
    window_s: float,
    level_from: datetime,
) -> float:
    """Return the length of the window in seconds that the autocorrelation asks for.

    Parameters
    ----------
    starts
        Aware start times of the occasions (`judge.spread.occasions`), ascending.
    means
        The mean of the runs of each; 0 for an unfinished run.
    until
        Time of the last run, with which the window ends, aware.
    requested
        Number of occasions in the requested window: without autocorrelation they are enough.
    window_s
        The requested length, seconds: never less.
    level_from
        First run of the current level, aware.

    Returns
    -------
    float
        ``window_s``, or a longer time in whole days, so that each hour of the day counts alike: all
        of its runs are of the current level.

    Notes
    -----
    The variance of the sample variance of an AR(1) series is (1 + phi^2) / (1 - phi^2) times that
    of independent numbers (`judge.spread.effective_n_cov`), so that many times as many occasions
    are asked for as the requested window holds, or as `INDEPENDENT` if it holds more. phi is
    estimated from all occasions of the level, at most two weeks of them: those of the requested
    window alone would be too few.
    """
    ages_s = [(until - at).total_seconds() for at in starts]
    level_s = (until - level_from).total_seconds()
    of_level = [place for place, age_s in enumerate(ages_s) if age_s <= level_s]
    recent = [place for place in of_level if ages_s[place] < LENGTHENED_LONGEST_S]
    if len(recent) < OCCASIONS_MINIMUM:
        return window_s
    phi = corrected_autocorrelation([means[place] for place in recent])
    count = max(1, round(min(requested, INDEPENDENT) / effective_n_cov(1.0, phi)))
    days = round(ages_s[recent[-min(count, len(recent))]] / DAY_S)
    if of_level[0] > 0:  # a window excludes its own start: here the last run of the level before
        days = min(days, int(ages_s[of_level[0] - 1] // DAY_S))
    return max(window_s, days * DAY_S)
