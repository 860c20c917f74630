"""The store: the only door to what is kept."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from sqlalchemy import Connection, Row, insert, select
from sqlalchemy.exc import IntegrityError

from trimtab.errors import UnreadableError, UsageError
from trimtab.model.event import Event, EventKind
from trimtab.model.run import RawOutput, Run
from trimtab.record import checksums, schema
from trimtab.record.acting import ActingRecords
from trimtab.record.alerting import AlertRecords
from trimtab.record.copying import CopyRecords
from trimtab.record.counting import CountRecords
from trimtab.record.database import open_database
from trimtab.record.derived import DerivedRecords
from trimtab.record.explaining import ExplainingRecords
from trimtab.record.failures import is_taken
from trimtab.record.history import HistoryRecords
from trimtab.record.integrity import StoreCheck, check
from trimtab.record.kept import ImportedRun, KeptOutput, KeptResult, Site, value_of
from trimtab.record.location import Answers, locate
from trimtab.record.pruning import Pruned, prune_some
from trimtab.record.queries import (
    between,
    insert_imports,
    insert_runs,
    of_site,
    outputs_of,
    runs_beginning,
    runs_query,
    runs_text,
    samples_of,
    site_number,
)
from trimtab.record.rows import event_row, row_of, to_event, to_run
from trimtab.record.watched import WatchRecords

_CANDIDATES_SHOWN = 5


class Store(
    WatchRecords,
    ExplainingRecords,
    HistoryRecords,
    ActingRecords,
    AlertRecords,
    CountRecords,
    CopyRecords,
    DerivedRecords,
):
    """Everything that is kept of all sites, in one database with its raw outputs beside it.

    Safe to use from several threads and by several processes at once. Every method raises
    `UnreadableError` when the database or a raw output cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, Store.open(f"{directory}/t.db") as store:
    ...     store.ensure_site("scratch", driver="local").name
    'scratch'
    """

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] | None = None,
        *,
        raw: str | os.PathLike[str] | None = None,
        answers: Answers | None = None,
        create: bool = True,
    ) -> Self:
        """Return the store at a URL or path, created or migrated if need be.

        Parameters
        ----------
        url
            ``sqlite:////absolute.db``, a path, or ``postgresql://user@host/name``; where ``None``
            the default of `trimtab.record.location.default_url`.
        raw
            Directory of the raw outputs; see `trimtab.record.location.locate` for the default.
        answers
            Called with the store's file and with the directory of raw outputs before anything
            touches them, and raises where their file system does not answer, as
            `trimtab.launch.bounded.describe` does. Without it a dead file system hangs the caller.
        create
            Whether to make a store where there is none. With False nothing comes into being; an
            older store is still migrated, since it could not be read otherwise.

        Raises
        ------
        UsageError
            The URL means nothing to us; or we are root, and another user can exchange the store.
        RefusedError
            SQLite on a network or parallel file system.
        UnreadableError
            Damaged, of a newer revision, of another program, full, without permission, or not
            there and not to be made.
        """
        location = locate(url, raw=raw)
        return cls(open_database(location, answers=answers, create=create), location)

    def close(self) -> None:
        """Give back all connections; the store is not to be used after that."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # Sites

    def sites(self) -> tuple[Site, ...]:
        """Return every site that something is kept of, by name."""
        with self._reading() as connection:
            records = connection.execute(select(schema.site).order_by(schema.site.c.name))
            return tuple(value_of(Site, row) for row in records)

    def ensure_site(
        self,
        name: str,
        *,
        driver: str | None = None,
        identity: str | None = None,
        path: str | None = None,
        timezone: str | None = None,
    ) -> Site:
        """Return the site of that name, added when new, with what is known now filled in.

        Raises
        ------
        UsageError
            The name already stands for a file system with another identity: two histories under
            one name would be judged as one.
        """
        known = {"driver": driver, "identity": identity, "path": path, "timezone": timezone}
        values = {key: value for key, value in known.items() if value is not None}
        with self._writing() as connection:
            number = site_number(connection, name)
            this = schema.site.c.number == number
            before = value_of(Site, connection.execute(select(schema.site).where(this)).one())
            if identity is not None and before.identity not in (None, identity):
                raise UsageError(
                    f"site {name!r} is kept as {before.identity}; this is {identity}",
                    code="site-identity-differs",
                    hint="give this file system a name of its own with --site",
                )
            after = replace(before, **values)
            if after != before:
                checksums.change(connection, schema.site, values, this)
        return after

    # Runs

    def add_run(self, run: Run) -> None:
        """Keep a run for good.

        Its raw outputs are on stable storage before the row that names them, and everything in
        the database is one transaction: there is a whole run or none.

        Raises
        ------
        UsageError
            Another run is kept under this id.
        ValueError
            A time has no zone, or a parameter is not plain JSON (which NaN is not): a bug of the
            caller. Nothing was kept.
        """
        self._put_outputs([run])
        with self._adding(f"run {run.id}", "run-already-kept") as connection:
            insert_runs(connection, [run])

    def add_runs(self, runs: Sequence[Run]) -> None:
        """Keep several runs for good, all in one transaction; see `add_run`.

        Raises
        ------
        UsageError
            One of the ids is taken. Nothing was kept.
        """
        self.raw.put_many(
            {
                self.raw.name_of(text): text
                for run in runs
                for output in run.outputs
                for text in (output.stdout, output.stderr)
            }
        )
        with self._adding("one of the runs", "run-already-kept") as connection:
            insert_runs(connection, runs)

    def add_imports(self, imports: Sequence[ImportedRun]) -> list[str | None]:
        """Keep runs that were read from files, all in one transaction.

        The content of their outputs is to be beside the store already (`RawDirectory.put_many`).

        Returns
        -------
        list
            For each of them the id of the run that was kept earlier under its key; ``None`` where
            it was kept now.
        """
        try:
            return self._insert_imports(imports)
        except IntegrityError as error:
            if not is_taken(error):
                raise
            # Another process kept one of them in between (PostgreSQL): the second look sees it.
            return self._insert_imports(imports)

    def run(self, prefix: str, *, outputs: bool = False) -> Run:
        """Return the run whose id begins with ``prefix``, with its samples.

        Parameters
        ----------
        outputs
            Whether to read its raw outputs too; `Run.outputs` is empty otherwise.

        Raises
        ------
        UsageError
            No run or several begin with it; those are listed.
        """
        run_row = self._run_row(prefix)
        with self._reading() as connection:
            samples = samples_of(connection, [run_row.number])
            outputs_kept = outputs_of(connection, run_row.number) if outputs else ()
        raw = tuple(self.raw_output(output) for output in outputs_kept)
        return to_run(run_row, samples.get(run_row.number, ()), raw)

    def runs(
        self,
        *,
        site: str | None = None,
        probe: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> tuple[Run, ...]:
        """Return runs with their samples, without their outputs, the newest first.

        Runs without a time come last.

        Parameters
        ----------
        since
            Aware; leaves out runs without a time.
        limit
            At most so many; all where ``None``.
        """
        at = schema.run.c.at
        query = runs_query().order_by(at.is_(None), at.desc(), schema.run.c.id.desc()).limit(limit)
        for column, value in ((schema.site.c.name, site), (schema.run.c.probe, probe)):
            if value is not None:
                query = query.where(column == value)
        with self._reading() as connection:
            records = connection.execute(between(query, at, since, None)).all()
            samples = samples_of(connection, [row.number for row in records])
        return tuple(to_run(row, samples.get(row.number, ()), ()) for row in records)

    def outputs(self, run: str) -> tuple[KeptOutput, ...]:
        """Return what is kept of each raw output of a run, without reading their content."""
        number = self._run_row(run).number
        with self._reading() as connection:
            return outputs_of(connection, number)

    def raw_output(self, output: KeptOutput) -> RawOutput:
        """Return a raw output with its content, checked against its hash.

        Raises
        ------
        UnreadableError
            It is damaged or missing, or was removed at the end of its retention.
        """
        if output.pruned_at is not None:
            raise UnreadableError(
                f"the raw output {output.label!r} was removed on {output.pruned_at:%Y-%m-%d}, at "
                "the end of its retention",
                code="raw-output-pruned",
                hint="the samples taken from it are valid",
            )
        return value_of(
            RawOutput,
            output,
            stdout=self.raw.get(output.stdout_sha256, output.stdout_bytes),
            stderr=self.raw.get(output.stderr_sha256, output.stderr_bytes),
        )

    # Events

    def add_event(self, event: Event) -> None:
        """Keep an event for good.

        Raises
        ------
        UsageError
            Another event is kept under this id.
        """
        self.add_events([event])

    def add_events(self, events: Sequence[Event]) -> None:
        """Keep several events for good, all in one transaction; see `add_event`."""
        noun = f"event {events[0].id}" if len(events) == 1 else "one of the events"
        with self._adding(noun, "event-already-kept") as connection:
            sites = {event.site for event in events}
            numbers = {name: site_number(connection, name) for name in sites}
            if values := [event_row(event, numbers[event.site]) for event in events]:
                connection.execute(insert(schema.event), values)

    def events(
        self,
        *,
        site: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Collection[EventKind] = (),
    ) -> tuple[Event, ...]:
        """Return events that began within ``since`` and ``until``, the oldest first.

        Parameters
        ----------
        kinds
            Of these kinds alone; empty: of all.
        """
        query = (
            select(schema.event, schema.site.c.name.label("site_name"))
            .join(schema.site, schema.site.c.number == schema.event.c.site)
            .order_by(schema.event.c.at, schema.event.c.number)
        )
        if site is not None:
            query = query.where(schema.site.c.name == site)
        if kinds:
            query = query.where(schema.event.c.kind.in_([kind.value for kind in kinds]))
        with self._reading() as connection:
            records = connection.execute(between(query, schema.event.c.at, since, until)).all()
        return tuple(to_event(row) for row in records)

    def add_result(self, result: KeptResult) -> None:
        """Keep for good what a command worked out."""
        with self._writing() as connection:
            number = site_number(connection, result.site)
            row = row_of(result, schema.result, site=number)
            connection.execute(insert(schema.result).values(row))

    def results(self, site: str, kind: str) -> tuple[KeptResult, ...]:
        """Return what commands worked out of one kind, the newest first."""
        result = schema.result.c
        query = of_site(select(schema.result), schema.result, site)
        query = query.where(result.kind == kind).order_by(result.at.desc(), result.number.desc())
        with self._reading() as connection:
            records = connection.execute(query).all()
        return tuple(value_of(KeptResult, row, site=site) for row in records)

    def prune(self, site: str, before: datetime, *, now: datetime) -> Pruned:
        """Remove snapshots, the content of raw outputs and alerts of a site older than that.

        Runs, samples, slots, events and what is known of each output stay. Content that a younger
        run printed too stays as well, and so does the last alert about each subject. It can be
        interrupted at any moment and called again.

        Parameters
        ----------
        before
            Aware; what is of this time or later stays.
        """
        removed = Pruned()
        while True:
            with self._writing() as connection:
                step = prune_some(connection, self.raw, site, before=before, now=now)
            removed += step
            if step == Pruned():
                return removed

    def check(self, *, contents: bool = False) -> StoreCheck:
        """Return what is whole of the store and what is damaged.

        Parameters
        ----------
        contents
            Whether to read every raw output and check its hash; otherwise only that it is there.
        """
        with self._reading() as connection:
            return check(connection, self.raw, contents=contents)

    # Within

    @contextmanager
    def _adding(self, noun: str, code: str) -> Iterator[Connection]:
        try:
            with self._writing() as connection:
                yield connection
        except IntegrityError as error:
            if not is_taken(error):
                raise
            raise UsageError(f"{noun} is already kept; none was added", code=code) from None

    def _insert_imports(self, imports: Sequence[ImportedRun]) -> list[str | None]:
        with self._writing() as connection:
            return insert_imports(connection, imports)

    def _run_row(self, prefix: str) -> Row[Any]:
        """Return the row of the only run whose id begins so."""
        with self._reading() as connection:
            candidates = runs_beginning(connection, prefix, _CANDIDATES_SHOWN + 1)
            newest = runs_query().order_by(schema.run.c.id.desc()).limit(_CANDIDATES_SHOWN)
            instead = () if candidates else connection.execute(newest).all()
        if len(candidates) == 1:
            return candidates[0]
        if not candidates:
            named = runs_text(instead)
            raise UsageError(
                f"no run begins with {prefix!r} in the store {self.location}",
                code="run-unknown",
                hint=f"the newest are {named}" if named else "the store holds no run yet",
            )
        more = "" if len(candidates) <= _CANDIDATES_SHOWN else " and more"
        named = runs_text(candidates[:_CANDIDATES_SHOWN])
        raise UsageError(
            f"several runs begin with {prefix!r}: {named}{more}",
            code="run-ambiguous",
            hint="write more of the id",
        )
