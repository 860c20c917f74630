"""What explaining needs of the store: telemetry and surveys as frames, runs, and incidents kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Text, delete, func, insert, select, type_coerce

from trimtab.model.run import Run, RunStatus
from trimtab.record import checksums, frames, schema
from trimtab.record.history import JUDGED
from trimtab.record.kept import Judged, KeptIncident, LeftOut, value_of
from trimtab.record.queries import between, of_site, runs_query, samples_of, site_number
from trimtab.record.rows import row_of, to_run
from trimtab.record.snapshots import SnapshotRecords, base_of

if TYPE_CHECKING:
    import polars as pl

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

        See `trimtab.record.frames.telemetry_frames`; a time without a snapshot gives nothing.
        """
        at = schema.snapshot.c.at
        wanted = sorted(set(times))
        batches: list[frames.TimedBatch] = []
        with self._reading() as connection:
            for start in range(0, len(wanted), _AT_ONCE):
                query = of_site(select(schema.snapshot), schema.snapshot, site)
                query = query.where(at.in_(wanted[start : start + _AT_ONCE])).order_by(at)
                records = connection.execute(query).all()
                bases = self._bases_of(connection, (row.base for row in records))
                for row in records:
                    checksums.require_row(schema.snapshot, row._mapping, f"the snapshot {row.id}")
                    batches.append((row.at, row.batch, base_of(row, bases)))
        return frames.telemetry_frames(
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
        """Return what was measured of single targets: at, run, target, metric, value, by time.

        Figures that are not believed are left out; 0 is a measurement. ``target``: of it alone.
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
                execution_options=checksums.of_runs(between(runs, run.at, since, until)),
            ).all()
        return frames.survey_frame(records)

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
            row = connection.execute(newest, execution_options=checksums.UNCHECKED).one_or_none()
            # A later run may have lost what it measured: those are checked, else all.
            suspects = of_site(select(run.number), schema.run, site)
            if row is not None:
                suspects = suspects.where(run.at >= row.at)
            only = checksums.of_runs(suspects)
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

        Samples of single targets are left out, which `survey_frame` gives.
        """
        run = schema.run.c
        query = of_site(select(run.number), schema.run, site).order_by(run.at, run.number)
        with self._reading() as connection:
            wanted = connection.execute(between(query, run.at, None, until))
            numbers = wanted.scalars().all()
            for start in range(0, len(numbers), _AT_ONCE):
                some = numbers[start : start + _AT_ONCE]
                part = runs_query().where(run.number.in_(some)).order_by(run.at, run.number)
                samples = samples_of(connection, some, whole=True)
                for row in connection.execute(part).all():
                    yield to_run(row, samples.get(row.number, ()), ()), row.comparability

    def left_out(self, site: str, comparability: str) -> tuple[LeftOut, ...]:
        """Return the runs of a series that are not judged, by time: failed, absent, another job."""
        run = schema.run.c
        query = (
            of_site(select(run.id, run.at, run.status, run.problem), schema.run, site)
            .where(run.comparability == comparability)
            .where(run.status.not_in([status.value for status in JUDGED]))
            .order_by(run.at, run.number)
        )
        with self._reading() as connection:
            records = connection.execute(query).all()
        return tuple(
            LeftOut(record.id, record.at, RunStatus(record.status), record.problem or record.status)
            for record in records
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
            checksums.change(connection, schema.site, marks, this)

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
        """Return when the incidents of a site were last looked for; ``None``: never."""
        place = schema.site.c
        query = select(place.judged_at, place.judged_until).where(place.name == site)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None or row.judged_at is None else Judged(*row)
