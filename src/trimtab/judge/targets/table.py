"""Surveys as a table: one row per survey, one column per target."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from trimtab.judge.arrays import Floats


@dataclass(frozen=True, slots=True)
class SurveyTable:
    """Surveys of one metric.

    Attributes
    ----------
    at
        Start time of each survey, ascending.
    runs, targets
        Names of the rows and of the columns.
    servers
        Server of each target in its latest survey; ``None`` if unknown.
    values
        Shape (surveys, targets), in the metric's unit; NaN if a target was not measured. 0 is a
        target that delivered nothing.
    """

    at: tuple[datetime, ...]
    runs: tuple[str, ...]
    targets: tuple[str, ...]
    servers: tuple[str | None, ...]
    values: Floats


def survey_table(surveys: pl.DataFrame, metric: str) -> SurveyTable:
    """Return the surveys of one metric as a table.

    Parameters
    ----------
    surveys
        ``at``, ``run``, ``target``, ``metric``, ``value``, and ``server`` if known. A target
        measured more than once in a survey gets the median; values that are missing, negative or
        not finite count as not measured.
    """
    valid = surveys.filter(
        (pl.col("metric") == metric)
        & pl.col("value").is_finite()
        & (pl.col("value") >= 0)
        & pl.col("at").is_not_null()
    )
    rows = valid.group_by("run").agg(pl.min("at")).sort("at", "run")
    server = pl.col("server") if "server" in valid.columns else pl.lit(None, dtype=pl.String)
    columns = (
        valid.sort("at").group_by("target").agg(server=server.drop_nulls().last()).sort("target")
    )
    cells = valid.group_by("run", "target").agg(pl.median("value"))
    place = {name: number for number, name in enumerate(rows["run"])}
    column = {name: number for number, name in enumerate(columns["target"])}
    values = np.full((len(place), len(column)), np.nan)
    for run, target, value in cells.iter_rows():
        values[place[run], column[target]] = value
    return SurveyTable(
        tuple(rows["at"]),
        tuple(rows["run"]),
        tuple(columns["target"]),
        tuple(columns["server"]),
        values,
    )
