"""Slots and leases: what was due and what came of it, and which process watches a site."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, or_, select, update

from trimtab.model.run import RunStatus
from trimtab.model.verdict import Interval, Scope, Verdict, VerdictStatus
from trimtab.record import checksums, schema
from trimtab.record.kept import value_of
from trimtab.record.queries import insert_unless_there, of_site, site_number
from trimtab.record.rows import row_of, understood


class SlotState(StrEnum):
    """How far a slot has come."""

    BEGUN = "begun"
    """No slot: from this time on the item is watched, by the schedule in ``detail``."""
    STARTED = "started"
    """Under way; or its watch ended before it did."""
    DONE = "done"
    """It ran; how that went is its run's to say."""
    MISSED = "missed"
    """It was not started in time."""
    FAILED = "failed"
    """It was started, or was to be, and nothing can be told from it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One time at which an item of a site was due, with everything that came of it.

    Attributes
    ----------
    item
        ``probe:NAME`` or ``snapshot``.
    due_at
        As the schedule says, without jitter.
    run
        Id of the run; one that was missed has a run too, which says that nothing was measured.
    before, after
        Ids of the snapshots around the probe; a snapshot that was due is ``after``.
    verdicts
        On the run, with what was known then.
    detail
        In words: why the state is what it is, what is missing.
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
        As `trimtab.loop.watching.lease.this_process` names it.
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
        Of the process that watches it; ``None`` where none does.
    items
        The next one first.
    """

    site: str
    store: str
    at: datetime
    lease: Lease | None
    items: tuple[ItemState, ...]


def put_slot(connection: Connection, slot: Slot) -> bool:
    """Return whether the slot was put in place of nothing, or of one that the holder had started.

    What has ended stays as it is, and so does what another process has started. A miss gives way
    to what came of the slot after all, see `claim`.
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

    Asked and changed in one statement: a takeover by another host that comes in between waits for
    it, or is seen by it, on PostgreSQL too.
    """
    change = update(schema.slot).where(*this, condition).values(values)
    if connection.execute(change).rowcount != 1:
        return False
    checksums.resum(connection, schema.slot, *this)
    return True


def _may_be_put(slot: Slot) -> ColumnElement[bool]:
    """Return the condition on what is there in the slot's place."""
    table = schema.slot.c
    same_owner = and_(
        table.state == SlotState.STARTED.value, table.holder.is_not_distinct_from(slot.holder)
    )
    if slot.state is SlotState.MISSED:
        return same_owner
    return or_(same_owner, table.state == SlotState.MISSED.value)


def claim_slot_row(connection: Connection, slot: Slot) -> bool:
    """Return whether the slot is now its holder's: there was none, or one that had not ended.

    One that was missed is claimed as well, and the run that said so goes: a clock that was ahead
    for a while has missed all slots up to there, and their time still comes.
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
    for name in ("mean_interval", "cov_interval"):
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
