"""Fewer points of a long series for a chart, without hiding one that matters. Pure.

::

    bucket of time   |   . .:  .  |  .   '  .  |      first, last, lowest and highest are kept,
                     |  .    .    |     .    . |      as is every outlier and every unfinished run

MinMax down-sampling after Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation"
(VLDB 2014): a line through the kept points covers the pixels that the whole would cover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

OUTLIER: Final = 5.0
"""Distance from the runs around, in scaled median absolute deviations of all such distances."""
AROUND: Final = 25
"""Runs around one, itself among them: a change of level makes no run an outlier, and hides none."""
_MAD_TO_DEVIATION: Final = 1.4826
_OF_BUCKET: Final = 4


def outliers(frame: pl.DataFrame) -> pl.Series:
    """Return which runs are outliers: far from the median of those around, or unfinished."""
    import polars as pl

    value = pl.col("value")
    usual = value.rolling_median(AROUND, min_samples=1, center=True)
    distance = (value - usual).abs()
    spread = _MAD_TO_DEVIATION * distance.median()
    is_far = (distance > OUTLIER * spread).fill_null(value=True)
    return frame.select((pl.col("unfinished") | is_far).alias("outlier")).to_series()


def sampled(frame: pl.DataFrame, points: int) -> pl.DataFrame:
    """Return about so many rows of a series, the same at every call.

    Parameters
    ----------
    frame
        ``at``, ``value`` (null for an unfinished run), ``unfinished``, by time.
    points
        At least 4. Outliers come on top.

    Returns
    -------
    polars.DataFrame
        Rows of ``frame``: of each of ``points / 4`` equal stretches of time the first, last, lowest
        and highest, and every outlier.
    """
    import polars as pl

    if frame.height <= points:
        return frame
    buckets = max(1, points // _OF_BUCKET)
    at = frame["at"].cast(pl.Int64)
    first, last = at[0], at[-1]
    width = max(1, -(-(last - first + 1) // buckets))
    numbered = frame.with_columns(
        bucket=(at - first) // width, row=pl.int_range(frame.height), outlier=outliers(frame)
    )
    value = pl.col("value")
    chosen = numbered.group_by("bucket").agg(
        pl.col("row").first().alias("first"),
        pl.col("row").last().alias("last"),
        pl.col("row").sort_by(value, nulls_last=True).first().alias("low"),
        pl.col("row").sort_by(value, nulls_last=False).last().alias("high"),
    )
    edges = pl.concat([chosen[name] for name in ("first", "last", "low", "high")]).unique()
    return frame.filter(numbered["row"].is_in(edges.implode()) | numbered["outlier"])
