"""Scatter of numbers with its uncertainty, and how many runs count as independent.

Runs so close together that they share the conditions of their moment are one occasion. Three runs
in a night, a burst of runs, a row stored twice: they measure the file system once. Counted
individually they would make a night a trend and a burst a level. Anything that needs the number of
runs, or their usual distance, uses occasions.

Standard library only, except for ranks and gaps of very many numbers: windows hold tens to
hundreds, and for `trimtab status` importing numpy would cost more than all the arithmetic.

Statistics take finite numbers and raise ``ValueError`` for any other; what is undefined (too few
numbers, mean or median 0) is ``None``.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from operator import mul
from statistics import fmean, median
from typing import Final

from trimtab.base.verdict import LEVEL, Interval
from trimtab.judge.quantile import chi_square_quantile, normal_quantile, t_quantile

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

_MANY_TIMES: Final = 1000
"""Number of times above which importing numpy for their gaps pays off."""

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
    if len(times_s) > _MANY_TIMES:
        return _usual_gap_of_many_s(times_s)
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


def _usual_gap_of_many_s(times_s: Sequence[float]) -> float:
    """Return `usual_gap_s` of the times of years: the same to the last bit, ten times as fast."""
    import numpy as np

    gaps = np.diff(np.asarray(times_s, dtype=np.float64))
    gaps = np.sort(gaps[gaps > 0])
    every, most = _OUTAGES
    gaps = gaps[: len(gaps) - min(most, len(gaps) // every)]
    if not len(gaps):
        return 0.0
    running = np.concatenate([[0.0], np.cumsum(gaps)])
    place = np.searchsorted(gaps, gaps, side="right")
    covered = running[place] + gaps * (len(gaps) - place)
    return float(gaps[np.searchsorted(covered, running[-1] / 2)])


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


AUTOCORRELATION_MAXIMUM = 0.95
"""Clipping limit: with longer correlation a series says next to nothing within its window."""

_MANY: Final = 20_000
"""Numbers from which importing numpy pays off for their ranks."""

MCKAY_COV_MAXIMUM = 0.33
"""Above it the modified McKay interval is not valid (Vangel 1996)."""

VAGUE: Final = 8.0
"""Ratio of the ends of a COV's interval: 6.6 with four independent numbers, 12 with three."""

INTERVAL_MINIMUM = 6
"""Fewest values for the interval of a COV over history: fewer do not show their autocorrelation."""


def cov_text(fraction: float) -> str:
    """Return per cent with three digits, so that 7.98 % is not printed as the goal of 8 %."""
    return f"{100 * fraction:.3g} %"


def cov(values: Sequence[float], within: float = 0.0) -> float | None:
    """Return the coefficient of variation: sample standard deviation (n - 1) over mean.

    A fraction; ``None`` for fewer than two values or a mean of 0.

    Parameters
    ----------
    within
        If each value is the mean of several: the mean variance (of n) around them.

    Examples
    --------
    >>> cov([9.0, 10.0, 11.0])
    0.1
    """
    _require_finite(values)
    if len(values) < 2:
        return None
    mean = fmean(values)
    if mean <= 0:
        return None
    deviation = _standard_deviation(values)
    return (math.hypot(deviation, math.sqrt(within)) if within else deviation) / mean


def cov_interval(k: float, n: float) -> Interval:
    """Return the confidence interval of a COV ``k`` observed in ``n`` numbers.

    Parameters
    ----------
    k
        The COV, a fraction.
    n
        The number of independent numbers behind it, at least 2; may be fractional after a
        correction (see `effective_n_cov`).

    Notes
    -----
    Modified McKay interval: M. G. Vangel, "Confidence intervals for a normal coefficient of
    variation", The American Statistician 50 (1996). It is valid for near-normal numbers with a COV
    under 0.33; above, its radicand may even turn negative. There the interval is that of a
    chi-square variable whose degrees of freedom v match the first-order variance of log k, 1/(2 v)
    = 1/(2 (n - 1)) + k^2 / n: an approximation, good enough to see that 0.4 is not 0.08.
    """
    if k < 0 or n < 2:
        raise ValueError(f"no interval for a COV of {k} from {n} numbers")
    degrees = n - 1
    tail = (1 - LEVEL) / 2
    if k < MCKAY_COV_MAXIMUM:
        upper = chi_square_quantile(1 - tail, degrees)
        lower = chi_square_quantile(tail, degrees)
        radicands = [((u + 2) / n - 1) * k * k + u / degrees for u in (upper, lower)]
        if min(radicands) > 0:
            return Interval(k / math.sqrt(radicands[0]), k / math.sqrt(radicands[1]))
    matched = 1 / (1 / degrees + 2 * k * k / n)
    low, high = (
        k * math.sqrt(matched / chi_square_quantile(probability, matched))
        for probability in (1 - tail, tail)
    )
    return Interval(low, high)


def mad_cv(values: Sequence[float]) -> float | None:
    """Return 1.4826 x the median absolute deviation over the median.

    The COV of the bulk, insensitive to a few bad events; equal to the COV for normal numbers.
    ``None`` for fewer than two values or a median of 0.
    """
    _require_finite(values)
    if len(values) < 2:
        return None
    middle = median(values)
    return (
        None if middle <= 0 else 1.4826 * median(abs(value - middle) for value in values) / middle
    )


def quartile_dispersion(values: Sequence[float]) -> float | None:
    """Return (Q3 - Q1) / (Q3 + Q1), quartiles interpolated; about 0.6745 x COV if normal.

    ``None`` for fewer than four values or if both quartiles are 0.
    """
    _require_finite(values)
    if len(values) < 4:
        return None
    ordered = sorted(values)
    first, third = (_interpolated(ordered, fraction) for fraction in (0.25, 0.75))
    return None if first + third <= 0 else (third - first) / (third + first)


def mean_interval(values: Sequence[float], *, n_effective: float | None = None) -> Interval | None:
    """Return Student's interval of the mean for ``n_effective`` numbers (default: all).

    ``None`` for fewer than two values.
    """
    _require_finite(values)
    if len(values) < 2:
        return None
    n = max(2.0, n_effective if n_effective is not None else len(values))
    mean = fmean(values)
    half = t_quantile((1 + LEVEL) / 2, n - 1) * _standard_deviation(values) / math.sqrt(n)
    return Interval(mean - half, mean + half)


def lag1_autocorrelation(values: Sequence[float]) -> float:
    """Return the correlation of each number with the previous one: -1 to 1, 0 for fewer than 3.

    Notes
    -----
    Computed on normal scores (each value replaced by the normal quantile of its rank), so that a
    few deep dips, which are common in probe series, cannot hide autocorrelation in the rest of the
    series. Equal values share their mean rank. Biased low for few numbers: see
    `corrected_autocorrelation`.
    """
    _require_finite(values)
    if len(values) < 3:
        return 0.0
    scores = _normal_scores(values)
    total = math.fsum(map(mul, scores, scores))
    if total == 0:
        return 0.0
    return math.fsum(map(mul, scores, islice(scores, 1, None))) / total


def corrected_autocorrelation(values: Sequence[float], *, cautious: bool = False) -> float:
    """Return the lag-1 autocorrelation without its small-sample bias, from 0 to 0.95.

    ``cautious`` adds one standard error, 1 / sqrt(n).

    Notes
    -----
    E[r] is about phi - (1 + 4 phi) / n if the mean is estimated too (F. H. C. Marriott and
    J. A. Pope, Biometrika 41 (1954)); solved for phi. A negative one counts as 0: it would promise
    more information than there are numbers.
    """
    n = len(values)
    return _corrected(lag1_autocorrelation(values), n, cautious=cautious) if n >= 6 else 0.0


def _corrected(lag1: float, n: int, *, cautious: bool) -> float:
    phi = (n * lag1 + 1) / (n - 4)
    if cautious:
        phi += 1 / math.sqrt(n)
    return min(max(phi, 0.0), AUTOCORRELATION_MAXIMUM)


def effective_n_mean(n: float, phi: float) -> float:
    """Return the equivalent number of independent values for a mean: n (1 - phi) / (1 + phi)."""
    return n * (1 - phi) / (1 + phi)


def effective_n_cov(n: float, phi: float, excess_kurtosis: float = 0.0) -> float:
    """Return the equivalent number of independent normal values for a standard deviation.

    Notes
    -----
    To first order, the variance of the sample variance of an AR(1) series is
    sigma^4 / n (2 + excess kurtosis) (1 + phi^2) / (1 - phi^2) (Bartlett's formula at lag 0);
    for n' independent normal numbers it is 2 sigma^4 / n'. Equating the two gives n'.
    """
    return n * (1 - phi * phi) / (1 + phi * phi) * 2 / (2 + max(excess_kurtosis, 0.0))


def excess_kurtosis(values: Sequence[float]) -> float:
    """Return the excess kurtosis relative to a normal distribution (0), unbiased for it.

    0 for fewer than four values or if all are equal.
    """
    _require_finite(values)
    n = len(values)
    mean = fmean(values) if values else 0.0
    squares = [(value - mean) ** 2 for value in values]
    total = math.fsum(squares)
    if n < 4 or total <= 0:
        return 0.0
    plain = n * math.fsum((square / total) ** 2 for square in squares) - 3
    return ((n + 1) * plain + 6) * (n - 1) / ((n - 2) * (n - 3))


def cov_interval_of_history(values: Sequence[float], *, within: float = 0.0) -> Interval | None:
    """Return the interval of the COV of autocorrelated runs over time.

    ``None`` for fewer than six values or an undefined COV. ``within`` as in `cov`:
    each mean counts as one run, whatever its size.

    Notes
    -----
    `cov_interval` with three corrections; the plain one falsely reports `met` in up to 20 % of
    cases where 2.5 % are promised:

    - n becomes `effective_n_cov` of the cautious autocorrelation and the excess kurtosis:
      autocorrelated runs and dips reveal less of the spread than n normal numbers;
    - k is raised by the part hidden by the window's own mean: E[s^2] is about
      sigma^2 (1 - 1/n') n / (n - 1), with n' = `effective_n_mean`.

    Rate in per cent at which the interval is entirely above / below a true COV of 8 %
    (nominal 2.5 / 2.5), 6,000 series per case: independent normal numbers n = 24, 48, 96:
    1.5/1.1, 1.7/1.4, 1.7/1.7; phi = 0.5: 0.1/1.9, 0.1/2.4, 0.4/1.9; phi = 0.7: 0.2/3.8, 0.1/3.1,
    0.0/2.7; phi = 0.85: 0.2/4.9, 0.5/4.5, 0.7/2.9. With 3 % of the runs dipping by 20 %:
    2.3/2.1, 2.3/3.3, 2.5/3.7 (phi = 0), 0.6/3.1, 0.7/2.8, 1.2/2.6 (phi = 0.5). It errs on the
    side of inconclusive. It cannot see an event so rare that the window has none: of series with a
    long lower tail (skewness -2.3) that just miss the goal, it calls up to 15 % met.
    """
    k = cov(values, within)
    n = len(values)
    if k is None or n < INTERVAL_MINIMUM:
        return None
    if k == 0:
        return Interval(0.0, 0.0)
    lag1 = lag1_autocorrelation(values)
    hidden = 1 / max(effective_n_mean(n, _corrected(lag1, n, cautious=False)), 2.0)
    raised = k * math.sqrt(max(1.0, (n - 1) / (n * (1 - hidden))))
    return cov_interval(raised, _independent_of_cov(values, lag1))


def independent_of_cov(values: Sequence[float]) -> float:
    """Return how many independent normal numbers tell as much of the COV: at least 2.

    `effective_n_cov` of the cautious autocorrelation and the excess kurtosis; from six values on.
    """
    return _independent_of_cov(values, lag1_autocorrelation(values))


def _independent_of_cov(values: Sequence[float], lag1: float) -> float:
    n = len(values)
    phi = _corrected(lag1, n, cautious=True) if n >= 6 else 0.0
    return max(2.0, effective_n_cov(n, phi, excess_kurtosis(values)))


def is_vague(interval: Interval) -> bool:
    """Return whether the interval of a COV is so wide that its ends are not worth printing.

    Beyond a factor of `VAGUE` it rests on three independent numbers or fewer, and reads like
    "7 to 502 %".
    """
    return interval.high > VAGUE * interval.low


def _require_finite(values: Sequence[float]) -> None:
    if not all(map(math.isfinite, values)):
        wrong = next(value for value in values if not math.isfinite(value))
        raise ValueError(f"{wrong} cannot be judged")


def _standard_deviation(values: Sequence[float]) -> float:
    mean = fmean(values)
    # Equal values must give exactly 0; their mean may be off by the last digit.
    if min(values) == max(values):
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _interpolated(ordered: Sequence[float], fraction: float) -> float:
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def _normal_scores(values: Sequence[float]) -> list[float]:
    n = len(values)
    # Blom's plotting positions; equal ranks (a constant series) give scores of 0.
    if n >= _MANY:
        return _many_scores(values)
    of_rank, of_value, below = _scores(n), dict[float, float](), 0
    for value, count in Counter(sorted(values)).items():
        # Equal numbers share their mean rank.
        tied = count > 1
        of_value[value] = _score(below + (count + 1) / 2, n) if tied else of_rank[below]
        below += count
    return [of_value[value] for value in values]


@lru_cache(maxsize=8)  # both metrics of a series, and what is made of them, have as many runs
def _scores(n: int) -> tuple[float, ...]:
    return tuple(_score(rank, n) for rank in range(1, n + 1))


def _score(rank: float, n: int) -> float:
    return normal_quantile((rank - 0.375) / (n + 0.25))


def _many_scores(values: Sequence[float]) -> list[float]:
    """Return the same as `_normal_scores` in a tenth of the time; each score is computed once."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    order = np.argsort(array, kind="stable")
    rises = np.flatnonzero(np.diff(array[order]) > 0) + 1
    first = np.concatenate(([0], rises))
    last = np.concatenate((rises, [len(array)]))
    # Equal numbers share their mean rank.
    of_group = [_score(rank, len(array)) for rank in ((first + 1 + last) / 2).tolist()]
    scores = np.empty(len(array))
    scores[order] = np.repeat(of_group, last - first)
    return scores.tolist()
