"""A store copied into an empty one of another kind: from SQLite to PostgreSQL, or back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, func, insert, select, text

from trimtab.errors import RefusedError, UnreadableError, UsageError
from trimtab.record import schema
from trimtab.record.checksums import UNCHECKED, Damage, lost_rows
from trimtab.record.connections import Connections
from trimtab.record.raw import EMPTY_SHA256
from trimtab.record.slots import process_text

_ROWS_AT_ONCE: Final = 5000
_OUTPUTS_AT_ONCE: Final = 200

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied.

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
                    f"the store {self.location} has a damaged row of a site, on which all that is "
                    "kept of it rests",
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
