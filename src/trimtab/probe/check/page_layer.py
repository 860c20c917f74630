"""The layers beneath a path: which device is on which, and which is set differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.run import grouped
from trimtab.base.snapshot import Snapshot
from trimtab.base.units import format_bytes, format_percent, format_value
from trimtab.show.document import Cell, Row, Table, row, table

_KIND_WORDS: Final = {
    "disk": "drive",
    "loop": "loop device",
    "device-mapper": "device mapper",
    "md": "RAID (md)",
    "nvme-multipath": "NVMe multipath",
    "other": "device",
}
_MEDIA: Final = {True: "flash", False: "rotational", None: "medium not known"}


def layers_text(path: PathDescription, snapshot: Snapshot) -> str:
    """Return the layers beneath a path, its size and fullness: ``ext4 on md0, flash``."""
    parts = [f"{path.fs_type} ({path.kind}) from {path.source}"]
    if path.devices:
        top = path.devices[0]
        below = [drive.name for drive in path.drives if drive.name != top.name]
        names = ", ".join(below) if len(below) <= 3 else f"{len(below)} drives"
        over = f" over {names}" if below else ""
        parts = [f"{path.fs_type} on {top.name}{over}", _MEDIA[path.is_flash]]
    for target in snapshot.targets[:1]:
        capacity, fullness = target.number("capacity_bytes"), target.fullness()
        if capacity is not None:
            parts.append(format_value(capacity, "B"))
        if fullness is not None:
            parts.append(f"{format_percent(fullness)} full")
    return ", ".join(parts)


def layer_table(path: PathDescription) -> Table | None:
    """Return mount, file system and devices beneath a path, with identical devices in one row.

    A device appears beneath the deepest of those that use it. A device that is named but not
    described is shown as such.
    """
    state = ", read-only" if path.read_only else ""
    leads = f"{path.path} leads to {path.real_path}" if path.real_path != path.path else ""
    settings = f"from {path.source}, uuid {path.fs_uuid or 'not known'}, {_MEDIA[path.is_flash]}"
    rows = [
        row("mount", Cell(path.mount_point, leads), ",".join(path.options) or "no options", ""),
        row("file system", path.fs_type, f"{settings}{state}", ""),
        *_device_rows(_with_undescribed(path.devices)),
    ]
    none = "" if path.devices else "No device is visible beneath this file system."
    return table(("layer", "what", "settings", "not known"), rows, none)


def _device_rows(devices: dict[str, BlockDevice]) -> Iterator[Row]:
    depths = _depths(devices)
    for depth in sorted(set(depths.values())):
        of_depth = (device for device in devices.values() if depths[device.name] == depth)
        alike = grouped(of_depth, _alike)
        most = max(map(len, alike.values()))
        for (word, over, facts, unknown), group in alike.items():
            count = f"{len(group)} x " if len(group) > 1 else ""
            names = ", ".join(device.name for device in group)
            layer = Cell(f"{count}{word}")
            if len(group) < most:
                layer = Cell(layer.text, "differs from the others", "info")
            yield row(layer, Cell(names, over), facts, unknown)


def _alike(device: BlockDevice) -> tuple[str, str, str, str]:
    """Return the common description of devices that share a row."""
    # A partition is on its drive, as its name says: 24 of them are identical all the same.
    over = f"over {', '.join(device.beneath)}" if len(device.beneath) > 1 else ""
    word = _KIND_WORDS.get(device.kind, device.kind)
    return word, over, ", ".join(_facts(device)), ", ".join(_unknown(device))


def _with_undescribed(devices: Sequence[BlockDevice]) -> dict[str, BlockDevice]:
    described = {device.name: device for device in devices}
    named = [name for device in devices for name in device.beneath]
    missing = {name: BlockDevice(name, "other") for name in named if name not in described}
    return described | missing


def _depths(devices: dict[str, BlockDevice]) -> dict[str, int]:
    depths = dict.fromkeys(devices, 0)
    # Longest path by relaxation. As many rounds as devices suffice for a tree of any depth,
    # and terminate even if a broken description contains a cycle.
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


def _facts(device: BlockDevice) -> Iterator[str]:
    turns, throttling_s = device.rotational, device.writeback_throttling_s
    pairs = (
        ("size", device.size_bytes, "B"),
        ("medium", None if turns is None else _MEDIA[not turns], None),
        ("model", device.model, None),
        ("transport", device.transport, None),
        ("scheduler", device.scheduler, None),
        ("write-back throttling", "off" if throttling_s == 0 else throttling_s, "s"),
        ("discard", _discard(device), None),
        ("write cache", device.write_cache, None),
        ("logical block", device.logical_block_bytes, "B"),
        ("link", device.link_bytes_per_s, "B/s"),
        ("backing file", device.backing_file, None),
        ("direct to backing", device.direct_to_backing, None),
    )
    for name, value, unit in pairs:
        if value is not None:
            yield f"{name} {format_value(value, unit)}"


def _unknown(device: BlockDevice) -> list[str]:
    expected = {
        "size": device.size_bytes,
        "medium": device.rotational,
        "scheduler": device.scheduler,
        "write-back throttling": device.writeback_throttling_s,
        "discard": device.discard_max_bytes,
    }
    if device.kind == "partition":
        # The queue belongs to the drive: the kernel keeps none for a partition.
        expected = {"size": device.size_bytes}
    return [name for name, value in expected.items() if value is None]


def _discard(device: BlockDevice) -> str | None:
    if device.discard_max_bytes is None:
        return None
    if device.discard_max_bytes == 0:
        return "not supported"
    text = f"up to {format_bytes(device.discard_max_bytes)}"
    if device.discard_granularity_bytes:
        text += f", granularity {format_bytes(device.discard_granularity_bytes)}"
    return text
