"""Surveys of a small site as the frame that finding incidents takes."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from tests.support.small_site import Survey

from trimtab.explain.context import SURVEYS


def frame_of(surveys: Iterable[Survey]) -> pl.DataFrame:
    """Return one row for each target, metric and survey."""
    rows = [
        (at, f"survey-{at:%Y%m%d%H}", target, metric, value)
        for at, metrics in surveys
        for metric, targets in metrics.items()
        for target, value in targets.items()
    ]
    return pl.DataFrame(rows, schema=SURVEYS, orient="row")
