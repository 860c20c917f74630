"""Bounds on ext4's free-space fragmentation, from its lists of block groups. Pure.

The kernel lists how many groups have which largest free chunk and which mean free extent, but not
how much is free in each. The lists count a nearly full group with a few small holes like an empty
one, so the mean over groups says nothing about the free space. The bounds follow from the total
number of free blocks, which must fit somewhere::

    free blocks (statvfs) ──┐
    groups by largest chunk ┼─> at least / at most so much lies in groups without 1 MiB in a piece
    groups by mean extent ──┴─> at least / at most so many extents

Blocks preallocated for open files are free to statvfs and used to the lists.

Sources: fs/ext4/mballoc.c (``mb_avg_fragment_size_order``, ``mb_set_largest_free_order``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trimtab.drivers.local.mballoc import FreeSpaceSummary
from trimtab.model.telemetry import NotAvailable, not_available
from trimtab.units import format_bytes, format_percent

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
