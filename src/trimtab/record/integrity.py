"""Checking a store: the database, the checksums of its rows, and that every raw output is there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select, union
from sqlalchemy.exc import DatabaseError

from trimtab.errors import UnreadableError
from trimtab.message import Message
from trimtab.record import schema
from trimtab.record.checksums import UNCHECKED, lost_rows, structure_problems
from trimtab.record.raw import EMPTY_SHA256, RawDirectory


@dataclass(frozen=True, slots=True)
class DamagedRun:
    """A run whose row or samples are damaged.

    Attributes
    ----------
    id, probe, kind, comparability
        As the damaged row has them; `comparability` names the series.
    raw_is_whole
        Whether its raw outputs are there and match their hashes: it can be imported from them.
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
    """What is intact in a store, and what is damaged.

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
    """Return what is damaged; it is only read."""
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
    """Yield what is wrong with the database and the raw outputs, in plain words."""
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
