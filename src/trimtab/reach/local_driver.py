"""The local driver: one mounted file system of this host, its settings included.

A setting's name is a path: ``block/nvme0n1/queue/wbt_lat_usec``, ``ext4/dm-3/mb_stats``,
``md/md127/stripe_cache_size``, ``mount/options``. Only names with ``True`` in the tables below may
be written: settings that take effect without a restart and can be reverted. Write caches and
everything else that protects data are read-only.
"""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from trimtab.base.error import NoAnswer, RefusedError, ToolError, TrimtabError, UsageError, visible
from trimtab.base.event import utc_now
from trimtab.base.filesystem import PathDescription, find_mount
from trimtab.base.site import Site
from trimtab.base.snapshot import (
    NotAvailable,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
    TrimPractice,
    not_available,
)
from trimtab.reach import bounded
from trimtab.reach.block_allocator import Ext4, counting
from trimtab.reach.driver_protocol import Clock, WriteTimes, check_range
from trimtab.reach.host import (
    DeviceBytes,
    Host,
    Processors,
    complaint,
    read_bytes_of,
    read_write_times,
)
from trimtab.reach.local_telemetry import MountedState
from trimtab.reach.path_description import (
    Touch,
    active_choice,
    describe,
    describe_mount,
    existing,
    mount_table,
)
from trimtab.reach.process import Execute, ProcessResult
from trimtab.reach.process import execute as run_process
from trimtab.reach.trim import counted_practice, fstrim_command, parse_fstrim, read_timer

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


TRIM_TIMEOUT_S: Final = 3600.0
"""The first trim of a large, slow target takes minutes; after an hour it is stuck."""

_unsupported = partial(not_available, "not-supported")
_EXT4_TYPES: Final = frozenset({"ext4", "ldiskfs"})


@dataclass(eq=False)
class LocalDriver:
    """A mounted file system of this host.

    Attributes
    ----------
    path
        Any existing path on it.
    host
        The machine whose /proc and /sys are read; another one only in tests.
    touch
        Accesses the path itself, with a deadline: `trimtab.reach.bounded.describe`.
    execute
        Runs tools: `trimtab.reach.process.execute`.
    clock
        Returns the current time, aware UTC.
    description
        What lay beneath the path when it was last inspected.

    Raises
    ------
    TrimtabError
        As `trimtab.reach.path_description.describe` for the path.
    """

    name = "local"

    path: str
    _: KW_ONLY
    host: Host = field(default_factory=Host)
    touch: Touch = bounded.describe
    execute: Execute = run_process
    clock: Clock = utc_now
    description: PathDescription = field(init=False)
    _processors: Processors = field(default_factory=Processors, init=False)

    def __post_init__(self) -> None:
        self.description = describe(
            self.path, host=self.host, touch=self.touch, execute=self.execute
        )

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of this driver; writing and trimming need root, on this machine."""
        able = {"settings", "run"}
        if self.host.is_this_one and os.geteuid() == 0 and self.description.devices:
            able |= {"set", "trim"}
        return frozenset(able)

    def targets(self) -> tuple[Target, ...]:
        """Return the only target: the file system itself, named by its mount point."""
        return (self._target(),)

    def snapshot(self, at: datetime) -> Snapshot:
        """Return the state of the file system; incomplete if it does not answer."""
        space = self._look_again()
        description, timer = self.description, read_timer(self.host, self.execute)
        state = MountedState(self.host, description, space, self._ext4(), timer, self.execute)
        busy = self._processors.busy_fraction(self.host)
        target = TargetSnapshot(
            self._target(),
            state.readings(busy, description.drives),
            read_settings(self.host, description, state.ext4),
        )
        complete = isinstance(space, bounded.StatvfsSpace)
        return Snapshot(at=at, driver=self.name, complete=complete, targets=(target,))

    def drive_bytes(self) -> dict[str, DeviceBytes]:
        """Return the bytes moved by each underlying drive, by name; empty unless all count.

        The sum over some of the drives would pass for the sum over all.
        """
        devices = self.description.devices
        seen = {
            drive.name: read_bytes_of(self.host, drive, devices)
            for drive in self.description.drives
        }
        known = {name: moved for name, moved in seen.items() if not isinstance(moved, NotAvailable)}
        return known if len(known) == len(seen) else {}

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return the named settings of the file system and of the devices beneath it."""
        self._check(target)
        return read_settings(self.host, self.description, self._ext4())

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        """Write one setting and read it back; see `trimtab.reach.local_driver`."""
        self._check(target)
        return write_setting(self.host, self.description, self._ext4(), name, value)

    def set_permanent(self, target: str, name: str, value: str | None) -> NotAvailable:
        """Answer that settings do not survive an unmount."""
        self._check(target)
        return _unsupported("settings of a local file system do not survive an unmount")

    @property
    def dead_man_s(self) -> NotAvailable:
        """Why no setting of this host is reverted automatically."""
        return not_available(
            "not-put-back", "a local file system has no server that would revert a setting"
        )

    def confirm(self) -> NotAvailable:
        """Answer that settings stay without confirmation."""
        return self.dead_man_s

    def trim(self, target: str, start: int = 0, length: int | None = None) -> int | NotAvailable:
        """Trim a byte range with fstrim and return the bytes that fstrim reports."""
        self._check(target)
        check_range(start, length)
        if "trim" not in self.capabilities:
            return NotAvailable(self._why_no_trim())
        self._check_still_mounted()
        argv = fstrim_command(self.description.mount_point, start, length)
        result = self.execute(argv, timeout_s=TRIM_TIMEOUT_S, output_limit_bytes=1 << 20)
        if result.problem is not None:
            complaint_text = complaint(result)
            if "not supported" in complaint_text:
                return not_available(
                    "discard-unsupported", f"the discard operation is not supported on {target}"
                )
            if "Invalid argument" in complaint_text:
                raise UsageError(
                    f"{start} and length {length} are not a range of {target}",
                    code="range-invalid",
                    hint="a range is inside the file system and at least one block long",
                )
            raise ToolError(
                f"trim of {target}: {result.problem}{complaint_text}", code="trim-failed"
            )
        trimmed = parse_fstrim(result.stdout.decode("utf-8", "replace"))
        if isinstance(trimmed, NotAvailable):
            raise ToolError(f"trim of {target}: {trimmed.reason}", code="trim-failed")
        return trimmed

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Return how the file system is trimmed without Trimtab."""
        self._check(target)
        timer = partial(read_timer, self.host, self.execute)
        # Even mounting reads: if a device moved nothing, its counters do not work.
        return counted_practice(self.host, self.description, timer, idle_counts=False)

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Return how long writes to the underlying device have taken."""
        self._check(target)
        if not self.description.devices:
            return not_available("no-device", "no underlying block device is visible")
        return read_write_times(self.host, self.description.devices[0].name)

    @contextmanager
    def allocator_counting(self, target: str, *, allowed: bool) -> Iterator[NotAvailable | None]:
        """Turn ext4's allocator counters on inside the block, then restore their setting."""
        self._check(target)
        ext4 = self._ext4()
        if ext4 is None:
            yield not_available(
                "allocator-not-shown",
                f"{self.description.fs_type} does not expose its block allocator",
            )
            return
        with counting(self.host, ext4, allowed=allowed) as why_not:
            yield why_not

    def set_creation(self, target: str, enabled: bool) -> NotAvailable:
        """Answer that a local file system cannot be closed to new files only."""
        self._check(target)
        return _unsupported("a local file system cannot be closed to new files only")

    def reset_allocator(self, target: str) -> NotAvailable:
        """Answer that the allocator's goal cannot be set: only ldiskfs has ``mb_last_group``."""
        self._check(target)
        return _unsupported("the allocator's goal can be reset only on ldiskfs of a Lustre target")

    def placement(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return the only target if the path is on this file system."""
        try:
            state = self.touch(path)
        except NoAnswer as error:
            return NotAvailable(error.message)
        real_path = existing(state)
        mount = find_mount(mount_table(self.host), real_path, state.device)
        if mount is None or mount.mount_point != self.description.mount_point:
            return not_available(
                "another-file-system", f"{visible(path)} is on another file system"
            )
        return (self.description.mount_point,)

    def pools(self) -> dict[str, tuple[int, ...]]:
        """Return no pools: there are no OSTs."""
        return {}

    @property
    def changelogs(self) -> NotAvailable:
        """Why there is no changelog."""
        return _unsupported("a local file system has no changelog")

    def inventory(self) -> NotAvailable:
        """Answer that one host has no equals."""
        return _unsupported("one host has no servers to compare it with")

    def holders(self) -> NotAvailable:
        """Answer that only accounts of Lustre are read."""
        return _unsupported("only quota accounts of Lustre are read")

    def run(
        self, server: str | None, argv: Sequence[str], timeout_s: float
    ) -> ProcessResult | NotAvailable:
        """Run a program on this host, the only server."""
        if server not in {None, self._target().server}:
            return not_available("server-unknown", f"{server} is not this host")
        if not self.host.is_this_one:
            return not_available("another-machine", "programs of another machine are not run")
        return self.execute(argv, timeout_s=timeout_s)

    def _target(self) -> Target:
        hostname = self.host.read_text("/proc/sys/kernel/hostname")
        server = platform.node() if isinstance(hostname, NotAvailable) else hostname.strip()
        return Target(self.description.mount_point, "file-system", server or None)

    def _ext4(self) -> Ext4 | None:
        kind, devices = self.description.fs_type, self.description.devices
        return Ext4(devices[0].name, kind) if kind in _EXT4_TYPES and devices else None

    def _check(self, target: str) -> None:
        if target != self.description.mount_point:
            raise UsageError(
                f"there is no target {target!r}",
                code="target-unknown",
                hint=f"the only target is {self.description.mount_point}",
            )

    def _look_again(self) -> bounded.StatvfsSpace | NotAvailable:
        """Read the devices' settings again, and the path's free space within a deadline."""
        description = self.description
        try:
            state = self.touch(description.path)
            mount = find_mount(mount_table(self.host), existing(state), state.device)
        except TrimtabError as error:
            return NotAvailable(error.message)
        if mount is None or mount.device_number != description.device_number:
            return not_available("not-mounted", f"{description.mount_point} is no longer mounted")
        self.description = describe_mount(
            self.host,
            mount,
            path=description.path,
            real_path=description.real_path,
            execute=self.execute,
            fs_uuid=state.fs_uuid,
        )
        if state.space is None:
            return NotAvailable(f"statvfs of {description.path} failed")
        return state.space

    def _check_still_mounted(self) -> None:
        """Make sure that fstrim reaches this file system: on a plain directory it trims another."""
        description = self.description
        mount = find_mount(mount_table(self.host), description.mount_point)
        if (
            mount is None
            or mount.mount_point != description.mount_point
            or mount.device_number != description.device_number
        ):
            raise RefusedError(
                f"{description.mount_point} is no longer the mount point of this file system",
                code="mount-changed",
                hint="see what is mounted: findmnt",
            )

    def _why_no_trim(self) -> str:
        if not self.host.is_this_one:
            return "the file system belongs to another machine"
        if not self.description.devices:
            return "no underlying block device is visible"
        return "trimming needs root"


def open_site(site: Site, clock: Clock) -> LocalDriver:
    """Return the driver of a site.

    Raises
    ------
    UsageError
        The path does not exist.
    """
    return LocalDriver(site.path, clock=clock)


def open_for_acting(site: Site, clock: Clock, *, token: int, who: str) -> LocalDriver:
    """Return the driver of a site; it may do whatever its user may.

    Raises
    ------
    UsageError
        The path does not exist.
    """
    return open_site(site, clock)
