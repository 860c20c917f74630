"""The store: the only access to stored data.

`Store` joins the parts that other files of this room define. Two are defined here: values computed
from a site's rows, with the sums that show whether they are still valid, and counts of runs, slots
and actions.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    Text,
    case,
    delete,
    func,
    insert,
    select,
    type_coerce,
)
from sqlalchemy.exc import IntegrityError

from trimtab.base.action import INTERRUPTED
from trimtab.base.error import UnreadableError, UsageError
from trimtab.base.event import MADE, Event, EventKind
from trimtab.base.run import RawOutput, Run, grouped
from trimtab.store import checksum, schema
from trimtab.store.checksum import UNCHECKED
from trimtab.store.connection import (
    Connections,
    between,
    event_row,
    insert_imports,
    insert_runs,
    of_site,
    outputs_of,
    period_of,
    row_of,
    runs_beginning,
    runs_query,
    runs_text,
    samples_of,
    site_number,
    to_event,
    to_run,
)
from trimtab.store.database import is_taken, open_database
from trimtab.store.history import ExplainingRecords, HistoryRecords
from trimtab.store.kept import (
    Derived,
    ImportedRun,
    KeptOutput,
    KeptResult,
    KeptSite,
    value_of,
)
from trimtab.store.kept_period import Sum, Sums
from trimtab.store.ledger import ActingRecords, AlertRecords
from trimtab.store.location import Answers, locate
from trimtab.store.maintenance import CopyRecords, Pruned, StoreCheck, check, prune_some
from trimtab.store.planned_window import windows_unchecked, with_windows
from trimtab.store.slot import WatchRecords


class DerivedRecords(Connections):
    """The part of the store that can be dropped: all of it is computed again."""

    def sums(self, site: str) -> Sums:
        """Return sums of the checksums of a site's rows; runs and slots with their windows."""
        others = (schema.event, schema.incident, schema.action, schema.result, schema.alert)
        place = schema.site.c
        with self._reading() as connection:
            connection.execution_options(**UNCHECKED)
            windows = windows_unchecked(connection, site)
            of_place = select(place.checksum).where(place.name == site)
            total = connection.execute(of_place).scalar()
            if total is None:
                return Sums()
            tables = {each.name: dict(_summed(connection, each, site))[()] for each in others}
            tables["site"] = (1, int(total))
            run, slot, snapshot = schema.run, schema.slot, schema.snapshot
            by_period = _summed(connection, run, site, run.c.comparability, period_of(run))
            runs = {key: with_windows(windows, of, key[1]) for key, of in by_period}
            slots = _summed(connection, slot, site, slot.c.item)
            snapshots = {
                at: of for (at,), of in _summed(connection, snapshot, site, period_of(snapshot))
            }
            tables[snapshot.name] = _total(snapshots.values())
            of_series = grouped(runs, itemgetter(0)).items()
            return Sums(
                {name: _total(runs[key] for key in keys) for name, keys in of_series},
                {item: with_windows(windows, of) for (item,), of in slots},
                tables,
                runs,
                snapshots,
            )

    def derived(self, site: str, *nouns: str) -> dict[str, Derived]:
        """Return the values stored under some nouns; a damaged row counts as none."""
        table = schema.derived
        query = of_site(select(table), table, site).where(table.c.noun.in_(nouns))
        with self._reading() as connection:
            records = connection.execute(query).mappings().all()
        return {
            row["noun"]: Derived(row["basis"], bytes(row["document"]))
            for row in records
            if _is_sound(row)
        }

    def keep_derived(self, site: str, values: Mapping[str, Derived]) -> None:
        """Keep values under their nouns, in place of the previous ones.

        No value is kept if another process kept one of them at the same moment.

        Raises
        ------
        UnreadableError
            The store cannot be written, or another process is writing: that is not waited for.
        """
        table = schema.derived
        if not values:
            return
        with suppress(IntegrityError), self._writing(patient=False) as connection:
            number = site_number(connection, site)
            of_place = delete(table).where(table.c.site == number)
            connection.execute(of_place.where(table.c.noun.in_([*values])))
            connection.execute(
                insert(table),
                [
                    {"site": number, "noun": noun, "basis": of.basis, "document": of.document}
                    for noun, of in values.items()
                ],
            )

    def drop_derived(self, site: str | None = None) -> int:
        """Drop the computed values of one site or of all; return their number."""
        table = schema.derived
        query = delete(table)
        if site is not None:
            numbers = select(schema.site.c.number).where(schema.site.c.name == site)
            query = query.where(table.c.site.in_(numbers))
        with self._writing() as connection:
            return connection.execute(query).rowcount


def _summed(
    connection: Connection, table: Table, site: str, *by: ColumnElement[Any]
) -> Iterator[tuple[tuple[Any, ...], Sum]]:
    """Yield the groups of a table's rows, each with its sum."""
    query = of_site(select(*by, func.count(), func.sum(table.c.checksum)), table, site)
    for *key, count, total in connection.execute(query.group_by(*by)):
        yield tuple(key), (count, int(total or 0))


def _total(sums: Iterable[Sum]) -> Sum:
    parts = [*sums]
    return sum(count for count, _ in parts), sum(total for _, total in parts)


def _is_sound(row: Mapping[Any, Any]) -> bool:
    try:
        checksum.require_row(schema.derived, row, "a value")
    except UnreadableError:
        return False
    return True


class CountRecords(Connections):
    """The part of the store that counts."""

    def run_counts(self, site: str) -> dict[tuple[str, str], int]:
        """Return the number of runs by probe and status."""
        run = schema.run.c
        return self._counts(site, schema.run, run.probe, run.status)

    def slot_counts(self, site: str) -> dict[tuple[str, str], int]:
        """Return the number of slots by item and state."""
        slot = schema.slot.c
        return self._counts(site, schema.slot, slot.item, slot.state)

    def action_counts(self, site: str) -> dict[tuple[str, str, str | None], int]:
        """Return the number of actions by policy, kind and outcome (``None``: not known to end).

        An action that gave way or was killed has the outcome `INTERRUPTED`: it is no failure, and
        is resumed.
        """
        action = schema.action.c
        was_interrupted = type_coerce(action.facts, Text).like(f'%"{INTERRUPTED}"%')
        outcome = case((was_interrupted, INTERRUPTED), else_=action.outcome)
        return self._counts(site, schema.action, action.policy, action.kind, outcome)

    def _counts(self, site: str, table: Table, *columns: ColumnElement) -> dict[tuple, int]:
        query = of_site(select(*columns, func.count()).select_from(table), table, site)
        query = query.group_by(*columns)
        with self._reading() as connection:
            return {tuple(row[:-1]): row[-1] for row in connection.execute(query)}


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
            the default of `trimtab.store.location.default_url`.
        raw
            Directory of the raw outputs; see `trimtab.store.location.locate` for the default.
        answers
            Called with the store's file and with the directory of raw outputs before anything
            touches them, and raises where their file system does not answer, as
            `trimtab.reach.bounded.describe` does. Without it a dead file system hangs the caller.
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

    def sites(self) -> tuple[KeptSite, ...]:
        """Return every site that something is kept of, by name."""
        with self._reading() as connection:
            records = connection.execute(select(schema.site).order_by(schema.site.c.name))
            return tuple(value_of(KeptSite, row) for row in records)

    def ensure_site(
        self,
        name: str,
        *,
        driver: str | None = None,
        identity: str | None = None,
        path: str | None = None,
        timezone: str | None = None,
    ) -> KeptSite:
        """Return the site of that name, added when new, with newly known fields filled in.

        Raises
        ------
        UsageError
            The name belongs to a file system with another identity: two histories under one name
            would be judged as one.
        """
        known = {"driver": driver, "identity": identity, "path": path, "timezone": timezone}
        values = {key: value for key, value in known.items() if value is not None}
        with self._writing() as connection:
            number = site_number(connection, name)
            this = schema.site.c.number == number
            before = value_of(KeptSite, connection.execute(select(schema.site).where(this)).one())
            if identity is not None and before.identity not in (None, identity):
                raise UsageError(
                    f"site {name!r} is stored as {before.identity}; this is {identity}",
                    code="site-identity-differs",
                    hint="give this file system a name of its own with --site",
                )
            after = replace(before, **values)
            if after != before:
                checksum.change(connection, schema.site, values, this)
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
            Maximum number of runs; ``None``: all.
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
        """Return the description of each raw output of a run, without reading the content."""
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
        made: bool = False,
    ) -> tuple[Event, ...]:
        """Return events that began within ``since`` and ``until``, the oldest first.

        Parameters
        ----------
        kinds
            Only events of these kinds; empty: all that people write.
        made
            Whether those of `trimtab.base.event.MADE` belong to all.
        """
        query = (
            select(schema.event, schema.site.c.name.label("site_name"))
            .join(schema.site, schema.site.c.number == schema.event.c.site)
            .order_by(schema.event.c.at, schema.event.c.number)
        )
        if site is not None:
            query = query.where(schema.site.c.name == site)
        if kinds:
            query = query.where(schema.event.c.kind.in_(kinds))
        elif not made:
            query = query.where(schema.event.c.kind.not_in(MADE))
        with self._reading() as connection:
            records = connection.execute(between(query, schema.event.c.at, since, until)).all()
        return tuple(to_event(row) for row in records)

    def add_result(self, result: KeptResult) -> None:
        """Store the result of a command permanently."""
        with self._writing() as connection:
            row = row_of(result, schema.result, site=site_number(connection, result.site))
            connection.execute(insert(schema.result).values(row))

    def results(
        self, site: str, kind: str, *, until: datetime | None = None, limit: int | None = None
    ) -> tuple[KeptResult, ...]:
        """Return the results of commands of one kind up to a time, the newest first."""
        result = schema.result.c
        query = of_site(select(schema.result), schema.result, site).where(result.kind == kind)
        query = between(query, result.at, None, until).limit(limit)
        query = query.order_by(result.at.desc(), result.number.desc())
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return tuple(value_of(KeptResult, row, site=site) for row in rows)

    def prune(self, site: str, before: datetime, *, now: datetime) -> Pruned:
        """Remove snapshots, contents of raw outputs, alerts and inventories older than that.

        All else stays, and so do content that a younger run printed, the last alert of each subject
        and the last inventory. It can be interrupted and called again.

        Parameters
        ----------
        before
            Aware; data of this time or later stays.
        """
        removed = Pruned()
        while True:
            with self._writing() as connection:
                step = prune_some(connection, self.raw, site, before=before, now=now)
            removed += step
            if step == Pruned():
                return removed

    def check(self, *, contents: bool = False) -> StoreCheck:
        """Return the intact and damaged parts of the store.

        Parameters
        ----------
        contents
            Whether to read every raw output and check its hash; otherwise only its existence.
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
