"""By how much counters grew from one snapshot to the next."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

LONGEST_STEP: Final = timedelta(hours=26)
"""Between two snapshots of which a rate is made: a day's rhythm, and what a late one adds."""


def growth(numbers: pl.DataFrame, apart: int | None) -> pl.DataFrame:
    """Return by how much each counter grew (``grown``) in how many ``seconds`` since ``before``.

    Parameters
    ----------
    apart
        So many rows above stands the same counter; ``None``: they are brought into order first.
    """
    import polars as pl

    if apart is None:
        numbers = numbers.sort("target", "label", "at")
        above = pl.col("target").shift(), pl.col("label").shift()
        same = (pl.col("target") == above[0]) & pl.col("label").eq_missing(above[1])
    else:
        same = pl.lit(True)
    n = apart or 1
    seconds = pl.col("at").diff(n).dt.total_microseconds() / 1e6
    grown = pl.col("value").diff(n)
    return numbers.with_columns(before=pl.col("at").shift(n), seconds=seconds, grown=grown).filter(
        same & (seconds > 0) & (seconds <= LONGEST_STEP.total_seconds()) & (grown >= 0)
    )


def counters_of_each_time(numbers: pl.DataFrame) -> int | None:
    """Return how many counters each time has, if it is the same ones in order of time and name."""
    import polars as pl

    if numbers.is_empty():
        return None
    begin = numbers.item(0, "at")
    first = numbers.filter(pl.col("at") == begin)
    n = first.height
    if numbers.height % n or first.select("target", "label").is_duplicated().any():
        return None
    one = pl.int_range(pl.len()) // n * n
    alike = numbers.select(
        pl.col("at").is_sorted()
        & (pl.col("at") == pl.col("at").gather(one)).all()
        & (pl.col("target") == pl.col("target").shift(n)).slice(n).all()
        & pl.col("label").eq_missing(pl.col("label").shift(n)).slice(n).all()
    )
    return n if alike.item() else None
