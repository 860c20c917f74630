"""The store's questions and insertions, each on a connection that is already open."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    CursorResult,
    Insert,
    Row,
    Select,
    Table,
    insert,
    select,
)

from trimtab.model.run import Run, Sample
from trimtab.record import checksums, rows, schema
from trimtab.record.kept import ImportedRun, KeptOutput

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


def imported(connection: Connection, site: str, kind: str, import_key: str | None) -> str | None:
    """Return the id of the run that was imported under that key, ``None`` if none was."""
    if import_key is None:
        return None
    query = (
        select(schema.run.c.id)
        .join(schema.site, schema.site.c.number == schema.run.c.site)
        .where(
            schema.site.c.name == site,
            schema.run.c.kind == kind,
            schema.run.c.import_key == import_key,
        )
    )
    return connection.execute(query).scalar()


def insert_run(
    connection: Connection,
    run: Run,
    *,
    import_key: str | None = None,
    hashes: Sequence[tuple[str, str]] = (),
) -> None:
    """Insert a run with its samples and outputs, whose stdout and stderr have those hashes."""
    site = site_number(connection, run.site)
    added = connection.execute(insert(schema.run).values(rows.of_run(run, site, import_key)))
    number = _number(added)
    outputs = enumerate(zip(run.outputs, hashes, strict=True))
    _insert_all(
        connection,
        schema.output,
        [rows.of_output(output, number, place, hashes=pair) for place, (output, pair) in outputs],
    )
    _insert_all(connection, schema.sample, _sample_rows(run, number))


def insert_runs(
    connection: Connection, runs: Sequence[Run], *, name_of: Callable[[bytes], str]
) -> None:
    """Insert runs with their samples and outputs; ``name_of`` gives the hash of a content."""
    if not runs:
        return
    sites = {name: site_number(connection, name) for name in {run.site for run in runs}}
    numbers = connection.execute(
        insert(schema.run).returning(schema.run.c.number, sort_by_parameter_order=True),
        [rows.of_run(run, sites[run.site], None) for run in runs],
    ).scalars()
    outputs: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for number, run in zip(numbers, runs, strict=True):
        for place, output in enumerate(run.outputs):
            pair = (name_of(output.stdout), name_of(output.stderr))
            outputs.append(rows.of_output(output, number, place, hashes=pair))
        samples += _sample_rows(run, number)
    _insert_all(connection, schema.output, outputs)
    _insert_all(connection, schema.sample, samples)


def insert_imports(connection: Connection, imports: Sequence[ImportedRun]) -> list[str | None]:
    """Insert runs that were read from files; return for each the id under which it was kept before.

    What is kept already under the key of one stays as it is, but for a time that it lacked. One
    question and three insertions serve all of them.
    """
    sites = {
        name: site_number(connection, name) for name in {imported.run.site for imported in imports}
    }
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
    if not new:
        return before
    values = [rows.of_run(imported.run, sites[imported.run.site], imported.key) for imported in new]
    numbers = connection.execute(
        insert(schema.run).returning(schema.run.c.number, sort_by_parameter_order=True), values
    ).scalars()
    outputs: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for number, entry in zip(numbers, new, strict=True):
        outputs += [rows.of_kept_output(output, number) for output in entry.outputs]
        samples += _sample_rows(entry.run, number)
    _insert_all(connection, schema.output, outputs)
    _insert_all(connection, schema.sample, samples)
    return before


def _give_time(connection: Connection, identifier: str, run: Run) -> None:
    """Give a run that was imported without a time the one that is known by now."""
    if run.at is not None:
        values = {"at": run.at, "until": run.until, "at_reason": None}
        checksums.change(connection, schema.run, values, schema.run.c.id == identifier)


def _imported_keys(
    connection: Connection, sites: Mapping[str, int], keys: Sequence[str]
) -> dict[tuple[int, str, str], tuple[str, bool]]:
    """Return site, kind and key of what was imported under one of these keys.

    To its id, and whether it has no time.
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


def _sample_rows(run: Run, number: int) -> list[dict[str, Any]]:
    return [rows.of_sample(sample, number, place) for place, sample in enumerate(run.samples)]


def has_run(connection: Connection, identifier: str) -> bool:
    """Return whether a run is kept under that id."""
    query = select(schema.run.c.number).where(schema.run.c.id == identifier)
    return connection.execute(query).scalar() is not None


def runs() -> Select[Any]:
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
        runs()
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
        for row in connection.execute(query, execution_options=checksums.of_runs(runs)):
            samples.setdefault(row.run, []).append(rows.to_sample(row))
    return {number: tuple(values) for number, values in samples.items()}


def outputs_of(connection: Connection, number: int) -> tuple[KeptOutput, ...]:
    """Return what is known of the raw outputs of a run, in their order."""
    output = schema.output.c
    query = select(schema.output).where(output.run == number).order_by(output.ordinal)
    return tuple(rows.to_output(row) for row in connection.execute(query))


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


def named(records: Iterable[Row[Any]]) -> str:
    """Return runs as a person tells them apart: id, time, probe and site."""
    return "; ".join(
        f"{row.id} ({_minute(row.at)}, {row.probe} on {row.site_name})" for row in records
    )


def _minute(at: datetime | None) -> str:
    return "no time" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"


def _number(added: CursorResult[Any]) -> int:
    key = added.inserted_primary_key
    if key is None:  # only when the row was not added, which would have raised
        raise AssertionError("a row was added without a number")
    return key[0]


def insert_unless_there(connection: Connection, table: Table, **values: Any) -> Insert:
    """Return the insertion of a row that does nothing where a unique index holds its like."""
    # Imported here: PostgreSQL's dialect costs a tenth of a second of start-up.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_to
    else:
        from sqlalchemy.dialects.sqlite import insert as insert_to
    row = insert_to(table).values(values).on_conflict_do_nothing()
    # Whoever needs to know whether there was one asks for the count, which SQLAlchemy drops for
    # insertions unless it is told not to.
    return row.execution_options(preserve_rowcount=True)


def _insert_all(connection: Connection, table: Table, values: list[dict[str, Any]]) -> None:
    if values:
        connection.execute(insert(table), values)
