"""Regimes: the periods between confirmed change points, each with its own figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from trimtab.judge.frame import normalised
from trimtab.judge.spread import cov
from trimtab.model.series import ChangePoint, ChangeStatus, Regime

if TYPE_CHECKING:
    import polars as pl


def confirmed_times(changes: Sequence[ChangePoint]) -> tuple[datetime, ...]:
    """Return the times of confirmed changes that were not dismissed later, in order."""
    return tuple(
        sorted(
            change.at
            for change in changes
            if change.status is ChangeStatus.CONFIRMED and change.dismissed_at is None
        )
    )


def regimes(frame: pl.DataFrame, changes: Sequence[datetime]) -> tuple[Regime, ...]:
    """Return the regimes into which ``changes`` divide a series, by time.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished``.
    changes
        First run of each new level; a regime without runs is omitted.

    Notes
    -----
    Median, mean and COV are of the finished runs, in the unit of the series.
    """
    tidy, _ = normalised(frame)
    rows = list(tidy.select("at", "value").iter_rows())
    if not rows:
        return ()
    edges = [rows[0][0], *sorted(at for at in changes if rows[0][0] < at <= rows[-1][0]), None]
    segments = []
    place = 0
    for _, end in pairwise(edges):
        begin = place
        while place < len(rows) and (end is None or rows[place][0] < end):
            place += 1
        if place > begin:
            segments.append(_regime(rows[begin:place]))
    return tuple(segments)


def _regime(rows: Sequence[tuple[datetime, float | None]]) -> Regime:
    finished = [value for _, value in rows if value is not None]
    return Regime(
        from_=rows[0][0],
        to=rows[-1][0],
        n=len(rows),
        unfinished=len(rows) - len(finished),
        median=median(finished) if finished else None,
        mean=fmean(finished) if finished else None,
        cov=cov(finished),
    )
