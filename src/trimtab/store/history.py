"""The past of a site, for judging and explaining: figures of runs, telemetry, kept incidents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Text,
    case,
    delete,
    func,
    insert,
    select,
    type_coerce,
)

from trimtab.base.maintenance_window import IN_MAINTENANCE
from trimtab.base.run import ASKED, METRIC_UNITS, Run, RunStatus
from trimtab.base.verdict import HistoryPoint
from trimtab.store import checksum, schema, snapshot_record
from trimtab.store.checksum import of_runs
from trimtab.store.connection import (
    between,
    of_site,
    row_of,
    runs_query,
    samples_of,
    site_number,
    to_run,
)
from trimtab.store.kept import Judged, KeptIncident, LeftOut, Series, value_of
from trimtab.store.kept_period import Period, RunPoint, bounds_of
from trimtab.store.planned_window import (
    PlannedRecords,
    counted_figures,
    literals,
    not_counted,
    runs_in_windows,
)
from trimtab.store.repeated_run import RepeatedRun, repeated_runs
from trimtab.store.snapshot_record import SnapshotRecords, base_of

if TYPE_CHECKING:
    import polars as pl


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
JUDGED = (RunStatus.OK, RunStatus.PARTIAL, RunStatus.UNFINISHED)
"""A run that failed, never started or did something else says nothing about the file system."""


class HistoryRecords(PlannedRecords):
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
        ``only-summaries``: means of repetitions without the repetitions; ``stored-twice``: the same
        result is stored under another id; `IN_MAINTENANCE`. Runs without samples explain others,
        and are not counted.
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
            counts = {name: count for name, count in records if name is not None}
            repeated = repeated_runs(connection, site, probe=probe)
            rows = {row.number: row for _, row in runs_in_windows(connection, site, probe=probe)}
        more = {
            "stored-twice": repeated.values(),
            IN_MAINTENANCE: [row for number, row in rows.items() if number not in repeated],
        }
        judged = {status.value for status in JUDGED}
        totals = {why: sum(row.status in judged for row in left) for why, left in more.items()}
        return counts | {why: count for why, count in totals.items() if count}

    def repeated(
        self, site: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> tuple[RepeatedRun, ...]:
        """Return the runs of a site whose result is stored under an earlier id too."""
        with self._reading() as connection:
            return tuple(repeated_runs(connection, site, since=since, until=until).values())

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
        series of seconds 0 would be the best of all, so there it is left out. A result that is
        stored under several ids is one point.

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
        of_series = _judged(site, comparability)
        within = [*of_series]
        if since is not None:
            within.append(run.at >= since)
        if until is not None:
            within.append(run.at <= until)
        query = _of_sites(select(run.number, run.id, run.at, run.status), within)
        with self._reading() as connection:
            runs = connection.execute(query.order_by(run.at, run.number)).all()
            left = not_counted(
                connection, site, comparability=comparability, target=target,
                since=since, until=until,
            )  # fmt: skip
            medians = _medians(connection, within, metric=metric, target=target)
            names = {name for each, of in medians.items() if each not in left for name in of}
            if any(entry.status == RunStatus.UNFINISHED for entry in runs):
                counted = [*of_series, run.number.not_in(literals(left))]
                names |= _metrics(connection, counted, metric=metric, target=target)
        return _points(
            (
                (id_, at, status == RunStatus.UNFINISHED, medians.get(number, {}))
                for number, id_, at, status in runs
                if number not in left
            ),
            names,
        )

    def run_points(self, site: str, comparability: str, period: Period) -> tuple[RunPoint, ...]:
        """Return the judged runs of a series in one period, by time."""
        run = schema.run.c
        assert period is not None  # a run without a time is in no history
        within = _judged(site, comparability)
        begin, end = bounds_of(period)
        within += [run.at >= begin, run.at <= end]
        query = _of_sites(
            select(run.number, run.id, type_coerce(run.at, BigInteger), run.status), within
        )
        with self._reading() as connection:
            runs = connection.execute(query.order_by(run.at, run.number)).all()
            # A result that is stored twice has the same begin, so both are in this period.
            left = not_counted(
                connection, site, comparability=comparability, since=begin, until=end
            )
            medians = _medians(connection, within, metric=None, target=None)
        return tuple(
            (id_, at_us, status == RunStatus.UNFINISHED, medians.get(number, {}))
            for number, id_, at_us, status in runs
            if number not in left
        )

    def joined_history(
        self, site: str, comparability: str, runs: Sequence[RunPoint]
    ) -> tuple[HistoryPoint, ...]:
        """Return what `history` returns for a whole series, from its `run_points` by time."""
        names = {name for _, _, _, values in runs for name in values}
        if any(unfinished for _, _, unfinished, _ in runs):
            with self._reading() as connection:
                names |= _requested(connection, _judged(site, comparability))
        begun = ((id_, _EPOCH + timedelta(microseconds=at), *of) for id_, at, *of in runs)
        return _points(begun, names)  # type: ignore[arg-type]

    def measures_targets(self, site: str, comparability: str, period: Period) -> bool:
        """Return whether any run of a series in one period has a figure of a single target."""
        run, sample = schema.run.c, schema.sample.c
        ends = None if period is None else bounds_of(period)
        within = (
            run.comparability == comparability,
            run.at.is_(None) if ends is None else run.at.between(*ends),
        )
        query = of_site(
            select(sample.run).join(schema.run, run.number == sample.run), schema.run, site
        )
        query = query.where(*within, sample.target.is_not(None)).limit(1)
        runs = of_site(select(run.number), schema.run, site).where(*within)
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


def _judged(site: str, comparability: str) -> list[ColumnElement[bool]]:
    """Return the conditions on the runs of a series that are judged."""
    run = schema.run.c
    return [
        schema.site.c.name == site,
        run.comparability == comparability,
        run.at.is_not(None),
        run.status.in_([status.value for status in JUDGED]),
    ]


def _points(
    runs: Iterable[tuple[str, datetime, bool, Mapping[str, float]]], names: Collection[str]
) -> tuple[HistoryPoint, ...]:
    """Return the points of runs: id, begin, whether it did not finish, median by metric.

    Parameters
    ----------
    names
        All metrics of the series.
    """
    zeros = {name: 0.0 for name in names if METRIC_UNITS.get(name, "s") != "s"}
    ordered = sorted(names)
    return tuple(
        HistoryPoint(at, name, values[name], unfinished=unfinished, run=id_)
        for id_, at, unfinished, medians in runs
        for values in [zeros if unfinished else medians]
        for name in ordered
        if name in values
    )


def _metrics(
    connection: Connection, of_series: list[Any], *, metric: str | None, target: str | None
) -> set[str]:
    """Return the metrics that a run of the series would have measured had it finished.

    These are the metric requested by name, else those that its runs were to measure and those that
    any of them, at any time, has measured.
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
    return metrics if target is not None else metrics | _requested(connection, of_series)


def _requested(connection: Connection, of_series: list[Any]) -> set[str]:
    """Return the bandwidths that the runs of a series were asked to measure."""
    # One run speaks for all: those of one series were asked the same.
    run = schema.run.c
    query = _of_sites(select(run.parameters), of_series).order_by(run.number).limit(1)
    parameters = connection.execute(query).scalar()
    requested = parameters.get(ASKED) if isinstance(parameters, dict) else None
    accesses = requested.get("accesses") if isinstance(requested, dict) else None
    bandwidths = {
        f"{access}_bandwidth" for access in (accesses if isinstance(accesses, list) else ())
    }
    return bandwidths & METRIC_UNITS.keys()


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


_AT_ONCE = 400  # snapshots in one question: older SQLites take 999 values
_OF_TARGETS = (
    schema.sample.c.target.is_not(None),
    schema.sample.c.statistic == "total",
    schema.sample.c.reason.is_(None),
    schema.sample.c.value.is_not(None),
)
"""Conditions on samples of single targets that count."""


class ExplainingRecords(SnapshotRecords):
    """The part of the store that judging and explaining a site over months reads and writes."""

    def snapshot_times(
        self, site: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> tuple[datetime, ...]:
        """Return the times of which a snapshot is kept, by time."""
        at = schema.snapshot.c.at
        query = of_site(select(at), schema.snapshot, site).order_by(at)
        with self._reading() as connection:
            return tuple(connection.execute(between(query, at, since, until)).scalars())

    def telemetry_frames(
        self,
        site: str,
        times: Sequence[datetime],
        *,
        names: Collection[str] | None = None,
        settings_at: Collection[datetime] | None = None,
        categories: bool = False,
        target: str | None = None,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return readings and settings of the snapshots of these times, by time.

        See `trimtab.store.snapshot_record.telemetry_frames`. A time without a snapshot gives
        nothing.
        """
        at = schema.snapshot.c.at
        wanted = sorted(set(times))
        batches: list[snapshot_record.TimedBatch] = []
        with self._reading() as connection:
            for start in range(0, len(wanted), _AT_ONCE):
                query = of_site(select(schema.snapshot), schema.snapshot, site)
                query = query.where(at.in_(wanted[start : start + _AT_ONCE])).order_by(at)
                records = connection.execute(query).all()
                bases = self._bases_of(connection, (row.base for row in records))
                for row in records:
                    checksum.require_row(schema.snapshot, row._mapping, f"the snapshot {row.id}")
                    batches.append((row.at, row.batch, base_of(row, bases)))
        return snapshot_record.telemetry_frames(
            batches, names=names, settings_at=settings_at, categories=categories, target=target
        )

    def survey_frame(
        self,
        site: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        target: str | None = None,
    ) -> pl.DataFrame:
        """Return the measurements of single targets: at, run, target, metric, value, by time.

        Figures that are not believed are left out; 0 is a measurement. A survey that is stored
        under several ids is one. ``target``: only that one.
        """
        run, sample = schema.run.c, schema.sample.c
        # A year of 300 targets is 200,000 rows: their times and names stay as they are kept.
        at, name = type_coerce(run.at, BigInteger), type_coerce(sample.target, Text)
        query = (
            select(at, run.id, name, sample.metric, sample.value)
            .join(schema.run, run.number == sample.run)
            .where(run.at.is_not(None), *_OF_TARGETS)
        )
        if target is not None:
            query = query.where(sample.target == target)
        query = of_site(query, schema.run, site)
        runs = of_site(select(run.number), schema.run, site)
        with self._reading() as connection:
            records = connection.execute(
                between(query, run.at, since, until),
                execution_options=checksum.of_runs(between(runs, run.at, since, until)),
            ).all()
            records = counted_figures(connection, site, records, since, until)
        return snapshot_record.survey_frame(records)

    def last_survey(self, site: str) -> tuple[tuple[datetime, str, str, float], ...]:
        """Return time, target, metric and value of the last run that measured single targets.

        The median over believed repetitions; empty where there is no such run.
        """
        run, sample = schema.run.c, schema.sample.c
        of_target = (sample.run == run.number) & sample.target.is_not(None)
        newest = (
            of_site(select(run.number, run.at), schema.run, site)
            .where(run.at.is_not(None), select(sample.run).where(of_target).exists())
            .order_by(run.at.desc())
            .limit(1)
        )
        values_of: dict[tuple[str, str], list[float]] = {}
        with self._reading() as connection:
            inside = {row.number for _, row in runs_in_windows(connection, site)}
            newest = newest.where(run.number.not_in(literals(inside)))
            row = connection.execute(newest, execution_options=checksum.UNCHECKED).one_or_none()
            # A later run may have lost what it measured: those are checked, else all.
            suspects = of_site(select(run.number), schema.run, site)
            if row is not None:
                suspects = suspects.where(run.at >= row.at)
            only = checksum.of_runs(suspects)
            row = connection.execute(newest, execution_options=only).one_or_none()
            if row is None:
                return ()
            wanted = select(sample.target, sample.metric, sample.value).where(
                sample.run == row.number, *_OF_TARGETS
            )
            for target, metric, value in connection.execute(wanted, execution_options=only):
                values_of.setdefault((target, metric), []).append(value)
        return tuple(
            (row.at, target, metric, median(values))
            for (target, metric), values in values_of.items()
        )

    def runs_since(self, site: str, since: datetime) -> int:
        """Return how many runs of a site began after a time."""
        run = schema.run.c
        query = of_site(select(func.count()).select_from(schema.run), schema.run, site)
        query = query.where(run.at > since)
        with self._reading() as connection:
            return connection.execute(query).scalar_one()

    def runs_between(
        self, site: str, *, until: datetime | None = None
    ) -> Iterator[tuple[Run, str]]:
        """Yield runs up to a time with their comparability, by time, few of them in memory at once.

        Samples of single targets are left out, which `survey_frame` gives. A result that is stored
        under several ids is one run.
        """
        return self._runs(site, None, until)

    def runs_in(self, site: str, period: Period) -> Iterator[tuple[Run, str]]:
        """Yield the runs of a period as `runs_between` does."""
        if period is None:
            return self._runs(site, None, None, schema.run.c.at.is_(None))
        return self._runs(site, *bounds_of(period))

    def _runs(
        self, site: str, since: datetime | None, until: datetime | None, *within: Any
    ) -> Iterator[tuple[Run, str]]:
        run = schema.run.c
        query = of_site(select(run.number), schema.run, site).where(*within)
        query = between(query, run.at, since, until).order_by(run.at, run.number)
        with self._reading() as connection:
            wanted = connection.execute(query)
            left = not_counted(connection, site, since=since, until=until)
            numbers = [number for number in wanted.scalars() if number not in left]
            for start in range(0, len(numbers), _AT_ONCE):
                some = numbers[start : start + _AT_ONCE]
                part = runs_query().where(run.number.in_(some)).order_by(run.at, run.number)
                samples = samples_of(connection, some, whole=True)
                for row in connection.execute(part).all():
                    yield to_run(row, samples.get(row.number, ()), ()), row.comparability

    def left_out(self, site: str, comparability: str) -> tuple[LeftOut, ...]:
        """Return the runs of a series that are not judged, by time: failed, absent, another job.

        A run in a maintenance window is none of them: there it may fail.
        """
        run = schema.run.c
        query = (
            of_site(select(run.number, run.id, run.at, run.status, run.problem), schema.run, site)
            .where(run.comparability == comparability)
            .where(run.status.not_in([status.value for status in JUDGED]))
            .order_by(run.at, run.number)
        )
        with self._reading() as connection:
            records = connection.execute(query).all()
            left = not_counted(connection, site, comparability=comparability)
        return tuple(
            LeftOut(record.id, record.at, RunStatus(record.status), record.problem or record.status)
            for record in records
            if record.number not in left
        )

    def keep_incidents(
        self,
        site: str,
        incidents: Sequence[KeptIncident],
        *,
        since: datetime | None,
        judged: Judged,
    ) -> None:
        """Keep the incidents of a site as they were found now, in place of those kept before.

        Parameters
        ----------
        since
            Earlier ones stay as they were; ``None``: all are replaced.
        """
        table = schema.incident
        with self._writing() as connection:
            number = site_number(connection, site)
            stale = delete(table).where(table.c.site == number)
            if since is not None:
                same = table.c.id.in_([incident.id for incident in incidents])
                stale = stale.where((table.c.at >= since) | same)
            connection.execute(stale)
            values = [row_of(incident, table, site=number) for incident in incidents]
            if values:
                connection.execute(insert(table), values)
            this = schema.site.c.number == number
            marks = {"judged_at": judged.at, "judged_until": judged.until}
            checksum.change(connection, schema.site, marks, this)

    def incidents(
        self,
        site: str,
        *,
        since: datetime | None = None,
        states: Collection[str] | None = None,
    ) -> tuple[KeptIncident, ...]:
        """Return the incidents of a site as they were last found, the newest first."""
        table = schema.incident.c
        query = of_site(select(schema.incident), schema.incident, site)
        query = query.order_by(table.at.desc(), table.number)
        if states is not None:
            query = query.where(table.state.in_(list(states)))
        with self._reading() as connection:
            records = connection.execute(between(query, table.at, since, None)).all()
        return tuple(value_of(KeptIncident, row, site=site) for row in records)

    def judged(self, site: str) -> Judged | None:
        """Return the time of the last search for incidents of a site; ``None``: never."""
        place = schema.site.c
        query = select(place.judged_at, place.judged_until).where(place.name == site)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None or row.judged_at is None else Judged(*row)
