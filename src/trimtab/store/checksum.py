"""Checksums of rows: a value that was changed in place is noticed before anything rests on it.

A database detects damage to its structure, not to a value. So each row of `WHOLE` and `BY_ROW`
has the CRC-32 of its other columns: the default of the column makes it when the row is inserted,
`resum` after an update. Each run has one of all its samples as well.

Before the first query on a table of `WHOLE` all its rows and indexes are checked, since a damaged
value may be the very one by which a row is found; then again once an hour (`guard`). The other
tables are too large for that: samples are checked with the runs that a query reads, outputs and
snapshots row by row. The batch of a snapshot and the content of an output have their own checksums.

The checksum is that of JSON text, on which SQLite, PostgreSQL and every version of Python agree. It
detects damage, not forgery: whoever can write the store can write the checksum too.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    Select,
    Table,
    cast,
    event,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError
from sqlalchemy.sql import visitors

from trimtab.base.error import UnreadableError, visible
from trimtab.base.units import plural
from trimtab.store import schema

if TYPE_CHECKING:
    from trimtab.store.location import Location

WHOLE: Final = (
    schema.site, schema.run, schema.event, schema.slot, schema.incident, schema.action,
    schema.result, schema.alert,
)  # fmt: skip
"""Tables that are checked as a whole before they are queried."""
BY_ROW: Final = (schema.output, schema.snapshot, schema.derived)
UNCHECKED: Final = {"trimtab_unchecked": True}
"""Execution options of a query that reads damaged rows on purpose."""
AGAIN_S: Final = 3600.0
"""Time for which a process relies on a check."""
_RUNS: Final = "trimtab_runs"
_NAMED: Final = 3


def resum(connection: Connection, table: Table, *conditions: ColumnElement[bool]) -> None:
    """Bring the checksums of rows up to date after an update that set all their values."""
    key = list(table.primary_key.columns)
    query = select(*key, *_covered(table, connection)).where(*conditions)
    for row in _fetched(connection, query):
        this = [column == value for column, value in zip(key, row, strict=False)]
        total = schema.checksum(row[len(key) :])
        connection.execute(update(table).where(*this).values({schema.CHECKSUM: total}))


def change(
    connection: Connection, table: Table, values: Mapping[str, Any], *this: ColumnElement[bool]
) -> None:
    """Update some values of rows, and their checksums.

    Raises
    ------
    UnreadableError
        One of them is damaged: the new checksum would cover that up.
    """
    damaged = damage_of(connection, table, *this).damaged
    if damaged:
        names = ", ".join(damaged.values())
        raise UnreadableError(
            f"{table.name} {names} is damaged and cannot be changed",
            code="store-rows-damaged",
            hint=_NEXT,
        )
    connection.execute(update(table).where(*this).values(values))
    resum(connection, table, *this)


def of_runs(runs: Select[Any]) -> dict[str, Any]:
    """Return the execution options of a query on samples: it reads those of just these runs.

    Parameters
    ----------
    runs
        Selects their numbers. Without the options the samples of all runs are checked.
    """
    return {_RUNS: runs}


def require_row(table: Table, row: Mapping[Any, Any], noun: str) -> None:
    """Refuse a row of `BY_ROW` that is damaged.

    Parameters
    ----------
    row
        Column to value, all of the table's.
    noun
        Names it in the message.

    Raises
    ------
    UnreadableError
        Its checksum does not match.
    """
    try:
        damaged = schema.checksum(schema.row_values(table, row)) != row[schema.CHECKSUM]
    except (TypeError, ValueError, AttributeError):  # a value of another type than the column's
        damaged = True
    if damaged:
        raise UnreadableError(
            f"{noun} is damaged: its checksum does not match",
            code="store-rows-damaged",
            hint="trimtab store check lists what is lost, and how to go on",
        )


# Looking at whole tables


@dataclass(slots=True)
class Damage:
    """The rows of a table that do not match their checksums.

    Attributes
    ----------
    rows
        Number of rows, including damaged ones.
    damaged
        Number of a row (for outputs: number of the run, and ordinal) to its name for people: its
        id, if it has one.
    """

    rows: int = 0
    damaged: dict[Any, str] = field(default_factory=dict)


def damage_of(connection: Connection, table: Table, *this: ColumnElement[bool]) -> Damage:
    """Return the damage that checksums show in a table or some rows; of a run, in its own row."""
    key = list(table.primary_key.columns)
    query = select(*key, table.c[schema.CHECKSUM], *_covered(table, connection)).where(*this)
    damage, first = Damage(), len(key) + 1
    for row in _fetched(connection, query.order_by(*key)):
        damage.rows += 1
        if row[first - 1] != schema.checksum(row[first:]):
            place = row[0] if len(key) == 1 else row[: len(key)]
            damage.damaged[place] = visible(str(row[first] if "id" in table.c else place))
    return damage


def damaged_samples(
    connection: Connection, runs: Select[Any] | None = None, *, known: set[int] | None = None
) -> dict[int, str]:
    """Return number and id of the runs whose samples are damaged, missing or surplus.

    Parameters
    ----------
    runs
        Selects the numbers of the runs to check; ``None``: all.
    known
        Numbers of runs that are checked already; sound ones are added.
    """
    run, sample = schema.run.c, schema.sample.c
    wanted = select(run.number, run.id, run.sample_checksum)
    if runs is not None:
        wanted = wanted.where(run.number.in_(runs))
    known = set() if known is None else known
    expected = {
        number: (name, total)
        for number, name, total in _fetched(connection, wanted)
        if number not in known
    }
    if not expected:
        return {}
    query = select(sample.run, *_covered(schema.sample, connection))
    if runs is not None:
        query = query.where(sample.run.in_(runs))
    rows = _fetched(connection, query.order_by(sample.run, sample.ordinal))
    totals = {
        number: schema.checksum([row[1:] for row in of_run])
        for number, of_run in groupby(rows, itemgetter(0))
    }
    nothing = schema.checksum([])
    damaged = {
        number: name
        for number, (name, total) in expected.items()
        if totals.get(number, nothing) != total
    }
    known.update(expected.keys() - damaged.keys())
    return damaged


def lost_rows(
    connection: Connection, unreadable: Callable[[str, Exception], None] | None = None
) -> dict[str, Damage]:
    """Return the damage of each table; a run whose samples are damaged counts as damaged.

    Parameters
    ----------
    unreadable
        Receives the name of a table that cannot be read to its end, and why; ``None``: the error
        is raised.
    """
    damage: dict[str, Damage] = {}
    steps: list[tuple[str, Callable[[], None]]] = [
        (table.name, partial(_add_damage, damage, connection, table)) for table in (*WHOLE, *BY_ROW)
    ]
    steps.append(("sample", lambda: damage["run"].damaged.update(damaged_samples(connection))))
    steps.append(("snapshot", lambda: damage["snapshot"].damaged.update(_torn(connection))))
    for name, step in steps:
        try:
            step()
        except (DatabaseError, sqlite3.DatabaseError) as error:
            if unreadable is None:
                raise
            unreadable(name, error)
    return damage


def _add_damage(damage: dict[str, Damage], connection: Connection, table: Table) -> None:
    damage[table.name] = Damage()
    damage[table.name] = damage_of(connection, table)


def _torn(connection: Connection) -> dict[int, str]:
    """Return number and id of the snapshots whose batch, or that of their base, is damaged."""
    base, snapshot = schema.snapshot_base.c, schema.snapshot.c
    bases = _fetched(connection, select(base.number, base.digest, base.batch))
    whole = {n for n, digest, batch in bases if hashlib.sha256(batch).hexdigest() == digest}
    query = select(snapshot.number, snapshot.id, snapshot.base, snapshot.batch)
    return {
        number: visible(str(name))
        for number, name, base_number, batch in _fetched(connection, query)
        if base_number not in whole or not _is_whole(batch)
    }


def _is_whole(batch: bytes) -> bool:
    try:
        zlib.decompress(batch)
    except (zlib.error, TypeError):
        return False
    return True


def structure_problems(connection: Connection, table: Table | None = None) -> Iterator[str]:
    """Yield SQLite's complaints about a table and its indexes, or about the whole database."""
    if connection.dialect.name == "sqlite":
        which = "" if table is None else f"({table.name})"
        for (line,) in connection.exec_driver_sql(f"PRAGMA integrity_check{which}"):
            if line != "ok":
                yield line


def guard(engine: Engine, location: Location) -> None:
    """Check the rows that a query of this engine reads before it runs, if it does not write.

    A query then raises `UnreadableError` instead of giving an answer from a damaged row.
    """
    checked: dict[str, float] = {}
    sound: set[int] = set()

    def look(
        connection: Connection,
        statement: Any,
        _rows: Any,
        _parameters: Any,
        execution: Mapping[str, Any],
    ) -> None:
        if not isinstance(statement, Select):
            return
        options = {**connection.get_execution_options(), **execution}
        if "trimtab_writes" in options or "trimtab_unchecked" in options:
            return
        tables = {element for element in visitors.iterate(statement) if isinstance(element, Table)}
        now = time.monotonic()
        for table in WHOLE:
            if table in tables and not now - checked.get(table.name, -AGAIN_S) < AGAIN_S:
                _require_table(connection, table, location)
                checked[table.name] = now
                if table is schema.run:
                    sound.clear()
        if schema.snapshot in tables and not now - checked.get("snapshot", -AGAIN_S) < AGAIN_S:
            _require_snapshot_index(connection, location)
            checked["snapshot"] = now
        if schema.sample in tables:
            damaged = damaged_samples(connection, options.get(_RUNS), known=sound)
            if damaged:
                raise _refused(location, "run", [*damaged.values()], "with damaged samples")

    event.listen(engine, "before_execute", look)


def _require_table(connection: Connection, table: Table, location: Location) -> None:
    for problem in structure_problems(connection, table):
        raise UnreadableError(
            f"the store {location} is damaged: {problem}",
            code="store-damaged",
            hint=_NEXT,
        )
    damage = damage_of(connection, table)
    if damage.damaged:
        raise _refused(location, table.name, [*damage.damaged.values()], "damaged")


def _order(row: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [(type(value).__name__, value) for value in row]  # a damaged one may be text


def _require_snapshot_index(connection: Connection, location: Location) -> None:
    """Refuse an index of snapshots that misses one, as a query by time would.

    SQLite's own check would read every batch: all that is kept of years.
    """
    if connection.dialect.name != "sqlite":
        return
    columns = "site, at, number FROM snapshot"
    by_index = f"SELECT {columns} INDEXED BY ix_snapshot_site_at_checksum ORDER BY site, at, number"
    in_order = [tuple(row) for row in connection.exec_driver_sql(by_index)]
    rows = [tuple(row) for row in connection.exec_driver_sql(f"SELECT {columns} NOT INDEXED")]
    if in_order != sorted(rows, key=_order):
        raise UnreadableError(
            f"the store {location} is damaged: the index of its snapshots does not match them",
            code="store-damaged",
            hint=_NEXT,
        )


_NEXT: Final = (
    "trimtab store check lists what is lost; restore a backup, or: trimtab store copy STORE NEW "
    "leaves the damaged rows out"
)


def _refused(location: Location, noun: str, names: list[str], problem: str) -> UnreadableError:
    more = ", ..." if len(names) > _NAMED else ""
    text = f"{plural(len(names), noun, ',')} {problem} ({', '.join(names[:_NAMED])}{more})"
    return UnreadableError(
        f"the store {location} has {text}: no answer is given from incomplete or wrong values",
        code="store-rows-damaged",
        hint=_NEXT,
    )


# Rows as the database has them


def _covered(table: Table, connection: Connection) -> list[ColumnElement[Any]]:
    """Return them as SQL, whose results are alike from both databases."""
    server = connection.dialect.name == "postgresql"
    return [
        cast(column, Integer) if server and isinstance(column.type, Boolean) else column
        for column in schema.checked_columns(table)
    ]


def _fetched(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows with values as the database has them, not as the columns' types make them."""
    try:
        return _raw(connection, query)
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    # A text that is no UTF-8 is a damaged row, which is to be named.
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.text_factory = lambda data: data.decode(errors="surrogateescape")
    try:
        return _raw(connection, query)
    finally:
        driver.text_factory = str


def _raw(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    with connection.execute(query, execution_options=UNCHECKED) as result:
        assert result.cursor is not None
        return list(result.cursor.fetchall())
