"""Telemetry of a local file system: every name, with its source or why it is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.snapshot import NotAvailable, Reading, TrimPractice, not_available
from trimtab.reach.host import Host
from trimtab.reach.local.block_allocator import Ext4, read_free_space, read_statistics
from trimtab.reach.local.counter import read_bytes_of
from trimtab.reach.local.smart import HEALTH, read_drive
from trimtab.reach.local.trim import Timer, counted_practice, timer_covers
from trimtab.reach.process import Execute
from trimtab.reach.touch import StatvfsSpace

_UPTIME: Final = "/proc/uptime"
SPACE: Final = {
    "capacity_bytes": "capacity_bytes",
    "used_bytes": "used_bytes",
    "available_bytes": "available_bytes",
    "inodes_total": "inodes",
    "inodes_free": "inodes_free",
}
"""Readings of space, with the figure of `StatvfsSpace` for each."""
_NO_PARALLEL: Final = "only targets of a parallel file system have this"
_ELSEWHERE: Final = {
    "create_enabled": _NO_PARALLEL,
    "failover_active": _NO_PARALLEL,
    "import_state": _NO_PARALLEL,
    "client_bytes_written_total": _NO_PARALLEL,
    "client_bytes_read_total": _NO_PARALLEL,
    "network_bytes_total": "no network lies between a local file system and its drives",
    "network_errors_total": "no network lies between a local file system and its drives",
    "metadata_operations_total": "the kernel does not count them for a local file system",
    "concurrent_jobs": "no scheduler was queried",
    "checksum_errors_total": "this file system does not count data checksum errors",
}
"""Readings that a local file system never has, and why."""


@dataclass(frozen=True, slots=True)
class MountedState:
    """A mounted file system as seen once: of this host, or beneath a target on its server.

    Attributes
    ----------
    space
        ``statvfs`` of the path, or why it is missing; of a target as the object storage device
        counts it, without deducting grants.
    ext4
        Location of the counters of ext4 or ldiskfs; ``None`` for other file systems.
    execute
        Runs tools on the host, or returns what they printed there.
    """

    host: Host
    description: PathDescription
    space: StatvfsSpace | NotAvailable
    ext4: Ext4 | None
    timer: Timer
    execute: Execute

    def readings(
        self, cpu_fraction: float | NotAvailable, drives: Iterable[BlockDevice]
    ) -> tuple[Reading, ...]:
        """Return at least one reading for every telemetry name, and the health of the drives."""
        host = self.host
        # Reading the drives' health takes as long as all the rest.
        health = [reading for drive in drives for reading in read_drive(host, drive, self.execute)]
        return tuple(
            [
                *_space(self),
                *_state(host, self, cpu_fraction),
                *_devices(host, self.description),
                *_session_bytes(host, self),
                *_trim(host, self),
                *_allocator(host, self),
                *(health or _no_drives()),
                *(Reading(name, reason=reason) for name, reason in _ELSEWHERE.items()),
            ]
        )

    def trim_practice(self) -> TrimPractice | NotAvailable:
        """Return how it is trimmed without Trimtab, as far as its host shows."""
        return counted_practice(self.host, self.description, lambda: self.timer, idle_counts=True)


def _space(state: MountedState) -> Iterator[Reading]:
    space, source = state.space, f"statvfs {state.description.path}"
    # btrfs and others without an inode table return 0 for both, which is not a count.
    none = not_available("inodes-not-fixed", "this file system has no fixed number of inodes")
    for name, figure in SPACE.items():
        value = space if isinstance(space, NotAvailable) else getattr(space, figure)
        if figure.startswith("inodes") and isinstance(space, StatvfsSpace) and not space.inodes:
            value = none
        yield Reading.of(name, value, source)


def _state(
    host: Host, state: MountedState, cpu_fraction: float | NotAvailable
) -> Iterator[Reading]:
    description = state.description
    remounted = isinstance(state.space, StatvfsSpace) and state.space.read_only
    source = "statvfs" if remounted else "/proc/self/mountinfo"
    yield Reading.of("read_only", description.read_only or remounted, source)
    hostname = "/proc/sys/kernel/hostname"
    yield Reading.of("server", host.read_text(hostname), hostname)
    yield Reading.of("server_cpu_fraction", cpu_fraction, "/proc/stat")
    yield Reading.of("server_uptime_s", _uptime_s(host), _UPTIME)
    if state.ext4 is not None:
        path = f"{state.ext4.settings}/errors_count"
        yield Reading.of("errors_total", host.read_number(path), path)
    else:
        reason = not_available(
            "errors-not-counted", f"{description.fs_type} does not count its errors"
        )
        yield Reading.of("errors_total", reason, None)
    arrays = [device for device in description.own_devices if device.kind == "md"]
    if not arrays:
        yield Reading.of(
            "degraded",
            not_available("no-md-array", "no underlying md array is visible"),
            None,
        )
    for array in arrays:
        path = f"/sys/class/block/{array.name}/md/degraded"
        missing = host.read_number(path)
        value = missing if isinstance(missing, NotAvailable) else missing > 0
        yield Reading.of("degraded", value, path, label=array.name)


def _uptime_s(host: Host) -> float | NotAvailable:
    text = host.read_text(_UPTIME)
    if isinstance(text, NotAvailable):
        return text
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return NotAvailable(f"{_UPTIME} holds {text[:80]!r}, not the seconds since boot")


def _session_bytes(host: Host, state: MountedState) -> Iterator[Reading]:
    """Yield the bytes written since the mount, here or on the server that mounts it now."""
    name = "session_bytes_written_total"
    if state.ext4 is None:
        reason = not_available(
            "session-not-counted", f"{state.description.fs_type} does not count them"
        )
        yield Reading.of(name, reason, None)
        return
    path = f"{state.ext4.settings}/session_write_kbytes"
    kib = host.read_number(path)
    yield Reading.of(name, kib if isinstance(kib, NotAvailable) else kib * 1024, path)


def _devices(host: Host, description: PathDescription) -> Iterator[Reading]:
    top = description.devices[0] if description.devices else None
    nothing = not_available("no-device", "no underlying block device is visible")
    counters = nothing if top is None else read_bytes_of(host, top, description.devices)
    path = None if top is None else f"/sys/class/block/{top.name}/stat"
    for name, attribute in (
        ("bytes_read_total", "read_bytes"),
        ("bytes_written_total", "written_bytes"),
        ("bytes_discarded_total", "discarded_bytes"),
    ):
        value = counters if isinstance(counters, NotAvailable) else getattr(counters, attribute)
        yield Reading.of(name, value, path)
    granularity: int | NotAvailable = nothing
    if top is not None:
        known = top.discard_granularity_bytes
        granularity = NotAvailable(f"{top.name} does not report it") if known is None else known
        path = f"/sys/class/block/{top.name}/queue/discard_granularity"
    yield Reading.of("discard_granularity_bytes", granularity, path)
    throttled = [d for d in description.own_devices if d.writeback_throttling_s is not None]
    if not throttled:
        reason = (
            not_available(
                "no-writeback-throttling", "no underlying device has writeback throttling"
            )
            if top
            else nothing
        )
        yield Reading.of("wbt_latency_s", reason, None)
    for device in throttled:
        if device.kind != "partition" and device.writeback_throttling_s is not None:
            path = f"/sys/class/block/{device.name}/queue/wbt_lat_usec"
            yield Reading.of("wbt_latency_s", device.writeback_throttling_s, path, device.name)


def _trim(host: Host, state: MountedState) -> Iterator[Reading]:
    last: datetime | NotAvailable = state.timer.last_run
    if not isinstance(last, NotAvailable):
        covered = timer_covers(host, state.description)
        last = covered if isinstance(covered, NotAvailable) else last
    value = last if isinstance(last, NotAvailable) else last.isoformat()
    yield Reading.of("last_trim_at", value, "systemctl show fstrim.timer -p LastTriggerUSec")


def _allocator(host: Host, state: MountedState) -> Iterator[Reading]:
    ext4 = state.ext4
    counted = ("allocator_useless_loops_total", "allocator_groups_considered_total")
    pieces = ("free_extent_mean_bytes", "free_space_fragmented_fraction")
    names = ("allocator_family", "allocator_requests_total", *counted)
    if ext4 is None:
        reason = not_available(
            "allocator-not-shown",
            f"{state.description.fs_type} does not expose its block allocator",
        )
        yield from (Reading.of(name, reason, None) for name in (*names, *pieces))
        return
    devices = state.description.devices
    size = devices[0].size_bytes if devices else None
    free = read_free_space(host, ext4, space=state.space, device_bytes=size)
    yield Reading.of(pieces[0], free.extent_mean_bytes, free.source)
    yield Reading.of(pieces[1], free.fragmented_fraction, free.source)
    statistics, source = read_statistics(host, ext4)
    if isinstance(statistics, NotAvailable):
        yield from (Reading.of(name, statistics, source) for name in names)
        return
    yield Reading.of("allocator_family", statistics.family, source)
    yield Reading.of("allocator_requests_total", statistics.requests, source)
    for criterion in statistics.criteria:
        yield Reading.of(counted[0], criterion.useless_loops, source, criterion.name)
        groups: int | NotAvailable | None = criterion.groups_considered
        if groups is None:
            groups = NotAvailable(f"{source} does not count this")
        yield Reading.of(counted[1], groups, source, criterion.name)


def _no_drives() -> Iterator[Reading]:
    reason = not_available("no-drive", "no underlying drive is visible")
    yield from (Reading.of(name, reason, None) for name in HEALTH)
