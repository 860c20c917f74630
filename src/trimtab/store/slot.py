"""Slots and leases: due items with their results, and the process that watches a site.

A process is named by host, process id and start time. A store may be shared by machines with the
same host name (clones, containers, ``localhost``), which cannot see one another's processes. So
the name also holds the machine and the namespace that the process id belongs to.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, delete, or_, select, update

from trimtab.base.error import RefusedError
from trimtab.base.event import Event
from trimtab.base.run import Run, RunStatus
from trimtab.base.snapshot import Snapshot
from trimtab.base.verdict import Interval, Scope, Verdict, VerdictStatus
from trimtab.store import checksum, schema
from trimtab.store.connection import (
    between,
    event_row,
    has_run,
    insert_runs,
    insert_unless_there,
    of_site,
    row_of,
    site_number,
    understood,
)
from trimtab.store.kept import value_of
from trimtab.store.snapshot_record import SnapshotRecords, insert_snapshots

LEASE_S: Final = 1800.0
"""Time without a renewal after which a watch on another host is taken to have ended."""


def lease_end(now: datetime) -> datetime:
    """Return when a lease ends that is taken or renewed now."""
    return now + timedelta(seconds=LEASE_S)


_START_FIELD: Final = 22
"""``starttime`` in /proc/PID/stat, in clock ticks since boot (proc(5)); counted from 1."""
_FIRST_NAMESPACE: Final = "pid:[4026531836]"
"""Namespace of the machine itself: ``PROC_PID_INIT_INO`` in Linux's include/linux/proc_ns.h."""
_MACHINE_CHARACTERS: Final = 16


def this_process(root: Path = Path("/")) -> str:
    """Return this process as ``host:process id:start:place``.

    Parameters
    ----------
    root
        Root of the tree with ``proc``, ``etc`` and ``sys``.
    """
    return f"{platform.node()}:{os.getpid()}:{_start(os.getpid(), root)}:{_place(root)}"


def is_gone(holder: str, root: Path = Path("/")) -> bool:
    """Return whether a process is known to have ended: it was on this host and no longer exists.

    The start distinguishes a process from a later one with the same number, also after a reboot.
    Nothing is known of processes on other hosts or in other PID namespaces, nor of names of another
    form.
    """
    parts = holder.rsplit(":", 3)
    if len(parts) != 4 or not parts[1].isdecimal():
        return False
    place = _place(root)
    if place is None or (parts[0], parts[3]) != (platform.node(), place):
        return False
    return _start(int(parts[1]), root) != parts[2]


def _place(root: Path) -> str | None:
    """Return an identifier of this machine and PID namespace; ``None`` if none can be had."""
    try:
        namespace = str((root / "proc/self/ns/pid").readlink())
        boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # In a container /etc is the image's, and namespaces are numbered anew at every boot: there
    # the boot is the machine, and after the next one only the lease's end decides.
    named = _machine(root) if namespace == _FIRST_NAMESPACE else None
    number = "".join(sign for sign in namespace if sign.isdecimal())
    machine = hashlib.sha256(f"trimtab {named or boot}".encode()).hexdigest()
    return f"{machine[:_MACHINE_CHARACTERS]}-{number}"


def _machine(root: Path) -> str | None:
    """Return the name of an installation on its hardware; ``None`` if it has none.

    machine-id(5) should be unique, but a copied disk has its original's: the hardware's own id,
    where it may be read, distinguishes the two. The manual page asks that machine-id is never shown
    as it is.
    """
    names: list[str] = []
    for name in ("etc/machine-id", "sys/class/dmi/id/product_uuid"):
        try:
            names.append((root / name).read_text().strip())
        except OSError:
            names.append("")
    return "/".join(names) if names[0] not in {"", "uninitialized"} else None


def _start(number: int, root: Path) -> str:
    """Return boot and tick at which a process started; ``gone`` if it does not exist."""
    try:
        text = (root / "proc" / str(number) / "stat").read_text(errors="replace")
        boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "gone"
    # The name, in brackets, may hold anything, brackets and spaces included.
    fields = text.rpartition(")")[2].split()
    state, start = fields[0], fields[_START_FIELD - 3]
    return "gone" if state in {"Z", "X"} else f"{boot}-{start}"


class SlotState(StrEnum):
    """State of a slot."""

    BEGUN = "begun"
    """No slot: from this time on the item is watched, by the schedule in ``detail``."""
    STARTED = "started"
    """It is running, or its watch ended before it did."""
    DONE = "done"
    """It ran; its run has the outcome."""
    MISSED = "missed"
    """It was not started in time."""
    FAILED = "failed"
    """It was started, or was to be, without a usable result."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One time at which an item of a site was due, with its results.

    Attributes
    ----------
    item
        ``probe:NAME`` or ``snapshot``.
    due_at
        Time by the schedule, without jitter.
    run
        Id of the run; a missed slot has a run too, which says that nothing was measured.
    before, after
        Ids of the snapshots around the probe; a snapshot that was due is ``after``.
    verdicts
        Verdicts on the run, as known at that time.
    detail
        Reason for the state, and missing parts, as text.
    holder
        The process that started it.
    """

    site: str
    item: str
    due_at: datetime
    state: SlotState
    started_at: datetime | None = None
    ended_at: datetime | None = None
    run: str | None = None
    before: str | None = None
    after: str | None = None
    verdicts: tuple[Verdict, ...] = ()
    detail: str | None = None
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Which process watches a site.

    Attributes
    ----------
    holder
        As `trimtab.store.slot.this_process` names it.
    taken_at
        Since when.
    until
        When it lapses unless it is renewed.
    """

    site: str
    holder: str
    taken_at: datetime
    until: datetime


def process_text(holder: str) -> str:
    """Return the process that a lease names, as people name it.

    Examples
    --------
    >>> process_text("vm:30484:1b0c7a3e-81273:0a1b2c3d4e5f6071-4026531836")
    'process 30484 on vm'
    """
    host, *rest = holder.rsplit(":", 3)
    return f"process {rest[0]} on {host}" if len(rest) == 3 else holder


@dataclass(frozen=True, slots=True)
class ItemState:
    """One item of the watch.

    Attributes
    ----------
    next_at
        When its next slot starts, jitter included.
    running
        Its slot that is under way.
    last
        Its latest slot that ended; ``None`` where there was none.
    """

    item: str
    next_at: datetime
    running: Slot | None
    last: Slot | None


@dataclass(frozen=True, slots=True)
class WatchState:
    """The watch of a site.

    Attributes
    ----------
    lease
        Lease of the process that watches it; ``None`` if none does.
    items
        Its scheduled items, the next one first.
    """

    site: str
    store: str
    at: datetime
    lease: Lease | None
    items: tuple[ItemState, ...]


def put_slot(connection: Connection, slot: Slot) -> bool:
    """Store a slot if it is new or its holder had started it; return whether it was stored.

    A slot that has ended stays as it is, and so does one that another process has started. A missed
    slot is replaced by a later result, see `claim_slot_row`.
    """
    number = site_number(connection, slot.site)
    values = _row(slot, number)
    return _changed(connection, _this(slot, number), _may_be_put(slot), values) or _added(
        connection, values
    )


def _added(connection: Connection, values: Mapping[str, Any]) -> bool:
    row = insert_unless_there(connection, schema.slot, **values)
    return connection.execute(row).rowcount == 1


def _changed(
    connection: Connection,
    this: Sequence[ColumnElement[bool]],
    condition: ColumnElement[bool],
    values: Mapping[str, Any],
) -> bool:
    """Return whether the slot met the condition, and was changed.

    Condition and change are one statement: a simultaneous takeover by another host waits for it, or
    is seen by it, on PostgreSQL too.
    """
    change = update(schema.slot).where(*this, condition).values(values)
    if connection.execute(change).rowcount != 1:
        return False
    checksum.resum(connection, schema.slot, *this)
    return True


def _may_be_put(slot: Slot) -> ColumnElement[bool]:
    """Return the condition on the present row in the slot's place."""
    table = schema.slot.c
    same_owner = and_(
        table.state == SlotState.STARTED.value, table.holder.is_not_distinct_from(slot.holder)
    )
    if slot.state is SlotState.MISSED:
        return same_owner
    return or_(same_owner, table.state == SlotState.MISSED.value)


def claim_slot_row(connection: Connection, slot: Slot) -> bool:
    """Claim a slot that is new or has not ended for its holder; return whether that succeeded.

    A missed slot is claimed as well, and the run that records the miss is removed: a clock that was
    ahead for a while has missed all slots up to that time, which are still to come.
    """
    number = site_number(connection, slot.site)
    this, values, state = _this(slot, number), _row(slot, number), schema.slot.c.state
    if _added(connection, values):
        return True
    taken_over = {"started_at": slot.started_at, "holder": slot.holder}
    if _changed(connection, this, state == SlotState.STARTED.value, taken_over):
        return True
    absent = connection.execute(select(schema.slot.c.run).where(*this)).scalar()
    missed = _changed(connection, this, state == SlotState.MISSED.value, values)
    if missed and absent is not None:
        run = schema.run.c
        nothing = (run.id == absent, run.status == RunStatus.NOT_STARTED.value)
        connection.execute(delete(schema.run).where(*nothing))
    return missed


def _this(slot: Slot, site_number: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that only the row of the slot meets."""
    table = schema.slot.c
    return table.site == site_number, table.item == slot.item, table.due_at == slot.due_at


def _row(slot: Slot, site_number: int) -> dict[str, Any]:
    verdicts = [_plain(verdict) for verdict in slot.verdicts]
    return row_of(slot, schema.slot, site=site_number, verdicts=verdicts)


def to_slot(row: Row[Any], site: str) -> Slot:
    """Return the slot of a row."""
    with understood(f"the slot of {row.item} at {row.due_at.isoformat()}"):
        state = SlotState(row.state)
        verdicts = tuple(_verdict(verdict) for verdict in row.verdicts)
    return value_of(Slot, row, site=site, state=state, verdicts=verdicts)


def lease_of(connection: Connection, site: str) -> Lease | None:
    """Return the lease of a site, lapsed or not; ``None`` when it was never watched."""
    query = of_site(select(schema.lease), schema.lease, site)
    row = connection.execute(query).one_or_none()
    return None if row is None else value_of(Lease, row, site=site)


def put_lease(connection: Connection, lease: Lease, instead_of: Lease | None) -> bool:
    """Return whether the lease took the place of just that one, or of none."""
    number = site_number(connection, lease.site)
    table = schema.lease
    values = row_of(lease, table, site=number)
    if instead_of is None:
        row = insert_unless_there(connection, table, **values)
        return connection.execute(row).rowcount == 1
    same = (
        table.c.site == number,
        table.c.holder == instead_of.holder,
        table.c.until == instead_of.until,
    )
    return connection.execute(update(table).where(*same).values(values)).rowcount == 1


def renew_lease(connection: Connection, site: str, holder: str, until: datetime) -> bool:
    """Return whether the lease, lapsed or not, is still the holder's; its end is put off."""
    number = select(schema.site.c.number).where(schema.site.c.name == site).scalar_subquery()
    table = schema.lease
    this = (table.c.site == number, table.c.holder == holder)
    return connection.execute(update(table).where(*this).values(until=until)).rowcount == 1


def _plain(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain JSON values, without what has its default."""
    plain: dict[str, Any] = {}
    for item in dataclasses.fields(verdict):
        value = getattr(verdict, item.name)
        if value == item.default:
            continue
        if isinstance(value, Interval):
            value = [value.low, value.high, value.level]
        plain[item.name] = value.isoformat() if isinstance(value, datetime) else value
    return plain


def _verdict(plain: dict[str, Any]) -> Verdict:
    """Return the verdict that `_plain` was given; raise ValueError for one of a newer program."""
    values = dict(plain)
    for name in ("mean_interval", "cov_interval", "cov_of_window_interval"):
        if name in values:
            values[name] = Interval(*values[name])
    for name in ("from_", "to"):
        if name in values:
            values[name] = datetime.fromisoformat(values[name])
    values["scope"], values["status"] = Scope(values["scope"]), VerdictStatus(values["status"])
    try:
        return Verdict(**values)
    except TypeError as error:
        raise ValueError(f"a verdict of another form: {error}") from error


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
                    f"{site} is watched by {since or 'no process: the lease was released'}",
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
        """Store the state of a slot with its results, and return whether they were stored.

        Everything is one transaction: all of it is stored, or nothing. Raw outputs are on stable
        storage before it. With the state `SlotState.STARTED` a part is stored and the slot goes on.
        A run, snapshot or event whose id is stored already stays as it is. If the slot has ended
        before, or another process has started it, nothing is stored.

        Parameters
        ----------
        slot
            All its fields; ``holder`` as it was claimed.
        others
            Other runs, measured with this one.
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

        Marks of the time from which an item is watched (`SlotState.BEGUN`) are left out.

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
            Leaves out slots due after this time.
        state
            Only slots in this state.
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
        """Take the lease on a site and return ``None``; or return the lease that prevents it.

        Parameters
        ----------
        now, until
            Aware; a lease whose ``until`` is past is taken over.
        gone
            Whether a holder is known to have ended.
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
