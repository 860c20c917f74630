"""Frames of a series for the tests: hourly runs from a fixed time, some missing or unfinished."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import polars as pl
from tests.judge.history import START

from trimtab.base.series import ChangePoint, ChangeStatus, SeriesKey

KEY = SeriesKey("alba", "ior", "ior", "write_bandwidth", "B/s")


def series(
    values: Sequence[float],
    *,
    step_s: float = 3600.0,
    unfinished: Collection[int] = (),
    gaps: Collection[int] = (),
) -> pl.DataFrame:
    """Return a frame with a run each ``step_s``; places in ``gaps`` have none."""
    rows = [
        (
            START + timedelta(seconds=step_s * place),
            None if place in unfinished else float(value),
            place in unfinished,
            f"run-{place}",
        )
        for place, value in enumerate(values)
        if place not in gaps
    ]
    schema = {
        "at": pl.Datetime("us", "UTC"),
        "value": pl.Float64,
        "unfinished": pl.Boolean,
        "run": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def hour(place: float) -> datetime:
    """Return the time of the run at a place."""
    return START + timedelta(hours=place)


def change(place: int, before: float, after: float, **more: object) -> ChangePoint:
    """Return a confirmed change at a place."""
    facts: dict[str, object] = {
        "at": hour(place),
        "detected_at": hour(place + 10),
        "status": ChangeStatus.CONFIRMED,
        "effect": after / before,
        "effect_interval": None,
        "before": before,
        "after": after,
        "n_before": place,
        "n_after": 10,
        "reason": "made for a test",
    }
    return ChangePoint(**{**facts, **more})  # pyrefly: ignore[bad-argument-type]
