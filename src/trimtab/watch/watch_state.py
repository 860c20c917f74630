"""The state of a site's watch: its process, what ran last, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.base.action import Plan
from trimtab.base.encode import shape
from trimtab.base.error import UsageError
from trimtab.base.site import Site
from trimtab.store.slot import ItemState, Lease, Slot, SlotState, WatchState, is_gone
from trimtab.watch.agenda import items

if TYPE_CHECKING:
    from trimtab.explain.status import SiteStanding
    from trimtab.site.site_file import LoadedSite
    from trimtab.store.store import Store


def watch_state(site: Site, store: Store, now: datetime) -> WatchState:
    """Return the state of a site's watch, from its store."""
    lease = _lease(site, store, now)
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


def overdue(site: Site, store: Store, now: datetime) -> dict[str, datetime]:
    """Return the slots, by item, that can no longer start in time because no process watches.

    A watch that is alive decides about late slots itself, and a restart leaves none overdue.
    """
    if _lease(site, store, now) is not None:
        return {}
    late = {}
    for item in items(site):
        last = store.last_slot(site.name, item.name, until=now)
        due_at = item.until(now) if last is None else item.after(last.due_at)
        if item.latest(due_at) < now:
            late[item.name] = due_at
    return late


def _lease(site: Site, store: Store, now: datetime) -> Lease | None:
    """Return the lease of the process that watches a site; ``None`` if none does."""
    lease = store.lease(site.name)
    is_held = lease is not None and lease.until > now and not is_gone(lease.holder)
    return lease if is_held else None


def _last_ended(store: Store, site: str, item: str, now: datetime) -> Slot | None:
    slots = [
        store.last_slot(site, item, until=now, state=state)
        for state in (SlotState.DONE, SlotState.MISSED, SlotState.FAILED)
    ]
    ended = [slot for slot in slots if slot is not None]
    return max(ended, key=lambda slot: slot.due_at, default=None)


def watched_site(where: str) -> LoadedSite:
    """Return the site of a name, a site file or a path; a name can only be that of a site file."""
    from trimtab.site.lookup import open_site, site_file

    return site_file(where, only_sites=True) or open_site(where)


def scheduled_site(where: str) -> LoadedSite:
    """Return the site as `watched_site` does.

    Raises
    ------
    UsageError
        Nothing is scheduled for it.
    """
    loaded = watched_site(where)
    if not items(loaded.site):
        raise UsageError(
            f"nothing is scheduled for {loaded.site.name}: there is nothing to wait for",
            code="schedule-missing",
            hint="give [snapshot] or a [probe.NAME] of its site file a schedule, or use --once",
        )
    return loaded


def shown_state(
    where: str, store_url: str | None, *, dry_run: bool
) -> tuple[WatchState, tuple[Plan, ...] | None, SiteStanding]:
    """Return the state of a watch, with ``dry_run`` what armed policies would change, and the site.

    Raises
    ------
    TrimtabError
        The site or its store cannot be opened, or with ``dry_run`` not be observed.
    """
    from trimtab.act.session import ActingPlace
    from trimtab.probe.site_standing import whole_standing
    from trimtab.site import place
    from trimtab.site.lookup import clock_of, open_driver, open_store
    from trimtab.watch.armed_policy import plans_of

    site = watched_site(where).site
    clock = clock_of(site)
    with open_store(store_url, site) as store:
        state = watch_state(site, store, clock())
        standing = whole_standing(store, place.Place(site.name, site))
        plans = None
        if dry_run:
            plans = plans_of(ActingPlace(site, store, clock), open_driver(site, clock=clock))
    return state, plans, standing


# Output of `trimtab watch`


@dataclass(frozen=True, slots=True)
class WatchDocument:
    """``trimtab watch --once --json``: the slots that ran."""

    site: str
    store: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class WatchStateDocument:
    """``trimtab watch --status | --dry-run --json``: what ran last, and what comes next.

    Attributes
    ----------
    plans
        With ``--dry-run``: what the armed policies would change now.
    """

    state: WatchState
    plans: tuple[Plan, ...]


shape(WatchStateDocument, inline={"state": ()})
