"""How the watch of a site stands: who watches it, what ran last, what comes next and when."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.loop.watching.lease import is_gone
from trimtab.loop.watching.watch import items
from trimtab.model.site import Site
from trimtab.record.slots import ItemState, Slot, SlotState, WatchState

if TYPE_CHECKING:
    from trimtab.record.store import Store


def watch_state(site: Site, store: Store, now: datetime) -> WatchState:
    """Return how the watch of a site stands by its store."""
    lease = store.lease(site.name)
    if lease is not None and (lease.until <= now or is_gone(lease.holder)):
        lease = None
    running = {slot.item: slot for slot in store.open_slots(site.name)} if lease else {}
    states = [
        ItemState(
            item.name,
            item.start(item.after(now - item.jitter)),
            running.get(item.name),
            _last_ended(store, site.name, item.name, now),
        )
        for item in items(site)
    ]
    by_start = tuple(sorted(states, key=lambda state: (state.next_at, state.item)))
    return WatchState(site.name, str(store.location), now, lease, by_start)


def _last_ended(store: Store, site: str, item: str, now: datetime) -> Slot | None:
    slots = [
        store.last_slot(site, item, until=now, state=state)
        for state in (SlotState.DONE, SlotState.MISSED, SlotState.FAILED)
    ]
    ended = [slot for slot in slots if slot is not None]
    return max(ended, key=lambda slot: slot.due_at, default=None)
