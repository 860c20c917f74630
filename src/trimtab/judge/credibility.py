"""Whether the result of a repetition is credible, from plain facts about the measurement.

Each rule is a small function that returns its reason, or ``None`` if it has no objection; missing
facts are no objection. `RULES` lists them, the clearest objection first.

A device that moved *more* than the tool proves nothing (other programs, parity, journals,
read-ahead), so no rule objects to more. A device that moved *less* means that memory served the
rest, unless a layer below reduces the data: then the device rules do not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trimtab.base.error import Message, code_of
from trimtab.base.run import Access
from trimtab.base.units import format_bytes, format_bytes_per_s, format_duration, format_percent

ELAPSED_MINIMUM_S: Final = 5.0
"""Shorter repetitions measure start-up, caches and burst buffers."""

ELAPSED_TOLERANCE: Final = 0.99
"""Tools round times and stop a little early; a hundredth does not change a bandwidth."""

DEVICE_FRACTION_MINIMUM: Final = 0.9
"""Share of the tool's bytes that the device must have moved. Not 1: counters are read just before
and after, and the first or last parts of a file may stay in memory."""

LINK_TOLERANCE: Final = 1.01
"""The nominal speed of a bus excludes its overhead, so only rounding can exceed it."""

MEMORY_FACTOR: Final = 2.0
"""Data must be this many times the memory before the page cache can no longer serve most of it."""


@dataclass(frozen=True, slots=True)
class RepetitionFacts:
    """Facts about one repetition.

    Attributes
    ----------
    access
        ``write`` or ``read``.
    direct
        Whether it used O_DIRECT throughout (a tool that fell back to buffered I/O did not).
    elapsed_s
        Measured time; ``None`` if the tool does not report it.
    bytes_moved
        Bytes moved according to the tool, all tasks together; ``None`` if not reported.
    file_bytes
        Size of all files together; a repetition with time left starts over.
    asked_duration_s, asked_tasks
        Requested by the probe; ``None`` if not requested.
    tasks
        Tasks that took part; ``None`` if the tool does not report it.
    flushed
        Whether the flush (fsync or closing with sync) was inside the timed region.
    caches_dropped
        Whether this node's page cache, or the file's pages, were dropped after writing.
    memory_bytes
        Memory of the node, or of all participating nodes together; ``None`` if unknown.
    device, device_bytes
        The devices below, and the bytes they read (``read``) or wrote (``write``) during the
        repetition; ``None`` if they are not visible.
    link_bytes_per_s
        Total bandwidth of the buses of all drives (or of the network); ``None`` if unknown.
    shrinks_data
        The file system or device compresses or deduplicates, or may do so.
    loop_through_page_cache
        A loop device below keeps its backing file in this node's page cache, and
        ``device_bytes`` is counted above it.
    """

    access: Access
    direct: bool
    elapsed_s: float | None
    bytes_moved: int | None
    file_bytes: int
    asked_duration_s: float | None = None
    asked_tasks: int | None = None
    tasks: int | None = None
    flushed: bool = False
    caches_dropped: bool = False
    memory_bytes: int | None = None
    device: str | None = None
    device_bytes: int | None = None
    link_bytes_per_s: float | None = None
    shrinks_data: bool = False
    loop_through_page_cache: bool = False

    def __post_init__(self) -> None:
        for name in ("elapsed_s", "bytes_moved", "file_bytes", "device_bytes", "memory_bytes"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is {value}")


def reason_not_to_believe(facts: RepetitionFacts) -> Message | None:
    """Return why the repetition is not credible; ``None`` if no rule objects.

    Examples
    --------
    >>> reason_not_to_believe(RepetitionFacts("write", True, 1.5, 2**30, 2**30, 10.0))
    'ran for 1.5 s instead of the requested 10.0 s'
    """
    for rule in RULES:
        reason = rule(facts)
        if reason is not None:
            return reason
    return None


def not_reported(facts: RepetitionFacts) -> Message | None:
    """Object if the tool reports no time or no bytes: the workload cannot be confirmed."""
    if facts.elapsed_s is None:
        return Message("time-not-reported", "the tool does not report how long it ran")
    if facts.bytes_moved is None:
        return Message("bytes-not-reported", "the tool does not report how much it moved")
    return None


def nothing_moved(facts: RepetitionFacts) -> Message | None:
    """Object to a repetition that moved no data."""
    return Message("nothing-moved", "moved no data") if facts.bytes_moved == 0 else None


def other_tasks(facts: RepetitionFacts) -> Message | None:
    """Object to a different number of tasks, also a higher one: a different workload."""
    if facts.tasks is None or facts.asked_tasks is None or facts.tasks == facts.asked_tasks:
        return None
    return Message(
        "tasks-differ", f"ran with {facts.tasks} tasks instead of the requested {facts.asked_tasks}"
    )


def too_short(facts: RepetitionFacts) -> Message | None:
    """Object to less than the requested time, and to anything under 5 s."""
    if facts.elapsed_s is None:
        return None
    requested_s = facts.asked_duration_s or 0.0
    elapsed = format_duration(facts.elapsed_s)
    if facts.elapsed_s < requested_s * ELAPSED_TOLERANCE:
        return Message(
            "stopped-early",
            f"ran for {elapsed} instead of the requested {format_duration(requested_s)}",
        )
    if facts.elapsed_s < ELAPSED_MINIMUM_S * ELAPSED_TOLERANCE:
        return Message(
            "too-short",
            f"ran for {elapsed}, too short for a steady state: at least "
            f"{format_duration(ELAPSED_MINIMUM_S)} are needed",
        )
    return None


def not_flushed(facts: RepetitionFacts) -> Message | None:
    """Object to buffered writes without a flush, unless the device shows that it has all data."""
    if facts.access != "write" or facts.direct or facts.flushed:
        return None
    if facts.device_bytes is not None and not facts.shrinks_data:
        return None  # `device_moved_less` decides
    return Message(
        "not-flushed", "written to memory; the time does not include the flush to the device"
    )


def faster_than_the_bus(facts: RepetitionFacts) -> Message | None:
    """Object to more than the drives' buses can carry."""
    if facts.link_bytes_per_s is None or facts.shrinks_data:
        return None
    if not facts.elapsed_s or facts.bytes_moved is None:
        return None
    speed = facts.bytes_moved / facts.elapsed_s
    if speed <= facts.link_bytes_per_s * LINK_TOLERANCE:
        return None
    return Message(
        "faster-than-bus",
        f"cached: {format_bytes_per_s(speed)} exceeds the bandwidth of the bus to the drives "
        f"({format_bytes_per_s(facts.link_bytes_per_s)})",
    )


def device_moved_less(facts: RepetitionFacts) -> Message | None:
    """Object if the device below moved less than the tool reports: memory served the rest."""
    if facts.device_bytes is None or facts.bytes_moved is None or facts.shrinks_data:
        return None
    if facts.device_bytes >= DEVICE_FRACTION_MINIMUM * facts.bytes_moved:
        return None
    fraction = format_percent(facts.device_bytes / facts.bytes_moved, 0)
    verb = "were read from" if facts.access == "read" else "reached"
    return Message(
        "device-moved-less",
        f"cached: of {format_bytes(facts.bytes_moved)} only {format_bytes(facts.device_bytes)} "
        f"({fraction}) {verb} {facts.device or 'the device below'}",
    )


def cached_beneath_loop(facts: RepetitionFacts) -> Message | None:
    """Object to reads through a loop device whose backing file fits in the page cache.

    O_DIRECT ends at such a loop device. Data written through it counts once flushed: a flush goes
    through to the backing file.
    """
    if not facts.loop_through_page_cache:
        return None
    if facts.access == "write":
        if facts.flushed:
            return None
        return Message(
            "loop-not-flushed",
            "the loop device below writes to this node's memory, and the flush is not timed",
        )
    if not _memory_may_serve(facts):
        return None
    return Message(
        "loop-cached",
        "cached: the loop device below reads its backing file through this node's memory, which "
        f"can hold the data set of {format_bytes(facts.file_bytes)}",
    )


def read_back_from_memory(facts: RepetitionFacts) -> Message | None:
    """Object to buffered reads of data that this node holds, if no device is visible.

    If one is visible its counters decide, unless something reduces the data.
    """
    if facts.access != "read" or facts.direct or not _memory_may_serve(facts):
        return None
    if facts.device_bytes is not None and not facts.shrinks_data:
        return None
    reread = (
        "data that it has already read" if facts.caches_dropped else "the data that it has written"
    )
    return Message(
        "reread-from-memory" if facts.caches_dropped else "read-back-from-memory",
        f"cached: this node reads {reread} without O_DIRECT, and its memory can hold the data set "
        f"of {format_bytes(facts.file_bytes)}",
    )


def _memory_may_serve(facts: RepetitionFacts) -> bool:
    """Whether memory may have served much of the data read.

    It holds the data at the start or after the first pass over the files, and is large enough to
    keep it. Memory of unknown size counts as large enough.
    """
    once = facts.bytes_moved is not None and facts.bytes_moved <= facts.file_bytes
    if facts.caches_dropped and once:
        return False
    return facts.memory_bytes is None or facts.file_bytes < MEMORY_FACTOR * facts.memory_bytes


RULES: Final[tuple[Callable[[RepetitionFacts], Message | None], ...]] = (
    not_reported,
    nothing_moved,
    other_tasks,
    too_short,
    not_flushed,
    device_moved_less,
    faster_than_the_bus,
    cached_beneath_loop,
    read_back_from_memory,
)
"""Every rule; the first objection wins."""

_FROM_MEMORY: Final = frozenset({
    "device-moved-less", "faster-than-bus", "loop-cached", "read-back-from-memory",
    "reread-from-memory",
})  # fmt: skip
"""Codes of the objections which say that memory served a read."""


def is_from_memory(reason: str | None) -> bool:
    """Return whether a figure is not credible because memory served it.

    A reason read back from a store has no code; every such reason says "cached".
    """
    code = code_of(reason)
    return code in _FROM_MEMORY if code is not None else "cache" in (reason or "").lower()
