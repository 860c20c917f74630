"""Changes of level of runs at given times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from trimtab.judge.change import LevelChanges, find_changes


def changes_among(
    at: Sequence[datetime], values: Sequence[float | None], **terms: Any
) -> LevelChanges:
    """Detect the changes of level of runs at the given times; ``None`` is an unfinished run."""
    columns = {"at": [time.timestamp() * 1e6 for time in at], "value": list(values)}
    frame = pl.DataFrame(columns, schema={"at": pl.Float64, "value": pl.Float64}).with_columns(
        pl.col("at").round().cast(pl.Int64).cast(pl.Datetime("us", "UTC")),
        pl.col("value").is_null().alias("unfinished"),
    )
    return find_changes(frame, **terms)
