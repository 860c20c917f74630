"""What judging needs of the past: one number for each run and metric of a series."""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import Any

from sqlalchemy import Connection, Select, case, func, select

from trimtab.model.run import METRIC_UNITS, RunStatus
from trimtab.model.verdict import HistoryPoint
from trimtab.record import schema
from trimtab.record.checksums import of_runs
from trimtab.record.comparability import ASKED
from trimtab.record.connections import Connections
from trimtab.record.kept import Series
from trimtab.record.queries import of_site

JUDGED = (RunStatus.OK, RunStatus.PARTIAL, RunStatus.UNFINISHED)
"""A run that failed, never started or did something else says nothing about the file system."""


class HistoryRecords(Connections):
    """The part of the store that judging reads."""

    def series(self, site: str | None = None) -> tuple[Series, ...]:
        """Return every set of comparable runs, of one site or of all, the longest first."""
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
        with self._reading() as connection:
            return tuple(Series(*row) for row in connection.execute(query))

    def unjudged(self, site: str, probe: str | None = None) -> dict[str, int]:
        """Return how many runs of a site, or of a probe of it, no series has, by why.

        ``failed``: or it did something else; ``no-time``; ``not-believed``: its figures;
        ``only-summaries``: means of repetitions without the repetitions. Runs without samples
        explain others, and are not counted.
        """
        run, sample = schema.run.c, schema.sample.c
        of_run = select(sample.run).where(sample.run == run.number)
        totals = of_run.where(sample.statistic == "total")
        figures = totals.where(sample.reason.is_(None))
        why = case(
            (run.status.not_in([status.value for status in JUDGED]), "failed"),
            (run.at.is_(None) & figures.exists(), "no-time"),
            (run.status == RunStatus.UNFINISHED.value, None),
            (totals.exists() & ~figures.exists(), "not-believed"),
            (of_run.exists() & ~figures.exists(), "only-summaries"),
        ).label("why")
        query = of_site(select(why, func.count()), schema.run, site).group_by(why)
        runs = of_site(select(run.number), schema.run, site)
        if probe is not None:
            query, runs = query.where(run.probe == probe), runs.where(run.probe == probe)
        with self._reading() as connection:
            records = connection.execute(query, execution_options=of_runs(runs))
            return {name: count for name, count in records if name is not None}

    def history(
        self,
        site: str,
        comparability: str,
        *,
        metric: str | None = None,
        target: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[HistoryPoint, ...]:
        """Return one point for each run and metric of a series, by time.

        The value is the median over the believed repetitions (over the believed figures of the
        whole run where it has none by repetition). A run that did not finish has 0 for every metric
        of the series in which more is better, also where none of its runs has ever finished; in a
        series of seconds 0 would be the best of all, so there it is left out.

        Parameters
        ----------
        comparability
            `Series.comparability`, or `comparability_key` of a run.
        target
            The OST or MDT; ``None`` is the whole, not every target.
        since, until
            Aware; both are within.
        """
        run = schema.run.c
        of_series = [
            schema.site.c.name == site,
            run.comparability == comparability,
            run.at.is_not(None),
            run.status.in_([status.value for status in JUDGED]),
        ]
        within = [*of_series]
        if since is not None:
            within.append(run.at >= since)
        if until is not None:
            within.append(run.at <= until)
        query = _of_sites(select(run.number, run.id, run.at, run.status), within)
        with self._reading() as connection:
            runs = connection.execute(query.order_by(run.at, run.number)).all()
            medians = _medians(connection, within, metric=metric, target=target)
            names = {name for entry in medians.values() for name in entry}
            if any(entry.status == RunStatus.UNFINISHED for entry in runs):
                names |= _metrics(connection, of_series, metric=metric, target=target)
        zeros = {name: 0.0 for name in names if METRIC_UNITS.get(name, "s") != "s"}
        return tuple(
            HistoryPoint(at, name, values[name], unfinished=values is zeros, run=identifier)
            for number, identifier, at, status in runs
            for values in [zeros if status == RunStatus.UNFINISHED else medians.get(number, {})]
            for name in sorted(names)
            if name in values
        )

    def measures_targets(self, site: str, comparability: str) -> bool:
        """Return whether any run of a series has a figure of a single target."""
        run, sample = schema.run.c, schema.sample.c
        query = of_site(
            select(sample.run).join(schema.run, run.number == sample.run), schema.run, site
        )
        query = query.where(run.comparability == comparability, sample.target.is_not(None)).limit(1)
        runs = of_site(select(run.number), schema.run, site)
        runs = runs.where(run.comparability == comparability)
        with self._reading() as connection:
            return connection.execute(query, execution_options=of_runs(runs)).scalar() is not None

    def parameters(
        self, site: str, *, since: datetime, until: datetime
    ) -> tuple[tuple[datetime, dict[str, object]], ...]:
        """Return time and parameters of a site's own runs within a stretch, by time.

        Runs that were imported are left out; ``since`` and ``until`` are within.
        """
        run = schema.run.c
        query = of_site(select(run.at, run.parameters), schema.run, site)
        query = query.where(run.at >= since, run.at <= until, run.import_key.is_(None))
        with self._reading() as connection:
            return tuple((at, values) for at, values in connection.execute(query.order_by(run.at)))


def _metrics(
    connection: Connection, of_series: list[Any], *, metric: str | None, target: str | None
) -> set[str]:
    """Return what a run of the series would have measured had it finished.

    That is what was asked by name, else what its runs were asked to do and what any of them, at
    whatever time, has measured.
    """
    if metric is not None and target is None:
        return {metric}
    sample, run = schema.sample.c, schema.run.c
    measured = (
        select(sample.metric)
        .distinct()
        .join(schema.run, run.number == sample.run)
        .where(*_believed(target))
    )
    if metric is not None:
        measured = measured.where(sample.metric == metric)
    wanted = of_runs(_of_sites(select(run.number), of_series))
    records = connection.execute(_of_sites(measured, of_series), execution_options=wanted)
    metrics = set(records.scalars())
    if target is not None:
        return metrics
    # One run speaks for all: those of one series were asked the same.
    query = _of_sites(select(run.parameters), of_series).order_by(run.number).limit(1)
    parameters = connection.execute(query).scalar()
    requested = parameters.get(ASKED) if isinstance(parameters, dict) else None
    accesses = requested.get("accesses") if isinstance(requested, dict) else None
    bandwidths = {
        f"{access}_bandwidth" for access in (accesses if isinstance(accesses, list) else ())
    }
    return metrics | (bandwidths & METRIC_UNITS.keys())


def _believed(target: str | None) -> list[Any]:
    """Return the conditions on samples that count, of one target or of the whole."""
    sample = schema.sample.c
    return [
        sample.statistic == "total",
        sample.reason.is_(None),
        sample.target.is_(None) if target is None else sample.target == target,
    ]


def _of_sites(query: Select[*tuple[Any, ...]], of_series: list[Any]) -> Select[*tuple[Any, ...]]:
    return query.join(schema.site, schema.site.c.number == schema.run.c.site).where(*of_series)


def _medians(
    connection: Connection, of_series: list[Any], *, metric: str | None, target: str | None
) -> dict[int, dict[str, float]]:
    """Return number of the run to metric to median, over repetitions where there are any."""
    sample = schema.sample.c
    query = (
        select(sample.run, sample.metric, sample.repetition, sample.value)
        .join(schema.run, schema.run.c.number == sample.run)
        .where(*_believed(target))
    )
    if metric is not None:
        query = query.where(sample.metric == metric)
    repeated: dict[tuple[int, str], list[float]] = {}
    whole: dict[tuple[int, str], list[float]] = {}
    wanted = of_runs(_of_sites(select(schema.run.c.number), of_series))
    records = connection.execute(_of_sites(query, of_series), execution_options=wanted)
    # A year is 70,000 rows: this loop is what `trimtab status` waits for.
    for number, name, repetition, value in records:
        values = whole if repetition is None else repeated
        values.setdefault((number, name), []).append(value)
    medians: dict[int, dict[str, float]] = {}
    for (number, name), values_of in (whole | repeated).items():
        medians.setdefault(number, {})[name] = median(values_of)
    return medians
