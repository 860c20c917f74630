"""What judging needs of the past: one number for each run and metric of a series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select

from trimtab.model.check import HistoryPoint
from trimtab.model.run import METRIC_UNITS, RunStatus
from trimtab.record import schema
from trimtab.record.kept import Series

JUDGED = (RunStatus.OK, RunStatus.PARTIAL, RunStatus.UNFINISHED)
"""A run that failed, never started or did something else says nothing about the file system."""


def series(connection: Connection, site: str | None) -> tuple[Series, ...]:
    """Return every series that is kept, of one site or of all, the longest first."""
    run, place = schema.run.c, schema.site.c
    query = (
        select(
            place.name,
            run.probe,
            run.kind,
            run.comparability,
            func.count().label("runs"),
            func.min(run.at).label("first_at"),
            func.max(run.at).label("last_at"),
        )
        .join(schema.site, place.number == run.site)
        .group_by(place.name, run.probe, run.kind, run.comparability)
        .order_by(func.count().desc(), run.comparability)
    )
    if site is not None:
        query = query.where(place.name == site)
    return tuple(Series(*row) for row in connection.execute(query))


def points(
    connection: Connection,
    site: str,
    comparability: str,
    *,
    metric: str | None = None,
    target: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[HistoryPoint, ...]:
    """Return one point for each run and metric, by time.

    The value is the median over the believed repetitions (over the believed figures of the whole
    run where it has none by repetition). A run that did not finish has 0 for every metric of the
    series in which more is better; in a series of seconds 0 would be the best of all, so there it
    is left out.

    Parameters
    ----------
    target
        The OST or MDT; ``None`` is the whole, not every target.
    since, until
        Aware; both are within.
    """
    query = _samples_of_series(site, comparability, metric=metric, target=target)
    if since is not None:
        query = query.where(schema.run.c.at >= since)
    if until is not None:
        query = query.where(schema.run.c.at <= until)
    return tuple(_points(connection.execute(query), metric))


def _samples_of_series(
    site: str, comparability: str, *, metric: str | None, target: str | None
) -> Select[*tuple[Any, ...]]:
    run, sample = schema.run, schema.sample
    of_interest = [
        sample.c.run == run.c.number,
        sample.c.statistic == "total",
        sample.c.reason.is_(None),
        sample.c.target.is_(None) if target is None else sample.c.target == target,
    ]
    if metric is not None:
        of_interest.append(sample.c.metric == metric)
    return (
        select(
            run.c.number,
            run.c.id,
            run.c.at,
            run.c.status,
            sample.c.metric,
            sample.c.repetition,
            sample.c.value,
        )
        .join(schema.site, schema.site.c.number == run.c.site)
        .outerjoin(sample, and_(*of_interest))
        .where(
            schema.site.c.name == site,
            run.c.comparability == comparability,
            run.c.at.is_not(None),
            run.c.status.in_([status.value for status in JUDGED]),
        )
        .order_by(run.c.at, run.c.number)
    )


def _points(rows: Iterable[Any], metric: str | None) -> Iterator[HistoryPoint]:
    runs = [(key, list(group)) for key, group in groupby(rows, key=lambda row: tuple(row)[:4])]
    metrics = {row[4] for _, group in runs for row in group if row[4] is not None}
    if metric is not None:
        metrics.add(metric)
    zeroed = sorted(one for one in metrics if METRIC_UNITS.get(one, "s") != "s")
    for (_, identifier, at, status), group in runs:
        unfinished = status == RunStatus.UNFINISHED
        values = dict.fromkeys(zeroed, 0.0) if unfinished else _medians(group)
        for name, value in values.items():
            yield HistoryPoint(at, name, value, unfinished=unfinished, run=identifier)


def _medians(rows: list[Any]) -> dict[str, float]:
    """Return metric to median, by repetition where there are any, metrics in order."""
    values: dict[tuple[str, bool], list[float]] = {}
    for *_, metric, repetition, value in rows:
        if metric is not None:
            values.setdefault((metric, repetition is None), []).append(value)
    return {
        metric: _median(values.get((metric, False)) or values[metric, True])
        for metric in sorted({metric for metric, _ in values})
    }


def _median(values: list[float]) -> float:
    values.sort()
    middle = len(values) // 2
    if len(values) % 2:
        return values[middle]
    return (values[middle - 1] + values[middle]) / 2
