"""Takes the inventory of a site, keeps it if something changed, and writes each change as an event.

::

    machines ──one round trip each──> inventory ──differs from the last one──> kept
                                          └──> `config-change` from the last look to this one

A change lies somewhere between two looks, so its event has both times. Changes of the same machines
are one event: an upgrade is one change, not one of each setting that comes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.error import ToolError, UsageError, code_of, site_word
from trimtab.base.event import Event, EventKind, identifier_of
from trimtab.base.interruption import shielded
from trimtab.base.inventory import (
    Inventory,
    InventoryChange,
    InventoryDocument,
    InventoryLook,
    ServerInventory,
    unfolded,
)
from trimtab.base.snapshot import NotAvailable
from trimtab.explain.inventory_difference import change_text, inventory_changes, inventory_of
from trimtab.store.kept import add_result, results_of

if TYPE_CHECKING:
    from trimtab.base.site import Site
    from trimtab.reach.driver_protocol import Driver
    from trimtab.store.store import Store

SOURCE: Final = "inventory"
_DETAIL_LONGEST: Final = 1000


def take(site: Site, driver: Driver, store: Store) -> InventoryDocument:
    """Ask every machine, keep what changed, and return the inventory with its changes.

    Raises
    ------
    ToolError
        The driver has no inventory, or no machine answered.
    """
    readings = driver.inventory()
    if isinstance(readings, NotAvailable):
        code = code_of(readings.reason) or "inventory-not-available"
        raise ToolError(f"no inventory of {site.name}: {readings.reason}", code=code)
    problems = [each.problem for each in readings if each.problem is not None]
    if len(problems) == len(readings):
        raise ToolError(f"no machine of {site.name} answered: {problems[0]}", code="no-answer")
    at, before = driver.clock(), inventory_at(store, site.name)
    inventory = inventory_of(readings, at, before)
    changes = () if before is None else inventory_changes(before, inventory)
    since = last_look(store, site.name) or at
    with shielded():
        store.ensure_site(site.name, driver=site.driver, path=site.path)
        known = {event.id for event in store.events(site=site.name, since=since, until=since)}
        events = _events(site.name, changes, readings, since, at)
        store.add_events([event for event in events if event.id not in known])
        if before is None or _contents(before) != _contents(inventory):
            add_result(store, site.name, inventory, at)
        add_result(store, site.name, InventoryLook(at), at)
    of_before = None if before is None else before.at
    return InventoryDocument(site.name, str(store.location), inventory, of_before, changes)


def last_look(store: Store, site: str) -> datetime | None:
    """Return when the machines of a site were last asked."""
    looks = results_of(store, site, InventoryLook, limit=1).held
    return looks[0].at if looks else None


def _contents(inventory: Inventory) -> tuple[object, ...]:
    return inventory.servers, inventory.items, inventory.slow_links


def inventory_at(store: Store, site: str, until: datetime | None = None) -> Inventory | None:
    """Return the inventory as last kept up to a time, ``None`` if there is none."""
    held = results_of(store, site, Inventory, until=until, limit=1).held
    return held[0].value if held else None


def compared(
    store: Store, site: str, now: Inventory | None, since: datetime | None, until: datetime | None
) -> InventoryDocument:
    """Return an inventory with what changed since that of another time.

    Parameters
    ----------
    now
        One just taken; ``None``: the kept one of ``until``.
    since
        ``None``: without a comparison.

    Raises
    ------
    UsageError
        None is kept from then or earlier.
    """
    after = now or _inventory_of(store, site, until)
    before = None if since is None else _inventory_of(store, site, since)
    changes = () if before is None else inventory_changes(before, after)
    of_before = None if before is None else before.at
    return InventoryDocument(site, str(store.location), after, of_before, changes)


def _inventory_of(store: Store, site: str, at: datetime | None) -> Inventory:
    if (inventory := inventory_at(store, site, at)) is not None:
        return inventory
    when = "" if at is None else f" from {at.isoformat()} or earlier"
    raise UsageError(
        f"no inventory of {site} is kept{when}",
        code="no-inventory",
        hint=f"take one: trimtab inventory {site_word(site)}",
    )


def _events(
    site: str,
    changes: Sequence[InventoryChange],
    readings: Sequence[ServerInventory],
    since: datetime,
    until: datetime,
) -> Iterator[Event]:
    """Yield one event for each set of machines on which something changed."""
    targets_of = {reading.server: reading.targets for reading in readings}
    of_servers: dict[tuple[str, str], list[InventoryChange]] = {}
    for change in changes:
        of_servers.setdefault((change.role, change.servers), []).append(change)
    for (role, servers), together in of_servers.items():
        texts = [change_text(change) for change in together]
        while len(", ".join(texts)) > _DETAIL_LONGEST and len(texts) > 1:
            texts.pop()
        more = f" and {len(together) - len(texts)} more" if len(texts) < len(together) else ""
        machines = "clients" if role == "client" else "servers"
        whole = "oss" in role and all(change.everywhere for change in together)
        targets = {target for name in unfolded(servers) for target in targets_of.get(name, ())}
        yield Event(
            identifier_of(since, site, SOURCE, role, servers),
            site,
            EventKind.CONFIG_CHANGE,
            since,
            f"{', '.join(texts)}{more} on the {machines} {servers}",
            SOURCE,
            until,
            () if whole else tuple(sorted(targets)),
        )
