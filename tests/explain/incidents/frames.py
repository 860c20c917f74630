"""Series and surveys of a small site as finding incidents takes them, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
from tests.calibration import series
from tests.support.small_site import Survey, hour

from trimtab.base.series import SeriesKey
from trimtab.explain.context import SURVEYS
from trimtab.explain.incident_detection import Troubles, find_troubles
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series

WRITE, READ = (
    SeriesKey("s", "hourly", "ior", metric, "B/s")
    for metric in ("write_bandwidth", "read_bandwidth")
)


def level(
    seed: int | list[int], days: int = 35, cov: float = 0.04, *, phi: float = 0.4
) -> np.ndarray:
    """Return the values of an hourly series in which nothing happens."""
    rng = np.random.default_rng(seed)
    return series.lognormal(series.ar1(24 * days, phi, rng), cov=cov)


def found(
    frames: Mapping[SeriesKey, pl.DataFrame],
    *,
    changes: LevelChanges | None = None,
    surveys: pl.DataFrame | None = None,
    now: datetime | None = None,
    **more: Any,
) -> Troubles:
    """Return what is found in hourly series and surveys, right after the last run.

    Each series has the ``changes`` of its level that are given, or those that are found in it.
    """
    return find_troubles(
        [judge_series(frame, key, changes=changes) for key, frame in frames.items()],
        frames,
        pl.DataFrame(schema=SURVEYS) if surveys is None else surveys,
        site="s",
        now=hour(max(map(len, frames.values()))) if now is None else now,
        **more,
    )


def frame_of(surveys: Iterable[Survey]) -> pl.DataFrame:
    """Return one row for each target, metric and survey."""
    rows = [
        (at, f"survey-{at:%Y%m%d%H}", target, metric, value)
        for at, metrics in surveys
        for metric, targets in metrics.items()
        for target, value in targets.items()
    ]
    return pl.DataFrame(rows, schema=SURVEYS, orient="row")
