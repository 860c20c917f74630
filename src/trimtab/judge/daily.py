"""Daily figures of a series, as in figure 6 of [S1]: mean with error bars, and COV."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from trimtab.judge.frame import counted, normalised
from trimtab.model.series import Day

if TYPE_CHECKING:
    import polars as pl

EARLY_S: Final = 60.0
"""A run may begin this long before it was due (clocks differ) and still be that run."""


def daily(
    frame: pl.DataFrame,
    *,
    timezone: str = "UTC",
    schedule: Sequence[datetime] | None = None,
    present: Sequence[datetime] = (),
    more_is_better: bool = True,
) -> tuple[Day, ...]:
    """Return the figures of each day with runs or runs due, by day.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished``.
    timezone
        IANA name of the site's time zone.
    schedule
        Times at which runs were due; ``None`` if unknown.
    present
        Times of further runs that took place but are not judged: they are not missing.

    Notes
    -----
    Mean, standard deviation (n - 1) and COV count unfinished runs as 0; in a time metric they
    exclude them. The median is of the finished runs.
    """
    import polars as pl

    tidy, _ = normalised(frame)
    local = tidy.with_columns(day=pl.col("at").dt.convert_time_zone(timezone).dt.date())
    plain = local.group_by("day").agg(
        n=pl.len(), unfinished=pl.sum("unfinished"), median=pl.median("value")
    )
    spread = (
        counted(local, more_is_better=more_is_better)
        .group_by("day")
        .agg(mean=pl.mean("value"), standard_deviation=_deviation(), cov=_cov())
    )
    by_day = {row["day"]: row for row in plain.join(spread, on="day", how="left").to_dicts()}
    lost = None
    if schedule is not None:
        zone = ZoneInfo(timezone)
        lost = Counter(
            at.astimezone(zone).date()
            for at in missing(schedule, [*tidy["at"].to_list(), *present])
        )
    days = sorted({*by_day, *(lost or ())})
    return tuple(_day(day, by_day.get(day), None if lost is None else lost[day]) for day in days)


def missing(schedule: Sequence[datetime], runs: Sequence[datetime]) -> tuple[datetime, ...]:
    """Return the due times without a run before the next due time.

    Parameters
    ----------
    schedule
        Times at which runs were due, in any order.
    runs
        Times at which runs began, whatever their outcome.
    """
    due = sorted(set(schedule))
    early = timedelta(seconds=EARLY_S)
    started = {bisect_right(due, at + early) - 1 for at in runs}
    return tuple(at for place, at in enumerate(due) if place not in started)


def _deviation() -> pl.Expr:
    """Return the standard deviation, exactly 0 if all values are equal."""
    import polars as pl

    value = pl.col("value")
    alike = (value.min() == value.max()) & (value.len() > 1)
    return pl.when(alike).then(0.0).otherwise(value.std())


def _cov() -> pl.Expr:
    import polars as pl

    mean = pl.mean("value")
    return pl.when(mean > 0).then(_deviation() / mean)


def _day(day: date, row: dict[str, float | None] | None, lost: int | None) -> Day:
    if row is None:
        return Day(day, 0, 0, lost, None, None, None, None)
    return Day(
        day=day,
        n=int(row["n"] or 0),
        unfinished=int(row["unfinished"] or 0),
        missing=lost,
        mean=row["mean"],
        standard_deviation=row["standard_deviation"],
        cov=row["cov"],
        median=row["median"],
    )
