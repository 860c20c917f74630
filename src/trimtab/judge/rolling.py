"""The COV over the window that ends with each run, as in the seeds' figure 5.

What `judge_history` says of the runs up to each of them, all windows at once: a year of hourly
runs is 8,760 windows, and one by one they take half a minute. Windows of the same number of runs
are the rows of one matrix; ranks, moments and quantiles are taken along its rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trimtab.judge.frame import counted, normalised
from trimtab.judge.quantiles import chi_square_quantiles, normal_quantile
from trimtab.judge.spread import AUTOCORRELATION_MAXIMUM, MCKAY_COV_MAXIMUM
from trimtab.judge.variability import RUNS_MINIMUM, SPACING_S, SPAN_MINIMUM_S
from trimtab.model.series import CovAt
from trimtab.model.site import LIMITS
from trimtab.model.verdict import Interval, VerdictStatus

if TYPE_CHECKING:
    import polars as pl

    from trimtab.judge.arrays import Bools, Floats, Ints


_CELLS_AT_ONCE: Final = 1_000_000
"""Numbers of all windows held in memory at a time: runs every minute are 2,880 a window."""

_CELLS_MOST: Final = 20_000_000
"""Numbers of all windows together. Of more, every k-th window is judged, back from the last: with
runs every minute each window shares all but one of 2,880 runs with the next."""

_MICROSECONDS: Final = 1e6


def rolling(
    frame: pl.DataFrame,
    *,
    goal: float = LIMITS.cov,
    window_s: float = LIMITS.window_s,
    since: datetime | None = None,
    more_is_better: bool = True,
    level: float = 0.95,
) -> tuple[CovAt, ...]:
    """Return the COV over the window that ends with each run, by time.

    Of very dense series (`_CELLS_MOST`) the windows of every k-th run are judged.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished``.
    window_s
        A window leaves its own beginning out.
    since
        The first window to be told; runs before it still count within windows.

    Notes
    -----
    COV, interval and status are those that `variability.judge_history` gives of the same runs;
    the tests hold the two against each other.
    """
    import numpy as np

    tidy, _ = normalised(frame)
    if tidy.is_empty():
        return ()
    times = tidy["at"].to_physical().to_numpy()
    used = counted(tidy, more_is_better=more_is_better)
    used_times = used["at"].to_physical().to_numpy()
    unfinished = tidy["unfinished"].to_numpy()
    opening = times - round(window_s * _MICROSECONDS)
    everything = _Windows(
        # A run at the very end of the window is within, one at its very beginning is not. Of runs
        # at one time each has a window up to itself, as they came one by one.
        begin=np.searchsorted(times, opening, side="right"),
        end=np.arange(1, len(times) + 1),
    )
    windows = everything
    if not more_is_better:
        begin = np.searchsorted(used_times, opening, side="right")
        windows = _Windows(begin, np.cumsum(~unfinished))
    ats = tidy["at"].to_list()
    first = 0 if since is None else next((i for i, at in enumerate(ats) if at >= since), len(ats))
    every = max(1, math.ceil(int(windows.n[first:].sum()) / _CELLS_MOST))
    places = np.arange(len(ats) - 1, first - 1, -every)[::-1]
    everything, windows = everything.at(places), windows.at(places)
    figures = _figures(used["value"].to_numpy(), windows, level)
    ended = _counts(unfinished, everything)
    statuses = _statuses(
        figures,
        goal=goal,
        enough=_enough(used_times, windows),
        unfinished=ended,
        left_out=everything.n - windows.n,
    )
    return tuple(
        CovAt(ats[place], int(figures.n[at]), *figures.at(at, level), statuses[at])
        for at, place in enumerate(places)
    )


@dataclass(frozen=True, slots=True)
class _Windows:
    """Each window as places in the arrays of counted runs: ``begin`` within, ``end`` not."""

    begin: Ints
    end: Ints

    @property
    def n(self) -> Ints:
        """How many runs each holds."""
        return self.end - self.begin

    def at(self, places: Ints) -> _Windows:
        """Return the windows of some runs."""
        return _Windows(self.begin[places], self.end[places])


@dataclass(frozen=True, slots=True)
class _Figures:
    """What was found of each window; not a number where it is not defined."""

    n: Ints
    mean: Floats
    cov: Floats
    low: Floats
    high: Floats

    def at(self, place: int, level: float) -> tuple[float | None, Interval | None]:
        """Return COV and interval of one window."""
        k = float(self.cov[place])
        if math.isnan(k):
            return None, None
        low, high = float(self.low[place]), float(self.high[place])
        return k, None if math.isnan(low) else Interval(low, high, level)


def _statuses(
    figures: _Figures,
    *,
    goal: float,
    enough: Bools,
    unfinished: Ints,
    left_out: Ints,
) -> list[VerdictStatus]:
    """Return the answer of every window; one that is not long enough cannot tell.

    A COV of 0 is within any goal; where it is not defined, windows in which nothing finished are
    missed; what would be met is not where runs could not be counted.
    """
    import numpy as np

    undefined = np.isnan(figures.low)
    constant = figures.cov == 0
    missed = (
        np.where(undefined, np.isnan(figures.cov) & (unfinished == figures.n), figures.low > goal)
        & ~constant
    )
    met = ~undefined & ((figures.high <= goal) | constant) & (left_out == 0)
    answers = {(True, False): VerdictStatus.MISSED, (False, True): VerdictStatus.MET}
    return [
        answers.get((bool(no), bool(yes)), VerdictStatus.CANNOT_TELL)
        for no, yes in zip(missed & enough, met & enough, strict=True)
    ]


def _figures(values: Floats, windows: _Windows, level: float) -> _Figures:
    import numpy as np

    n = windows.n
    figures = _Figures(n, *(np.full(len(n), np.nan) for _ in range(4)))
    for size in np.unique(n):
        if size < 1:
            continue
        places = np.flatnonzero(n == size)
        step = max(1, _CELLS_AT_ONCE // int(size))
        for begin in range(0, len(places), step):
            part = places[begin : begin + step]
            rows = values[windows.begin[part][:, None] + np.arange(size)]
            figures.mean[part] = rows.mean(axis=1)
            if size >= 2:
                figures.cov[part], figures.low[part], figures.high[part] = _spread(rows, level)
    return figures


def _spread(rows: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Return COV and both ends of its interval of each row: `spread.cov_interval_of_history`."""
    import numpy as np

    n = rows.shape[1]
    mean = rows.mean(axis=1)
    alike = rows.min(axis=1) == rows.max(axis=1)
    centred = rows - mean[:, None]
    squares = (centred**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        k = np.where(mean > 0, np.where(alike, 0.0, np.sqrt(squares / (n - 1)) / mean), np.nan)
    low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    low[k == 0] = high[k == 0] = 0.0
    if n >= 6:
        defined = np.flatnonzero(k > 0)
        kurtosis = _excess_kurtosis(centred[defined], squares[defined])
        low[defined], high[defined] = _interval(
            k[defined], _lag1(rows[defined]), kurtosis, n, level
        )
    else:
        low[k == 0] = high[k == 0] = np.nan
    return k, low, high


def _excess_kurtosis(centred: Floats, squares: Floats) -> Floats:
    n = centred.shape[1]
    plain = n * ((centred**2 / squares[:, None]) ** 2).sum(axis=1) - 3
    return ((n + 1) * plain + 6) * (n - 1) / ((n - 2) * (n - 3))


def _lag1(rows: Floats) -> Floats:
    """Return the lag-1 autocorrelation of the normal scores of each row.

    Equal values share their mean rank, which is whole or half: one table holds every score.
    """
    import numpy as np

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
    """Return the normal score of each rank among ``n``, whole or half, from the first on."""
    import numpy as np

    return np.array(
        [normal_quantile((rank / 2 - 0.375) / (n + 0.25)) for rank in range(2, 2 * n + 1)]
    )


def _interval(
    k: Floats, lag1: Floats, kurtosis: Floats, n: int, level: float
) -> tuple[Floats, Floats]:
    import numpy as np

    corrected = (n * lag1 + 1) / (n - 4)
    phi = np.clip(corrected, 0.0, AUTOCORRELATION_MAXIMUM)
    hidden = 1 / np.maximum(n * (1 - phi) / (1 + phi), 2.0)
    raised = k * np.sqrt(np.maximum(1.0, (n - 1) / (n * (1 - hidden))))
    cautious = np.clip(corrected + 1 / math.sqrt(n), 0.0, AUTOCORRELATION_MAXIMUM)
    independent = n * (1 - cautious**2) / (1 + cautious**2) * 2 / (2 + np.maximum(kurtosis, 0.0))
    return _cov_interval(raised, np.maximum(2.0, independent), level)


def _cov_interval(k: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Return `spread.cov_interval` of each: McKay's where it holds, else the matched one."""
    import numpy as np

    tail, degrees = (1 - level) / 2, n - 1
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


def _enough(times: Ints, windows: _Windows) -> Bools:
    """Return of each window whether it has runs enough, apart enough, over time enough.

    From the first run of a window to the next that lies `SPACING_S` later, and so on: the run
    that is reached after `RUNS_MINIMUM` - 1 such steps must still lie within.
    """
    import numpy as np

    if not len(times):
        return np.zeros(len(windows.end), dtype=bool)
    after = np.searchsorted(times, times + round(SPACING_S * _MICROSECONDS), side="left")
    after = np.append(after, len(times))
    reached = np.minimum(windows.begin, len(times))
    for _ in range(RUNS_MINIMUM - 1):
        reached = after[reached]
    last = np.maximum(windows.end - 1, 0)
    span = times[last] - times[np.minimum(windows.begin, len(times) - 1)]
    return (reached < windows.end) & (span >= SPAN_MINIMUM_S * _MICROSECONDS)


def _counts(flags: Bools, windows: _Windows) -> Ints:
    """Return how many flags are set in each window."""
    import numpy as np

    running = np.concatenate([[0], np.cumsum(flags)])
    return running[windows.end] - running[windows.begin]
