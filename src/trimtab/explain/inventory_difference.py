"""In what the machines of a site differ, and what changed since an earlier inventory. Pure.

Machines are compared with those of the same role. That a machine lacks an item is no difference: a
module that is not loaded has no parameters, and a target that failed over has no settings here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

from trimtab.base.finding import Severity
from trimtab.base.inventory import (
    DeviceLink,
    Inventory,
    InventoryChange,
    InventoryGroup,
    InventoryItem,
    ServerInventory,
    SlowLink,
    unfolded,
)
from trimtab.base.name_set import fold_nodes
from trimtab.base.snapshot import Setting, Snapshot
from trimtab.base.units import is_digits, plural
from trimtab.explain.status import HostState, Trouble

_SLOW: Final = 0.99
"""A link below this share of the usual rate is slow: rates of links differ by factors of two."""
_NAMED_MOST: Final = 3
_VALUE_SHOWN: Final = 60
_NOUNS: Final = {"drive": "drive", "network": "network card", "port": "network port"}
_FIRST: Final = ("kernel", "lustre", "firmware", "drive", "network", "mitigation", "cpu")
"""What is named first where many things changed together: an upgrade changes all the rest."""
_NUMBERS: Final = re.compile(r"([0-9]{1,18})")


@lru_cache(maxsize=4096)
def _folded(names: tuple[str, ...]) -> str:
    """Return the node set of names in any order."""

    def natural(name: str) -> list[tuple[int, str]]:
        return [(int(part) if is_digits(part) else -1, part) for part in _NUMBERS.split(name)]

    return fold_nodes(sorted(names, key=natural))


def inventory_of(
    readings: Sequence[ServerInventory], at: datetime, before: Inventory | None = None
) -> Inventory:
    """Return the inventory of machines, with every item in which they differ first.

    Parameters
    ----------
    before
        The inventory before: a machine that does not answer keeps its values of then, so that what
        changed meanwhile is noticed when it answers again.
    """
    known = sorted(readings, key=lambda reading: reading.server)
    earlier = {} if before is None else _values_of(before)
    texts: dict[tuple[str, str], dict[str, list[str]]] = {}
    unread: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for reading in known:
        place = reading.role, reading.server
        values = reading.values if reading.problem is None else earlier.get(place, {})
        for name, value in values.items():
            of_value = texts.setdefault((name, reading.role), {})
            of_value.setdefault(value, []).append(reading.server)
        for name, reason in reading.unread.items():
            unread[name, reason.replace(reading.server, "it")].append(reading.server)
    items = [
        InventoryItem(
            name,
            role,
            tuple(
                InventoryGroup(value, _folded(tuple(servers)), len(servers))
                for value, servers in sorted(
                    of_value.items(), key=lambda item: (-len(item[1]), item[0])
                )
            ),
        )
        for (name, role), of_value in texts.items()
    ]
    items.sort(key=lambda item: (not item.differs, item.minority, item.name, item.role))
    roles: defaultdict[str, list[str]] = defaultdict(list)
    for reading in known:
        roles[reading.role].append(reading.server)
    silent = {each.server: each.problem for each in known if each.problem is not None}
    of_silent = () if before is None else before.slow_links
    slow = [*slow_links(known), *(link for link in of_silent if link.server in silent)]
    return Inventory(
        at,
        {role: _folded(tuple(names)) for role, names in sorted(roles.items())},
        tuple(items),
        tuple(sorted(slow, key=lambda link: (link.server, link.link.kind, link.link.device))),
        silent,
        {f"{name} on {_folded(tuple(names))}": why for (name, why), names in unread.items()},
    )


def _values_of(inventory: Inventory) -> dict[tuple[str, str], dict[str, str]]:
    """Return role and machine to its values by name."""
    values: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for item in inventory.items:
        for group in item.groups:
            for server in unfolded(group.servers):
                values[item.role, server][item.name] = group.value
    return values


def slow_links(readings: Sequence[ServerInventory]) -> Iterator[SlowLink]:
    """Yield the links that are slower than most of their equals: same role, kind and model.

    Of two rates that are equally frequent the higher counts as usual: that it is possible is seen.
    """
    equals: defaultdict[tuple[str, str, str], list[tuple[str, DeviceLink]]] = defaultdict(list)
    for reading in readings:
        for link in reading.links:
            equals[reading.role, link.kind, link.model].append((reading.server, link))
    for (role, _, _), links in equals.items():
        rates = Counter(link.bytes_per_s for _, link in links)
        usual, number = max(rates.items(), key=lambda item: (item[1], item[0]))
        text = next(link.text for _, link in links if link.bytes_per_s == usual)
        for server, link in links:
            if link.bytes_per_s < _SLOW * usual:
                yield SlowLink(server, role, link, text, number)


def inventory_changes(before: Inventory, after: Inventory) -> tuple[InventoryChange, ...]:
    """Return what changed between two inventories, on machines that both of them know."""
    earlier = {(item.name, item.role): item for item in before.items}
    changes = []
    for item in sorted(after.items, key=lambda item: (_rank(item.name), item.role)):
        old = earlier.get((item.name, item.role))
        if old is None or old.groups == item.groups:
            continue
        value_of = {name: group.value for group in old.groups for name in unfolded(group.servers)}
        moved: dict[tuple[str, str], list[str]] = {}
        of_both = 0
        for group in item.groups:
            for server in unfolded(group.servers):
                was = value_of.get(server, group.value)
                of_both += server in value_of
                if was != group.value:
                    moved.setdefault((was, group.value), []).append(server)
        for (was, now), servers in moved.items():
            names = _folded(tuple(servers))
            everywhere = len(servers) == of_both
            changes.append(InventoryChange(item.name, item.role, was, now, names, everywhere))
    return tuple(changes)


def _rank(name: str) -> tuple[int, str]:
    part = name.partition("/")[0]
    return _FIRST.index(part) if part in _FIRST else len(_FIRST), name


def group_text(item: InventoryItem) -> str:
    """Return the values of an item with their machines, the most frequent value first.

    Examples
    --------
    >>> groups = (InventoryGroup("6.12.5", "oss[1-9]", 9), InventoryGroup("6.12.1", "oss10", 1))
    >>> group_text(InventoryItem("kernel/release", "oss", groups))
    'oss[1-9]: 6.12.5; oss10: 6.12.1'
    """
    return "; ".join(f"{group.servers}: {_short(group.value)}" for group in item.groups)


def change_text(change: InventoryChange) -> str:
    """Return what changed, without where."""
    return f"{change.name} {_short(change.before)} -> {_short(change.after)}"


def difference_text(item: InventoryItem) -> str:
    """Return a difference in a few words: what the few have, and what the others have."""
    first, *others = item.groups
    if len(others) > 1 or first.count == others[0].count:
        return f"{item.name}: {group_text(item)}"
    few = others[0]
    return f"{few.servers}: {item.name} {_short(few.value)} (others {_short(first.value)})"


def _short(value: str) -> str:
    return value if len(value) <= _VALUE_SHOWN else f"{value[: _VALUE_SHOWN - 3]}..."


def inventory_headline(inventory: Inventory) -> str:
    """Return the first line: how many machines, and in what they differ."""
    machines, different = plural(inventory.count, "machine", ","), inventory.differences
    silent = f"; {plural(len(inventory.silent), 'machine')} silent" if inventory.silent else ""
    if not different:
        of_role = " of one role" if len(inventory.servers) > 1 else ""
        return f"{machines}, no difference between machines{of_role}{silent}."
    texts = "; ".join(map(difference_text, different[:_NAMED_MOST]))
    more = len(different) - _NAMED_MOST
    tail = f"; {more} more" if more > 0 else ""
    return f"{machines}, {plural(len(different), 'difference')}{silent}: {texts}{tail}."


def slow_link_text(slow: SlowLink) -> str:
    """Return what is wrong with a link."""
    others = f"{plural(slow.equals, 'other', ',')} of its kind {_have(slow.equals)} {slow.usual}"
    noun = _NOUNS[slow.link.kind]
    return f"{noun} {slow.link.device} ({slow.link.model}): {slow.link.text}; {others}"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def link_troubles(inventory: Inventory | None) -> dict[str, tuple[Trouble, ...]]:
    """Return the slow links of each machine."""
    troubles: defaultdict[str, tuple[Trouble, ...]] = defaultdict(tuple)
    for slow in () if inventory is None else inventory.slow_links:
        trouble = Trouble("slow-link", Severity.WARNING, slow_link_text(slow), "inventory")
        troubles[slow.server] += (trouble,)
    return troubles


def mixed_troubles(inventory: Inventory | None, snapshot: Snapshot) -> Iterator[HostState]:
    """Yield versions and firmware in which servers differ: half an upgrade, a spare part."""
    for name, subject in (("lustre_version", "Lustre"), ("kernel_release", "kernel")):
        versions: dict[str, tuple[str, ...]] = {}
        for host in snapshot.hosts:
            setting = host.settings.get(name)
            if host.role == "server" and isinstance(setting, Setting):
                versions[setting.value] = (*versions.get(setting.value, ()), host.name)
        if len(versions) > 1:
            ordered = sorted(versions.items(), key=lambda item: -len(item[1]))
            text = "; ".join(f"{_folded(names)}: {version}" for version, names in ordered)
            trouble = Trouble("mixed-versions", Severity.INFO, f"{subject} differs: {text}")
            yield HostState("all servers", "server", (trouble,))
    for item in () if inventory is None else inventory.differences:
        if "/firmware of " in item.name:
            text = f"firmware of {item.name.partition(' of ')[2]} differs: {group_text(item)}"
            trouble = Trouble("mixed-firmware", Severity.INFO, text, "inventory")
            yield HostState(f"all {item.role}", item.role, (trouble,))
