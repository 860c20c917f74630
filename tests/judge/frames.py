"""Frames of a series for the tests: hourly runs from a fixed time, some missing or unfinished."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from tests.calibration.series import TOKIO, real_runs
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
    at = pl.Datetime("us", "UTC")
    schema = {"at": at, "value": pl.Float64, "unfinished": pl.Boolean, "run": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def mira_reads() -> pl.DataFrame:
    """Return a real year of daily HACC-IO reads on Mira, in B/s [TOKIO, SC18]; skip without it."""
    runs = {probe: (times, speeds) for probe, times, speeds in real_runs()}
    if not runs:
        pytest.skip(f"no recorded data under {TOKIO} (set TRIMTAB_REAL_DATA)")
    times, speeds = runs["mira-fs1 hacc_io_read read"]
    at = [datetime.fromtimestamp(time, UTC) for time in times]
    schema = {"at": pl.Datetime("us", "UTC"), "value": pl.Float64}
    return pl.DataFrame({"at": at, "value": [speed * 1024**2 for speed in speeds]}, schema=schema)


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
