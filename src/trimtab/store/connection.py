"""Connections to an open store, and the rows, queries and insertions that its parts share.

Every query and every change goes through one of two methods of `Connections`, one that reads and
one that writes. The functions turn values into rows and back, and work on a connection that is
already open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Insert,
    Row,
    Select,
    Table,
    insert,
    literal_column,
    select,
    type_coerce,
)

from trimtab.base.error import Message, UnreadableError, storable
from trimtab.base.event import Event, EventKind
from trimtab.base.run import RawOutput, Run, RunStatus, Sample, comparability_key, values_of_sample
from trimtab.store import checksum, schema
from trimtab.store.checksum import guard, require_row
from trimtab.store.database import WRITES, refuse_other_revision, store_errors
from trimtab.store.kept import ImportedRun, KeptOutput, value_of
from trimtab.store.kept_period import PERIOD
from trimtab.store.location import Location
from trimtab.store.raw_output import RawDirectory


class Connections:
    """A database that is open, with its raw outputs beside it."""

    def __init__(self, engine: Engine, location: Location) -> None:
        self._engine = engine
        self.location = location
        self.raw = RawDirectory(location.raw)
        self._file = _identity(location)
        guard(engine, location)

    def look_again(self) -> bool:
        """Return whether the store that was opened has been replaced by another one.

        If so, the new one is read from now on. For readers that run for months: meanwhile a
        store may be restored from a copy, or migrated by a newer program.

        Raises
        ------
        UnreadableError
            There is no store, or one of another revision.
        """
        present = _identity(self.location)
        if present is None and self.location.path is not None:
            raise UnreadableError(
                f"the store {self.location} was removed while it was open",
                code="store-missing",
                hint="bring it back",
            )
        was_replaced = present != self._file
        if was_replaced:
            self._engine.dispose()  # connections to a file that was replaced go on reading that
            self._file = present
        with self._reading() as connection:
            refuse_other_revision(connection, self.location)
        return was_replaced

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with store_errors(self.location), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self, *, patient: bool = True) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is all kept or not at all.

        Parameters
        ----------
        patient
            Whether another process that writes is waited for.

        Raises
        ------
        UnreadableError
            SQLite's file is no longer at its path: anything written would be lost with the last
            process that has it open.
        """
        if _identity(self.location) != self._file:
            raise UnreadableError(
                f"the store {self.location} was removed or replaced while it was open",
                code="store-replaced",
                hint="put it back, or start again to create a new one",
            )
        with store_errors(self.location), self._engine.connect() as connection:
            writer = connection.execution_options(**WRITES, trimtab_patient=patient)
            with writer.begin():
                yield writer

    def _put_outputs(self, runs: Iterable[Run]) -> None:
        """Bring the raw outputs of runs to stable storage."""
        for run in runs:
            for output in run.outputs:
                self.raw.put(output.stdout)
                self.raw.put(output.stderr)


def _identity(location: Location) -> tuple[int, int] | None:
    """Return device and inode of SQLite's file; ``None`` for a server or a missing file."""
    if location.path is None:
        return None
    try:
        state = location.path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


if TYPE_CHECKING:
    pass


def row_of(value: Any, table: Table, /, **more: Any) -> dict[str, Any]:
    """Return the row of a value: the columns that have the name of a field, and those of ``more``.

    Columns that the value has no field for, and that are not given, are left to the database.
    """
    row = {name: getattr(value, name) for name in _columns(table, type(value)) if name not in more}
    for name, entry in row.items():
        if isinstance(entry, Enum):
            row[name] = entry.value
    return row | more


@cache
def _columns(table: Table, kind: type) -> tuple[str, ...]:
    names = {field.name for field in fields(kind)}
    return tuple(column.name for column in table.columns if column.name in names)


def run_row(run: Run, site_number: int, import_key: str | None) -> dict[str, Any]:
    """Return the row of a run, without its samples and outputs."""
    return row_of(
        run,
        schema.run,
        site=site_number,
        comparability=comparability_key(run),
        import_key=import_key,
        sample_checksum=schema.checksum(sample_rows(run.samples)),
    )


def sample_rows(samples: Iterable[Sample]) -> list[tuple[Any, ...]]:
    """Return the rows of samples as the database has them: all columns but the run, in order.

    A value that is not finite is kept as missing, with that as its reason: SQLite would turn
    NaN into a missing value without one, and neither is a measurement.
    """
    made: list[tuple[Any, ...]] = []
    for ordinal, sample in enumerate(samples):
        value, reason = sample.value, sample.reason
        if value is not None and not math.isfinite(value):
            not_finite = Message(
                "figure-not-finite", f"the figure was {float(value)}, which is no measurement"
            )
            value, reason = None, f"{reason}; {not_finite}" if reason else not_finite
        made.append(
            (
                ordinal,
                sample.metric,
                None if value is None else float(value) + 0.0,  # SQLite has no -0.0
                sample.repetition,
                None if sample.target is None else storable(sample.target),
                storable(sample.statistic),
                sample.output,
                sample.line,
                None if reason is None else storable(reason),
            )
        )
    return made


def output_row(output: RawOutput, run_number: int, ordinal: int) -> dict[str, Any]:
    """Return the row of a raw output whose content is kept."""
    contents = {
        "stdout_sha256": RawDirectory.name_of(output.stdout),
        "stdout_bytes": len(output.stdout),
        "stderr_sha256": RawDirectory.name_of(output.stderr),
        "stderr_bytes": len(output.stderr),
    }
    return row_of(output, schema.output, run=run_number, ordinal=ordinal, **contents)


def event_row(event: Event, site_number: int) -> dict[str, Any]:
    """Return the row of an event."""
    return row_of(event, schema.event, site=site_number)


def to_run(row: Row[Any], samples: tuple[Sample, ...], outputs: tuple[RawOutput, ...]) -> Run:
    """Return the run of a row that also has ``site_name``."""
    with understood(f"run {row.id}"):
        status = RunStatus(row.status)
    return value_of(Run, row, site=row.site_name, status=status, samples=samples, outputs=outputs)


def to_sample(row: Row[Any]) -> Sample:
    """Return the sample of a row."""
    with understood(f"sample {row.ordinal} of run number {row.run}"):
        return Sample(*values_of_sample(row))


def to_output(row: Row[Any]) -> KeptOutput:
    """Return the description of a raw output without reading its content."""
    require_row(schema.output, row._mapping, f"output {row.ordinal} of run number {row.run}")
    return value_of(KeptOutput, row, argv=tuple(row.argv))


def to_event(row: Row[Any]) -> Event:
    """Return the event of a row that also has ``site_name``."""
    with understood(f"event {row.id}"):
        kind = EventKind(row.kind)
    return value_of(Event, row, site=row.site_name, kind=kind, targets=tuple(row.targets))


@contextmanager
def understood(noun: str) -> Iterator[None]:
    """Tell that a newer program wrote a word that this one does not have."""
    try:
        yield
    except ValueError as error:
        raise UnreadableError(
            f"{noun} cannot be decoded: {error}",
            code="record-unreadable",
            hint="a newer Trimtab may have written it; everything else in the store is intact",
        ) from error


AT_ONCE = 500  # whose samples are asked for in one query: older SQLites take 999 values
_ID_PREFIX = re.compile(r"[0-9a-f-]{1,36}")
_AFTER_EVERY_DIGIT = "g"  # so that a prefix is a range of the index


def site_number(connection: Connection, name: str) -> int:
    """Return the number of the site, which is added when it is new."""
    query = select(schema.site.c.number).where(schema.site.c.name == name)
    number = connection.execute(query).scalar()
    if number is None:
        # Two processes may add it at once; both databases have a word for that.
        connection.execute(insert_unless_there(connection, schema.site, name=name))
        number = connection.execute(query).scalar_one()
    return number


def of_site(query: Select[*tuple[Any, ...]], table: Table, site: str) -> Select[*tuple[Any, ...]]:
    """Return the question narrowed to the rows that a table has of a site."""
    return query.join(schema.site, schema.site.c.number == table.c.site).where(
        schema.site.c.name == site
    )


def insert_runs(connection: Connection, runs: Sequence[Run]) -> None:
    """Insert runs with their samples and outputs, whose content is kept already."""
    _insert(connection, [(run, None, ()) for run in runs])


def insert_imports(connection: Connection, imports: Sequence[ImportedRun]) -> list[str | None]:
    """Insert runs that were read from files; return for each the id of its earlier import, if any.

    A run that is stored already under a key stays as it is, except for a time that it lacked. One
    query and three insertions serve all of them.
    """
    sites = _site_numbers(connection, [entry.run for entry in imports])
    present = _imported_keys(connection, sites, [entry.key for entry in imports])
    before: list[str | None] = []
    new: list[ImportedRun] = []
    for entry in imports:
        key = (sites[entry.run.site], entry.run.kind, entry.key)
        identifier, timeless = present.get(key) or (None, False)
        before.append(identifier)
        if identifier is None:
            present[key] = (entry.run.id, False)
            new.append(entry)
        elif timeless:
            _give_time(connection, identifier, entry.run)
    _insert(connection, [(entry.run, entry.key, entry.outputs) for entry in new])
    return before


def _insert(
    connection: Connection, entries: Sequence[tuple[Run, str | None, tuple[KeptOutput, ...]]]
) -> None:
    """Insert runs, each with its import key and the outputs that it does not hold itself."""
    if not entries:
        return
    sites = _site_numbers(connection, [run for run, _, _ in entries])
    numbers = connection.execute(
        insert(schema.run).returning(schema.run.c.number, sort_by_parameter_order=True),
        [run_row(run, sites[run.site], key) for run, key, _ in entries],
    ).scalars()
    outputs: list[dict[str, Any]] = []
    samples: list[tuple[int, Sequence[Sample]]] = []
    for number, (run, _, kept_outputs) in zip(numbers, entries, strict=True):
        outputs += [row_of(output, schema.output, run=number) for output in kept_outputs]
        outputs += [output_row(output, number, at) for at, output in enumerate(run.outputs)]
        samples.append((number, run.samples))
    if outputs:
        connection.execute(insert(schema.output), outputs)
    insert_samples(connection, samples)


def insert_samples(connection: Connection, samples: Iterable[tuple[int, Sequence[Sample]]]) -> None:
    """Insert the samples of runs, each with the run's number.

    Past SQLAlchemy, which would look at each value of each row again.
    """
    values = [(number, *row) for number, of_run in samples for row in sample_rows(of_run)]
    if values:
        names = ", ".join(schema.sample.columns.keys())
        mark = "%s" if connection.dialect.name == "postgresql" else "?"
        marks = ", ".join([mark] * len(schema.sample.columns))
        connection.exec_driver_sql(f"INSERT INTO sample ({names}) VALUES ({marks})", values)


def _site_numbers(connection: Connection, runs: Iterable[Run]) -> dict[str, int]:
    return {name: site_number(connection, name) for name in {run.site for run in runs}}


def _give_time(connection: Connection, identifier: str, run: Run) -> None:
    """Give a run that was imported without a time the one that is known by now."""
    if run.at is not None:
        values = {"at": run.at, "until": run.until, "at_reason": None}
        checksum.change(connection, schema.run, values, schema.run.c.id == identifier)


def _imported_keys(
    connection: Connection, sites: Mapping[str, int], keys: Sequence[str]
) -> dict[tuple[int, str, str], tuple[str, bool]]:
    """Return site, kind and key of each import under one of these keys, with its run.

    The run is given by its id, and whether it has no time.
    """
    run = schema.run.c
    known: dict[tuple[int, str, str], tuple[str, bool]] = {}
    for start in range(0, len(keys), AT_ONCE):
        query = select(run.site, run.kind, run.import_key, run.id, run.at).where(
            run.site.in_(sites.values()), run.import_key.in_(keys[start : start + AT_ONCE])
        )
        for site, kind, key, identifier, at in connection.execute(query):
            known[site, kind, key] = (identifier, at is None)
    return known


def has_run(connection: Connection, identifier: str) -> bool:
    """Return whether a run is kept under that id."""
    query = select(schema.run.c.number).where(schema.run.c.id == identifier)
    return connection.execute(query).scalar() is not None


def runs_query() -> Select[Any]:
    """Return the question for all runs, each with its ``site_name``."""
    return select(schema.run, schema.site.c.name.label("site_name")).join(
        schema.site, schema.site.c.number == schema.run.c.site
    )


def runs_beginning(connection: Connection, prefix: str, limit: int) -> Sequence[Row[Any]]:
    """Return the runs whose id begins so, at most ``limit``, by id."""
    wanted = prefix.strip().lower()
    if not _ID_PREFIX.fullmatch(wanted):
        return ()
    identifier = schema.run.c.id
    query = (
        runs_query()
        .where(identifier >= wanted, identifier < wanted + _AFTER_EVERY_DIGIT)
        .order_by(identifier)
        .limit(limit)
    )
    return connection.execute(query).all()


def samples_of(
    connection: Connection, numbers: Sequence[int], *, whole: bool = False
) -> dict[int, tuple[Sample, ...]]:
    """Return number of the run to its samples, in their order.

    Parameters
    ----------
    whole
        Whether those of single targets are left out.
    """
    sample = schema.sample.c
    samples: dict[int, list[Sample]] = {}
    for start in range(0, len(numbers), AT_ONCE):
        wanted = numbers[start : start + AT_ONCE]
        query = (
            select(schema.sample).where(sample.run.in_(wanted)).order_by(sample.run, sample.ordinal)
        )
        if whole:
            query = query.where(sample.target.is_(None))
        runs = select(schema.run.c.number).where(schema.run.c.number.in_(wanted))
        for row in connection.execute(query, execution_options=checksum.of_runs(runs)):
            samples.setdefault(row.run, []).append(to_sample(row))
    return {number: tuple(values) for number, values in samples.items()}


def outputs_of(connection: Connection, number: int) -> tuple[KeptOutput, ...]:
    """Return the descriptions of the raw outputs of a run, in order."""
    output = schema.output.c
    query = select(schema.output).where(output.run == number).order_by(output.ordinal)
    return tuple(to_output(row) for row in connection.execute(query))


def between(
    query: Select[*tuple[Any, ...]],
    at: Column[Any],
    since: datetime | None,
    until: datetime | None,
) -> Select[*tuple[Any, ...]]:
    """Return the question narrowed to a stretch; both ends are within."""
    if since is not None:
        query = query.where(at >= since)
    if until is not None:
        query = query.where(at <= until)
    return query


_AHEAD: Final = 40_000
"""Periods by which times are moved to after 1970 before they are divided: 3,000 years."""


def period_of(table: Table) -> ColumnElement[int]:
    """Return the number of a row's period, counted as in `trimtab.store.kept_period`."""
    length_us = PERIOD // timedelta(microseconds=1)
    # Databases round negative quotients, of times before 1970, up instead of down.
    ahead, length, ahead_us = (
        literal_column(str(number), BigInteger)
        for number in (_AHEAD, length_us, _AHEAD * length_us)
    )
    return (type_coerce(table.c.at, BigInteger) + ahead_us) // length - ahead


def runs_text(records: Iterable[Row[Any]]) -> str:
    """Return runs as text by which a person can distinguish them: id, time, probe and site."""
    return "; ".join(
        f"{row.id} ({_minute(row.at)}, {row.probe} on {row.site_name})" for row in records
    )


def _minute(at: datetime | None) -> str:
    return "no time" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"


def insert_unless_there(connection: Connection, table: Table, **values: Any) -> Insert:
    """Return the insertion of a row that does nothing if a unique index has an equal one."""
    # Imported here: PostgreSQL's dialect costs a tenth of a second of start-up.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_to
    else:
        from sqlalchemy.dialects.sqlite import insert as insert_to
    row = insert_to(table).values(values).on_conflict_do_nothing()
    # Callers ask for the row count to learn whether there was one; SQLAlchemy drops it for
    # insertions by default.
    return row.execution_options(preserve_rowcount=True)
