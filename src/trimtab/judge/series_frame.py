"""The normalised frame of a series, and its daily figures as in figure 6 of [S1].

The frame is sorted and has one row per run. Columns: ``at`` (microseconds, UTC), ``value`` (null
for an unfinished run), ``unfinished``, ``run``. Polars is imported where it is used:
``trimtab status`` runs without it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from trimtab.base.error import Message, UsageError
from trimtab.base.series import InvalidRun, SeriesDay
from trimtab.base.verdict import HistoryPoint

if TYPE_CHECKING:
    import polars as pl


COLUMNS: Final = ("at", "value", "unfinished", "run")

_REFUSALS: Final = {
    "time-missing": "no time",
    "value-missing": "no value",
    "value-not-finite": "the value is not a finite number",
    "value-negative": "the value is negative",
}


def frame_of(points: Sequence[HistoryPoint]) -> pl.DataFrame:
    """Return the frame of the runs of one metric, by time.

    Parameters
    ----------
    points
        Runs of one metric; the value of an unfinished run is ignored.

    Returns
    -------
    polars.DataFrame
        ``at`` (Datetime, microseconds, UTC), ``value`` (null for an unfinished run),
        ``unfinished``, ``run``; one row per run.
    """
    import polars as pl

    rows = [(p.at, None if p.unfinished else p.value, p.unfinished, p.run) for p in points]
    schema = {
        "at": pl.Datetime("us", "UTC"),
        "value": pl.Float64,
        "unfinished": pl.Boolean,
        "run": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").sort("at", maintain_order=True)


def points_of(frame: pl.DataFrame, metric: str) -> list[HistoryPoint]:
    """Return the runs of a normalised frame as points; an unfinished run has value 0."""
    rows = frame.select(COLUMNS).iter_rows()
    return [
        HistoryPoint(at, metric, 0.0 if unfinished else value, unfinished, run)
        for at, value, unfinished, run in rows
    ]


def normalised(frame: pl.DataFrame) -> tuple[pl.DataFrame, tuple[InvalidRun, ...]]:
    """Return the frame with every column, sorted, one row per run, and the invalid runs.

    Parameters
    ----------
    frame
        ``at`` (with a time zone), ``value`` (any number), optionally ``unfinished`` (default
        false) and ``run`` (default: numbered).

    Raises
    ------
    UsageError
        ``at`` or ``value`` is missing or has another type, or the times have no zone.

    Notes
    -----
    For duplicate runs the last row counts. A value that is missing, not finite or negative is not
    judged: no metric is negative, and an empty cell is not 0.
    """
    import polars as pl

    _require(frame)
    unfinished = pl.col("unfinished") if "unfinished" in frame.columns else pl.lit(value=False)
    numbered = pl.format("row {}", pl.int_range(1, pl.len() + 1))
    run = pl.col("run") if "run" in frame.columns else numbered
    tidy = frame.select(
        pl.col("at").dt.convert_time_zone("UTC").cast(pl.Datetime("us", "UTC")),
        pl.col("value").cast(pl.Float64),
        unfinished=unfinished.fill_null(value=False),
        run=run.cast(pl.String).fill_null(numbered),
    )
    tidy = tidy.unique("run", keep="last", maintain_order=True)
    tidy = tidy.with_columns(
        value=pl.when("unfinished").then(None).otherwise("value"),
        refusal=pl.when(pl.col("at").is_null())
        .then(pl.lit("time-missing"))
        .when("unfinished")
        .then(None)
        .when(pl.col("value").is_null())
        .then(pl.lit("value-missing"))
        .when(~pl.col("value").is_finite())
        .then(pl.lit("value-not-finite"))
        .when(pl.col("value") < 0)
        .then(pl.lit("value-negative")),
    ).sort("at", maintain_order=True)
    refused = tidy.filter(pl.col("refusal").is_not_null())
    invalid = tuple(
        InvalidRun(run, at, Message(code, _REFUSALS[code]))
        for run, at, code in refused.select("run", "at", "refusal").iter_rows()
    )
    return tidy.filter(pl.col("refusal").is_null()).select(COLUMNS), invalid


def between(frame: pl.DataFrame, since: datetime | None, until: datetime | None) -> pl.DataFrame:
    """Return the rows from ``since`` to ``until``, both inclusive; ``None`` is no limit."""
    import polars as pl

    if since is not None:
        frame = frame.filter(pl.col("at") >= since)
    if until is not None:
        frame = frame.filter(pl.col("at") <= until)
    return frame


def counted(frame: pl.DataFrame, *, more_is_better: bool) -> pl.DataFrame:
    """Return the runs that count for a COV, unfinished ones as 0.

    In a time metric 0 would be the best value, so unfinished runs are excluded there.
    """
    import polars as pl

    if not more_is_better:
        return frame.filter(~pl.col("unfinished"))
    return frame.with_columns(value=pl.when("unfinished").then(0.0).otherwise("value"))


def _require(frame: pl.DataFrame) -> None:
    import polars as pl

    for name in ("at", "value"):
        if name not in frame.columns:
            raise UsageError(
                f"the series has no column {name!r}",
                code="column-missing",
                hint=f"its columns: {', '.join(frame.columns)}",
            )
    kind = frame.schema["at"]
    if not isinstance(kind, pl.Datetime):
        raise UsageError(
            f"column 'at' has type {kind}",
            code="column-type",
            hint="use Datetime with a time zone",
        )
    if kind.time_zone is None:
        raise UsageError(
            "the times have no time zone",
            code="zone-missing",
            hint="set it: pl.col('at').dt.replace_time_zone('Europe/Zurich')",
        )
    if not frame.schema["value"].is_numeric():
        raise UsageError(
            f"column 'value' has type {frame.schema['value']}",
            code="column-type",
            hint="use numbers",
        )


EARLY_S: Final = 60.0
"""A run may begin this long before it was due (clocks differ) and still be that run."""


def daily(
    frame: pl.DataFrame,
    *,
    timezone: str = "UTC",
    schedule: Sequence[datetime] | None = None,
    present: Sequence[datetime] = (),
    more_is_better: bool = True,
) -> tuple[SeriesDay, ...]:
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


def _day(day: date, row: dict[str, float | None] | None, lost: int | None) -> SeriesDay:
    if row is None:
        return SeriesDay(day, 0, 0, lost, None, None, None, None)
    return SeriesDay(
        day=day,
        n=int(row["n"] or 0),
        unfinished=int(row["unfinished"] or 0),
        missing=lost,
        mean=row["mean"],
        standard_deviation=row["standard_deviation"],
        cov=row["cov"],
        median=row["median"],
    )
