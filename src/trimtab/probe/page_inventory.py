"""The page of an inventory: what is slower than its equals, what differs, what changed. Pure."""

from __future__ import annotations

from typing import Final

from trimtab.base.inventory import InventoryDocument, InventoryItem
from trimtab.base.text import minute_text
from trimtab.base.units import plural
from trimtab.explain.inventory_difference import inventory_headline, slow_link_text
from trimtab.show.document import ALL, Document, Row, Section, row, table

_COLUMNS: Final = ("item", "machines", "value")


def inventory_document(made: InventoryDocument) -> Document:
    """Return the page of an inventory, differences first; what is alike is folded."""
    inventory = made.inventory
    slow = [f"{each.server}: {slow_link_text(each)}" for each in inventory.slow_links]
    changes = (
        row(change.name, change.servers, f"{change.before} -> {change.after}")
        for change in made.changes
    )
    alike = [item for item in inventory.items if not item.differs]
    since = "" if made.before is None else f" since {minute_text(made.before)}"
    none = made.before is not None and not made.changes
    roles = ", ".join(f"{role} {names}" for role, names in inventory.servers.items())
    unread = [f"not read: {name}: {why}" for name, why in inventory.unread.items()]
    silent = [
        f"{server} did not answer; shown as last seen: {why}"
        for server, why in inventory.silent.items()
    ]
    return Document(
        kind="inventory",
        heading=made.site,
        subtitle=f"{minute_text(inventory.at)}: {roles}",
        tone="warning" if slow else "info" if inventory.differences else "healthy",
        answer=inventory_headline(inventory),
        sections=(
            Section("Slower than their equals", lines=tuple(slow), tone="warning"),
            Section(
                "Differences",
                tables=(table(_COLUMNS, _rows(*inventory.differences), first=ALL),),
            ),
            Section(
                f"Changes{since}",
                lines=(f"No change{since}.",) if none else (),
                tables=(table(_COLUMNS, changes, first=ALL),),
            ),
            Section("Not known", notes=(*silent, *unread)),
            Section(
                f"Alike: {plural(len(alike), 'item')}",
                tables=(table(_COLUMNS, _rows(*alike)),),
                folded=True,
            ),
        ),
    )


def _rows(*items: InventoryItem) -> list[Row]:
    return [
        row(item.name if number == 0 else "", group.servers, group.value)
        for item in items
        for number, group in enumerate(item.groups)
    ]
