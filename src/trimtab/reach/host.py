"""Reads a host's ``/proc`` and ``/sys`` through a root prefix, and runs its small system tools.

Under another root, a recorded or hand-made tree stands in for another machine, so code that reads a
24-drive server can be tested on a laptop. Tools such as fstrim, blkid, nvme and systemctl run with
a deadline and without a shell. The counters are the bytes that a block device moved, and the busy
time of the CPUs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.base.error import Message, RefusedError, ToolError
from trimtab.base.filesystem import BlockDevice
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.base.units import is_digits
from trimtab.reach.driver_protocol import WriteTimes
from trimtab.reach.process import Execute, ProcessResult

LIMIT_BYTES: Final = 1 << 20
"""Far above any file of /proc or /sys that Trimtab reads; mountinfo of a busy node is 100 KiB."""

# Reading mb_groups loads the buddy bitmap of every group: minutes of disk time on a large target;
# on some ldiskfs kernels a checksum error found on the way turns the target read-only.
_NEVER_OPENED: Final = frozenset({"mb_groups"})


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as seen through its files under ``root``.

    Paths go in and come out as on that machine: absolute, without the root.
    """

    root: str = "/"

    @property
    def is_this_one(self) -> bool:
        """Whether this is the machine Trimtab runs on, where tools can be started too."""
        return self.root == "/"

    def path(self, path: str) -> Path:
        """Return the local path of a file of that machine."""
        return Path(self.root) / path.lstrip("/")

    def exists(self, path: str) -> bool:
        """Return whether the path exists, following links."""
        try:
            return self.path(path).exists()
        except OSError:
            return False

    def read_text(self, path: str, *, limit_bytes: int = LIMIT_BYTES) -> str | NotAvailable:
        """Return the text of a file, stripped of the newline at its end, or why there is none.

        Raises
        ------
        RefusedError
            Reading the file does harm by itself.
        """
        if Path(path).name in _NEVER_OPENED:
            raise RefusedError(
                f"{path} is never opened: reading it loads every block group",
                code="file-never-read",
            )
        try:
            with self.path(path).open("rb") as file:
                content = file.read(limit_bytes + 1)
        except OSError as error:
            return NotAvailable(_reason(path, error))
        if len(content) > limit_bytes:
            return not_available("file-too-long", f"{path} is longer than {limit_bytes} bytes")
        return content.decode("utf-8", "surrogateescape").rstrip("\n")

    def read_number(self, path: str) -> int | NotAvailable:
        """Return the integer in a file, or why there is none."""
        text = self.read_text(path)
        if isinstance(text, NotAvailable):
            return text
        try:
            return int(text.strip(), 10)
        except ValueError:
            return not_available("number-invalid", f"{path} holds {text[:40]!r}, not a number")

    def write_text(self, path: str, value: str) -> OSError | None:
        """Write one value as ``echo`` would and return the system's error, if any.

        Never creates a file: what does not exist cannot be a setting.
        """
        try:
            # One write call: sysfs takes each write as a complete value.
            descriptor = os.open(self.path(path), os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, f"{value}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            return error
        return None

    def list_directory(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return the names in a directory, sorted, or why there are none."""
        try:
            return tuple(sorted(entry.name for entry in self.path(path).iterdir()))
        except OSError as error:
            return NotAvailable(_reason(path, error))

    def resolve(self, path: str) -> str | NotAvailable:
        """Resolve every link of a path, as on that machine.

        A link that leads out of the root is never followed into this machine's own files.
        """
        try:
            real = os.path.realpath(self.path(path), strict=True)
        except OSError as error:
            return NotAvailable(_reason(path, error))
        root = os.path.realpath(self.root)
        if root == "/":
            return real
        if not real.startswith(root + "/"):
            return not_available("path-outside-root", f"{path} leads out of {self.root}")
        return real[len(root) :]

    def modified_at_s(self, path: str) -> float | NotAvailable:
        """Return a file's modification time in seconds since 1970, or why it is unknown."""
        try:
            return self.path(path).stat().st_mtime
        except OSError as error:
            return NotAvailable(_reason(path, error))


def _reason(path: str, error: OSError) -> Message:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return Message("file-missing", f"{path} does not exist")
        case errno.EACCES | errno.EPERM:
            return Message("permission-denied", f"no permission to read {path}")
        case _:
            return Message("file-unreadable", f"{path}: {error.strerror}")


OUTPUT_LIMIT_BYTES: Final = 1 << 22
"""These tools print a page; the longest is a drive's JSON log of about 10 KiB."""


def run_tool(
    execute: Execute,
    argv: Sequence[str],
    *,
    timeout_s: float,
    environment: dict[str, str] | None = None,
) -> ProcessResult | NotAvailable:
    """Return the result of a tool that succeeded, or why there is none.

    Never raises: a missing, late or failed tool is a reason.
    """
    try:
        result = execute(
            argv,
            timeout_s=timeout_s,
            output_limit_bytes=OUTPUT_LIMIT_BYTES,
            environment=environment,
        )
    except ToolError as error:
        return not_available(error.code, error.message)
    if result.problem is not None:
        text = f"{' '.join(argv[:2])}: {result.problem}{complaint(result)}"
        return not_available("tool-failed", text)
    return result


def complaint(result: ProcessResult) -> str:
    """Return the first line of a tool's standard error as ``: text``, shortened."""
    text = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
    return f": {text.splitlines()[0][:200]}" if text else ""


_SECTOR_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class DeviceBytes:
    """Bytes moved by one block device since it was attached.

    Before Linux 4.18 ``discarded_bytes`` is missing.
    """

    read_bytes: int
    written_bytes: int
    discarded_bytes: int | NotAvailable


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Busy and total time of all CPUs together since boot, in clock ticks."""

    busy: int
    total: int


def read_device_bytes(
    host: Host, device: str, paths: Sequence[str] = ()
) -> DeviceBytes | NotAvailable:
    """Return the bytes a device moved, from its ``stat``, or why they are not counted.

    Parameters
    ----------
    device
        Kernel name, as under ``/sys/class/block``.
    paths
        For an NVMe multipath device: the hidden devices that reach the same drive.

    Notes
    -----
    Source: the kernel's Documentation/block/stat.rst; sectors are always 512 bytes.
    Before Linux 6.4 an NVMe multipath device counts nothing and its paths count everything; since
    6.4 both count the same. The larger of the two is the amount moved.
    """
    moved = _read_stat(host, device)
    if not paths:
        return moved
    below = [_read_stat(host, path) for path in paths]
    counted = [part for part in below if not isinstance(part, NotAvailable)]
    if len(counted) < len(below):
        # If a path is missing the sum is too small, and the device itself may count nothing.
        quiet = next(part for part in below if isinstance(part, NotAvailable))
        silent = isinstance(moved, NotAvailable) or not (moved.read_bytes or moved.written_bytes)
        return quiet if silent else moved
    together = _sum(counted)
    return together if isinstance(moved, NotAvailable) else _larger(moved, together)


def read_bytes_of(
    host: Host, device: BlockDevice, devices: Sequence[BlockDevice]
) -> DeviceBytes | NotAvailable:
    """Return the bytes one of ``devices`` moved, including its paths if it is multipath."""
    by_name = {device.name: device for device in devices}
    if device.kind == "nvme-multipath":
        return read_device_bytes(host, device.name, device.beneath)
    counted = read_device_bytes(host, device.name)
    disk = by_name.get(device.beneath[0]) if device.kind == "partition" and device.beneath else None
    if disk is None or disk.kind != "nvme-multipath" or isinstance(counted, NotAvailable):
        return counted
    whole = read_device_bytes(host, disk.name, disk.beneath)
    moved = isinstance(whole, NotAvailable) or whole.read_bytes or whole.written_bytes
    if moved and not (counted.read_bytes or counted.written_bytes):
        return NotAvailable(
            f"{device.name} counts nothing: before Linux 6.4 only the paths of {disk.name} count"
        )
    return counted


def read_write_times(host: Host, device: str) -> WriteTimes | NotAvailable:
    """Return how long a device's writes have taken, from its ``stat``."""
    fields = _stat_fields(host, device)
    if isinstance(fields, NotAvailable):
        return fields
    return WriteTimes(writes=fields[4], busy_s=fields[7] / 1000.0)


def _read_stat(host: Host, device: str) -> DeviceBytes | NotAvailable:
    fields = _stat_fields(host, device)
    if isinstance(fields, NotAvailable):
        return fields
    return DeviceBytes(
        read_bytes=fields[2] * _SECTOR_BYTES,
        written_bytes=fields[6] * _SECTOR_BYTES,
        discarded_bytes=(
            fields[13] * _SECTOR_BYTES
            if len(fields) >= 15
            else NotAvailable(f"the stat of {device} has no discard counters (kernel before 4.18)")
        ),
    )


def _stat_fields(host: Host, device: str) -> list[int] | NotAvailable:
    directory = f"/sys/class/block/{device}"
    # A disk's switch also applies to its partitions. Some kernels before 5.9 count for device
    # mapper although the switch reads 0: no number is better than one that may be frozen.
    switch = "../queue" if host.exists(f"{directory}/partition") else "queue"
    if host.read_number(f"{directory}/{switch}/iostats") == 0:
        return not_available(
            "device-counts-nothing", f"{device} counts nothing: queue/iostats is 0"
        )
    path = f"{directory}/stat"
    text = host.read_text(path)
    if isinstance(text, NotAvailable):
        return text
    fields = text.split()
    if len(fields) < 11 or not all(is_digits(field) for field in fields):
        return NotAvailable(f"{path} holds {text[:80]!r}, not the counters of a block device")
    return [int(field) for field in fields]


def _sum(counted: Sequence[DeviceBytes]) -> DeviceBytes:
    discards = [part.discarded_bytes for part in counted]
    missing = next((discard for discard in discards if isinstance(discard, NotAvailable)), None)
    return DeviceBytes(
        read_bytes=sum(part.read_bytes for part in counted),
        written_bytes=sum(part.written_bytes for part in counted),
        discarded_bytes=missing or sum(discard for discard in discards if isinstance(discard, int)),
    )


def _larger(first: DeviceBytes, other: DeviceBytes) -> DeviceBytes:
    known = [n for n in (first.discarded_bytes, other.discarded_bytes) if isinstance(n, int)]
    return DeviceBytes(
        read_bytes=max(first.read_bytes, other.read_bytes),
        written_bytes=max(first.written_bytes, other.written_bytes),
        discarded_bytes=max(known) if known else first.discarded_bytes,
    )


def read_cpu_times(host: Host) -> CpuTimes | NotAvailable:
    """Return busy and total CPU time from the first line of ``/proc/stat``.

    I/O wait counts as idle; guest time is already part of user time, proc_stat(5).
    """
    text = host.read_text("/proc/stat")
    if isinstance(text, NotAvailable):
        return text
    words = (text.splitlines() or [""])[0].split()
    if len(words) < 6 or words[0] != "cpu" or not all(is_digits(word) for word in words[1:]):
        return NotAvailable("/proc/stat does not begin with the total of all CPUs")
    times = [int(word) for word in words[1:9]]
    total = sum(times)
    return CpuTimes(busy=total - times[3] - times[4], total=total)


@dataclass(slots=True)
class Processors:
    """Measures how busy a host's CPUs are, from one reading to the next."""

    _last: CpuTimes | None = None

    def busy_fraction(self, host: Host) -> float | NotAvailable:
        """Return the non-idle share of CPU time since the previous reading."""
        now = read_cpu_times(host)
        if isinstance(now, NotAvailable):
            return now
        before, self._last = self._last, now
        if before is None:
            return not_available("one-snapshot", "needs two snapshots: it is measured between them")
        return busy_fraction(before, now)


def busy_fraction(before: CpuTimes, now: CpuTimes) -> float | NotAvailable:
    """Return the non-idle share of CPU time between two readings."""
    total = now.total - before.total
    if total <= 0:
        return NotAvailable("no CPU time passed between two snapshots")
    # The kernel's idle time may go back by a tick (proc_stat(5)): clamp to 0..1.
    return min(1.0, max(0.0, (now.busy - before.busy) / total))
