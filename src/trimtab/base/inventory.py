"""What the machines of a site are made of and set to, grouped by the values that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import ClassVar

from trimtab.base.name_set import unfold_nodes

unfolded = lru_cache(maxsize=4096)(unfold_nodes)
"""`unfold_nodes`: nearly every value has the same servers."""


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """The link of a drive or a network card, as negotiated.

    Attributes
    ----------
    device
        By the kernel's name.
    model
        Links of one model are compared.
    kind
        ``drive``, ``network`` (a card, as `drive` by its PCIe link), or ``port``: the network.
    text
        As people write it: ``x4 at 16 GT/s``, ``100 Gb/s``.
    bytes_per_s
        Its rate, without the overhead of packets.
    """

    device: str
    model: str
    kind: str
    text: str
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class ServerInventory:
    """What one machine is made of and set to.

    Attributes
    ----------
    role
        ``oss``, ``mds``, ``oss and mds``, ``client`` or ``host``: only equals are compared.
    values
        ``part/name`` to value, such as ``kernel/release``.
    unread
        What could not be read, to the reason.
    problem
        Why it did not answer; then it has no values.
    targets
        The targets that it serves now.
    """

    server: str
    role: str
    values: Mapping[str, str] = field(default_factory=dict)
    links: tuple[DeviceLink, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InventoryGroup:
    """Machines with the same value of an item; ``servers`` is a node set."""

    value: str
    servers: str
    count: int


@dataclass(frozen=True, slots=True)
class InventoryItem:
    """One item of the machines of one role; the most frequent value first."""

    name: str
    role: str
    groups: tuple[InventoryGroup, ...]

    @property
    def differs(self) -> bool:
        """Whether the machines differ in it."""
        return len(self.groups) > 1

    @property
    def minority(self) -> int:
        """Number of machines without the most frequent value."""
        return sum(group.count for group in self.groups[1:])


@dataclass(frozen=True, slots=True)
class SlowLink:
    """A link that is slower than those of its equals.

    Attributes
    ----------
    usual
        The text of most links of its model.
    equals
        Number of links of its model that have that rate.
    """

    server: str
    role: str
    link: DeviceLink
    usual: str
    equals: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory of a site.

    Attributes
    ----------
    at
        When the machines were asked, aware UTC.
    servers
        Role to the node set of its machines.
    items
        Those in which machines differ first, then by name.
    silent
        Machines that did not answer, to the reason: their values are those of the last answer.
    unread
        What could not be read, to the reason and the node set of where.
    """

    KEPT_AS: ClassVar = "inventory"

    at: datetime
    servers: Mapping[str, str]
    items: tuple[InventoryItem, ...]
    slow_links: tuple[SlowLink, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of machines."""
        return sum(len(unfolded(names)) for names in self.servers.values())

    @property
    def differences(self) -> tuple[InventoryItem, ...]:
        """The items in which machines of one role differ, few machines before many."""
        return tuple(item for item in self.items if item.differs)

    @property
    def differing(self) -> frozenset[str]:
        """The machines that lack the most frequent value of some item."""
        fewer = (group for item in self.differences for group in item.groups[1:])
        return frozenset(name for group in fewer for name in unfolded(group.servers))


@dataclass(frozen=True, slots=True)
class InventoryLook:
    """That the machines were asked, whether or not anything had changed; ``at``: aware UTC."""

    KEPT_AS: ClassVar = "inventory-look"

    at: datetime


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """An item that changed from one inventory to the next, on some machines of a role.

    Attributes
    ----------
    servers
        A node set.
    everywhere
        Whether it changed on every machine of the role.
    """

    name: str
    role: str
    before: str
    after: str
    servers: str
    everywhere: bool


@dataclass(frozen=True, slots=True)
class InventoryDocument:
    """``trimtab inventory --json``.

    Attributes
    ----------
    store
        Where it is kept.
    before
        Time of the inventory with which it is compared; ``None``: there is none.
    changes
        What changed since then.
    """

    site: str
    store: str
    inventory: Inventory
    before: datetime | None = None
    changes: tuple[InventoryChange, ...] = ()
