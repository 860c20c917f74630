"""The COV over the window ending with each run, as in figure 5 of [S1].

The same as `variability.judge_history` of the runs up to each run, for all windows at once: a year
of hourly runs is 8,760 windows, which take half a minute one by one. Windows with the same number
of runs are the rows of one matrix; ranks and moments are taken along its rows, and quantiles for
windows of all lengths together. For runs made close together (`judge.spread.occasions`) the window
ends with the last, and each occasion is one element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
import polars as pl

from trimtab.base.series import CovAt
from trimtab.base.site import LIMITS
from trimtab.base.verdict import LEVEL, Interval, VerdictStatus
from trimtab.judge.array import Bools, Floats, Ints
from trimtab.judge.quantile import chi_square_quantiles, normal_quantile
from trimtab.judge.series_frame import counted, normalised
from trimtab.judge.spread import (
    AUTOCORRELATION_MAXIMUM,
    INTERVAL_MINIMUM,
    MCKAY_COV_MAXIMUM,
    OCCASIONS_MINIMUM,
    occasions,
)
from trimtab.judge.variability import SPACING_S, SPAN_MINIMUM_S

_CELLS_AT_ONCE: Final = 1_000_000
"""Numbers of all windows held in memory at once: runs every minute are 2,880 per window."""

_CELLS_MOST: Final = 20_000_000
"""Numbers in all windows together. Beyond that only every k-th window is judged, back from the
last: with runs every minute, neighbouring windows share all but one of 2,880 runs."""

_MICROSECONDS: Final = 1e6
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rolling(
    frame: pl.DataFrame,
    *,
    goal: float = LIMITS.cov,
    window_s: float = LIMITS.window_s,
    since: datetime | None = None,
    after: datetime | None = None,
    more_is_better: bool = True,
) -> tuple[CovAt, ...]:
    """Return the COV over the window ending with each occasion, by time.

    In very dense series (`_CELLS_MOST`) only every k-th window is judged.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished``.
    window_s
        Length of a window, which excludes its own start.
    since
        First window to report; earlier runs still count within windows.
    after
        Windows up to this time are not wanted; very dense series have them nevertheless.

    Notes
    -----
    COV, interval and status equal those of `variability.judge_history` for the same runs; the tests
    compare the two.
    """
    tidy, _ = normalised(frame)
    if tidy.is_empty():
        return ()
    times = tidy["at"].to_physical().to_numpy()
    starts = np.asarray(occasions((times / _MICROSECONDS).tolist()))
    ends = np.append(starts[1:], len(times))
    opening = times[ends - 1] - round(window_s * _MICROSECONDS)
    # An occasion at the very end of the window is inside, one at its very start is not.
    everything = _Windows(
        begin=np.searchsorted(times[starts], opening, side="right"),
        end=np.arange(1, len(starts) + 1),
    )
    unfinished = tidy["unfinished"].to_numpy()
    used = ~unfinished if not more_is_better else np.ones(len(times), dtype=bool)
    values = counted(tidy, more_is_better=more_is_better)["value"].to_numpy()
    sizes = np.add.reduceat(used.astype(np.int64), starts)
    counting = _Occasions.of(values, times[used], sizes[sizes > 0])
    before = np.concatenate([[0], np.cumsum(sizes > 0)])
    windows = _Windows(before[everything.begin], before[everything.end])
    first = 0 if since is None else int(np.searchsorted(times[ends - 1], _us(since)))
    every = max(1, math.ceil(int(windows.n[first:].sum()) / _CELLS_MOST))
    if after is not None and every == 1:
        first = max(first, int(np.searchsorted(times[ends - 1], _us(after), side="right")))
    places = np.arange(len(ends) - 1, first - 1, -every)[::-1]
    ats = tidy["at"].gather(ends[places] - 1).to_list()
    everything, windows = everything.at(places), windows.at(places)
    figures = _figures(counting, windows)
    n = _counts(sizes, everything)
    ended = _counts(np.add.reduceat(unfinished.astype(np.int64), starts), everything)
    made = _counts(ends - starts, everything)
    statuses = _statuses(
        figures,
        goal=goal,
        enough=_enough(counting, windows),
        none_finished=n == ended,
        all_counted=n == made,
    )
    return tuple(
        CovAt(ends_at, int(n[place]), *figures.at(place), statuses[place])
        for place, ends_at in enumerate(ats)
    )


def may_be_thinned(frame: pl.DataFrame, *, window_s: float) -> bool:
    """Return whether a series may be so dense that `rolling` judges only every k-th window."""
    times = frame["at"].sort().to_physical().to_numpy()
    opening = times - round(window_s * _MICROSECONDS)
    begins = np.searchsorted(times, opening, side="right")
    return int((np.arange(1, len(times) + 1) - begins).sum()) > _CELLS_MOST


def _us(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


@dataclass(frozen=True, slots=True)
class _Occasions:
    """The counted runs of each occasion, by time: mean, variance around it, first and last time."""

    mean: Floats
    within: Floats
    first: Ints
    last: Ints

    @staticmethod
    def of(values: Floats, times: Ints, sizes: Ints) -> _Occasions:
        """Return the occasions of runs, given the size of each."""
        starts = np.cumsum(sizes) - sizes
        if not len(sizes):
            return _Occasions(values, values, times, times)
        mean = np.add.reduceat(values, starts) / sizes
        within = np.add.reduceat((values - np.repeat(mean, sizes)) ** 2, starts) / sizes
        return _Occasions(mean, within, times[starts], times[starts + sizes - 1])


@dataclass(frozen=True, slots=True)
class _Windows:
    """Each window as a range of occasions: ``begin`` inclusive, ``end`` exclusive."""

    begin: Ints
    end: Ints

    @property
    def n(self) -> Ints:
        """Number of occasions in each."""
        return self.end - self.begin

    def at(self, places: Ints) -> _Windows:
        """Return the windows of some occasions."""
        return _Windows(self.begin[places], self.end[places])


@dataclass(frozen=True, slots=True)
class _Figures:
    """The result for each window; NaN if undefined."""

    cov: Floats
    low: Floats
    high: Floats

    def at(self, place: int) -> tuple[float | None, Interval | None]:
        """Return COV and interval of one window."""
        k = float(self.cov[place])
        if math.isnan(k):
            return None, None
        low, high = float(self.low[place]), float(self.high[place])
        return k, None if math.isnan(low) else Interval(low, high)


def _statuses(
    figures: _Figures,
    *,
    goal: float,
    enough: Bools,
    none_finished: Bools,
    all_counted: Bools,
) -> list[VerdictStatus]:
    """Return the answer for every window; one that is too short cannot tell.

    A COV of 0 is within any goal; if it is undefined, windows in which nothing finished are missed;
    a goal that would be met is not if runs could not be counted.
    """
    undefined = np.isnan(figures.low)
    constant = figures.cov == 0
    missed = (
        np.where(undefined, np.isnan(figures.cov) & none_finished, figures.low > goal) & ~constant
    )
    met = ~undefined & ((figures.high <= goal) | constant) & all_counted
    answers = {(True, False): VerdictStatus.MISSED, (False, True): VerdictStatus.MET}
    return [
        answers.get((bool(no), bool(yes)), VerdictStatus.CANNOT_TELL)
        for no, yes in zip(missed & enough, met & enough, strict=True)
    ]


def _figures(counting: _Occasions, windows: _Windows) -> _Figures:
    """Return COV and interval of each window: `spread.cov_interval_of_history`."""
    n = windows.n
    cov, lag1, kurtosis, low, high = (np.full(len(n), np.nan) for _ in range(5))
    for size in np.unique(n):
        if size < 2:
            continue
        places = np.flatnonzero(n == size)
        step = max(1, _CELLS_AT_ONCE // int(size))
        for begin in range(0, len(places), step):
            part = places[begin : begin + step]
            cells = windows.begin[part][:, None] + np.arange(size)
            within = counting.within[cells].mean(axis=1)
            cov[part], lag1[part], kurtosis[part] = _spread(counting.mean[cells], within)
    # The quantiles of an interval cost most: compute them for all windows together.
    enough = n >= INTERVAL_MINIMUM
    defined = np.flatnonzero(enough & (cov > 0))
    low[enough & (cov == 0)] = high[enough & (cov == 0)] = 0.0
    low[defined], high[defined] = _interval(
        cov[defined], lag1[defined], kurtosis[defined], n[defined]
    )
    return _Figures(cov, low, high)


def _spread(rows: Floats, within: Floats) -> tuple[Floats, Floats, Floats]:
    """Return COV, lag-1 autocorrelation and excess kurtosis of each row with variance."""
    n = rows.shape[1]
    mean = rows.mean(axis=1)
    alike = (rows.min(axis=1) == rows.max(axis=1)) & (within == 0)
    centred = rows - mean[:, None]
    squares = (centred**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        k = np.where(
            mean > 0, np.where(alike, 0.0, np.sqrt(squares / (n - 1) + within) / mean), np.nan
        )
    lag1, kurtosis = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    varies = np.flatnonzero(k > 0)
    if n >= INTERVAL_MINIMUM:
        lag1[varies] = _lag1(rows[varies])
        kurtosis[varies] = _excess_kurtosis(centred[varies], squares[varies])
    return k, lag1, kurtosis


def _excess_kurtosis(centred: Floats, squares: Floats) -> Floats:
    n = centred.shape[1]
    plain = n * ((centred**2 / squares[:, None]) ** 2).sum(axis=1) - 3
    return ((n + 1) * plain + 6) * (n - 1) / ((n - 2) * (n - 3))


def _lag1(rows: Floats) -> Floats:
    """Return the lag-1 autocorrelation of the normal scores of each row.

    Equal values share their mean rank, an integer or half: one table holds every score.
    """
    count, n = rows.shape
    table = _normal_scores(n)
    order = np.argsort(rows, axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    steps = np.arange(n)
    rises = ordered[:, 1:] > ordered[:, :-1]
    edge = np.ones((count, 1), dtype=bool)
    first = np.maximum.accumulate(np.where(np.hstack([edge, rises]), steps, 0), axis=1)
    ends = np.where(np.hstack([rises, edge]), steps, n)
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    scores = np.empty_like(rows)
    np.put_along_axis(scores, order, table[first + last], axis=1)
    totals = (scores**2).sum(axis=1)
    products = (scores[:, 1:] * scores[:, :-1]).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(totals > 0, products / totals, 0.0)


@lru_cache(maxsize=64)
def _normal_scores(n: int) -> Floats:
    """Return the normal score of each rank among ``n``, integer or half, from the first."""
    return np.array(
        [normal_quantile((rank / 2 - 0.375) / (n + 0.25)) for rank in range(2, 2 * n + 1)]
    )


def _interval(k: Floats, lag1: Floats, kurtosis: Floats, n: Ints) -> tuple[Floats, Floats]:
    corrected = (n * lag1 + 1) / (n - 4)
    phi = np.clip(corrected, 0.0, AUTOCORRELATION_MAXIMUM)
    hidden = 1 / np.maximum(n * (1 - phi) / (1 + phi), 2.0)
    raised = k * np.sqrt(np.maximum(1.0, (n - 1) / (n * (1 - hidden))))
    cautious = np.clip(corrected + 1 / np.sqrt(n), 0.0, AUTOCORRELATION_MAXIMUM)
    independent = n * (1 - cautious**2) / (1 + cautious**2) * 2 / (2 + np.maximum(kurtosis, 0.0))
    return _cov_interval(raised, np.maximum(2.0, independent))


def _cov_interval(k: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return `spread.cov_interval` of each: McKay's where valid, else the matched one."""
    tail, degrees = (1 - LEVEL) / 2, n - 1
    matched = 1 / (1 / degrees + 2 * k**2 / n)
    quantiles = [chi_square_quantiles(p, degrees) for p in (1 - tail, tail)]
    radicands = [((u + 2) / n - 1) * k**2 + u / degrees for u in quantiles]
    near = (k < MCKAY_COV_MAXIMUM) & (np.minimum(*radicands) > 0)
    with np.errstate(invalid="ignore"):
        low, high = (k / np.sqrt(radicand) for radicand in radicands)
    far = np.flatnonzero(~near)
    for end, p in ((low, 1 - tail), (high, tail)):
        end[far] = k[far] * np.sqrt(matched[far] / chi_square_quantiles(p, matched[far]))
    return low, high


def _enough(counting: _Occasions, windows: _Windows) -> Bools:
    """Return for each window whether it has enough occasions, far enough apart, over enough time.

    From the first occasion of a window jump to the next that is `SPACING_S` later, and so on: the
    one reached after `OCCASIONS_MINIMUM` - 1 such jumps must still be inside.
    """
    times = counting.first
    if not len(times):
        return np.zeros(len(windows.end), dtype=bool)
    after = np.searchsorted(times, times + round(SPACING_S * _MICROSECONDS), side="left")
    after = np.append(after, len(times))
    reached = np.minimum(windows.begin, len(times))
    for _ in range(OCCASIONS_MINIMUM - 1):
        reached = after[reached]
    last = np.maximum(windows.end - 1, 0)
    span = counting.last[last] - times[np.minimum(windows.begin, len(times) - 1)]
    return (reached < windows.end) & (span >= SPAN_MINIMUM_S * _MICROSECONDS)


def _counts(numbers: Ints, windows: _Windows) -> Ints:
    """Return the sum of the numbers of each window's occasions."""
    running = np.concatenate([[0], np.cumsum(numbers)])
    return running[windows.end] - running[windows.begin]
