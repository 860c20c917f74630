"""The complete analysis of one series: verdict, trend, dispersion, changes, days, windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from trimtab.judge.changes import Changes, find_changes
from trimtab.judge.daily import daily, missing
from trimtab.judge.dispersion import dispersion
from trimtab.judge.frame import between, frame_of, normalised, points_of
from trimtab.judge.occasions import OCCASIONS_MINIMUM
from trimtab.judge.spread import cov
from trimtab.judge.trend import TREND_S, trend
from trimtab.judge.variability import WINDOW_LONGEST_S, judge_history
from trimtab.model.series import (
    ChangePoint,
    ChangeStatus,
    InvalidRun,
    Regime,
    SeriesJudgement,
    SeriesKey,
)
from trimtab.model.site import LIMITS

if TYPE_CHECKING:
    import polars as pl

    from trimtab.judge.changes.walk_forward import Walked
    from trimtab.model.verdict import Trend, Verdict

__all__ = ["frame_of", "judge_series"]


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
    changes: Changes | None = None,
) -> SeriesJudgement:
    """Analyse one series.

    Parameters
    ----------
    frame
        ``at`` (Datetime, UTC), ``value`` (in ``key.unit``; null for an unfinished run),
        ``unfinished``, and optionally ``run``; one row per run, in any order.
    goal, window_s
        Highest COV allowed, a fraction, over a window of this length in seconds.
    since, until
        Report only this period. Runs before ``since`` still count for levels and windows.
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

    tidy, refused = normalised(frame)
    excluded = (*invalid, *refused)
    judged = between(_without(tidy, invalid), None, until)
    reported = between(judged, since, None)
    changes = changes or find_changes(judged, more_is_better=key.more_is_better, timezone=timezone)
    levels, more = confirmed_times(changes.points), key.more_is_better
    due = None if schedule is None else _within(schedule, since, until)
    present = [run.at for run in excluded if run.at is not None]
    verdict, heading = _verdict_and_trend(_recent(reported, window_s), key, goal, window_s)
    return SeriesJudgement(
        key=key,
        verdict=verdict,
        trend=heading,
        dispersion=dispersion(_last(reported, window_s), more_is_better=more, changes=levels),
        overall=dispersion(reported, more_is_better=more, changes=levels),
        changes=tuple(p for p in changes.points if since is None or p.at >= since),
        regimes=regimes(reported, levels),
        days=daily(reported, timezone=timezone, schedule=due, present=present, more_is_better=more),
        rolling=rolling(judged, goal=goal, window_s=window_s, since=since, more_is_better=more),
        expected=None if due is None else len(due),
        missing=None if due is None else len(missing(due, [*reported["at"].to_list(), *present])),
        invalid=tuple(run for run in excluded if run.at is None or _holds(run.at, since, until)),
        seasonal=changes.seasonal,
        untested=changes.untested,
        asked=dict(requested or {}),
    )


def _without(frame: pl.DataFrame, invalid: Sequence[InvalidRun]) -> pl.DataFrame:
    import polars as pl

    return frame.filter(~pl.col("run").is_in([run.run for run in invalid]))


def _verdict_and_trend(
    frame: pl.DataFrame, key: SeriesKey, goal: float, window_s: float
) -> tuple[Verdict, Trend]:
    """Return verdict and trend of the runs, under the probe name that ``check`` uses."""
    points = points_of(frame, key.metric)
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
) -> Changes:
    """Return the change points of a series; parameters as in `judge_series`.

    Parameters
    ----------
    after
        As in `trimtab.judge.changes.find_changes`.
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
