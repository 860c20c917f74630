"""Whether the scheduled purge of a site does its work, from its log book and its plan slots."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.base.event import EventKind
from trimtab.base.schedule import PURGE_PLAN
from trimtab.explain.purge_trouble import REMEMBERED, purge_troubles
from trimtab.explain.status import PlanSlot, PurgeTrouble
from trimtab.store.slot import SlotState

if TYPE_CHECKING:
    from trimtab.store.store import Store


def purging_of(
    store: Store, site: str, now: datetime | None, *, until: datetime | None = None
) -> tuple[PurgeTrouble, ...]:
    """Return what is wrong with the scheduled purge of a site, according to its store.

    Parameters
    ----------
    now
        Latest known time: that of the last snapshot. ``None`` without a snapshot.
    until
        Later records are ignored.
    """
    since = None if now is None else now - REMEMBERED
    kinds = (EventKind.PURGE, EventKind.PURGE_FAILED)
    events = store.events(site=site, since=since, until=until, kinds=kinds)
    slots = store.slots(site, since=since, until=until, item=PURGE_PLAN)
    plans = [
        PlanSlot(slot.due_at, slot.state.value, slot.detail)
        for slot in slots
        if slot.state in (SlotState.DONE, SlotState.FAILED, SlotState.MISSED)
    ]
    return purge_troubles(events, plans, now)
