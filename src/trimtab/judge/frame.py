"""The frame that every series is judged from, made whole: sorted, each run once, in one type.

Columns: ``at`` (microseconds, UTC), ``value`` (null where the run did not finish), ``unfinished``,
``run``. Polars is imported where it is used: `trimtab status` does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trimtab.errors import UsageError
from trimtab.model.check import HistoryPoint
from trimtab.model.series import InvalidRun

if TYPE_CHECKING:
    from datetime import datetime

    import polars as pl

COLUMNS: Final = ("at", "value", "unfinished", "run")


def frame_of(points: Sequence[HistoryPoint]) -> pl.DataFrame:
    """Return the frame of runs of one metric, by time: ``at``, ``value``, ``unfinished``, ``run``.

    A run that did not finish has no value, whatever the point says.
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
    """Return the runs of a whole frame (see `whole`) as points; an unfinished one has value 0."""
    rows = frame.select(COLUMNS).iter_rows()
    return [
        HistoryPoint(at, metric, 0.0 if unfinished else value, unfinished, run)
        for at, value, unfinished, run in rows
    ]


def whole(frame: pl.DataFrame) -> tuple[pl.DataFrame, tuple[InvalidRun, ...]]:
    """Return the frame with every column, sorted, each run once, and what cannot be judged.

    Parameters
    ----------
    frame
        ``at`` (with a zone), ``value`` (any number), and where there are such ``unfinished``
        (else false) and ``run`` (else numbered).

    Raises
    ------
    UsageError
        ``at`` or ``value`` is missing or of another type, or the times have no zone.

    Notes
    -----
    A run that is there twice counts once, the last row of it. A value that is missing, not
    finite or negative is not judged: no metric is ever negative, and an empty cell is no 0.
    """
    import polars as pl

    _require(frame)
    unfinished = pl.col("unfinished") if "unfinished" in frame.columns else pl.lit(value=False)
    numbered = pl.format("row {}", pl.int_range(1, pl.len() + 1))
    run = pl.col("run") if "run" in frame.columns else numbered
    tidy = frame.select(
        pl.col("at").dt.convert_time_zone("UTC").cast(pl.Datetime("us", "UTC")),
        pl.col("value").cast(pl.Float64),
        unfinished.fill_null(value=False).alias("unfinished"),
        run.cast(pl.String).fill_null(numbered).alias("run"),
    )
    tidy = tidy.unique("run", keep="last", maintain_order=True)
    tidy = tidy.with_columns(
        value=pl.when("unfinished").then(None).otherwise("value"),
        why=pl.when(pl.col("at").is_null())
        .then(pl.lit("it has no time"))
        .when("unfinished")
        .then(None)
        .when(pl.col("value").is_null())
        .then(pl.lit("it has no value"))
        .when(~pl.col("value").is_finite())
        .then(pl.lit("its value is not a finite number"))
        .when(pl.col("value") < 0)
        .then(pl.lit("its value is negative")),
    ).sort("at", maintain_order=True)
    refused = tidy.filter(pl.col("why").is_not_null())
    invalid = tuple(
        InvalidRun(run, at, why) for run, at, why in refused.select("run", "at", "why").iter_rows()
    )
    return tidy.filter(pl.col("why").is_null()).select(COLUMNS), invalid


def between(frame: pl.DataFrame, since: datetime | None, until: datetime | None) -> pl.DataFrame:
    """Return the rows from ``since`` to ``until``, both within; ``None`` is no limit."""
    import polars as pl

    if since is not None:
        frame = frame.filter(pl.col("at") >= since)
    if until is not None:
        frame = frame.filter(pl.col("at") <= until)
    return frame


def counted(frame: pl.DataFrame, *, more_is_better: bool) -> pl.DataFrame:
    """Return the runs that a COV counts, unfinished ones as 0.

    Of a time, in which 0 would be splendid, unfinished runs are left out.
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
                f"the series has no column {name!r}", hint=f"it has {', '.join(frame.columns)}"
            )
    kind = frame.schema["at"]
    if not isinstance(kind, pl.Datetime):
        raise UsageError(f"the times are of type {kind}", hint="give them as Datetime with a zone")
    if kind.time_zone is None:
        raise UsageError(
            "the times have no zone",
            hint="say which: pl.col('at').dt.replace_time_zone('Europe/Zurich')",
        )
    if not frame.schema["value"].is_numeric():
        raise UsageError(f"the values are of type {frame.schema['value']}", hint="numbers only")
