"""A store copied into an empty one of another kind: from SQLite to PostgreSQL, or back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, Table, func, insert, select, text

from trimtab.errors import RefusedError, UnreadableError, UsageError
from trimtab.record import schema
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
        Of each table.
    outputs
        Raw outputs that are beside the copy now; 0 where both stores share their directory.
    missing
        Raw outputs that were missing or damaged beside the original, by their SHA-256.
    """

    rows: dict[str, int]
    outputs: int
    missing: tuple[str, ...]


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
        """
        with self._reading() as source, target._writing() as sink:
            if source.dialect.name == "postgresql":
                source.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            _refuse_a_watched(source, now)
            if any(_count(sink, table) for table in schema.metadata.sorted_tables):
                raise UsageError(
                    f"the store {target.location} is not empty",
                    code="store-not-empty",
                    hint="name a new file, or an empty database",
                )
            outputs, missing = self._copy_outputs(source, target, progress)
            rows: dict[str, int] = {}
            total = sum(_count(source, table) for table in schema.metadata.sorted_tables)
            for table in schema.metadata.sorted_tables:
                done = sum(rows.values())
                rows[table.name] = 0
                for count in _copy_rows(source, sink, table):
                    rows[table.name] += count
                    part = (done + rows[table.name]) / max(total, 1)
                    progress(f"copying {table.name}", part)
        return Copied(rows, outputs, missing)

    def _copy_outputs(
        self, source: Connection, target: CopyRecords, progress: Progress
    ) -> tuple[int, tuple[str, ...]]:
        if self.raw.path == target.raw.path:
            return 0, ()
        columns = schema.output.c
        sizes: dict[str, int] = {}
        for row in source.execute(select(schema.output).where(columns.pruned_at.is_(None))):
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


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _copy_rows(source: Connection, sink: Connection, table: Table) -> Iterator[int]:
    """Yield how many rows were copied, part after part; then make new numbers follow the last."""
    order = list(table.primary_key.columns)
    reading = source.execution_options(yield_per=_ROWS_AT_ONCE)
    for part in reading.execute(select(table).order_by(*order)).mappings().partitions():
        sink.execute(insert(table), [dict(row) for row in part])
        yield len(part)
    if sink.dialect.name == "postgresql" and "number" in table.c:
        sequence = func.pg_get_serial_sequence(table.name, "number")
        last = select(func.max(table.c.number)).scalar_subquery()
        sink.execute(select(func.setval(sequence, func.coalesce(last, 1), last.is_not(None))))
