"""The layers beneath a path, arranged for drawing: what stands on what, and what differs.

::

    mount        /scratch
    file system  ext4
    md           md0          one group beneath the file system
    drives       nvme0n1 ...  one group beneath md0: what is usual once, then what differs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from trimtab.model.filesystem import BlockDevice, PathDescription
from trimtab.units import format_bytes, format_bytes_per_s, format_duration

_Value = TypeVar("_Value")

_KIND_WORDS: Final = {
    "disk": "drive",
    "partition": "partition",
    "loop": "loop device",
    "device-mapper": "device mapper",
    "md": "RAID (md)",
    "nvme-multipath": "NVMe multipath",
    "other": "device",
}
_PLURALS: Final = {
    "device mapper": "device mapper",
    "RAID (md)": "RAID (md)",
    "NVMe multipath": "NVMe multipath",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A setting of a device in words."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DeviceCard:
    """One device.

    Attributes
    ----------
    facts
        In a group: only those that differ from what is usual in it.
    beneath
        The devices that stand on this one, where neither the group nor the names tell.
    unknown
        Names of the settings that could not be read.
    """

    name: str
    facts: tuple[Fact, ...]
    beneath: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices that stand side by side beneath the same one.

    Attributes
    ----------
    beneath
        That one's name; ``None`` directly beneath the file system, or where the cards say it.
    usual
        Facts of more than half of the devices, in a group of two and more.
    unknown
        Settings that could not be read of any of them.
    """

    beneath: str | None
    usual: tuple[Fact, ...]
    unknown: tuple[str, ...]
    cards: tuple[DeviceCard, ...]

    @property
    def alike(self) -> bool:
        """Whether no device of the group differs from what is usual in it."""
        return not any(card.facts or card.unknown for card in self.cards)


@dataclass(frozen=True, slots=True)
class Layer:
    """All devices at one depth."""

    title: str
    groups: tuple[DeviceGroup, ...]


def layers_of(path: PathDescription) -> tuple[Layer, ...]:
    """Return the devices beneath a path in layers, the one nearest to the file system first.

    A device stands beneath the deepest of those that use it. A device that is named but not
    described is shown as such.
    """
    devices = _with_undescribed(path.devices)
    depths = _depths(devices)
    parents = _parents(devices)
    return tuple(
        _layer([device for device in devices.values() if depths[device.name] == depth], parents)
        for depth in sorted(set(depths.values()))
    )


def _with_undescribed(devices: Sequence[BlockDevice]) -> dict[str, BlockDevice]:
    described = {device.name: device for device in devices}
    named = [name for device in devices for name in device.beneath]
    missing = {name: BlockDevice(name, "other") for name in named if name not in described}
    return described | missing


def _parents(devices: dict[str, BlockDevice]) -> dict[str, tuple[str, ...]]:
    parents: dict[str, list[str]] = {name: [] for name in devices}
    for device in devices.values():
        for name in dict.fromkeys(device.beneath):
            parents[name].append(device.name)
    return {name: tuple(names) for name, names in parents.items()}


def _depths(devices: dict[str, BlockDevice]) -> dict[str, int]:
    depths = dict.fromkeys(devices, 0)
    # Longest path by relaxation. As many rounds as devices are enough for a tree of any depth,
    # and end even if a broken description goes round in a circle.
    for _ in devices:
        moved = False
        for device in devices.values():
            for name in device.beneath:
                if depths[device.name] + 1 > depths[name]:
                    depths[name] = depths[device.name] + 1
                    moved = True
        if not moved:
            break
    return depths


def _layer(devices: list[BlockDevice], parents: dict[str, tuple[str, ...]]) -> Layer:
    by_parent: dict[str | None, list[BlockDevice]] = {}
    for device in devices:
        first = next(iter(parents[device.name]), None)
        by_parent.setdefault(first, []).append(device)
    if len(by_parent) > 1 and all(len(group) == 1 for group in by_parent.values()):
        # 24 partitions on 24 drives: one row of 24, not 24 rows of one.
        by_parent = {None: devices}
    groups = tuple(_group(parent, group, parents) for parent, group in by_parent.items())
    return Layer(_title(devices), groups)


def _title(devices: list[BlockDevice]) -> str:
    kinds = Counter(_KIND_WORDS.get(device.kind, device.kind) for device in devices)
    return ", ".join(
        kind if count == 1 else f"{count} {_PLURALS.get(kind, kind + 's')}"
        for kind, count in kinds.items()
    )


def _group(
    parent: str | None, devices: list[BlockDevice], parents: dict[str, tuple[str, ...]]
) -> DeviceGroup:
    facts = {device.name: _facts(device) for device in devices}
    usual = _usual(list(facts.values())) if len(devices) > 1 else ()
    unknown = {device.name: _unknown(device) for device in devices}
    nowhere = tuple(
        name
        for name in unknown[devices[0].name]
        if all(name in names for names in unknown.values())
    )
    cards = tuple(
        DeviceCard(
            name=device.name,
            facts=tuple(fact for fact in facts[device.name] if fact not in usual),
            # That nvme0n1p1 stands on nvme0n1 says its name.
            beneath=tuple(
                name
                for name in parents[device.name]
                if name != parent and not name.startswith(device.name)
            ),
            unknown=tuple(name for name in unknown[device.name] if name not in nowhere),
        )
        for device in devices
    )
    return DeviceGroup(parent, usual, nowhere, cards)


def _usual(facts: list[tuple[Fact, ...]]) -> tuple[Fact, ...]:
    """Return the facts of more than half of the devices, so that the odd one out stands out."""
    counts = Counter(fact for device_facts in facts for fact in device_facts)
    return tuple(fact for fact, count in counts.items() if 2 * count > len(facts))


def _facts(device: BlockDevice) -> tuple[Fact, ...]:
    pairs = (
        ("size", _if_known(device.size_bytes, format_bytes)),
        ("medium", _if_known(device.rotational, lambda turns: "rotating" if turns else "flash")),
        ("model", device.model),
        ("transport", device.transport),
        ("scheduler", device.scheduler),
        ("write-back throttling", _if_known(device.writeback_throttling_s, _throttling)),
        ("discard", _discard(device)),
        ("write cache", device.write_cache),
        ("logical block", _if_known(device.logical_block_bytes, format_bytes)),
        ("link", _if_known(device.link_bytes_per_s, format_bytes_per_s)),
        ("backing file", device.backing_file),
        (
            "direct to backing",
            _if_known(device.direct_to_backing, lambda on: "yes" if on else "no"),
        ),
    )
    return tuple(Fact(name, value) for name, value in pairs if value is not None)


def _unknown(device: BlockDevice) -> tuple[str, ...]:
    expected = {
        "size": device.size_bytes,
        "medium": device.rotational,
        "scheduler": device.scheduler,
        "write-back throttling": device.writeback_throttling_s,
        "discard": device.discard_max_bytes,
    }
    if device.kind == "partition":
        # The queue is its drive's: the kernel keeps none for a partition.
        expected = {"size": device.size_bytes}
    return tuple(name for name, value in expected.items() if value is None)


def _if_known(value: _Value | None, text: Callable[[_Value], str]) -> str | None:
    return None if value is None else text(value)


def _throttling(latency_s: float) -> str:
    return "off" if latency_s == 0 else f"at {format_duration(latency_s)}"


def _discard(device: BlockDevice) -> str | None:
    if device.discard_max_bytes is None:
        return None
    if device.discard_max_bytes == 0:
        return "not taken"
    text = f"up to {format_bytes(device.discard_max_bytes)}"
    if device.discard_granularity_bytes:
        text += f", granularity {format_bytes(device.discard_granularity_bytes)}"
    return text
