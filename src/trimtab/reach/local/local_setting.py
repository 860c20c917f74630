"""Named settings of a local file system: which can be read, which may be written, and how.

A name is a path: ``block/nvme0n1/queue/wbt_lat_usec``, ``ext4/dm-3/mb_stats``,
``md/md127/stripe_cache_size``, ``mount/options``. Only names with ``True`` in the tables below may
be written: settings that take effect without a restart and can be reverted. Write caches and
everything else that protects data are read-only.
"""

from __future__ import annotations

import errno
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.base.filesystem import PathDescription
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.reach.host import Host
from trimtab.reach.local.block_allocator import Ext4
from trimtab.reach.local.block_device import active_choice

_QUEUE: Final[Mapping[str, bool]] = {
    "wbt_lat_usec": True,
    "scheduler": True,
    "nr_requests": True,
    "read_ahead_kb": True,
    "max_sectors_kb": True,
    "discard_max_bytes": True,
    "discard_granularity": False,
    "rotational": False,
    "write_cache": False,
}
_EXT4: Final[Mapping[str, bool]] = {
    "mb_stats": True,
    "mb_group_prealloc": True,
    "mb_max_linear_groups": True,
    "mb_max_to_scan": True,
    "mb_min_to_scan": True,
    "mb_order2_req": True,
    "mb_stream_req": True,
    "mb_best_avail_max_trim_order": True,
}
_MD: Final[Mapping[str, bool]] = {
    "stripe_cache_size": True,
    "group_thread_count": True,
    "level": False,
    "degraded": False,
}
_DEFAULT_AGAIN: Final = "-1"
"""Written to ``wbt_lat_usec``, it restores the kernel's default; it never reads back."""


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    writable: bool


def read_settings(
    host: Host,
    description: PathDescription,
    ext4: Ext4 | None,
    *,
    without: Container[str] = (),
) -> dict[str, Setting | NotAvailable]:
    """Return every named setting with its value, or why it cannot be read.

    Parameters
    ----------
    without
        Devices to leave out, by name.
    """
    values: dict[str, Setting | NotAvailable] = {
        "mount/options": Setting(
            "mount/options", ",".join(description.options), "/proc/self/mountinfo"
        )
    }
    for name, place in _places(description, ext4, without):
        values[name] = _read(host, name, place)
    return values


def read_queue(host: Host, device: str) -> dict[str, str]:
    """Return the readable queue settings of one device, by name."""
    directory = host.resolve(f"/sys/class/block/{device}/queue")
    values: dict[str, str] = {}
    if isinstance(directory, NotAvailable):
        return values
    for name in _QUEUE:
        text = host.read_text(f"{directory}/{name}")
        if not isinstance(text, NotAvailable):
            values[name] = _value(name, text)
    return values


def write_setting(
    host: Host, description: PathDescription, ext4: Ext4 | None, name: str, value: str
) -> Setting | NotAvailable:
    """Write one setting and read it back.

    Raises
    ------
    UsageError
        The setting does not exist, or the kernel refuses the value.
    RefusedError
        The setting must not be written, or 0 was given for ``discard_max_bytes``.
    ToolError
        The value read back is not the value written.
    """
    place = _writable_place(dict(_places(description, ext4)), name)
    if not value or any(ord(character) < 32 for character in value):
        raise UsageError(f"{value!r} is not a valid value for {name}", code="setting-value-invalid")
    if name.endswith("/discard_max_bytes") and _is_zero(value):
        raise RefusedError(
            f"{name} is never set to 0",
            code="setting-value-harmful",
            hint="some devices accept no discard again until they are re-attached",
        )
    error = host.write_text(place.path, value)
    if error is not None:
        if error.errno in {errno.EINVAL, errno.ERANGE, errno.EOVERFLOW, errno.ENOTSUP}:
            raise UsageError(
                f"{place.path} refuses {value!r}: {error.strerror}",
                code="setting-value-refused",
            )
        return NotAvailable(f"{place.path} cannot be written: {error.strerror}")
    setting = _read(host, name, place)
    if isinstance(setting, Setting) and value != _DEFAULT_AGAIN and setting.value != value.strip():
        raise ToolError(
            f"{place.path} was set to {value!r} but reads {setting.value!r}",
            code="setting-not-kept",
            hint="the kernel may round or clamp the value; see its documentation",
        )
    return setting


def _writable_place(places: Mapping[str, _Place], name: str) -> _Place:
    place = places.get(name)
    if place is not None and place.writable:
        return place
    if place is not None or name == "mount/options":
        raise RefusedError(f"{name} is read-only", code="setting-read-only")
    known = sorted(setting for setting, where in places.items() if where.writable)
    raise UsageError(
        f"there is no setting {name!r}",
        code="setting-unknown",
        hint=f"writable settings: {', '.join(known) or 'none'}",
    )


def _places(
    description: PathDescription, ext4: Ext4 | None, without: Container[str] = ()
) -> Iterator[tuple[str, _Place]]:
    for device in description.own_devices:
        if device.kind == "partition" or device.name in without:
            continue  # a partition uses its disk's queue
        directory = f"/sys/class/block/{device.name}"
        for name, writable in _QUEUE.items():
            path = f"{directory}/queue/{name}"
            yield f"block/{device.name}/queue/{name}", _Place(path, writable)
        if device.kind == "md":
            for name, writable in _MD.items():
                yield f"md/{device.name}/{name}", _Place(f"{directory}/md/{name}", writable)
    if ext4 is not None:
        for name, writable in _EXT4.items():
            path = f"{ext4.settings}/{name}"
            yield f"{ext4.variant}/{ext4.device}/{name}", _Place(path, writable)


def _read(host: Host, name: str, place: _Place) -> Setting | NotAvailable:
    text = host.read_text(place.path)
    if isinstance(text, NotAvailable):
        return text
    return Setting(name, _value(name, text), place.path)


def _value(name: str, text: str) -> str:
    value = text.strip()
    return active_choice(text) or value if name.endswith("scheduler") else value


def _is_zero(value: str) -> bool:
    try:
        return int(value, 0) == 0
    except ValueError:
        # Octal with a leading zero, or not a number: the kernel decides, unless it is all zeros.
        return not value.strip(" 0")
