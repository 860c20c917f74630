"""The complete analysis of one series: verdict, trend, dispersion, changes, days, windows.

Dispersion is classified by its main source: steps, a few outliers, or broad noise. A year of public
data has both extremes: 20 % COV with 2.5 % MAD-CV (a probe on Mira: a few deep dips) and 21 % with
22 % (one on Cori: constant noise).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Message
from trimtab.base.series import (
    ChangePoint,
    ChangeStatus,
    Dispersion,
    InvalidRun,
    Noise,
    Regime,
    SeriesJudgement,
    SeriesKey,
)
from trimtab.base.site import LIMITS
from trimtab.base.units import plural
from trimtab.judge.change import LevelChanges, find_changes
from trimtab.judge.series_frame import (
    between,
    counted,
    daily,
    missing,
    normalised,
    points_of,
)
from trimtab.judge.series_level import TREND_S, trend
from trimtab.judge.spread import (
    OCCASIONS_MINIMUM,
    corrected_autocorrelation,
    cov,
    cov_interval_of_history,
    cov_text,
    effective_n_cov,
    mad_cv,
    quartile_dispersion,
)
from trimtab.judge.variability import WINDOW_LONGEST_S, judge_history

if TYPE_CHECKING:
    import polars as pl

    from trimtab.base.verdict import Trend, Verdict
    from trimtab.judge.walk_forward import Walked


HALF_OF_VARIANCE: Final = math.sqrt(2)
"""Ratio of COV to MAD-CV above which more than half of the variance is due to outliers."""

_MAD_AGAINST_DEVIATION: Final = 1.72
"""Variance of the logarithm of the ratio of a normal sample's standard deviation and MAD, times
2 n: 1 / 0.367 - 1, from the MAD's efficiency of 36.7 %."""

_SURE: Final = 2.33
"""One in a hundred for normal numbers; the ratio is skewed for few runs, which doubles it."""

_FAR: Final = 3.5
"""Robust standard deviations from the median that a normal run exceeds once in 2,000."""

_UNDECIDED: Final = Message("too-few-runs", "not decided yet")


@dataclass(frozen=True, slots=True)
class _Levelled:
    """Runs divided by the mean of their regime, unfinished ones as 0 or excluded."""

    finished: tuple[float, ...]
    every: tuple[float, ...]
    regimes: int


def dispersion(
    frame: pl.DataFrame,
    *,
    more_is_better: bool = True,
    changes: Sequence[datetime] = (),
) -> Dispersion:
    """Measure the dispersion of the runs of a frame and classify its source.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished``.
    more_is_better
        True for bandwidths and rates, false for times.
    changes
        Times of the first runs after each confirmed level change.

    Returns
    -------
    Dispersion
        COV, robust measures, autocorrelation, the kind of noise and the reason.

    Notes
    -----
    ``cov`` counts unfinished runs as 0 (in a time metric it excludes them); every other measure
    excludes them. Autocorrelation and the COV within regimes use each run divided by the mean of
    its regime; the variance loses one degree of freedom per regime.

    The noise is ``steps`` if removing the levels removes more than half of the variance; else
    ``few_bad_events`` if, within regimes, the COV exceeds `HALF_OF_VARIANCE` times the MAD-CV
    and the chance variation of that ratio for the number of independent runs; else
    ``always_noisy``. Of 1,000 series of normal noise (lag-1 autocorrelation 0 / 0.5), 3.6 / 1.5 %
    are classified as bad events with 24 runs, 1.3 / 0.6 % with 48, none with 168; of 400 with 3 %
    of 168 runs dipping to 30 to 80 %, all but 2 % are detected. Laplace noise and Student's t with
    3 degrees, whose tails contain half of the variance, may be classified as either.
    """
    tidy, _ = normalised(frame)
    values = counted(tidy, more_is_better=more_is_better)["value"].to_list()
    rows = list(tidy.select("at", "value").iter_rows())
    finished = [value for _, value in rows if value is not None]
    levelled = _levelled(rows, changes, more_is_better=more_is_better)
    k, robust = cov(values), mad_cv(finished)
    measured = Dispersion(
        n=len(rows),
        unfinished=len(rows) - len(finished),
        cov=k,
        cov_interval=cov_interval_of_history(values),
        cov_finished=cov(finished),
        cov_within_regimes=_pooled(levelled.finished, levelled.regimes),
        mad_cv=robust,
        quartile_dispersion=quartile_dispersion(finished),
        cov_over_mad_cv=k / robust if k is not None and robust else None,
        autocorrelation=corrected_autocorrelation(levelled.finished) if len(rows) >= 6 else None,
        noise=Noise.CANNOT_TELL,
        reason=_UNDECIDED,
    )
    noise, reason = _noise(measured, levelled)
    return replace(measured, noise=noise, reason=reason)


def _levelled(
    rows: Sequence[tuple[datetime, float | None]],
    changes: Sequence[datetime],
    *,
    more_is_better: bool,
) -> _Levelled:
    """Return runs divided by the mean of the finished runs of their regime.

    A regime without a finished run, or with a mean of 0, has no level: its finished runs are
    ignored, its unfinished ones stay 0.
    """
    edges = sorted(changes)
    regimes: dict[int, list[float | None]] = {}
    place = 0
    for at, value in rows:
        while place < len(edges) and edges[place] <= at:
            place += 1
        regimes.setdefault(place, []).append(value)
    finished, every, levels = [], [], 0
    for values in regimes.values():
        known = [value for value in values if value is not None]
        mean = fmean(known) if known else 0.0
        if mean > 0:
            levels += 1
            finished.extend(value / mean for value in known)
            every.extend(value / mean for value in known)
        if more_is_better:
            every.extend([0.0] * (len(values) - len(known)))
    return _Levelled(tuple(finished), tuple(every), levels)


def _pooled(relative: Sequence[float], regimes: int) -> float | None:
    """Return the COV within regimes from runs divided by their regime's mean."""
    degrees = len(relative) - regimes
    if degrees < 1 or regimes < 1:
        return None
    if min(relative) == max(relative):  # means that differ in the last digit have no variance
        return 0.0
    return math.sqrt(math.fsum((value - 1) ** 2 for value in relative) / degrees)


def _noise(measured: Dispersion, levelled: _Levelled) -> tuple[Noise, Message]:
    """Return the kind of noise and the reason."""
    n, k = measured.n, measured.cov
    if n < OCCASIONS_MINIMUM:  # fewer do not distinguish an outlier from a wide distribution
        return Noise.CANNOT_TELL, Message(
            "too-few-runs", f"{plural(n, 'run')}; at least {OCCASIONS_MINIMUM} are needed"
        )
    if k is None:
        return Noise.CANNOT_TELL, Message("mean-zero", "the mean is 0: the COV is undefined")
    if k == 0:
        return Noise.CANNOT_TELL, Message(
            "constant-values", f"all {n} runs gave exactly the same value: no variance"
        )
    within_all = cov(levelled.every)
    if within_all is None:
        return Noise.CANNOT_TELL, Message("none-finished", "no run finished: there is no level")
    if levelled.regimes > 1 and within_all * HALF_OF_VARIANCE < k:
        share, changes = 1 - (within_all / k) ** 2, levelled.regimes - 1
        explain = "explains" if changes == 1 else "explain"
        return Noise.STEPS, Message(
            "steps",
            f"{plural(changes, 'change')} of level {explain} {100 * share:.0f} % of the variance: "
            f"COV {cov_text(k)}, {cov_text(within_all)} without",
        )
    return _events_or_breadth(measured, levelled, within_all)


def _events_or_breadth(
    measured: Dispersion, levelled: _Levelled, within_all: float
) -> tuple[Noise, Message]:
    bulk = mad_cv(levelled.finished)
    outliers = _outliers(levelled, bulk or 0.0, measured.unfinished)
    if not bulk:
        return Noise.FEW_BAD_EVENTS, Message(
            "bulk-constant", f"more than half of the runs gave exactly the same value{outliers}"
        )
    ratio = within_all / bulk
    measures = f"COV {cov_text(within_all)} is {ratio:.1f} times the MAD-CV of {cov_text(bulk)}"
    if ratio < HALF_OF_VARIANCE:
        return Noise.ALWAYS_NOISY, Message(
            "always-noisy", f"{measures}: broad noise, not single outliers"
        )
    independent = max(1.0, effective_n_cov(len(levelled.finished), measured.autocorrelation or 0.0))
    if ratio < math.exp(_SURE * math.sqrt(_MAD_AGAINST_DEVIATION / (2 * independent))):
        return Noise.CANNOT_TELL, Message(
            "too-few-independent-runs",
            f"{measures}, which may be chance with {len(levelled.finished)} runs ("
            f"{independent:.0f} independent)",
        )
    return Noise.FEW_BAD_EVENTS, Message(
        "few-bad-events", f"{measures}: most runs are steady{outliers}"
    )


def _outliers(levelled: _Levelled, bulk: float, unfinished: int) -> str:
    """Return how many runs are outliers, and on which side, as text."""
    middle = median(levelled.finished) if levelled.finished else 0.0
    reach = _FAR * bulk * middle
    below = sum(value < middle - reach for value in levelled.finished)
    above = sum(value > middle + reach for value in levelled.finished)
    parts = [f"{below} far below the rest"] if below else []
    if above:
        parts.append(f"{above} far above")
    if unfinished:
        parts.append(f"{unfinished} unfinished")
    if not parts:
        return ""
    return f"; of {plural(len(levelled.finished) + unfinished, 'run')}, {', '.join(parts)}"


def judge_series(
    frame: pl.DataFrame,
    key: SeriesKey,
    *,
    goal: float = LIMITS.cov,
    window_s: float = LIMITS.window_s,
    timezone: str = "UTC",
    since: datetime | None = None,
    until: datetime | None = None,
    schedule: Sequence[datetime] | None = None,
    invalid: Sequence[InvalidRun] = (),
    requested: Mapping[str, object] | None = None,
    changes: LevelChanges | None = None,
    rolling_after: datetime | None = None,
) -> SeriesJudgement:
    """Analyse one series.

    Parameters
    ----------
    frame
        ``at`` (Datetime, UTC), ``value`` (in ``key.unit``; null for an unfinished run),
        ``unfinished``, and optionally ``run``; one row per run, in any order.
    goal, window_s
        Highest COV allowed, a fraction, over a window of this length in seconds.
    since, until, rolling_after
        Report only this period, and as `trimtab.judge.rolling.rolling` only windows ``after`` a
        time. Runs before ``since`` still count for levels and windows.
    timezone, schedule
        IANA name of the site's time zone; times at which runs were due, ``None`` if unknown.
    invalid
        Runs whose workload is not the requested one; removed.
    requested, changes
        Parameters that distinguish the series; its change points, from `changes_of`.

    Returns
    -------
    SeriesJudgement
        Verdict, trend, dispersion, change points, regimes, daily and rolling figures.

    Raises
    ------
    UsageError
        The frame lacks a column or a column has the wrong type.
    """
    from trimtab.judge.rolling import rolling

    judged, reported, excluded = _parts_of(frame, invalid, since, until)
    changes = changes or find_changes(judged, more_is_better=key.more_is_better, timezone=timezone)
    levels, more = confirmed_times(changes.points), key.more_is_better
    due = None if schedule is None else _within(schedule, since, until)
    present = [run.at for run in excluded if run.at is not None]
    heading = _verdict_and_trend(reported, key, goal, window_s, changes.points)
    window = {"goal": goal, "window_s": window_s, "more_is_better": more}
    return SeriesJudgement(
        key=key,
        verdict=heading[0],
        trend=heading[1],
        dispersion=dispersion(_last(reported, window_s), more_is_better=more, changes=levels),
        overall=dispersion(reported, more_is_better=more, changes=levels),
        changes=tuple(p for p in changes.points if since is None or p.at >= since),
        regimes=regimes(reported, levels),
        days=daily(reported, timezone=timezone, schedule=due, present=present, more_is_better=more),
        rolling=rolling(judged, since=since, after=rolling_after, **window),
        expected=None if due is None else len(due),
        missing=None if due is None else len(missing(due, [*reported["at"].to_list(), *present])),
        invalid=tuple(run for run in excluded if run.at is None or _holds(run.at, since, until)),
        seasonal=changes.seasonal,
        untested=changes.untested,
        asked=dict(requested or {}),
    )


def _parts_of(
    frame: pl.DataFrame,
    invalid: Sequence[InvalidRun],
    since: datetime | None,
    until: datetime | None,
) -> tuple[pl.DataFrame, pl.DataFrame, tuple[InvalidRun, ...]]:
    """Return the runs that are judged, those of them that are reported, and the excluded ones."""
    tidy, refused = normalised(frame)
    judged = between(_without(tidy, invalid), None, until)
    return judged, between(judged, since, None), (*invalid, *refused)


def _without(frame: pl.DataFrame, invalid: Sequence[InvalidRun]) -> pl.DataFrame:
    import polars as pl

    return frame.filter(~pl.col("run").is_in([run.run for run in invalid]))


def _verdict_and_trend(
    frame: pl.DataFrame,
    key: SeriesKey,
    goal: float,
    window_s: float,
    changes: Sequence[ChangePoint],
) -> tuple[Verdict, Trend]:
    """Return verdict and trend of the runs, under the probe name that ``check`` uses."""
    points = points_of(_recent(frame, window_s), key.metric)
    name = f"{key.probe} ({key.kind})" if key.kind else key.probe
    verdict = judge_history(
        points,
        metric=key.metric,
        probe=name,
        goal=goal,
        window_s=window_s,
        target=key.target,
        unit=key.unit,
        more_is_better=key.more_is_better,
        level_from=_level_from(frame, changes),
    )
    return verdict, trend(
        points,
        metric=key.metric,
        probe=name,
        unit=key.unit,
        more_is_better=key.more_is_better,
    )


def changes_of(
    frame: pl.DataFrame,
    key: SeriesKey,
    *,
    timezone: str = "UTC",
    invalid: Sequence[InvalidRun] = (),
    after: Walked | None = None,
) -> LevelChanges:
    """Return the change points of a series; parameters as in `judge_series`.

    Parameters
    ----------
    after
        As in `trimtab.judge.change.find_changes`.
    """
    tidy, _ = normalised(frame)
    return find_changes(
        _without(tidy, invalid),
        more_is_better=key.more_is_better,
        timezone=timezone,
        after=after,
    )


def _recent(frame: pl.DataFrame, window_s: float) -> pl.DataFrame:
    """Return the runs that a verdict and a trend may use: few of many years."""
    import polars as pl

    reach = timedelta(seconds=max(window_s, WINDOW_LONGEST_S, TREND_S)) + timedelta(days=1)
    last = pl.int_range(pl.len()) >= pl.len() - OCCASIONS_MINIMUM
    return frame.filter((pl.col("at") > pl.max("at") - reach) | last)


def _last(frame: pl.DataFrame, window_s: float) -> pl.DataFrame:
    """Return the runs of the window that ends with the last run."""
    import polars as pl

    return frame.filter(pl.col("at") > pl.max("at") - timedelta(seconds=window_s))


def _holds(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or at >= since) and (until is None or at <= until)


def _within(
    times: Sequence[datetime], since: datetime | None, until: datetime | None
) -> tuple[datetime, ...]:
    return tuple(sorted({at for at in times if _holds(at, since, until)}))


def confirmed_times(changes: Sequence[ChangePoint]) -> tuple[datetime, ...]:
    """Return the times of confirmed changes that were not dismissed later, in order."""
    return tuple(
        sorted(
            change.at
            for change in changes
            if change.status is ChangeStatus.CONFIRMED and change.dismissed_at is None
        )
    )


def _level_from(frame: pl.DataFrame, changes: Sequence[ChangePoint]) -> datetime | None:
    """Return the first run of the current level; ``None`` without runs.

    Also a suspect begins one: what may be a step must not count as variability.
    """
    first = frame["at"].min()
    if not isinstance(first, datetime):
        return None
    return max([first, *(change.at for change in changes if change.dismissed_at is None)])


def regimes(frame: pl.DataFrame, changes: Sequence[datetime]) -> tuple[Regime, ...]:
    """Return the regimes into which ``changes`` divide a series, by time.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished``.
    changes
        First run of each new level; a regime without runs is omitted.

    Notes
    -----
    Median, mean and COV are those of the finished runs, in the unit of the series.
    """
    tidy, _ = normalised(frame)
    rows = list(tidy.select("at", "value").iter_rows())
    if not rows:
        return ()
    edges = [rows[0][0], *sorted(at for at in changes if rows[0][0] < at <= rows[-1][0]), None]
    segments = []
    place = 0
    for _, end in pairwise(edges):
        begin = place
        while place < len(rows) and (end is None or rows[place][0] < end):
            place += 1
        if place > begin:
            segments.append(_regime(rows[begin:place]))
    return tuple(segments)


def _regime(rows: Sequence[tuple[datetime, float | None]]) -> Regime:
    finished = [value for _, value in rows if value is not None]
    return Regime(
        from_=rows[0][0],
        to=rows[-1][0],
        n=len(rows),
        unfinished=len(rows) - len(finished),
        median=median(finished) if finished else None,
        mean=fmean(finished) if finished else None,
        cov=cov(finished),
    )
