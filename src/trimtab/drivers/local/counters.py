"""Counters of this host: bytes moved by a block device, and how busy the CPUs are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.drivers.host import Host
from trimtab.model.telemetry import NotAvailable

_SECTOR_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class DeviceBytes:
    """What one block device moved since it was attached.

    ``discarded_bytes`` is not there before Linux 4.18.
    """

    read_bytes: int
    written_bytes: int
    discarded_bytes: int | NotAvailable


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Time all CPUs together spent busy, and in all, since boot; in ticks of the kernel's clock."""

    busy: int
    total: int


def read_device_bytes(host: Host, device: str) -> DeviceBytes | NotAvailable:
    """Return the bytes that a device moved, from its ``stat``.

    Source: the kernel's Documentation/block/stat.rst; sectors there are of 512 bytes always.
    """
    path = f"/sys/class/block/{device}/stat"
    text = host.read_text(path)
    if isinstance(text, NotAvailable):
        return text
    fields = text.split()
    if len(fields) < 11 or not all(field.isdigit() for field in fields):
        return NotAvailable(f"{path} holds {text[:80]!r}, not the counters of a block device")
    return DeviceBytes(
        read_bytes=int(fields[2]) * _SECTOR_BYTES,
        written_bytes=int(fields[6]) * _SECTOR_BYTES,
        discarded_bytes=(
            int(fields[13]) * _SECTOR_BYTES
            if len(fields) >= 15
            else NotAvailable(f"{path} counts no discards: a kernel before 4.18")
        ),
    )


def read_cpu_times(host: Host) -> CpuTimes | NotAvailable:
    """Return busy and total CPU time from the first line of ``/proc/stat``.

    Waiting for I/O is idle time; time given to guests is part of user time already, proc_stat(5).
    """
    text = host.read_text("/proc/stat")
    if isinstance(text, NotAvailable):
        return text
    words = (text.splitlines() or [""])[0].split()
    if len(words) < 6 or words[0] != "cpu" or not all(word.isdigit() for word in words[1:]):
        return NotAvailable("/proc/stat does not begin with the sum over all CPUs")
    times = [int(word) for word in words[1:9]]
    total = sum(times)
    return CpuTimes(busy=total - times[3] - times[4], total=total)


def busy_fraction(before: CpuTimes, now: CpuTimes) -> float | NotAvailable:
    """Return the share of CPU time between two readings that was not idle."""
    total = now.total - before.total
    if total <= 0:
        return NotAvailable("no CPU time passed between two snapshots")
    # The kernel's idle time may step back by a tick (proc_stat(5)): stay within 0 and 1.
    return min(1.0, max(0.0, (now.busy - before.busy) / total))
