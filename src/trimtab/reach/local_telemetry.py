"""Telemetry of a local file system, including the health of its NVMe drives.

Every name has a value with its source, or the reason why it is missing. The parsers of drive health
(percentage used, media errors, write amplification) are pure and read the JSON of nvme-cli 1.x and
2.x: a counter is a number, a number in a string (128-bit ones), or an object
``{"hi": ..., "lo": ...}``, under names whose case and spacing differ between versions.

Sources: SMART / Health Information log [S7]; OCP Datacenter NVMe SSD Specification, log page C0h;
nvme-cli's plugins ``ocp``, ``solidigm``/``intel``, ``wdc``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.snapshot import NotAvailable, Reading, TrimPractice, not_available
from trimtab.reach.block_allocator import Ext4, read_free_space, read_statistics
from trimtab.reach.host import Host, read_bytes_of, run_tool
from trimtab.reach.process import Execute
from trimtab.reach.touch import StatvfsSpace
from trimtab.reach.trim import Timer, counted_practice, timer_covers

_Log = TypeVar("_Log")

_TIMEOUT_S: Final = 15.0
_DECODER: Final = json.JSONDecoder()
_DATA_UNIT_BYTES: Final = 512_000
"""A data unit is a thousand sectors of 512 bytes, whatever the drive's block size."""

_INTEL_UNIT_BYTES: Final = 32 * 1024**2
"""Intel and Solidigm count NAND and host writes in units of 32 MiB."""

# PCI vendor ids whose drives have their own log of media writes, and the plugin that reads it. All
# others have OCP's log or none.
_VENDOR_LOGS: Final[Mapping[str, tuple[str, ...]]] = {
    "0x8086": ("intel", "smart-log-add"),
    "0x025e": ("solidigm", "smart-log-add"),
    "0x1b96": ("wdc", "vs-smart-add-log"),
    "0x15b7": ("wdc", "vs-smart-add-log"),
}


@dataclass(frozen=True, slots=True)
class SmartLog:
    """The standard health log of an NVMe drive.

    Attributes
    ----------
    percentage_used
        The vendor's estimate of life consumed, as a fraction; can exceed 1.
    host_written_bytes
        Bytes the host wrote over the drive's life, in steps of 512,000.
    """

    percentage_used: float | None
    host_written_bytes: int | None
    media_errors: int | None


HEALTH: Final = (
    "drive_percentage_used",
    "drive_media_errors_total",
    "drive_write_amplification",
    "drive_host_written_bytes_total",
    "drive_media_written_bytes_total",
)
"""Readings of each drive. Two readings of the two byte counters give the amplification between
them; `drive_write_amplification` covers the drive's whole life."""


def read_drive(host: Host, drive: BlockDevice, execute: Execute) -> tuple[Reading, ...]:
    """Return a drive's health readings; takes two or three short commands to the drive."""
    argv = ("nvme", "smart-log", "-o", "json", f"/dev/{drive.name}")
    source = " ".join(argv)
    log: SmartLog | NotAvailable
    if not drive.name.startswith("nvme"):
        kind = drive.transport or drive.kind
        log = NotAvailable(f"{drive.name} is not an NVMe drive ({kind})")
    elif not host.is_this_one:
        log = not_available("another-machine", "drives of another machine are not queried")
    else:
        log = _ask(execute, argv, parse_smart_log)
    if isinstance(log, NotAvailable):
        return tuple(Reading.of(name, log, source, drive.name) for name in HEALTH)
    media, of_host, media_source = _flash_writes(host, drive, execute)
    # Take both counts from one log if it has them: the standard log counts in other steps.
    host_source = source if of_host is None else media_source
    of_host = log.host_written_bytes if of_host is None else of_host
    amplified = media if isinstance(media, NotAvailable) else write_amplification(media, of_host)
    missing = NotAvailable(f"{source} does not report it")
    values = (
        (log.percentage_used, source),
        (log.media_errors, source),
        (amplified, media_source),
        (of_host, host_source),
        (media, media_source),
    )
    return tuple(
        Reading.of(name, missing if value is None else value, of, drive.name)
        for name, (value, of) in zip(HEALTH, values, strict=True)
    )


def parse_smart_log(text: str) -> SmartLog | NotAvailable:
    """Parse the standard log of ``nvme smart-log -o json``, or return why it is missing."""
    values = _json_object(text)
    if isinstance(values, NotAvailable):
        return values
    if "error" in values and "data_units_written" not in values:
        return NotAvailable(f"nvme smart-log: {str(values['error'])[:200]}")
    units = integer(values.get("data_units_written"))
    # nvme-cli 2.x prints percent_used in JSON, 1.x both spellings over its versions.
    used = integer(values.get("percent_used", values.get("percentage_used")))
    errors = integer(values.get("media_errors"))
    if units is None and used is None and errors is None:
        return NotAvailable("nvme smart-log printed no value of a health log")
    return SmartLog(
        percentage_used=None if used is None else used / 100,
        host_written_bytes=None if units is None else units * _DATA_UNIT_BYTES,
        media_errors=errors,
    )


def parse_media_written(text: str) -> int | NotAvailable:
    """Return the bytes written to flash from an OCP or WDC log in JSON, or why not.

    "Physical media units written" counts bytes, both user data and the drive's own (OCP
    specification, SMART-1).
    """
    values = _json_object(text)
    if isinstance(values, NotAvailable):
        return values
    for name, value in _walk(values):
        if name == "physical_media_units_written":
            number = integer(value)
            return NotAvailable("its count is not a number") if number is None else number
    return NotAvailable("the log has no physical media units written")


def parse_intel_log(text: str) -> tuple[int, int] | NotAvailable:
    """Return bytes written to flash and by the host from an Intel or Solidigm log in JSON."""
    values = _json_object(text)
    if isinstance(values, NotAvailable):
        return values
    numbers: dict[str, int] = {}
    for name, value in _walk(values):
        if name in {"nand_bytes_written", "host_bytes_written"}:
            raw = integer(value.get("raw") if isinstance(value, dict) else value)
            if raw is not None:
                numbers[name] = raw * _INTEL_UNIT_BYTES
    if len(numbers) < 2:
        return NotAvailable("the log lacks the bytes written by the host and to NAND")
    return numbers["nand_bytes_written"], numbers["host_bytes_written"]


def integer(value: Any) -> int | None:
    """Parse a counter as nvme-cli writes it: a number, a string, or two 64-bit halves.

    Examples
    --------
    >>> integer(7), integer("123,456"), integer({"hi": 1, "lo": 0}), integer("n/a")
    (7, 123456, 18446744073709551616, None)
    """
    match value:
        case bool():
            return None
        case int():
            return value
        case float():
            return int(value) if value.is_integer() else None
        case str():
            digits = value.replace(",", "").strip().removesuffix("%")
            return int(digits) if digits.isdecimal() else None
        case {"hi": hi, "lo": lo}:
            high, low = integer(hi), integer(lo)
            return None if high is None or low is None else (high << 64) + low
        case _:
            return None


def write_amplification(media_bytes: int, host_bytes: int | None) -> float | NotAvailable:
    """Return media over host bytes; refused for a drive with hardly any writes.

    The host's count is rounded up to 512,000 bytes, so below 1 GB the ratio would be noise.
    """
    if host_bytes is None:
        return NotAvailable("the drive does not report host writes")
    if host_bytes < 10**9:
        return NotAvailable(f"the host has written only {host_bytes} bytes to the drive")
    return media_bytes / host_bytes


def _flash_writes(
    host: Host, drive: BlockDevice, execute: Execute
) -> tuple[int | NotAvailable, int | None, str]:
    """Query OCP's log first, then the vendor's.

    Returns
    -------
    tuple
        Bytes written to flash; bytes written by the host, if the same log has them; the command
        that printed the log.
    """
    node = f"/dev/{drive.name}"
    argv = ("nvme", "ocp", "smart-add-log", "-o", "json", node)
    media = _ask(execute, argv, parse_media_written)
    if not isinstance(media, NotAvailable):
        return media, None, " ".join(argv)
    vendor = host.read_text(f"/sys/class/block/{drive.name}/device/device/vendor")
    plugin = None if isinstance(vendor, NotAvailable) else _VENDOR_LOGS.get(vendor.strip())
    if plugin is None:
        reason = f"no log of media writes: no OCP log ({media.reason}) and no vendor log"
        return NotAvailable(reason), None, " ".join(argv)
    argv = ("nvme", *plugin, "-o", "json", node)
    if plugin[0] == "wdc":
        return _ask(execute, argv, parse_media_written), None, " ".join(argv)
    both = _ask(execute, argv, parse_intel_log)
    if isinstance(both, NotAvailable):
        return both, None, " ".join(argv)
    return *both, " ".join(argv)


def _ask(
    execute: Execute, argv: Sequence[str], parse: Callable[[str], _Log | NotAvailable]
) -> _Log | NotAvailable:
    result = run_tool(execute, argv, timeout_s=_TIMEOUT_S)
    if isinstance(result, NotAvailable):
        return result
    return parse(result.stdout.decode("utf-8", "replace"))


def _walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every name, in lower case with underscores, and its value, at any depth."""
    waiting = [value]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, dict):
            for name, inner in node.items():
                yield re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_"), inner
                waiting.append(inner)
        elif isinstance(node, list):
            waiting += node


def _json_object(text: str) -> dict[str, Any] | NotAvailable:
    # nvme-cli may print warnings before the object.
    start = text.find("{")
    if start < 0:
        return NotAvailable("nvme printed no JSON")
    try:
        value, _ = _DECODER.raw_decode(text[start:])
    except (ValueError, RecursionError) as error:
        return NotAvailable(f"nvme printed invalid JSON: {error}")
    return value


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
_NO_CLIENTS: Final = "a local file system has no clients"
_NO_POOL: Final = "pools of ZFS are queried beneath targets of Lustre only"
_ELSEWHERE: Final = {
    "create_enabled": _NO_PARALLEL,
    "failover_active": _NO_PARALLEL,
    "import_state": _NO_PARALLEL,
    "client_bytes_written_total": _NO_PARALLEL,
    "client_bytes_read_total": _NO_PARALLEL,
    "network_bytes_total": "a local file system reaches its drives without a network",
    "network_errors_total": "a local file system reaches its drives without a network",
    "metadata_operations_total": "the kernel does not count them for a local file system",
    "concurrent_jobs": "no scheduler was queried",
    "checksum_errors_total": "this file system does not count data checksum errors",
    "evictions_total": _NO_CLIENTS,
    "reconnections_total": _NO_CLIENTS,
    "lock_timeouts_total": _NO_CLIENTS,
    "slow_requests_total": _NO_CLIENTS,
    "pool_fragmentation_fraction": _NO_POOL,
    "pool_capacity_fraction": _NO_POOL,
    "pool_autotrim": _NO_POOL,
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
    yield Reading.of("server_uptime_s", uptime_s(host), _UPTIME)
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


def uptime_s(host: Host) -> float | NotAvailable:
    """Return the seconds since a machine's boot."""
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
