"""Snapshots in the store: whole once, and of those with the same rows what changed (`batch.Base`).

A base is looked for among the newest of the site: its telemetry keeps its rows for months, or goes
back and forth between a few shapes, as when a server does not answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, Select, delete, func, select

from trimtab.errors import UnreadableError
from trimtab.model.identifier import new_identifier
from trimtab.model.telemetry import Snapshot
from trimtab.record import checksums, schema
from trimtab.record.batch import Base, Values, decode, frame_of
from trimtab.record.connections import Connections
from trimtab.record.location import Location
from trimtab.record.queries import AT_ONCE, between, insert_unless_there, of_site, site_number
from trimtab.record.rows import row_of

if TYPE_CHECKING:
    from sqlalchemy import Engine

_TRIED: Final = 4
"""Bases of a site that a snapshot is held against before it becomes one itself."""
_KEPT: Final = 8
"""Bases that stay in memory: some megabytes each at a large site."""
_DECODED: Final = 4
"""Snapshots that stay in memory as they were read: alerts, policies and metrics read the same."""


@dataclass(frozen=True, slots=True)
class Changes:
    """A snapshot as it is kept.

    Attributes
    ----------
    id
        Its id.
    at, driver, complete
        As `Snapshot` has them.
    base, batch
        What it was made from, and what `Base.changes` gave.
    """

    id: str
    at: datetime
    driver: str
    complete: bool
    base: Base
    batch: bytes


class SnapshotRecords(Connections):
    """The part of the store that keeps snapshots."""

    def __init__(self, engine: Engine, location: Location) -> None:
        super().__init__(engine, location)
        self._bases: dict[str, Base] = {}
        self._decoded: dict[tuple[str, bytes, str], Snapshot] = {}

    def add_snapshot(self, site: str, snapshot: Snapshot, *, identifier: str | None = None) -> str:
        """Keep a snapshot for good and return its id.

        Parameters
        ----------
        identifier
            Its id where the caller has chosen one; a snapshot that is kept under it stays as it
            is, and nothing is added.
        """
        identifier = identifier or new_identifier(snapshot.at)
        self.add_changes(site, self.changes_of(site, {identifier: snapshot}))
        return identifier

    def add_changes(self, site: str, changes: Sequence[Changes]) -> None:
        """Keep snapshots that are encoded already, all in one transaction.

        What is kept under an id stays as it is.
        """
        if changes:
            with self._writing() as connection:
                insert_snapshots(connection, site, changes)

    def changes_of(self, site: str, snapshots: Mapping[str, Snapshot]) -> list[Changes]:
        """Return snapshots of a site, by id, as `add_changes` takes them."""
        with self._reading() as connection:
            bases = self._newest_bases(connection, site)
        changes = []
        for identifier, snapshot in snapshots.items():
            frame = frame_of(snapshot)
            base = next((base for base in bases if base.fits(frame)), None)
            if base is None:
                base = Base.of(frame)
                bases = [base, *bases[: _TRIED - 1]]
            row = row_of(snapshot, schema.snapshot)
            changes.append(
                Changes(id=identifier, base=base, batch=base.changes(Values.of(frame)), **row)
            )
        return changes

    def snapshot(self, identifier: str) -> Snapshot | None:
        """Return the snapshot with that id; ``None`` when none is kept, or is kept no longer."""
        query = select(schema.snapshot).where(schema.snapshot.c.id == identifier)
        snapshots = self._snapshots(query)
        return snapshots[0] if snapshots else None

    def latest_snapshot(self, site: str, at: datetime | None = None) -> Snapshot | None:
        """Return the last snapshot of a site, or the last one not after ``at``."""
        snapshots = self.snapshots(site, until=at, limit=1)
        return snapshots[0] if snapshots else None

    def snapshots(
        self,
        site: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> tuple[Snapshot, ...]:
        """Return snapshots of a site, the newest first; ``since`` and ``until`` are within."""
        at = schema.snapshot.c.at
        query = of_site(select(schema.snapshot), schema.snapshot, site)
        query = query.order_by(at.desc(), schema.snapshot.c.number.desc()).limit(limit)
        return self._snapshots(between(query, at, since, until))

    def _snapshots(self, query: Select[Any]) -> tuple[Snapshot, ...]:
        with self._reading() as connection:
            records = connection.execute(query).all()
            bases = self._bases_of(connection, (record.base for record in records))
        return tuple(self._snapshot(record, bases) for record in records)

    def _snapshot(self, row: Row[Any], bases: Mapping[int, Base]) -> Snapshot:
        checksums.require_row(schema.snapshot, row._mapping, f"the snapshot {row.id}")
        base = base_of(row, bases)
        key = row.id, row.batch, base.digest
        snapshot = self._decoded.get(key)
        if snapshot is None:
            snapshot = decode(row.batch, base, at=row.at, driver=row.driver, complete=row.complete)
        self._remember(key, snapshot)
        return snapshot

    def _remember(self, key: tuple[str, bytes, str], snapshot: Snapshot) -> None:
        """Keep a snapshot in memory as the newest of few."""
        self._decoded.pop(key, None)
        self._decoded[key] = snapshot
        for oldest in list(self._decoded)[:-_DECODED]:
            self._decoded.pop(oldest, None)

    def remember(self, changes: Iterable[Changes], snapshots: Mapping[str, Snapshot]) -> None:
        """Keep in memory what was just committed: alerts and policies read it at once."""
        for change in changes:
            key = change.id, change.batch, change.base.digest
            self._remember(key, snapshots[change.id])

    def _newest_bases(self, connection: Connection, site: str) -> list[Base]:
        table = schema.snapshot_base.c
        query = of_site(select(table.number), schema.snapshot_base, site)
        query = query.order_by(table.number.desc()).limit(_TRIED)
        numbers = connection.execute(query).scalars().all()
        bases = self._bases_of(connection, numbers)
        return [bases[number] for number in numbers if number in bases]

    def _bases_of(self, connection: Connection, numbers: Iterable[int | None]) -> dict[int, Base]:
        """Return the bases with these numbers; those in memory are not read again.

        SQLite gives the number of a base that was removed to another one, so they are known by
        their digests.
        """
        table, bases = schema.snapshot_base.c, {}
        wanted = sorted({number for number in numbers if number is not None})
        for start in range(0, len(wanted), AT_ONCE):
            some = table.number.in_(wanted[start : start + AT_ONCE])
            for number, digest in connection.execute(
                select(table.number, table.digest).where(some)
            ):
                base = self._bases.pop(digest, None)
                if base is None:
                    query = select(table.batch).where(table.number == number)
                    batch = connection.execute(query).scalar_one()
                    base = Base.read(batch, digest)
                self._bases[digest] = bases[number] = base
        for digest in list(self._bases)[: -_KEPT or None]:
            self._bases.pop(digest, None)
        return bases


def base_of(row: Row[Any], bases: Mapping[int, Base]) -> Base:
    """Return the base of which a snapshot holds the changes.

    Raises
    ------
    UnreadableError
        Its row names none.
    """
    base = bases.get(row.base)
    if base is None:
        raise UnreadableError(
            f"the snapshot {row.id} names no base that the store has",
            code="snapshot-unreadable",
            hint="trimtab store check lists what is lost, and how to go on",
        )
    return base


def insert_snapshots(connection: Connection, site: str, changes: Sequence[Changes]) -> None:
    """Insert snapshots of a site with their bases, unless one of its id is there."""
    site_row, numbers = site_number(connection, site), dict[str, int]()
    for change in changes:
        digest = change.base.digest
        if digest not in numbers:
            numbers[digest] = _base_number(connection, site_row, change.base)
        row = row_of(change, schema.snapshot, site=site_row, base=numbers[digest])
        connection.execute(insert_unless_there(connection, schema.snapshot, **row))


def remove_unused_bases(connection: Connection, site: int) -> None:
    """Remove the bases of a site that no snapshot refers to any more, but the newest."""
    base, snapshot = schema.snapshot_base, schema.snapshot.c
    newest = select(func.max(base.c.number)).where(base.c.site == site).scalar_subquery()
    used = select(snapshot.base).where(snapshot.base == base.c.number).exists()
    connection.execute(delete(base).where(base.c.site == site, base.c.number != newest, ~used))


def _base_number(connection: Connection, site: int, base: Base) -> int:
    """Return the number of a base, which is added where it is new."""
    table = schema.snapshot_base
    # Shared until the end of the transaction, so that nobody removes it meanwhile.
    query = (
        select(table.c.number)
        .where(table.c.site == site, table.c.digest == base.digest)
        .with_for_update(read=True, key_share=True)
    )
    number = connection.execute(query).scalar()
    if number is None:
        row = {"site": site, "digest": base.digest, "batch": base.batch}
        connection.execute(insert_unless_there(connection, table, **row))
        number = connection.execute(query).scalar_one()
    return number
