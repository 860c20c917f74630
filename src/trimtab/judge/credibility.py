"""Whether a repetition's number is to be believed, from plain facts about how it came about.

Each rule is a small function that returns its reason, or ``None`` when it has nothing against
the repetition, which includes not knowing. `RULES` lists them, the plainest objection first.

Trust and distrust are not symmetrical. A device that moved *more* than the tool proves nothing
(other programs, parity, journals, read-ahead), so no rule objects to more. A device that moved
*less* means that memory stood in, unless something beneath shrinks the data: then the device
rules keep still.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trimtab.model.run import Access
from trimtab.units import format_bytes, format_bytes_per_s, format_duration, format_percent

ELAPSED_MINIMUM_S: Final = 5.0
"""Shorter repetitions measure start-up, caches and burst buffers."""

ELAPSED_TOLERANCE: Final = 0.99
"""Tools round times and stop a little early; a hundredth does not change a bandwidth."""

DEVICE_FRACTION_MINIMUM: Final = 0.9
"""Share of the tool's bytes that the device must have moved. Not 1: counters are read just
before and after, and a file's first or last pieces may rightly stay in memory."""

LINK_TOLERANCE: Final = 1.01
"""A bus's nominal speed is before its own overhead, so over it is impossible but for rounding."""

MEMORY_FACTOR: Final = 2.0
"""Data has to be this many times the memory before the page cache can no longer serve most."""


@dataclass(frozen=True, slots=True)
class RepetitionFacts:
    """How one repetition came about.

    Attributes
    ----------
    access
        ``write`` or ``read``.
    direct
        Whether it used O_DIRECT throughout (a tool that fell back to buffered I/O did not).
    elapsed_s
        Time that the number is over; ``None`` where the tool does not say.
    bytes_moved
        What the tool says that it moved, all tasks together; ``None`` where it does not say.
    file_bytes
        Size of all files together: what is gone over again when time is left.
    asked_duration_s, asked_bytes, asked_tasks
        What the probe asked for; ``None`` where it did not ask.
    tasks
        Tasks that took part; ``None`` where the tool does not say.
    flushed
        Whether the flush (fsync or closing with sync) was inside the timed region.
    caches_dropped
        Whether this node's page cache was dropped after writing, or the file's pages were.
    written_elsewhere
        Whether another node wrote what this one read.
    memory_bytes
        Memory of the node, all nodes together where several took part; ``None`` if not known.
    device, device_bytes
        The device or devices beneath, and the bytes they read (``read``) or wrote (``write``)
        in the meantime; ``None`` where they cannot be seen.
    link_bytes_per_s
        What the buses of all drives (or the network) carry together; ``None`` if not known.
    shrinks_data
        The file system or device compresses or deduplicates, or may.
    loop_through_page_cache
        A loop device beneath keeps its backing file in this node's page cache, and
        ``device_bytes`` is counted above it.
    """

    access: Access
    direct: bool
    elapsed_s: float | None
    bytes_moved: int | None
    file_bytes: int
    asked_duration_s: float | None = None
    asked_bytes: int | None = None
    asked_tasks: int | None = None
    tasks: int | None = None
    flushed: bool = False
    caches_dropped: bool = False
    written_elsewhere: bool = False
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


def reason_not_to_believe(facts: RepetitionFacts) -> str | None:
    """Return why the repetition's number is not to be believed, ``None`` if nothing speaks
    against it.

    Examples
    --------
    >>> reason_not_to_believe(RepetitionFacts("write", True, 1.5, 2**30, 2**30, 10.0))
    'it ran 1.5 s; 10.0 s were asked for'
    """
    for rule in RULES:
        reason = rule(facts)
        if reason is not None:
            return reason
    return None


def nothing_said(facts: RepetitionFacts) -> str | None:
    """Object when the tool gives no time or no bytes: the workload cannot be confirmed."""
    if facts.elapsed_s is None:
        return "the tool does not say how long it ran"
    if facts.bytes_moved is None:
        return "the tool does not say how much it moved"
    return None


def moved_too_little(facts: RepetitionFacts) -> str | None:
    """Object to nothing moved, or less than asked for."""
    if facts.bytes_moved == 0:
        return "it moved nothing"
    if facts.bytes_moved is None or facts.asked_bytes is None:
        return None
    if facts.bytes_moved >= facts.asked_bytes:
        return None
    return (
        f"it moved {format_bytes(facts.bytes_moved)}; "
        f"{format_bytes(facts.asked_bytes)} were asked for"
    )


def other_tasks(facts: RepetitionFacts) -> str | None:
    """Object to another number of tasks than asked for, more included: another workload."""
    if facts.tasks is None or facts.asked_tasks is None or facts.tasks == facts.asked_tasks:
        return None
    return f"it ran with {facts.tasks} tasks; {facts.asked_tasks} were asked for"


def too_short(facts: RepetitionFacts) -> str | None:
    """Object to less than the time asked for, and to less than 5 s whatever was asked for."""
    if facts.elapsed_s is None:
        return None
    asked_s = facts.asked_duration_s or 0.0
    if facts.elapsed_s < asked_s * ELAPSED_TOLERANCE:
        ran, asked = format_duration(facts.elapsed_s), format_duration(asked_s)
        return f"it ran {ran}; {asked} were asked for"
    if facts.elapsed_s < ELAPSED_MINIMUM_S * ELAPSED_TOLERANCE:
        ran, least = format_duration(facts.elapsed_s), format_duration(ELAPSED_MINIMUM_S)
        return f"it ran {ran}, too short to measure a steady state: at least {least}"
    return None


def not_flushed(facts: RepetitionFacts) -> str | None:
    """Object to buffered writing without the flush, unless the device is seen to have it all."""
    if facts.access != "write" or facts.direct or facts.flushed:
        return None
    if facts.device_bytes is not None and not facts.shrinks_data:
        return None  # `device_moved_less` knows
    return "it was written to memory, and the time does not include the flush to the device"


def faster_than_the_bus(facts: RepetitionFacts) -> str | None:
    """Object to more than the buses to the drives can carry."""
    if facts.link_bytes_per_s is None or facts.shrinks_data:
        return None
    if not facts.elapsed_s or facts.bytes_moved is None:
        return None
    speed = facts.bytes_moved / facts.elapsed_s
    if speed <= facts.link_bytes_per_s * LINK_TOLERANCE:
        return None
    return (
        f"cached: {format_bytes_per_s(speed)} is more than the bus to the drives carries "
        f"({format_bytes_per_s(facts.link_bytes_per_s)})"
    )


def device_moved_less(facts: RepetitionFacts) -> str | None:
    """Object when the device beneath moved less than the tool says: memory did the rest."""
    if facts.device_bytes is None or facts.bytes_moved is None or facts.shrinks_data:
        return None
    if facts.device_bytes >= DEVICE_FRACTION_MINIMUM * facts.bytes_moved:
        return None
    fraction = format_percent(facts.device_bytes / facts.bytes_moved, 0)
    verb = "read from" if facts.access == "read" else "reached"
    return (
        f"cached: of {format_bytes(facts.bytes_moved)} only {format_bytes(facts.device_bytes)} "
        f"({fraction}) {'were ' if verb == 'read from' else ''}{verb} "
        f"{facts.device or 'the device beneath'}"
    )


def cached_beneath_loop(facts: RepetitionFacts) -> str | None:
    """Object to reading through a loop device whose backing file fits in the page cache.

    O_DIRECT ends at such a loop device. What is written through it counts when it is flushed:
    a flush goes through to the backing file.
    """
    if not facts.loop_through_page_cache:
        return None
    if facts.access == "write":
        if facts.flushed:
            return None
        return "the loop device beneath writes to this node's memory, and the flush is not timed"
    if not _memory_may_serve(facts):
        return None
    return (
        "cached: the loop device beneath reads its backing file through this node's memory, "
        f"which can hold the data set of {format_bytes(facts.file_bytes)}"
    )


def read_back_from_memory(facts: RepetitionFacts) -> str | None:
    """Object to buffered reading of data that this node holds, where no device can be seen.

    Where one can be seen its counters decide, except where something shrinks the data.
    """
    if facts.access != "read" or facts.direct or not _memory_may_serve(facts):
        return None
    if facts.device_bytes is not None and not facts.shrinks_data:
        return None
    what = "reads again what it has read" if _fresh(facts) else "reads back what it has written"
    return (
        f"cached: this node {what} without O_DIRECT, and its memory can hold the data set of "
        f"{format_bytes(facts.file_bytes)}"
    )


def _fresh(facts: RepetitionFacts) -> bool:
    """Whether this node's memory holds none of the data when reading begins."""
    return facts.caches_dropped or facts.written_elsewhere


def _memory_may_serve(facts: RepetitionFacts) -> bool:
    """Whether memory can have served much of what was read.

    It holds the data at the start or comes to hold it in the first pass over the files, and is
    large enough to keep it. Memory of unknown size is taken as large enough.
    """
    once = facts.bytes_moved is not None and facts.bytes_moved <= facts.file_bytes
    if _fresh(facts) and once:
        return False
    return facts.memory_bytes is None or facts.file_bytes < MEMORY_FACTOR * facts.memory_bytes


RULES: Final[tuple[Callable[[RepetitionFacts], str | None], ...]] = (
    nothing_said,
    moved_too_little,
    other_tasks,
    too_short,
    not_flushed,
    device_moved_less,
    faster_than_the_bus,
    cached_beneath_loop,
    read_back_from_memory,
)
"""Every rule, the first objection wins."""
