"""Effect of collection and throttling on an OST's writes, for the flow model.

A window of seconds is simulated once for each set of rounded terms. The seed follows from the
terms, so results do not depend on the order or number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from trimtab._core import raid_write_ceiling, run_window
from trimtab.errors import UsageError
from trimtab.twin.scenario.model import DriveModel, Queue, Raid

_AMPLIFICATION_STEP: Final = 0.1
_LOAD_STEP: Final = 0.1
_BUSY: Final = 0.95
"""Load from which a closed loop is simulated, as the demand exceeds the capacity."""
_READS_PER_S: Final = 128.0
"""Small reads of an OST besides the writes: bitmaps, journal, users."""
_DURATION_S: Final = 5.0
_LINE: Final = 4096
"""Maximum outstanding operations with random arrivals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTerms:
    """One RAID group, its drives and its load, as the core simulates them (`flash::window`).

    The core reads these attributes by name; names and defaults are declared only here.

    Attributes
    ----------
    write_bytes_per_s, read_bytes_per_s, write_iops, read_iops
        Of one drive, from its data sheet.
    amplification
        Units programmed per host unit; 1: it never collects.
    drives, data, parity, chunk_bytes, kind
        The group: ``gridraid``, ``draid`` or ``raid10``; mirrors have parity 0.
    throttle, throttle_target_s, write_class
        Writeback throttling of each drive's queue, and its class of the RAID layer's writes:
        ``plain``, ``sync`` or ``direct``.
    queue_depth
        Requests in a drive's queue.
    submitters
        Threads that submit requests; one that waits for a drive serves no other.
    serial_s
        Serial time of each operation in the whole group.
    write_latency_s, read_latency_s
        Time of one operation on an idle drive.
    transfer_bytes, depth, operations_per_s
        Size of an operation and number outstanding; with a rate they arrive randomly.
    read_share, reads_per_s, read_bytes
        Fraction of operations that are reads; other reads per second; bytes of a read of both
        kinds.
    superblock_bytes, urgency, slice_s, slice_hit, erase_s, erase_hit, idle_s
        How drives collect; ``None``: the default of ``flash::window::Collection``.
    slow_drive
        Number of a slow drive and its remaining fraction of speed.
    failed_drives, rebuild_share
        Number of lost drives, and the fraction of every drive's speed used for rebuilding.
    warm_s, duration_s
        Warm-up time, which is not counted, and measured time, in seconds.
    """

    write_bytes_per_s: float
    read_bytes_per_s: float
    write_iops: float
    read_iops: float
    amplification: float = 1.0
    seed: int = 0
    drives: int = 12
    data: int = 8
    parity: int = 2
    chunk_bytes: int = 131_072
    kind: str = "gridraid"
    throttle: bool = True
    throttle_target_s: float = 0.002
    write_class: str = "plain"
    queue_depth: int = 1023
    submitters: int = 8
    serial_s: float = 0.0
    write_latency_s: float = 25e-6
    read_latency_s: float = 100e-6
    transfer_bytes: int = 1_048_576
    depth: int = 256
    operations_per_s: float | None = None
    read_share: float = 0.0
    reads_per_s: float = 0.0
    read_bytes: int = 4096
    superblock_bytes: float | None = None
    urgency: float | None = None
    slice_s: float | None = None
    slice_hit: float | None = None
    erase_s: float | None = None
    erase_hit: float | None = None
    idle_s: float | None = None
    slow_drive: tuple[int, float] | None = None
    failed_drives: int = 0
    rebuild_share: float = 0.0
    warm_s: float = 1.0
    duration_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Terms:
    """The parameters of a window.

    Attributes
    ----------
    amplification
        Units programmed per host unit.
    load
        Demand on the group as a fraction of its drives' ceiling over ``amplification``.
    """

    drive: DriveModel
    raid: Raid
    queue: Queue
    amplification: float
    load: float = 1.0


@dataclass(frozen=True, slots=True)
class Window:
    """The result of a window.

    Attributes
    ----------
    write_bytes_per_s
        Delivered rate; per OST if several share drives, with all equally busy.
    ceiling_bytes_per_s
        Ceiling of healthy drives that never collect.
    factor
        ``write_bytes_per_s`` over the smaller of the demand and the ceiling over the amplification:
        the effect of waiting for the slowest drive and for throttling.
    figures
        All figures of the core: `trimtab._core.run_window`.
    """

    write_bytes_per_s: float
    ceiling_bytes_per_s: float
    factor: float
    figures: Mapping[str, Any]


def slowdown(terms: Terms) -> Window:
    """Return the window of these terms, after rounding.

    Amplification and load are rounded to 0.1: within a step the factor changes by about as much as
    between seeds, 1 to 3 %.

    Raises
    ------
    UsageError
        The group or load is impossible.
    """
    return _simulated(_rounded(terms))


def _rounded(terms: Terms) -> Terms:
    amplification = round(terms.amplification / _AMPLIFICATION_STEP) * _AMPLIFICATION_STEP
    load = 1.0 if terms.load >= _BUSY else round(terms.load / _LOAD_STEP) * _LOAD_STEP
    return replace(
        terms,
        amplification=max(1.0, round(amplification, 6)),
        load=max(_LOAD_STEP, round(load, 6)),
    )


@lru_cache(maxsize=4096)
def _simulated(terms: Terms) -> Window:
    group = _group(terms)
    try:
        ceiling = raid_write_ceiling(group)
        requested = terms.load * (ceiling / terms.amplification)
        if terms.load < 1.0:
            # Operations that wait for a place in the queue still count as outstanding.
            rate = requested / group.transfer_bytes
            group = replace(group, depth=_LINE, operations_per_s=rate)
        figures = run_window(group)
    except ValueError as error:
        raise UsageError(
            str(error), code="raid-invalid", hint="see the OSTs' drive and raid in the scenario"
        ) from error
    written = figures["write_bytes_per_s"]
    return Window(written, ceiling, written / requested, figures)


def _group(terms: Terms) -> WindowTerms:
    # Each of several OSTs that share drives has its share of every drive's speed.
    part = 1.0 / terms.raid.shared
    return WindowTerms(
        write_bytes_per_s=terms.drive.write_bytes_per_s * part,
        read_bytes_per_s=terms.drive.read_bytes_per_s * part,
        write_iops=terms.drive.write_iops * part,
        read_iops=terms.drive.read_iops * part,
        kind=terms.raid.kind,
        drives=terms.raid.drives,
        data=terms.raid.data,
        # A scenario counts copies as parity; the core has mirrors with one copy and no parity.
        parity=0 if terms.raid.kind == "raid10" else terms.raid.parity,
        chunk_bytes=terms.raid.chunk_bytes,
        amplification=terms.amplification,
        throttle=terms.queue.writeback_throttling,
        throttle_target_s=terms.queue.target_latency_s,
        reads_per_s=_READS_PER_S,
        duration_s=_DURATION_S,
    )
