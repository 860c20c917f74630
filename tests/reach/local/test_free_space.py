"""What the lists of groups prove: held against sums over made-up groups, and against e2freefrag."""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import loopback
from tests.support.narrow import instance

from trimtab.base.snapshot import NotAvailable
from trimtab.reach.local.block_allocator import (
    AllocatorStatistics,
    Ext4,
    FreeSpaceSummary,
    Groups,
    count_groups,
    fragmented_fraction,
    mean_extent_bytes,
    one_fraction,
    one_mean,
    parse_structs_summary,
    read_statistics,
)
from trimtab.reach.local.local_driver import LocalDriver

BLOCK = 4096
EACH = 8 * BLOCK
ORDERS = 14


def _summary(groups: list[list[int]], *, aligned: bool = True) -> FreeSpaceSummary:
    """Return the lists that the kernel keeps of groups, each given as its free extents.

    Parameters
    ----------
    aligned
        Whether extents begin where a large chunk can; else they lie as badly as they can, so
        that a chunk fits only if it does so wherever an extent of that size begins.
    """
    largest, average = [0] * ORDERS, [0] * ORDERS
    for extents in (one for one in groups if one):
        room = max(extents).bit_length() - 1 if aligned else (max(extents) + 1).bit_length() - 2
        largest[min(ORDERS - 1, room)] += 1
        mean = sum(extents) // len(extents)
        average[min(ORDERS - 1, max(0, mean.bit_length() - 2))] += 1
    return FreeSpaceSummary(True, tuple(largest), tuple(average))


def _groups(groups: list[list[int]], unread: int = 0) -> Groups:
    free = sum(map(sum, groups))
    return Groups(len(groups), unread, EACH, BLOCK, free)


# Extents of a group with at least a block between them: from one whole group to thousands.
group = st.one_of(
    st.just([EACH]),
    st.just([]),
    st.lists(st.integers(1, 400), min_size=1, max_size=60),
    st.builds(lambda size, count: [size] * count, st.integers(1, 300), st.integers(1, 100)),
    st.builds(lambda large, small: [large] + [1] * small, st.integers(1, 20_000), st.just(500)),
)


@given(st.lists(group, min_size=1, max_size=40), st.booleans())
def test_the_bounds_hold_whatever_the_groups_are(groups: list[list[int]], aligned: bool) -> None:
    free = sum(map(sum, groups))
    summary, counted = _summary(groups, aligned=aligned), _groups(groups)
    fractions, means = fragmented_fraction(summary, counted), mean_extent_bytes(summary, counted)
    if free == 0:
        assert isinstance(fractions, NotAvailable)
        assert isinstance(means, NotAvailable)
        return
    assert not isinstance(fractions, NotAvailable)
    assert not isinstance(means, NotAvailable)
    mean = free / sum(map(len, groups)) * BLOCK
    assert means[0] <= mean * 1.000001
    assert mean <= means[1] * 1.000001
    small = sum(sum(extents) for extents in groups if extents and max(extents) < 256)
    assert fractions[0] <= small / free + 1e-9
    # A largest chunk of order 7 may belong to an extent of 1 MiB that lies across chunks.
    certain = sum(sum(extents) for extents in groups if extents and max(extents) < 128)
    assert certain / free <= fractions[1] + 1e-9
    middle = one_mean(means)
    if isinstance(middle, float):
        assert mean / 2.02 <= middle <= mean * 2.02


@given(st.lists(group, min_size=2, max_size=20), st.integers(1, 10))
def test_groups_that_were_not_read_may_hold_anything(groups: list[list[int]], hidden: int) -> None:
    """The bound is of all free space, whichever groups the lists leave out."""
    hidden = min(hidden, len(groups) - 1)
    free = sum(map(sum, groups))
    counted = Groups(len(groups), hidden, EACH, BLOCK, free)
    fractions = fragmented_fraction(_summary(groups[hidden:]), counted)
    if isinstance(fractions, NotAvailable):
        return
    small = sum(sum(extents) for extents in groups if extents and max(extents) < 256)
    assert fractions[0] <= small / free + 1e-9
    assert isinstance(mean_extent_bytes(_summary(groups[hidden:]), counted), NotAvailable)


def test_nearly_full_groups_do_not_stand_for_the_free_space() -> None:
    """18 groups with a few small holes and 14 that are empty: the holes are next to nothing."""
    groups = [[4] * 40] * 18 + [[EACH]] * 14
    summary, counted = _summary(groups), _groups(groups)
    assert isinstance(one_mean(mean_extent_bytes(summary, counted)), NotAvailable)
    fraction = instance(float, one_fraction(fragmented_fraction(summary, counted)))
    assert fraction < 0.01


def test_a_comb_is_seen_for_what_it_is() -> None:
    groups = [[16] * 1024] * 32
    summary, counted = _summary(groups), _groups(groups)
    mean = instance(float, one_mean(mean_extent_bytes(summary, counted)))
    assert 16 * BLOCK / 2 < mean < 16 * BLOCK * 2
    assert one_fraction(fragmented_fraction(summary, counted)) == 1.0


def test_nothing_small_is_a_measured_zero() -> None:
    assert one_fraction(fragmented_fraction(_summary([[EACH]] * 3), _groups([[EACH]] * 3))) == 0.0


LISTS = FreeSpaceSummary(True, (0, 0, 0, 16, *[0] * 10), (0, 0, 0, 16, *[0] * 10))
SIZE = 32 * EACH * BLOCK


@pytest.mark.parametrize(
    ("told", "size", "unread"),
    [
        ((32, 32), SIZE, 0),  # all were read: those that are not listed are full
        ((20, 32), SIZE, 12),
        ((50, 32), SIZE, 0),  # some were read twice
        ((16, 32), SIZE, 16),
        ((None, None), SIZE, 16),
        ((None, None), SIZE // 2, 0),
    ],
)
def test_which_groups_the_lists_leave_out(
    told: tuple[int | None, int | None], size: int, unread: int
) -> None:
    groups = count_groups(LISTS, reported=told, device_bytes=size, block_bytes=BLOCK, free_blocks=9)
    assert isinstance(groups, Groups)
    assert groups.unread == unread


@pytest.mark.parametrize(
    ("lists", "told", "size", "reason"),
    [
        (FreeSpaceSummary(False, (0,) * 14, (0,) * 14), (32, 32), SIZE, "optimize_scan is 0"),
        (LISTS, (2, 2), SIZE, "bigalloc clusters"),
        (LISTS, (32, 32), None, "size of the device"),
    ],
)
def test_no_lists_no_number(
    lists: FreeSpaceSummary, told: tuple[int, int], size: int | None, reason: str
) -> None:
    groups = count_groups(lists, reported=told, device_bytes=size, block_bytes=BLOCK, free_blocks=9)
    assert isinstance(groups, NotAvailable)
    assert reason in groups.reason


@pytest.mark.parametrize(
    ("lists", "groups", "reason"),
    [
        (LISTS, Groups(32, 0, EACH, BLOCK, 0), "nothing is free"),
        (LISTS, Groups(8, -8, EACH, BLOCK, 9), "do not match the size"),
        (LISTS, Groups(32, 0, EACH, BLOCK, 17 * EACH), "do not match the size"),
        (LISTS, Groups(32, 0, EACH, BLOCK, 9), "some of it is preallocated"),
        (FreeSpaceSummary(True, (0,) * 14, (0,) * 14), Groups(9, 9, EACH, BLOCK, 9), "no group"),
        (FreeSpaceSummary(True, LISTS.largest_free, ()), Groups(16, 0, EACH, BLOCK, 9), "kernel"),
        (
            FreeSpaceSummary(True, LISTS.largest_free, (15, *[0] * 13)),
            Groups(16, 0, EACH, BLOCK, 999),
            "changed while",
        ),
    ],
)
def test_lists_that_cannot_be_right(lists: FreeSpaceSummary, groups: Groups, reason: str) -> None:
    mean = instance(NotAvailable, mean_extent_bytes(lists, groups))
    assert reason in mean.reason


def _churn(mount_point: Path, fullness: float, *, median_bytes: int = 256 * 1024) -> None:
    """Create and delete files of very different sizes until the space was used twice."""
    chance = random.Random(7)
    status = os.statvfs(mount_point)
    capacity = status.f_blocks * status.f_frsize
    files: list[tuple[Path, int]] = []
    created = used = 0
    while created < 2 * capacity:
        size = min(int(chance.lognormvariate(0, 2) * median_bytes) + BLOCK, 64 * loopback.MIB)
        while used + size > fullness * capacity:
            gone, its_size = files.pop(chance.randrange(len(files)))
            gone.unlink()
            used -= its_size
        path = mount_point / str(created)
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        files.append((path, size))
        created, used = created + size, used + size


def _small_share(device: Path) -> tuple[float, float]:
    """Return the share of free blocks in extents under 1 MiB, and the mean extent in bytes."""
    text = subprocess.run(
        ["e2freefrag", str(device)], check=True, capture_output=True, text=True
    ).stdout
    rows = re.findall(r"^\s*\w+?([KMG])\.\.\.\s*\w+-?\s*:\s*(\d+)\s+(\d+)", text, re.MULTILINE)
    free, extents = sum(int(row[2]) for row in rows), sum(int(row[1]) for row in rows)
    small = sum(int(row[2]) for row in rows if row[0] == "K")
    return small / free, free / extents * BLOCK


STATES: dict[str, tuple[Callable[[Path], object], float]] = {
    "empty": (lambda mount_point: (mount_point / "file").write_bytes(b"x"), 0.0),
    "ordinary use at 56 %": (lambda mount_point: _churn(mount_point, 0.56), 0.0),
    "many small files at 90 %": (
        lambda mount_point: _churn(mount_point, 0.9, median_bytes=32 * 1024),
        0.0,
    ),
    "punched comb": (loopback.fragment_ext4, 0.95),
    "nearly full": (lambda mount_point: loopback.fill_to(mount_point, 0.97), 0.0),
}
"""How each state is made, and how much of its free space must be seen as fragmented at least."""


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
@pytest.mark.parametrize("state", STATES)
def test_what_is_proved_agrees_with_e2freefrag(state: str, tmp_path: Path) -> None:
    """Small groups give many groups on a small device; ``mb_optimize_scan`` keeps the lists."""
    make, at_least = STATES[state]
    with loopback.mounted(
        tmp_path,
        size_bytes=loopback.GIB,
        mkfs_options=("-g", "8192"),
        options="mb_optimize_scan=1",
    ) as scratch:
        name = scratch.device.name
        Path(f"/sys/fs/ext4/{name}/mb_stats").write_text("1\n")
        make(scratch.mount_point)
        subprocess.run(["sync", "-f", str(scratch.mount_point)], check=True)
        share, mean = _small_share(scratch.device.path)
        statistics, _ = read_statistics(LocalDriver("/").host, Ext4(name))
        assert isinstance(statistics, AllocatorStatistics)
        text = Path(f"/proc/fs/ext4/{name}/mb_structs_summary").read_text()
        summary = instance(FreeSpaceSummary, parse_structs_summary(text))
        status = os.statvfs(scratch.mount_point)
        groups = count_groups(
            summary,
            reported=(statistics.groups_loaded, statistics.groups),
            device_bytes=loopback.GIB,
            block_bytes=BLOCK,
            free_blocks=status.f_bfree,
        )
        assert isinstance(groups, Groups)
        fractions = fragmented_fraction(summary, groups)
        assert not isinstance(fractions, NotAvailable)
        assert at_least <= fractions[0] <= share + 0.01
        means = mean_extent_bytes(summary, groups)
        if isinstance(means, NotAvailable):
            assert "not loaded yet" in means.reason
        else:
            assert means[0] * 0.98 <= mean <= means[1] * 1.02
