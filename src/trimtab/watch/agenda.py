"""Decides what is due, what was missed and why: pure functions of an agenda and the time.

::

    due_at        start                     latest start           time ->
      |- jitter ->|<------- grace --------->|
      |           | a slot may begin here   | missed from here on

A slot is begun within its grace or not at all: an hourly probe that ran three quarters of an hour
late would be measured together with the next one and be filed under the wrong hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.base.schedule import (
    POLICIES,
    PROBE_PREFIX,
    PURGE_PLAN,
    SNAPSHOT,
    Schedule,
    jitter_s,
    parse_schedule,
)
from trimtab.base.site import Site

GRACE_S: Final = 1800.0
"""Maximum delay of a slot; half its period if that is shorter. For policies, which measure
nothing, it is the whole period."""
MISSED_ONE_BY_ONE: Final = 1000
"""More missed slots in a row are one event."""
NOT_RUNNING: Final = "the watch was not running"
HELD_UP: Final = "the watch was held up: the machine slept or its clock was moved"

_OCCUPATIONS_KEPT = 16
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Item:
    """Something due on a schedule.

    Attributes
    ----------
    name
        ``snapshot``, ``probe:NAME``, ``policies`` or ``purge-plan``.
    timezone
        IANA name, for schedules in local time.
    jitter
        Delay of every start.
    """

    name: str
    schedule: Schedule
    timezone: str
    jitter: timedelta

    @property
    def grace(self) -> timedelta:
        """How long after its start a slot may still be begun, as `GRACE_S` says."""
        share = 1.0 if self.name == POLICIES else 0.5
        return timedelta(seconds=min(self.schedule.period_s * share, GRACE_S))

    def start(self, due_at: datetime) -> datetime:
        """Return the earliest start of a slot."""
        return due_at + self.jitter

    def latest(self, due_at: datetime) -> datetime:
        """Return the latest start of a slot."""
        return due_at + self.jitter + self.grace

    def after(self, at: datetime) -> datetime:
        """Return the first slot after a time."""
        return self.schedule.next_after(at, self.timezone)

    def until(self, at: datetime) -> datetime:
        """Return the last slot that is not after a time."""
        return self.schedule.last_until(at, self.timezone)


def items(site: Site) -> tuple[Item, ...]:
    """Return the scheduled items of a site: snapshots, probes, and armed policies.

    Raises
    ------
    UsageError
        A schedule is invalid.
    """
    wanted = [(SNAPSHOT, site.snapshot_schedule, site.snapshot_jitter_s)]
    wanted += [(PROBE_PREFIX + probe.name, probe.schedule, probe.jitter_s) for probe in site.probes]
    if site.policies.armed:
        wanted.append((POLICIES, site.policies.schedule, 0.0))
    wanted.append((PURGE_PLAN, site.policies.purge.schedule, 0.0))
    return tuple(
        Item(
            name,
            parse_schedule(schedule),
            site.timezone,
            timedelta(seconds=jitter_s(site.name, name, longest_s)),
        )
        for name, schedule, longest_s in wanted
        if schedule is not None
    )


@dataclass(frozen=True, slots=True)
class Position:
    """Position of an item: its next slot is the first that is not decided."""

    item: Item
    next_due: datetime


@dataclass(frozen=True, slots=True)
class Occupation:
    """A time when the watch was busy, and with what: why other slots may have been missed."""

    reason: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class WatchAgenda:
    """Everything that `decide` needs to know.

    Attributes
    ----------
    alive_since
        When this watch started.
    """

    alive_since: datetime
    positions: tuple[Position, ...] = ()
    occupations: tuple[Occupation, ...] = ()


@dataclass(frozen=True, slots=True)
class Begin:
    """A slot must be begun now."""

    item: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Miss:
    """A slot was not begun in time."""

    item: str
    due_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class MissMany:
    """More missed slots than are worth listing: all from the first to the last."""

    item: str
    first: datetime
    last: datetime
    reason: str


Work = Begin | Miss | MissMany


def position(item: Item, decided_until: datetime) -> Position:
    """Return the position of an item with all slots up to a time decided."""
    return Position(item, item.after(decided_until))


def decide(agenda: WatchAgenda, now: datetime) -> list[Work]:
    """Return what to do at a time: everything that was missed, then at most one slot to begin.

    Of several that could begin, the one with the earliest start does, snapshots before probes and
    probes before policies. The next one is decided when it has ended.
    """
    work: list[Work] = []
    ready: list[tuple[datetime, int, str, Begin]] = []
    for pending in agenda.positions:
        if pending.item.start(pending.next_due) > now:
            continue
        missed, due_at = _missed(agenda, pending, now)
        work += missed
        if (start := pending.item.start(due_at)) <= now:
            name = pending.item.name
            ready.append((start, _rank(name), name, Begin(name, due_at)))
    return [*work, min(ready)[-1]] if ready else work


def advanced(agenda: WatchAgenda, work: Work) -> WatchAgenda:
    """Return the agenda with that work decided."""
    until = work.last if isinstance(work, MissMany) else work.due_at
    positions = tuple(
        position(pending.item, until)
        if pending.item.name == work.item and pending.next_due <= until
        else pending
        for pending in agenda.positions
    )
    return replace(agenda, positions=positions)


def occupied(agenda: WatchAgenda, activity: str, since: datetime, until: datetime) -> WatchAgenda:
    """Return the agenda with another time when the watch was busy; it keeps only the latest few."""
    latest = (*agenda.occupations, Occupation(activity, since, until))[-_OCCUPATIONS_KEPT:]
    return replace(agenda, occupations=latest)


def next_item(agenda: WatchAgenda) -> tuple[datetime, str] | None:
    """Return the next item and its start; ``None`` if nothing is ever due."""
    starts = [
        (pending.item.start(pending.next_due), _rank(pending.item.name), pending.item.name)
        for pending in agenda.positions
    ]
    start, _, name = min(starts, default=(None, 0, ""))
    return None if start is None else (start, name)


def something_else_due(agenda: WatchAgenda, item: str, now: datetime) -> bool:
    """Return whether the start of another item has come."""
    return any(
        pending.item.name != item and pending.item.start(pending.next_due) <= now
        for pending in agenda.positions
    )


def _rank(item: str) -> int:
    if item == SNAPSHOT:
        return 0
    return 1 if item.startswith(PROBE_PREFIX) else 2


def _missed(agenda: WatchAgenda, pending: Position, now: datetime) -> tuple[list[Work], datetime]:
    """Return the missed slots of an item, and its first slot that was not missed."""
    missed: list[Work] = []
    for due_at in _slots(pending):
        if pending.item.latest(due_at) >= now:
            return missed, due_at
        if len(missed) == MISSED_ONE_BY_ONE:
            break
        missed.append(Miss(pending.item.name, due_at, _reason(agenda, pending.item, due_at)))
    last = pending.item.until(now - pending.item.jitter - pending.item.grace - _MICROSECOND)
    reason = _reason(agenda, pending.item, pending.next_due)
    return [MissMany(pending.item.name, pending.next_due, last, reason)], pending.item.after(last)


def _slots(pending: Position) -> Iterator[datetime]:
    due_at = pending.next_due
    while True:
        yield due_at
        due_at = pending.item.after(due_at)


def _reason(agenda: WatchAgenda, item: Item, due_at: datetime) -> str:
    """Return why a slot was not begun in its time."""
    latest = item.latest(due_at)
    if latest < agenda.alive_since:
        return NOT_RUNNING
    within = [
        occupation
        for occupation in agenda.occupations
        if occupation.since <= latest <= occupation.until
    ]
    # If two apply, the later one caused the delay: the store, within a probe's slot.
    return max(within, key=lambda span: span.since).reason if within else HELD_UP
