"""Maintenance of a store: copies it into an empty one, checks it, and removes what has expired.

A copy may be of another kind: from SQLite to PostgreSQL, or back. A check only reads: the database,
the checksums of its rows, and whether every raw output exists. Snapshots, raw outputs' content and
resolved alerts expire at the end of their retention.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from operator import add
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    union,
    update,
)
from sqlalchemy.exc import DatabaseError

from trimtab.base.error import Message, RefusedError, UnreadableError, UsageError
from trimtab.base.finding import Phase
from trimtab.base.holder import Holders
from trimtab.base.inventory import Inventory, InventoryLook
from trimtab.store import schema
from trimtab.store.checksum import UNCHECKED, Damage, lost_rows, structure_problems
from trimtab.store.connection import Connections
from trimtab.store.ledger import REMEMBERED
from trimtab.store.raw_output import EMPTY_SHA256, RawDirectory
from trimtab.store.slot import process_text
from trimtab.store.snapshot_record import remove_unused_bases

_ROWS_AT_ONCE: Final = 5000
_OUTPUTS_AT_ONCE: Final = 200

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Copied:
    """Numbers of rows and raw outputs that were copied.

    Attributes
    ----------
    rows
        Rows copied, per table.
    outputs
        Raw outputs copied; 0 if both stores share their directory.
    missing
        Raw outputs missing or damaged beside the source, by their SHA-256.
    damaged
        Damaged rows that were left out, per table, by name; of runs with all that is theirs.
    """

    rows: dict[str, int]
    outputs: int
    missing: tuple[str, ...]
    damaged: Mapping[str, tuple[str, ...]]


class CopyRecords(Connections):
    """The part of the store that copies all of it."""

    def copy_to(
        self, target: CopyRecords, *, now: datetime, progress: Progress = lambda text, part: None
    ) -> Copied:
        """Copy every row and raw output into an empty store, as they were at one moment.

        Raw outputs come first; all rows are one transaction: the copy is whole or empty.

        Parameters
        ----------
        now
            Aware; who has the lease on a site then is writing.

        Raises
        ------
        UsageError
            The target holds something.
        RefusedError
            A watch has the lease on a site: what it adds later would be missing in the copy.
        UnreadableError
            The row of a site is damaged. Other damaged rows are left out.
        """
        with self._reading() as source, target._writing() as sink:
            if source.dialect.name == "postgresql":
                source.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            source.execution_options(**UNCHECKED)
            _refuse_a_watched(source, now)
            if any(_count(sink, table) for table in schema.metadata.sorted_tables):
                raise UsageError(
                    f"the store {target.location} is not empty",
                    code="store-not-empty",
                    hint="name a new file, or an empty database",
                )
            outputs, missing = self._copy_outputs(source, target, progress)
            lost = lost_rows(source)
            if lost["site"].damaged:
                raise UnreadableError(
                    f"the store {self.location} has a damaged row of a site, on which all data of "
                    "the site depends",
                    code="store-rows-damaged",
                    hint="restore a backup",
                )
            rows: dict[str, int] = {}
            total = sum(_count(source, table) for table in schema.metadata.sorted_tables)
            for table in schema.metadata.sorted_tables:
                done = sum(rows.values())
                rows[table.name] = 0
                for count in _copy_rows(source, sink, table, lost):
                    rows[table.name] += count
                    part = (done + rows[table.name]) / max(total, 1)
                    progress(f"copying {table.name}", part)
        left_out = {name: (*each.damaged.values(),) for name, each in lost.items() if each.damaged}
        return Copied(rows, outputs, missing, left_out)

    def _copy_outputs(
        self, source: Connection, target: CopyRecords, progress: Progress
    ) -> tuple[int, tuple[str, ...]]:
        if self.raw.path == target.raw.path:
            return 0, ()
        columns = schema.output.c
        sizes: dict[str, int] = {}
        query = select(
            columns.stdout_sha256, columns.stdout_bytes, columns.stderr_sha256, columns.stderr_bytes
        )
        for row in source.execute(query.where(columns.pruned_at.is_(None))):
            sizes[row.stdout_sha256] = row.stdout_bytes
            sizes[row.stderr_sha256] = row.stderr_bytes
        sizes.pop(EMPTY_SHA256, None)
        missing: list[str] = []
        names = list(sizes)
        for begin in range(0, len(names), _OUTPUTS_AT_ONCE):
            contents: dict[str, bytes] = {}
            for name in names[begin : begin + _OUTPUTS_AT_ONCE]:
                try:
                    contents[name] = self.raw.get(name, sizes[name])
                except UnreadableError:
                    missing.append(name)
            target.raw.put_many(contents)
            progress("copying raw outputs", begin / len(names))
        return len(names) - len(missing), tuple(missing)


def _refuse_a_watched(source: Connection, now: datetime) -> None:
    lease = schema.lease.c
    query = select(schema.site.c.name, lease.holder).join_from(schema.lease, schema.site)
    watched = source.execute(query.where(lease.until > now)).first()
    if watched is not None:
        raise RefusedError(
            f"{watched.name} is watched by {process_text(watched.holder)}",
            code="site-watched-elsewhere",
            hint="stop the watch, copy, and start it with the new store",
        )


def _whole(table: Table, lost: Mapping[str, Damage]) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions on rows that are whole, and belong to a run that is."""
    damaged = [] if table.name not in lost else list(lost[table.name].damaged)
    if table in (schema.sample, schema.output):
        yield table.c.run.not_in(list(lost["run"].damaged))
        for run, ordinal in damaged:
            yield ~((table.c.run == run) & (table.c.ordinal == ordinal))
    elif damaged:
        yield table.c.number.not_in(damaged)


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _copy_rows(
    source: Connection, sink: Connection, table: Table, lost: Mapping[str, Damage]
) -> Iterator[int]:
    """Yield how many rows were copied, part after part; then make new numbers follow the last."""
    order = list(table.primary_key.columns)
    reading = source.execution_options(yield_per=_ROWS_AT_ONCE)
    query = select(table).order_by(*order).where(*_whole(table, lost))
    for part in reading.execute(query).mappings().partitions():
        sink.execute(insert(table), [dict(row) for row in part])  # pyrefly: ignore[no-matching-overload]
        yield len(part)
    if sink.dialect.name == "postgresql" and "number" in table.c:
        sequence = func.pg_get_serial_sequence(table.name, "number")
        last = select(func.max(table.c.number)).scalar_subquery()
        sink.execute(select(func.setval(sequence, func.coalesce(last, 1), last.is_not(None))))


@dataclass(frozen=True, slots=True)
class DamagedRun:
    """A run whose row or samples are damaged.

    Attributes
    ----------
    id, probe, kind, comparability
        Values of the damaged row; `comparability` names the series.
    raw_is_whole
        Whether its raw outputs exist and match their hashes, so that it can be imported from them.
    """

    id: str
    probe: str
    kind: str
    comparability: str
    raw_is_whole: bool


@dataclass(frozen=True, slots=True)
class StoreTable:
    """Rows of one table.

    Attributes
    ----------
    damaged
        Name of each damaged row: its id, if it has one.
    """

    table: str
    rows: int
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """Intact and damaged parts of a store.

    Attributes
    ----------
    whole
        Whether nothing is damaged.
    problems
        Problems of the database itself and of the raw outputs.
    runs
        Damaged runs, with their series.
    by_server
        Whether the database is PostgreSQL, whose server checks its own pages.
    """

    whole: bool
    problems: tuple[str, ...]
    tables: tuple[StoreTable, ...]
    runs: tuple[DamagedRun, ...]
    by_server: bool


def check(connection: Connection, raw: RawDirectory, *, contents: bool) -> StoreCheck:
    """Return the damage of a store, which is only read."""
    connection.execution_options(**UNCHECKED)
    database_problems: list[str] = []

    def unreadable(table: str, error: Exception) -> None:
        text = f"the table {table} cannot be read to its end: {getattr(error, 'orig', error)}"
        database_problems.append(Message("table-unreadable", text))

    try:
        database_problems += problems(connection, raw, contents=contents)
    except (DatabaseError, sqlite3.DatabaseError) as error:
        unreadable("output", error)
    lost = lost_rows(connection, unreadable)
    tables = tuple(
        StoreTable(name, each.rows, (*each.damaged.values(),)) for name, each in lost.items()
    )
    return StoreCheck(
        not database_problems and not any(table.damaged for table in tables),
        tuple(database_problems),
        tables,
        tuple(_damaged_run(connection, raw, number) for number in lost["run"].damaged),
        connection.dialect.name == "postgresql",
    )


def problems(connection: Connection, raw: RawDirectory, *, contents: bool) -> Iterator[str]:
    """Yield the problems of the database and the raw outputs as text."""
    for line in structure_problems(connection):
        yield Message("database-damaged", f"the database is damaged: {line}")
    if connection.dialect.name == "sqlite":
        for table, number, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            yield Message(
                "row-orphaned", f"row {number} of {table} refers to a {parent} that is missing"
            )
    yield from _raw(connection, raw, contents=contents)


def _raw(connection: Connection, raw: RawDirectory, *, contents: bool) -> Iterator[str]:
    output = schema.output.c
    hashes = union(
        select(output.stdout_sha256, output.stdout_bytes).where(output.pruned_at.is_(None)),
        select(output.stderr_sha256, output.stderr_bytes).where(output.pruned_at.is_(None)),
    )
    for sha256, size_bytes in connection.execute(hashes):
        if sha256 == EMPTY_SHA256:
            continue
        try:
            if contents:
                raw.get(sha256, size_bytes)
            elif not raw.file(sha256).is_file():
                yield Message("raw-output-missing", f"the raw output {raw.file(sha256)} is missing")
        except UnreadableError as error:
            yield error.message


def _damaged_run(connection: Connection, raw: RawDirectory, number: int) -> DamagedRun:
    run, output = schema.run.c, schema.output.c
    query = select(run.id, run.probe, run.kind, run.comparability).where(run.number == number)
    row = connection.execute(query).one()
    outputs = select(
        output.stdout_sha256, output.stdout_bytes, output.stderr_sha256, output.stderr_bytes
    ).where(output.run == number)
    rows = connection.execute(outputs).all()
    try:
        for stdout, stdout_bytes, stderr, stderr_bytes in rows:
            raw.get(stdout, stdout_bytes)
            raw.get(stderr, stderr_bytes)
    except UnreadableError:
        return DamagedRun(*map(str, row), raw_is_whole=False)
    return DamagedRun(*map(str, row), raw_is_whole=bool(rows))


AT_ONCE: Final = 200
"""Rows in one transaction, so that other processes do not wait long for the store."""
ALERTS_AT_LEAST: Final = timedelta(days=30)
"""Younger alerts stay, however short the retention: some may still wait."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """Numbers of what was removed.

    Attributes
    ----------
    snapshots
        Number of snapshots.
    outputs
        Number of raw outputs whose content was removed.
    files, removed_bytes
        Number and size of the files of their content, compressed.
    alerts
        Number of alerts.
    """

    snapshots: int = 0
    outputs: int = 0
    files: int = 0
    removed_bytes: int = 0
    alerts: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        """Return both together."""
        return Pruned(*map(add, astuple(self), astuple(other)))


def prune_some(
    connection: Connection, raw: RawDirectory, site: str, *, before: datetime, now: datetime
) -> Pruned:
    """Remove at most `AT_ONCE` snapshots, outputs and alerts; nothing is left when none were."""
    query = select(schema.site.c.number).where(schema.site.c.name == site)
    number = connection.execute(query).scalar()
    if number is None:
        return Pruned()
    snapshots = _remove_snapshots(connection, number, before)
    alerts = _remove_alerts(connection, number, before, now)
    _remove_regular_results(connection, number, before)
    removed = Pruned(snapshots=snapshots, alerts=alerts)
    return removed + _remove_outputs(connection, raw, number, before, now)


def _remove_snapshots(connection: Connection, site: int, before: datetime) -> int:
    table = schema.snapshot
    old = (
        select(table.c.number)
        .where(table.c.site == site, table.c.at < before)
        .order_by(table.c.at)
        .limit(AT_ONCE)
    )
    numbers = connection.execute(old).scalars().all()
    if numbers:
        connection.execute(delete(table).where(table.c.number.in_(numbers)))
        remove_unused_bases(connection, site)
    return len(numbers)


def _remove_regular_results(connection: Connection, site: int, before: datetime) -> None:
    """Remove what is taken regularly, but for the last of each kind: it is compared with."""
    table, later = schema.result, schema.result.alias()
    newer = select(later.c.number).where(
        later.c.site == site, later.c.kind == table.c.kind, later.c.at > table.c.at
    )
    kinds = (Holders.KEPT_AS, Inventory.KEPT_AS, InventoryLook.KEPT_AS)
    old = (table.c.site == site, table.c.kind.in_(kinds), table.c.at < before, newer.exists())
    connection.execute(delete(table).where(*old))


def _remove_alerts(connection: Connection, site: int, before: datetime, now: datetime) -> int:
    """Remove old alerts that a later one about the same subject replaced, and all forgotten ones.

    Decisions rest on the last that was sent, and on the notes since.
    """
    table, later = schema.alert, schema.alert.alias()
    replaced = select(later.c.number).where(
        later.c.site == site,
        later.c.subject == table.c.subject,
        later.c.number > table.c.number,
        later.c.phase != Phase.NOTED.value,
    )
    old = table.c.at < min(before, now - ALERTS_AT_LEAST)
    forgotten = table.c.at < min(before, now - REMEMBERED)
    query = (
        select(table.c.number)
        .where(table.c.site == site, or_(old & replaced.exists(), forgotten))
        .limit(AT_ONCE)
    )
    numbers = connection.execute(query).scalars().all()
    if numbers:
        connection.execute(delete(table).where(table.c.number.in_(numbers)))
    return len(numbers)


def _remove_outputs(
    connection: Connection, raw: RawDirectory, site: int, before: datetime, now: datetime
) -> Pruned:
    """Mark old outputs as pruned, and remove content that no other output needs.

    The file goes before the transaction that marks its row ends: a process that is killed in
    between leaves a row whose file is missing, and the next pruning marks it. The other order would
    leave a file that no row names. Content is one file however many runs printed it, so it stays
    while a run that is young enough names it. It also stays for an hour after it was last written
    or found again, when it may belong to a run that another process is about to store.
    """
    output, run = schema.output, schema.run
    query = (
        select(output.c.run, output.c.ordinal, output.c.stdout_sha256, output.c.stderr_sha256)
        .join(run, run.c.number == output.c.run)
        # What was imported is old when it comes, and may be the only copy that is left.
        .where(run.c.site == site, run.c.at < before, run.c.import_key.is_(None))
        .where(output.c.pruned_at.is_(None))
        .order_by(run.c.at)
        .limit(AT_ONCE)
    )
    old = connection.execute(query).all()
    if not old:
        return Pruned()
    for row in old:
        this = (output.c.run == row.run, output.c.ordinal == row.ordinal)
        connection.execute(update(output).where(*this).values(pruned_at=now))
    hashes = {sha256 for row in old for sha256 in (row.stdout_sha256, row.stderr_sha256)}
    unnamed = hashes - _still_named(connection, hashes)
    sizes = [size for digest in sorted(unnamed) if (size := raw.remove(digest)) is not None]
    return Pruned(outputs=len(old), files=len(sizes), removed_bytes=sum(sizes))


def _still_named(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Return those of the hashes that an output names which was not pruned."""
    output = schema.output.c
    wanted = sorted(hashes)
    named: set[str] = set()
    for column in (output.stdout_sha256, output.stderr_sha256):
        query = select(column).distinct().where(column.in_(wanted), output.pruned_at.is_(None))
        named.update(connection.execute(query).scalars())
    return named
