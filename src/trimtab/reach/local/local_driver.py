"""The local driver: one mounted file system of this host, behind the driver protocol."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from trimtab.base.error import NoAnswer, RefusedError, ToolError, TrimtabError, UsageError
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
from trimtab.base.visible import visible
from trimtab.reach import bounded
from trimtab.reach.driver_protocol import Clock, WriteTimes, check_range
from trimtab.reach.host import Host, complaint
from trimtab.reach.local import local_setting as named
from trimtab.reach.local.block_allocator import Ext4, counting
from trimtab.reach.local.counter import DeviceBytes, Processors, read_bytes_of, read_write_times
from trimtab.reach.local.local_telemetry import MountedState
from trimtab.reach.local.path_description import (
    Touch,
    describe,
    describe_mount,
    existing,
    mount_table,
)
from trimtab.reach.local.trim import counted_practice, fstrim_command, parse_fstrim, read_timer
from trimtab.reach.process import Execute, ProcessResult
from trimtab.reach.process import execute as run_process

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
        As `trimtab.reach.local.path_description.describe` for the path.
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
        """What this driver can do: writing and trimming need root, on this machine."""
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
            named.read_settings(self.host, description, state.ext4),
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
        return named.read_settings(self.host, self.description, self._ext4())

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        """Write one setting and read it back; see `trimtab.reach.local.local_setting`."""
        self._check(target)
        return named.write_setting(self.host, self.description, self._ext4(), name, value)

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
