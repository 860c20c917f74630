"""Settings that have another value than in the snapshot before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that has another value in the bad hours than it had before.

    Attributes
    ----------
    at
        The first snapshot that shows the new value; ``before_at`` the last that shows the old.
    targets
        Those of which it changed alike: the same old and new value.
    of
        How many have the setting at all.
    """

    name: str
    kind: str
    before: str
    after: str
    before_at: datetime
    at: datetime
    targets: tuple[str, ...]
    of: int


def setting_changes(settings: pl.DataFrame) -> tuple[SettingChange, ...]:
    """Return the settings that changed among snapshots, the earliest first."""
    key = ["kind", "name", "target"]
    rows = settings.filter(pl.col("value").is_not_null())
    value = pl.col("value")
    # Hardly any setting changes: only those that did are brought into order.
    several = rows.group_by(key).agg(several=value.min() != value.max()).filter("several")
    if several.is_empty():
        return ()
    changed = (
        rows.join(several, on=key, how="semi", nulls_equal=True)
        .sort(*key, "at")
        .with_columns(
            before=pl.col("value").shift().over(key), before_at=pl.col("at").shift().over(key)
        )
        .filter(pl.col("before").is_not_null() & (pl.col("before") != pl.col("value")))
    )
    if changed.is_empty():
        return ()
    having = {
        (kind, name): of
        for kind, name, of in rows.group_by("kind", "name")
        .agg(pl.col("target").n_unique())
        .iter_rows()
    }
    alike = (
        changed.group_by("kind", "name", "before", "value", "before_at", "at")
        .agg(pl.col("target").unique().sort())
        .sort("at", "name", "kind", "before", "value")
    )
    return tuple(
        SettingChange(
            name=row["name"],
            kind=row["kind"],
            before=row["before"],
            after=row["value"],
            before_at=row["before_at"],
            at=row["at"],
            targets=tuple(row["target"]),
            of=having[row["kind"], row["name"]],
        )
        for row in alike.iter_rows(named=True)
    )
