"""The bad hours of a trouble that comes and goes: only those of its slow runs.

The hours between them are the best good hours: everything is as usual, on the same days and under
the same load.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import polars as pl

from trimtab.base.incident import Incident, Shape
from trimtab.judge.array import scatter

_USUAL: Final = timedelta(days=7)
"""Time before the incident whose runs are the usual ones."""
_LEAST: Final = 8
"""Fewest runs that show how far usual ones scatter."""
_BEYOND: Final = 3.0
"""Standard deviations below the usual level: chance makes one of several hundred runs as slow."""

Hours = tuple[datetime, datetime]
"""Begin and end."""


def slow_hours(incident: Incident, frame: pl.DataFrame | None, spacing: timedelta) -> list[Hours]:
    """Return the hours of an incident's slow runs if most of its runs were good, else none.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished`` of its series.
    spacing
        How long a run stands for the time after it.
    """
    if frame is None or incident.until is None:
        return []
    if incident.shape not in (Shape.DIP, Shape.UNSTEADY) or incident.targets:
        # A level is slow throughout; surveys that show slow targets were at other hours.
        return []
    limit = _limit(incident, frame)
    if limit is None:
        return []
    within = frame.filter(pl.col("at").is_between(incident.at, incident.until)).sort("at")
    slow = pl.col("unfinished") | (pl.col("value") < limit)
    times = within.filter(slow.fill_null(value=True))["at"].to_list()
    return [] if 2 * len(times) >= within.height else _joined(times, spacing)


def _limit(incident: Incident, frame: pl.DataFrame) -> float | None:
    """Return the value below which a run is slow: by half the loss at least, and beyond chance."""
    begin = incident.at
    before = frame.filter(pl.col("at").is_between(begin - _USUAL, begin, closed="left"))
    values = before.filter(pl.col("value") > 0)["value"].drop_nulls().to_numpy()
    if not len(values):
        return None
    effect = incident.effect
    half = (1 + effect) / 2 if effect is not None and 0 <= effect < 1 else None
    if half is None and incident.shape is Shape.DIP:
        return None
    chance = None
    if len(values) >= _LEAST:
        chance = math.exp(-_BEYOND * scatter(np.log(values)))
    limits = [share for share in (half, chance) if share is not None]
    return min(limits) * float(np.median(values)) if limits else None


def _joined(times: list[datetime], spacing: timedelta) -> list[Hours]:
    """Return the hours from each time on; those that meet are joined."""
    hours: list[Hours] = []
    for at in times:
        begin = hours.pop()[0] if hours and at <= hours[-1][1] else at
        hours.append((begin, at + spacing))
    return hours
