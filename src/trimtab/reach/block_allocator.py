"""The ext4 block allocator (mballoc): its counters, and what its lists prove about the free space.

Never reads ``mb_groups`` (`trimtab.reach.host` refuses it) and never runs e2freefrag, which reads
every bitmap of the file system. Parsers and bounds are pure.

The statistics come in four formats; `AllocatorStatistics.family` names the format:

======================== ============================ ========================================
family                   where                        criteria
======================== ============================ ========================================
``criteria-by-name``     ``mb_stats``, Linux 6.5+     ``cr_p2_aligned`` ... ``cr_any_free``
``criteria-by-number``   ``mb_stats``, 5.13 to 6.4,   ``cr0`` ... ``cr3``
                         RHEL 9
``loops-by-number``      ``mb_alloc_stats``, ldiskfs  ``cr0`` ... ``cr3``
                         of RHEL 8 and before
``loops-by-number-       the same before LU-17744:    ``cr0`` ... ``cr2``, put right here
shifted``                every loop carries the name
                         of the next one
======================== ============================ ========================================

The kernel lists how many groups have which largest free chunk and which mean free extent, but not
how much is free in each. The lists count a nearly full group with a few small holes like an empty
one, so the mean over groups says nothing about the free space. The bounds follow from the total
number of free blocks, which must fit somewhere::

    free blocks (statvfs) ──┐
    groups by largest chunk ┼─> bounds of the free space in groups without 1 MiB in one piece
    groups by mean extent ──┴─> bounds of the number of extents

Blocks preallocated for open files are free to statvfs and used to the lists.

Sources: fs/ext4/mballoc.c (``ext4_seq_mb_stats_show``, ``ext4_mb_seq_structs_summary_show``,
``mb_avg_fragment_size_order``, ``mb_set_largest_free_order``), Lustre's ldiskfs patch series.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from trimtab.base.error import ToolError
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.base.units import format_bytes, format_percent, is_digits
from trimtab.reach.host import Host
from trimtab.reach.touch import StatvfsSpace

_SECTION: Final = re.compile(r"(cr[\w.]*?)_stats:")
_FIELD: Final = re.compile(r"([\w^]+):\s*(\d+)(?:/(\d+))?\Z")
_OLD_USELESS: Final = re.compile(r"useless_c(\d)_loops\Z")
_LIST_ORDER: Final = re.compile(r"list_order_(\d+)_groups:\s*(\d+)\Z")


@dataclass(frozen=True, slots=True)
class CriterionStatistics:
    """Counters of one search criterion: useless loops, groups considered, and hits.

    ``None`` if the format lacks a counter.
    """

    name: str
    useless_loops: int
    groups_considered: int | None = None
    hits: int | None = None


@dataclass(frozen=True, slots=True)
class AllocatorStatistics:
    """Counters of the block allocator since mount, or since they were cleared.

    Attributes
    ----------
    groups_loaded, groups
        Block groups whose free space is in memory, and all groups; ``None`` if not printed.
    """

    family: str
    requests: int
    criteria: tuple[CriterionStatistics, ...]
    groups_loaded: int | None = None
    groups: int | None = None


@dataclass(frozen=True, slots=True)
class FreeSpaceSummary:
    """Groups sorted by their free space, as ``mb_structs_summary`` lists them.

    Attributes
    ----------
    optimize_scan
        Whether the kernel keeps these lists; with fewer than 16 groups it does not.
    largest_free
        Item ``i``: groups whose largest free chunk is ``2**i`` blocks.
    average_fragment
        Item ``i``: groups whose mean free extent is of the order ``i``, see `mean_extent_bytes`.
        Empty before Linux 6.1, which kept a tree instead.
    """

    optimize_scan: bool
    largest_free: tuple[int, ...]
    average_fragment: tuple[int, ...]


def parse_mb_stats(text: str) -> AllocatorStatistics | NotAvailable:
    """Return the counters of ``mb_stats`` (Linux 5.13 and later), or why there are none."""
    if "collection turned off" in text:
        return not_available("counters-off", "the counters are off (mb_stats is 0)")
    top: dict[str, tuple[int, int | None]] = {}
    sections: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if section := _SECTION.fullmatch(stripped):
            current = sections.setdefault(section.group(1), {})
            continue
        field = _FIELD.fullmatch(stripped)
        if field is None:
            continue
        name, value, of = field.group(1), int(field.group(2)), field.group(3)
        if line.startswith("\t\t") and current is not None:
            current[name] = value
        else:
            # One tab again: the section is over. The lines below it are totals.
            current = None
            top[name] = (value, None if of is None else int(of))
    incomplete = [name for name, section in sections.items() if "useless_loops" not in section]
    # The count of discarded preallocations is the last line in every version.
    if "reqs" not in top or "discarded" not in top or not sections or incomplete:
        return not_available("format-unknown", "mb_stats has an unknown format, or was cut off")
    loaded, groups = top.get("buddies_generated", (None, None))
    numbered = all(re.fullmatch(r"cr[\d.]+", name) for name in sections)
    return AllocatorStatistics(
        family="criteria-by-number" if numbered else "criteria-by-name",
        requests=top["reqs"][0],
        criteria=tuple(
            CriterionStatistics(
                name,
                section["useless_loops"],
                section.get("groups_considered"),
                section.get("hits"),
            )
            for name, section in sections.items()
        ),
        groups_loaded=loaded if groups is not None else None,
        groups=groups,
    )


def parse_mb_alloc_stats(text: str) -> AllocatorStatistics | NotAvailable:
    """Return the counters of the older ``mb_alloc_stats``, each loop under its right name.

    Before LU-17744 (Lustre 2.15.63) the file printed the failures of loop 0 as
    ``useless_c1_loops`` and so on, and no ``useless_c0_loops`` at all: its absence identifies the
    format.
    """
    values: dict[str, int] = {}
    for line in text.splitlines():
        # "useless_c1_loops: 12" in some builds, "12 useless_c1_loops" or "name 12" in others.
        words = line.replace(":", " ").split()
        numbers = [word for word in words if is_digits(word)]
        names = [word for word in words if not is_digits(word)]
        if len(numbers) == 1 and len(names) == 1:
            values[names[0]] = int(numbers[0])
    loops = {
        int(match.group(1)): value
        for name, value in values.items()
        if (match := _OLD_USELESS.match(name))
    }
    if "reqs" not in values or "discarded" not in values or not loops:
        return not_available(
            "format-unknown", "mb_alloc_stats has an unknown format, or was cut off"
        )
    shift = 0 if 0 in loops else 1
    return AllocatorStatistics(
        family="loops-by-number" if shift == 0 else "loops-by-number-shifted",
        requests=values["reqs"],
        criteria=tuple(
            CriterionStatistics(f"cr{number - shift}", value)
            for number, value in sorted(loops.items())
        ),
    )


def parse_structs_summary(text: str) -> FreeSpaceSummary | NotAvailable:
    """Return the lists of ``mb_structs_summary`` (Linux 5.14 and later), or why there are none."""
    optimize = re.search(r"^optimize_scan:\s*(\d)", text, re.MULTILINE)
    if optimize is None:
        return not_available("format-unknown", "mb_structs_summary has an unknown format")
    lists: dict[str, list[int]] = {"max_free_order_lists": [], "avg_fragment_size_lists": []}
    current: list[int] | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if match := _LIST_ORDER.fullmatch(stripped):
            # The lists are in order; a gap means that lines are missing.
            if current is None or int(match.group(1)) != len(current):
                return not_available("format-unknown", "mb_structs_summary has an unknown format")
            current.append(int(match.group(2)))
        else:
            current = lists.get(stripped.rstrip(":"))
    return FreeSpaceSummary(
        optimize_scan=optimize.group(1) == "1",
        largest_free=tuple(lists["max_free_order_lists"]),
        average_fragment=tuple(lists["avg_fragment_size_lists"]),
    )


PIECE_BYTES: Final = 1024**2
"""A full-stripe write of an 8+2 group with 128 KiB chunks, and Lustre's smallest usual RPC."""

_FACTOR: Final = 2.0
"""A mean is reported only if it is known within this factor."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The block groups of one file system, and its free blocks.

    Attributes
    ----------
    unread
        Groups that may have free space and are in no list: not yet loaded since the mount.
    blocks_each
        Blocks of a full group; the last one may be smaller.
    """

    count: int
    unread: int
    blocks_each: int
    block_bytes: int
    free_blocks: int


def count_groups(
    summary: FreeSpaceSummary,
    *,
    reported: tuple[int | None, int | None],
    device_bytes: int | None,
    block_bytes: int,
    free_blocks: int,
) -> Groups | NotAvailable:
    """Return the number of groups and how many of them the lists leave out.

    Parameters
    ----------
    reported
        Groups loaded and total groups, as ``mb_stats`` prints them while its counters are on.

    Notes
    -----
    A bitmap is one block, so a group has eight times as many blocks as a block has bytes. With
    bigalloc the lists count in clusters of several blocks; there are then far fewer groups than
    the device has room for. The count of loaded groups may exceed the number of groups, because a
    group is loaded again after memory pressure.
    """
    if not summary.optimize_scan:
        return NotAvailable("the kernel keeps no lists of groups (optimize_scan is 0)")
    listed = sum(summary.largest_free)
    if device_bytes is None:
        return NotAvailable("the size of the device is unknown")
    blocks_each = 8 * block_bytes
    expected = math.ceil(device_bytes / block_bytes / blocks_each)
    loaded, count = reported
    if count is None or loaded is None:
        return Groups(expected, expected - listed, blocks_each, block_bytes, free_blocks)
    if 2 * count <= expected:
        return NotAvailable("it uses bigalloc clusters or only part of its device")
    # Listed and unread groups never overlap, however often a group was loaded.
    unread = min(max(0, count - loaded), count - listed)
    return Groups(count, unread, blocks_each, block_bytes, free_blocks)


def fragmented_fraction(
    summary: FreeSpaceSummary, groups: Groups
) -> tuple[float, float] | NotAvailable:
    """Return bounds on the share of free space without a contiguous 1 MiB.

    Counts the free space of groups whose largest free extent is under 1 MiB.

    Notes
    -----
    Chunks in the lists are aligned to their size: a group whose largest has ``2**i`` blocks
    has no free extent of ``2**(i+2) - 1`` blocks or more, which would hold a larger chunk.
    """
    if impossible := _impossible(summary, groups):
        return impossible
    piece = PIECE_BYTES // groups.block_bytes
    small = sum(
        count for order, count in enumerate(summary.largest_free) if 2 ** (order + 2) - 2 < piece
    )
    large = sum(summary.largest_free) - small
    in_large = (large + groups.unread) * groups.blocks_each / groups.free_blocks
    in_small = (small + groups.unread) * groups.blocks_each / groups.free_blocks
    return max(0.0, 1.0 - in_large), min(1.0, in_small)


def mean_extent_bytes(
    summary: FreeSpaceSummary, groups: Groups
) -> tuple[float, float] | NotAvailable:
    """Return bounds on the mean free extent, in bytes.

    Notes
    -----
    A group is in list ``i`` if its free blocks per free extent are between ``2**(i+1)`` and twice
    that (the first list begins at 1). The number of extents is largest if as much free space as
    possible is in the groups with the smallest means, and smallest the other way round. An extent
    that continues in the next group counts twice.
    """
    if not summary.average_fragment:
        return NotAvailable("this kernel does not list groups by their mean free extent")
    if impossible := _impossible(summary, groups):
        return impossible
    if groups.unread:
        return not_available(
            "groups-unread", f"{groups.unread} of {groups.count} groups are not loaded yet"
        )
    if sum(summary.average_fragment) != sum(summary.largest_free):
        return not_available("lists-inconsistent", "the lists changed while they were read")
    orders = [(2.0 ** (i + 1) if i else 1.0, n) for i, n in enumerate(summary.average_fragment)]
    listed = sum(summary.average_fragment)
    if sum(least * count for least, count in orders) > groups.free_blocks:
        return not_available(
            "lists-inconsistent",
            "the lists do not match the free space: some of it is preallocated",
        )
    most = sum(free / least for least, free in _spread(orders, groups))
    fewest = sum(
        free / min(2 * least if least > 1 else 4.0, groups.blocks_each)
        for least, free in _spread(reversed(orders), groups)
    )
    fewest = max(1.0, fewest - listed)
    free_bytes = groups.free_blocks * groups.block_bytes
    return free_bytes / max(most, fewest), free_bytes / fewest


def one_fraction(bounds: tuple[float, float] | NotAvailable) -> float | NotAvailable:
    """Return the lower bound, the share that is certain, or why there is none."""
    if isinstance(bounds, NotAvailable):
        return bounds
    low, high = bounds
    # 0 is a measurement: report it only if it is one.
    if low > 0 or high == 0:
        return low
    return NotAvailable(
        f"between 0 and {format_percent(high, 0)}: depends on groups without a contiguous 1 MiB"
    )


def one_mean(bounds: tuple[float, float] | NotAvailable) -> float | NotAvailable:
    """Return the geometric middle of narrow bounds, or why they are too wide."""
    if isinstance(bounds, NotAvailable):
        return bounds
    low, high = bounds
    if high > low * _FACTOR**2 * 1.01:  # allows for extents that continue in the next group
        return NotAvailable(
            f"between {format_bytes(low)} and {format_bytes(high)}: the groups differ too much, "
            "and the kernel does not report the free space of each; e2freefrag counts it"
        )
    return math.sqrt(low * high)


def _impossible(summary: FreeSpaceSummary, groups: Groups) -> NotAvailable | None:
    listed = sum(summary.largest_free)
    if groups.free_blocks <= 0:
        return not_available("nothing-free", "nothing is free")
    if listed == 0:
        return NotAvailable("no group with free space has been loaded since the mount")
    room = (listed + groups.unread) * groups.blocks_each
    if groups.unread < 0 or groups.free_blocks > room:
        return not_available(
            "lists-inconsistent", "the lists do not match the size of the file system"
        )
    return None


def _spread(orders: Iterable[tuple[float, int]], groups: Groups) -> list[tuple[float, float]]:
    """Return the free blocks of each list if the first lists get as much as they can hold.

    Every listed group has at least one extent of its mean size.
    """
    lists = list(orders)
    left = groups.free_blocks - sum(least * count for least, count in lists)
    spread: list[tuple[float, float]] = []
    for least, count in lists:
        more = max(0.0, min(left, count * (groups.blocks_each - least)))
        left -= more
        spread.append((least, count * least + more))
    return spread


@dataclass(frozen=True, slots=True)
class Ext4:
    """Where a mounted ext4 keeps its tunables and counters.

    Attributes
    ----------
    device
        Kernel name of the underlying device (``dm-3``).
    variant
        ``ext4``, or ``ldiskfs`` beneath a Lustre target.
    """

    device: str
    variant: str = "ext4"

    @property
    def settings(self) -> str:
        """The sysfs directory of its settings."""
        return f"/sys/fs/{self.variant}/{self.device}"

    @property
    def statistics(self) -> str:
        """The procfs directory of its statistics."""
        return f"/proc/fs/{self.variant}/{self.device}"


def read_statistics(host: Host, ext4: Ext4) -> tuple[AllocatorStatistics | NotAvailable, str]:
    """Return the allocator's counters and the file they were read from."""
    old = f"{ext4.statistics}/mb_alloc_stats"
    path = f"{ext4.statistics}/mb_stats"
    if not host.exists(path) and host.exists(old):
        text = host.read_text(old)
        return (text if isinstance(text, NotAvailable) else parse_mb_alloc_stats(text)), old
    text = host.read_text(path)
    if isinstance(text, NotAvailable):
        return text, path
    statistics = parse_mb_stats(text)
    if isinstance(statistics, NotAvailable):
        reason = f"{path}: {statistics.reason}"
        if "counters are off" in reason:
            reason += f"; writing 1 to {ext4.settings}/mb_stats turns them on, at little cost"
        return NotAvailable(reason), path
    return statistics, path


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Facts about the free space that follow from the allocator's lists, and their file."""

    extent_mean_bytes: float | NotAvailable
    fragmented_fraction: float | NotAvailable
    source: str


def read_free_space(
    host: Host,
    ext4: Ext4,
    *,
    space: StatvfsSpace | NotAvailable,
    device_bytes: int | None,
) -> FreeSpace:
    """Return what is known of the free space without reading the bitmaps."""
    path = f"{ext4.statistics}/mb_structs_summary"
    # Read before the lists: after a mount groups are loaded all the time, and a group counted as
    # loaded must be in the lists.
    statistics, _ = read_statistics(host, ext4)
    text = host.read_text(path)
    summary = text if isinstance(text, NotAvailable) else parse_structs_summary(text)
    missing = summary if isinstance(summary, NotAvailable) else space
    if isinstance(summary, NotAvailable) or isinstance(space, NotAvailable):
        assert isinstance(missing, NotAvailable)
        return FreeSpace(missing, missing, path)
    counted = isinstance(statistics, AllocatorStatistics)
    groups = count_groups(
        summary,
        reported=(statistics.groups_loaded, statistics.groups) if counted else (None, None),
        device_bytes=device_bytes,
        block_bytes=space.block_size_bytes,
        free_blocks=space.blocks_free * space.fragment_size_bytes // space.block_size_bytes,
    )
    if isinstance(groups, NotAvailable):
        return FreeSpace(groups, groups, path)
    return FreeSpace(
        one_mean(mean_extent_bytes(summary, groups)),
        one_fraction(fragmented_fraction(summary, groups)),
        path,
    )


@contextmanager
def counting(host: Host, ext4: Ext4, *, allowed: bool) -> Iterator[NotAvailable | None]:
    """Turn the allocator's counters on inside the block, then restore ``mb_stats``.

    Yields ``None`` if the counters are on, else the reason. Writes nothing if they are on already
    or if it is not allowed.

    Raises
    ------
    ToolError
        The setting could not be restored.
    """
    path = f"{ext4.settings}/mb_stats"
    before = host.read_text(path)
    if isinstance(before, NotAvailable):
        # Without mb_stats there is the older mb_alloc_stats, which always counts.
        counts = host.exists(f"{ext4.statistics}/mb_alloc_stats")
        yield None if counts else before
        return
    if before.strip() != "0":
        yield None
        return
    if not allowed:
        yield NotAvailable(f"{path} is 0, and turning it on was not allowed")
        return
    try:
        error = host.write_text(path, "1")
        yield None if error is None else NotAvailable(f"{path}: {error.strerror}")
    finally:
        _put_back(host, path, before.strip())


def _put_back(host: Host, path: str, value: str) -> None:
    now = host.read_text(path)
    # Unmounted in the meantime: the setting is gone with the mount.
    if isinstance(now, NotAvailable) or now.strip() == value:
        return
    error = host.write_text(path, value)
    if error is not None:
        raise ToolError(
            f"{path} could not be restored to {value}: {error.strerror}",
            code="setting-not-restored",
            hint=f"restore it by hand: echo {value} > {path}",
        )
