"""What the watch keeps: slots with all that came of them, and its lease on a site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import Select, delete, select

from trimtab.errors import RefusedError
from trimtab.model.event import Event
from trimtab.model.run import Run
from trimtab.model.telemetry import Snapshot
from trimtab.record import schema
from trimtab.record.queries import (
    between,
    has_run,
    insert_runs,
    insert_unless_there,
    of_site,
    site_number,
)
from trimtab.record.rows import event_row
from trimtab.record.slots import (
    Lease,
    Slot,
    SlotState,
    claim_slot_row,
    lease_of,
    process_text,
    put_lease,
    put_slot,
    renew_lease,
    to_slot,
)
from trimtab.record.snapshots import SnapshotRecords, insert_snapshots

_NOTHING: Mapping[str, Snapshot] = MappingProxyType({})


class WatchRecords(SnapshotRecords):
    """The part of the store that the watch writes."""

    def claim_slot(
        self,
        site: str,
        item: str,
        due_at: datetime,
        *,
        started_at: datetime,
        holder: str,
        lease_until: datetime,
    ) -> bool:
        """Begin a slot and return whether there is something to do.

        A slot that was started and never ended is taken over; one that has ended stays as it is,
        and the answer is False.

        Parameters
        ----------
        lease_until
            Aware; the holder's lease on the site is put off to then, in the same transaction.

        Raises
        ------
        RefusedError
            The holder does not have the lease on the site by now. Nothing was kept.
        """
        slot = Slot(site, item, due_at, SlotState.STARTED, started_at, holder=holder)
        with self._writing() as connection:
            # Renewed and not only read: a lease may have ended while its holder was held up, and
            # who takes it at this moment waits for the end of this transaction, or goes first.
            if not renew_lease(connection, site, holder, lease_until):
                lease = lease_of(connection, site)
                since = lease and f"{process_text(lease.holder)} since {lease.taken_at.isoformat()}"
                raise RefusedError(
                    f"{site} is watched by {since or 'nobody: the lease was released'}",
                    code="site-watched-elsewhere",
                    hint="this watch was held up for longer than its lease; start it again",
                )
            return claim_slot_row(connection, slot)

    def finish_slot(
        self,
        slot: Slot,
        *,
        run: Run | None = None,
        others: Sequence[Run] = (),
        snapshots: Mapping[str, Snapshot] = _NOTHING,
        event: Event | None = None,
    ) -> bool:
        """Keep how far a slot has come, with what came of it, and return whether it was kept.

        Everything is one transaction: all of it is kept, or nothing. Raw outputs are on stable
        storage before it. With the state `SlotState.STARTED` a part is kept and the slot goes on.
        What is kept under the id of the run, of a snapshot or of the event stays as it is. Where
        the slot has ended before, or another process has started it, nothing is kept.

        Parameters
        ----------
        slot
            All its fields; ``holder`` as it was claimed.
        others
            What was measured with the run.
        snapshots
            Id to snapshot.
        """
        runs = others if run is None else (run, *others)
        self._put_outputs(runs)
        changes = self.changes_of(slot.site, snapshots)
        with self._writing() as connection:
            if not put_slot(connection, slot):
                return False
            new = [entry for entry in runs if not has_run(connection, entry.id)]
            insert_runs(connection, new)
            if changes:
                insert_snapshots(connection, slot.site, changes)
            if event is not None:
                number = site_number(connection, event.site)
                row = event_row(event, number)
                connection.execute(insert_unless_there(connection, schema.event, **row))
        self.remember(changes, snapshots)
        return True

    def slots(
        self,
        site: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        item: str | None = None,
    ) -> tuple[Slot, ...]:
        """Return the slots of a site that were due within a stretch, the oldest first.

        What only says from when on an item is watched (`SlotState.BEGUN`) is left out.

        Parameters
        ----------
        since, until
            Aware; both are within.
        """
        table = schema.slot.c
        query = _of_site(site).where(table.state != SlotState.BEGUN.value)
        if item is not None:
            query = query.where(table.item == item)
        return self._slots(site, between(query, table.due_at, since, until))

    def open_slots(self, site: str) -> tuple[Slot, ...]:
        """Return the slots of a site that were started and have not ended, the oldest first."""
        table = schema.slot.c
        return self._slots(site, _of_site(site).where(table.state == SlotState.STARTED.value))

    def last_slot(
        self,
        site: str,
        item: str,
        *,
        until: datetime | None = None,
        state: SlotState | None = None,
    ) -> Slot | None:
        """Return the latest slot of an item, begun ones as well; ``None`` if it was never watched.

        Parameters
        ----------
        until
            Leaves out what was due after this time.
        state
            Only those that have come so far.
        """
        table = schema.slot.c
        query = _of_site(site).where(table.item == item)
        if state is not None:
            query = query.where(table.state == state.value)
        query = between(query, table.due_at, None, until)
        latest = self._slots(site, query.order_by(table.due_at.desc()).limit(1))
        return latest[0] if latest else None

    def _slots(self, site: str, query: Select[Any]) -> tuple[Slot, ...]:
        by_time = query.order_by(schema.slot.c.due_at, schema.slot.c.item)
        with self._reading() as connection:
            records = connection.execute(by_time).all()
        return tuple(to_slot(row, site) for row in records)

    def lease(self, site: str) -> Lease | None:
        """Return the lease on a site, lapsed or not; ``None`` when nothing watches it."""
        with self._reading() as connection:
            return lease_of(connection, site)

    def take_lease(
        self,
        site: str,
        holder: str,
        *,
        now: datetime,
        until: datetime,
        gone: Callable[[str], bool] = lambda holder: False,
    ) -> Lease | None:
        """Take the lease on a site and return ``None``; or return the lease that stands against it.

        Parameters
        ----------
        now, until
            Aware; a lease whose ``until`` is past is taken over.
        gone
            Whether a holder is known to be no more.
        """
        wanted = Lease(site, holder, now, until)
        while True:  # each time that it is lost in between, another process took or renewed it
            with self._writing() as connection:
                lease = lease_of(connection, site)
                free = lease is None or lease.until <= now or lease.holder == holder
                if not free and lease is not None and not gone(lease.holder):
                    return lease
                if put_lease(connection, wanted, lease):
                    return None

    def renew_lease(self, site: str, holder: str, until: datetime) -> bool:
        """Put off the end of a lease and return whether it is still the holder's."""
        with self._writing() as connection:
            return renew_lease(connection, site, holder, until)

    def release_lease(self, site: str, holder: str) -> None:
        """Give a lease back; one that is another's stays."""
        table = schema.lease
        number = select(schema.site.c.number).where(schema.site.c.name == site).scalar_subquery()
        this = (table.c.site == number, table.c.holder == holder)
        with self._writing() as connection:
            connection.execute(delete(table).where(*this))


def _of_site(site: str) -> Select[Any]:
    return of_site(select(schema.slot), schema.slot, site)
