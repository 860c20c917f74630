"""Figures of one direction of a job, or of several jobs, in SI units for every version.

| | before 2.21 | 2.21 to 3.1 | since 3.2 |
|---|---|---|---|
| ``io_bytes`` | KiB, rounded down | bytes, and ``io_kbytes`` | the same |
| ``bw`` | KiB/s, rounded down | the same | the same, and ``bw_bytes`` |
| ``iops`` | whole before 2.2 | | |
| ``total_ios`` | since 2.1.14 | | |
| latency | ``clat`` in microseconds | ``clat_ns`` since 2.99 | |

Source: ``add_ddir_status_json`` in stat.c of those versions. ``runtime`` is always in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab.measure.fio.documents import Document
from trimtab.measure.measurement import agrees
from trimtab.measure.plain import as_dict, as_number
from trimtab.message import Message
from trimtab.model.run import Access
from trimtab.units import KIB

QUANTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


@dataclass(frozen=True, slots=True)
class Entry:
    """One direction of an entry of ``jobs``: a job, or a group with ``group_reporting``."""

    document: Document
    index: int
    access: Access

    @property
    def job(self) -> dict[str, Any]:
        """The entry."""
        return self.document.jobs[self.index]

    @property
    def figures(self) -> dict[str, Any]:
        """The JSON object of this direction."""
        return as_dict(self.job.get(self.access))

    @property
    def in_kib(self) -> bool:
        """Whether ``io_bytes`` is in KiB, as before 2.21; then there is no ``io_kbytes``."""
        return "io_kbytes" not in self.figures and "bw_bytes" not in self.figures

    @property
    def moved_bytes(self) -> float | None:
        """Bytes written or read."""
        moved = as_number(self.figures.get("io_bytes"))
        return moved * KIB if moved is not None and self.in_kib else moved

    @property
    def elapsed_s(self) -> float | None:
        """Runtime of this direction."""
        time_ms = as_number(self.figures.get("runtime"))
        return None if time_ms is None else time_ms / 1000

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """The printed bandwidth, in bytes per second."""
        if "bw_bytes" in self.figures:
            return as_number(self.figures["bw_bytes"])
        in_kib_per_s = as_number(self.figures.get("bw"))
        return None if in_kib_per_s is None else in_kib_per_s * KIB

    @property
    def operations(self) -> float | None:
        """Number of operations; 2.1 prints only their rate."""
        if "total_ios" in self.figures:
            return as_number(self.figures["total_ios"])
        rate, elapsed_s = as_number(self.figures.get("iops")), self.elapsed_s
        return None if rate is None or elapsed_s is None else rate * elapsed_s

    @property
    def bandwidth_line(self) -> int:
        """Line of the bandwidth in the output."""
        key = "bw_bytes" if "bw_bytes" in self.figures else "bw"
        return self.document.line_of(self.index, self.access, key)

    @property
    def bandwidth_step_bytes_per_s(self) -> int:
        """Unit to which the bandwidth was rounded down."""
        return 1 if "bw_bytes" in self.figures else KIB


@dataclass(frozen=True, slots=True)
class Together:
    """Figures of entries that ran at the same time.

    Bytes over the longest of their times, as fio computes groups (``agg`` in its stat.c).
    """

    moved_bytes: float | None
    elapsed_s: float | None
    bandwidth_bytes_per_s: float | None
    iops: float | None
    reason: str | None


def together(entries: Sequence[Entry]) -> Together:
    """Return the figures of entries that ran at the same time, with any doubts."""
    moved = total(entry.moved_bytes for entry in entries)
    times = [entry.elapsed_s for entry in entries]
    elapsed_s = None if None in times else max(filter(None, times), default=0.0)
    operations = total(entry.operations for entry in entries)
    iops = operations / elapsed_s if operations is not None and elapsed_s else None
    if len(entries) == 1:
        bandwidth = entries[0].bandwidth_bytes_per_s
        iops = as_number(entries[0].figures.get("iops"))
        reason = _disagreement(entries[0])
    else:
        bandwidth = moved / elapsed_s if moved and elapsed_s else None
        reason = next(filter(None, map(_disagreement, entries)), None)
    return Together(moved, elapsed_s, bandwidth, iops, reason)


def iops_reason(entry: Entry) -> str | None:
    """Return why fio's IOPS are not credible."""
    printed, counted = as_number(entry.figures.get("iops")), entry.operations
    if printed is None or counted is None or not entry.elapsed_s:
        return Message("figures-incomplete", "fio's output lacks operations, runtime or their rate")
    expected = counted / entry.elapsed_s
    # Before 2.2 it is an integer, before about 2.16 it has two decimals.
    step = 1.0 if isinstance(entry.figures.get("iops"), int) else 0.01
    if abs(printed - expected) <= step + expected * 1e-6:
        return None
    text = f"fio printed {printed:g} IOPS, but {counted:.0f} in {entry.elapsed_s:g} s do not match"
    return Message("figures-disagree", text)


def _disagreement(entry: Entry) -> str | None:
    if not entry.document.echoes_options:  # human-readable and rounded: checked when it was read
        return entry.document.doubt(entry.index, entry.access)
    moved, elapsed_s = entry.moved_bytes, entry.elapsed_s
    bandwidth = entry.bandwidth_bytes_per_s
    if moved is None or elapsed_s is None or bandwidth is None:
        return Message("figures-incomplete", "fio's output lacks bytes, runtime or bandwidth")
    if elapsed_s <= 0:
        return Message("too-short", "fio's runtime is below its resolution of 1 ms")
    # fio divides by whole milliseconds and truncates: half a unit of each.
    tolerance = 0.0005 / elapsed_s + entry.bandwidth_step_bytes_per_s / max(bandwidth, 1.0)
    tolerance += KIB / max(moved, 1.0) if entry.in_kib else 0.0
    if agrees(bandwidth, moved, elapsed_s, tolerance=min(tolerance, 0.5)):
        return None
    text = f"fio printed {bandwidth:.0f} B/s, but {moved:.0f} bytes in {elapsed_s:g} s do not match"
    return Message("figures-disagree", text)


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum, ``None`` if a value is unknown."""
    numbers = list(values)
    return None if None in numbers else sum(filter(None, numbers))


def is_decimal(text: str) -> bool:
    """Return whether a JSON key is a plain number."""
    return re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text) is not None
