"""What ext4 and ldiskfs tell of their allocator: counters of every kernel, and lists of groups."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.reach.hosts import host, real_data, recorded
from tests.support import loopback
from tests.support.codes import raises
from tests.support.narrow import instance, present

from trimtab.base.error import ToolError
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.block_allocator import (
    AllocatorStatistics,
    CriterionStatistics,
    Ext4,
    FreeSpaceSummary,
    Groups,
    count_groups,
    counting,
    fragmented_fraction,
    mean_extent_bytes,
    one_fraction,
    one_mean,
    parse_mb_alloc_stats,
    parse_mb_stats,
    parse_structs_summary,
    read_free_space,
    read_statistics,
)
from trimtab.reach.host import Host
from trimtab.reach.local_driver import LocalDriver
from trimtab.reach.touch import StatvfsSpace


def _mb_stats(names: list[str], *, scanned: bool = True) -> str:
    lines = ["mballoc:", "\treqs: 4349", "\tsuccess: 4349", "\tgroups_scanned: 1243"]
    for number, name in enumerate(names):
        lines += [f"\t{name}_stats:", f"\t\thits: {number + 1}"]
        lines += [f"\t\tgroups_considered: {number + 10}"]
        lines += [f"\t\textents_scanned: {number + 20}"] if scanned else []
        lines += [f"\t\tuseless_loops: {number + 30}"]
    lines += ["\textents_scanned: 1243", "\t\tgoal_hits: 7", "\t\tlost: 0"]
    lines += ["\tbuddies_generated: 30/32", "\tbuddies_time_used: 621068", "\tdiscarded: 0"]
    return "\n".join(lines) + "\n"


NAMED = ["cr_p2_aligned", "cr_goal_fast", "cr_best_avail", "cr_goal_slow", "cr_any_free"]


@pytest.mark.parametrize(
    ("names", "family"),
    [
        (NAMED, "criteria-by-name"),
        (["cr0", "cr1", "cr2", "cr3"], "criteria-by-number"),
        (["cr0", "cr1", "cr1.5", "cr2", "cr3"], "criteria-by-number"),
    ],
)
@pytest.mark.parametrize("scanned", [True, False])
def test_mb_stats_of_every_kernel(names: list[str], family: str, scanned: bool) -> None:
    statistics = parse_mb_stats(_mb_stats(names, scanned=scanned))
    assert statistics == AllocatorStatistics(
        family=family,
        requests=4349,
        criteria=tuple(
            CriterionStatistics(name, i + 30, i + 10, i + 1) for i, name in enumerate(names)
        ),
        groups_loaded=30,
        groups=32,
    )
    text = 'mballoc:\n\tmb stats collection turned off.\n\tTo enable, please write "1" ...\n'
    assert parse_mb_stats(text) == NotAvailable("the counters are off (mb_stats is 0)")


@pytest.mark.parametrize("kernel", ["new", "old"])
def test_a_cut_file_gives_no_number(kernel: str) -> None:
    new = kernel == "new"
    whole = _mb_stats(NAMED) if new else OLD.format(loops=_loops(0, 11, 22, 33, 44))
    parse = parse_mb_stats if new else parse_mb_alloc_stats
    full = instance(AllocatorStatistics, parse(whole))
    for end in range(len(whole)):
        cut = parse(whole[:end])
        assert cut == full or isinstance(cut, NotAvailable)


@given(st.text(max_size=300))
@example("name ²")  # a digit to str.isdigit, and none to int
def test_rubbish_gives_a_reason(text: str) -> None:
    for parse in (parse_mb_stats, parse_mb_alloc_stats, parse_structs_summary):
        answer = instance(NotAvailable, parse(text))
        assert answer.reason


OLD = """mballoc:
\tblocks: 102400
\treqs: 5000
\tsuccess: 4990
\textents_scanned: 6000
\t\tgoal_hits: 3000
\t\t2^n_hits: 1000
\t\tbreaks: 4
\t\tlost: 0
{loops}
\tskipped_c0_loops: 400
\tskipped_c1_loops: 20
\tskipped_c2_loops: 0
\tbuddies_generated: 800
\tbuddies_time_used: 1234567
\tpreallocated: 99
\tdiscarded: 1
"""


def _loops(first: int, *values: int) -> str:
    return "\n".join(f"\tuseless_c{first + i}_loops: {value}" for i, value in enumerate(values))


@pytest.mark.parametrize(
    ("first", "useless", "family"),
    [
        (0, (11, 22, 33, 44), "loops-by-number"),
        # Before LU-17744 loop 0's failures were printed as c1: without a c0 every name is one off.
        (1, (11, 22, 33), "loops-by-number-shifted"),
    ],
)
def test_mb_alloc_stats_names_its_loops(first: int, useless: tuple[int, ...], family: str) -> None:
    text = OLD.format(loops=_loops(first, *useless))
    statistics = instance(AllocatorStatistics, parse_mb_alloc_stats(text))
    assert (statistics.family, statistics.requests) == (family, 5000)
    told = [(one.name, one.useless_loops) for one in statistics.criteria]
    assert told == [(f"cr{number}", count) for number, count in enumerate(useless)]


def _lists(lists: dict[str, list[int]], optimize: int = 1) -> str:
    text = f"optimize_scan: {optimize}\n"
    for name, counts in lists.items():
        text += f"{name}:\n"
        text += "".join(f"\tlist_order_{i}_groups: {n}\n" for i, n in enumerate(counts))
    return text


def test_the_lists_of_groups() -> None:
    text = _lists({"max_free_order_lists": [0, 1, 2], "avg_fragment_size_lists": [3, 4]})
    assert parse_structs_summary(text) == FreeSpaceSummary(True, (0, 1, 2), (3, 4))
    # Linux 5.14 has a tree.
    text = _lists({"max_free_order_lists": [0, 1]})
    text += "fragment_size_tree:\n\ttree_min: 5\n\ttree_max: 32768\n\ttree_nodes: 12\n"
    assert parse_structs_summary(text) == FreeSpaceSummary(True, (0, 1), ())
    # A list with a gap is not believed.
    text = _lists({"avg_fragment_size_lists": [1]}) + "\tlist_order_2_groups: 1\n"
    assert isinstance(parse_structs_summary(text), NotAvailable)


def test_every_recorded_counter_file_is_read() -> None:
    text = recorded("mballoc/11_after_fill")
    statistics = instance(AllocatorStatistics, parse_mb_stats(text))
    assert (statistics.family, statistics.requests) == ("criteria-by-name", 4349)
    assert [criterion.name for criterion in statistics.criteria] == NAMED
    assert statistics.criteria[0].groups_considered == 2488
    read = 0
    for path in sorted(real_data("lustre-2.17/mballoc").glob("*.out")):
        blocks = re.split(r"(?m)^(?=mballoc:)", path.read_text(errors="replace"))
        for text in (block for block in blocks if block.startswith("mballoc:")):
            statistics = parse_mb_stats(text)
            if "turned off" in text:
                assert isinstance(statistics, NotAvailable)
            elif "discarded:" in text:
                assert isinstance(statistics, AllocatorStatistics), path
                read += 1
    assert read >= 5


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_this_kernels_own_files_are_read(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, size_bytes=3 * loopback.GIB) as scratch:
        name = scratch.device.name
        Path(f"/sys/fs/ext4/{name}/mb_stats").write_text("1\n")
        loopback.fragment_ext4(scratch.mount_point)
        statistics = parse_mb_stats(Path(f"/proc/fs/ext4/{name}/mb_stats").read_text())
        assert isinstance(statistics, AllocatorStatistics)
        assert statistics.groups == 24
        assert statistics.requests > 0
        summary = parse_structs_summary(
            Path(f"/proc/fs/ext4/{name}/mb_structs_summary").read_text()
        )
        assert isinstance(summary, FreeSpaceSummary)
        assert sum(summary.average_fragment) == sum(summary.largest_free) == 24
        # Every free extent is a hole of 64 KiB, that is 16 blocks.
        assert not any(summary.largest_free[5:])


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
    # A comb is seen for what it is.
    groups = [[16] * 1024] * 32
    summary, counted = _summary(groups), _groups(groups)
    mean = instance(float, one_mean(mean_extent_bytes(summary, counted)))
    assert 16 * BLOCK / 2 < mean < 16 * BLOCK * 2
    assert one_fraction(fragmented_fraction(summary, counted)) == 1.0
    # Nothing small is a measured zero.
    assert one_fraction(fragmented_fraction(_summary([[EACH]] * 3), _groups([[EACH]] * 3))) == 0.0


LISTS = FreeSpaceSummary(True, (0, 0, 0, 16, *[0] * 10), (0, 0, 0, 16, *[0] * 10))
SIZE = 32 * EACH * BLOCK


@pytest.mark.parametrize(
    ("lists", "told", "size", "found"),
    [
        (LISTS, (32, 32), SIZE, 0),  # all were read: those that are not listed are full
        (LISTS, (20, 32), SIZE, 12),
        (LISTS, (50, 32), SIZE, 0),  # some were read twice
        (LISTS, (16, 32), SIZE, 16),
        (LISTS, (None, None), SIZE, 16),
        (LISTS, (None, None), SIZE // 2, 0),
        (FreeSpaceSummary(False, (0,) * 14, (0,) * 14), (32, 32), SIZE, "optimize_scan is 0"),
        (LISTS, (2, 2), SIZE, "bigalloc clusters"),
        (LISTS, (32, 32), None, "size of the device"),
    ],
)
def test_which_groups_the_lists_leave_out(
    lists: FreeSpaceSummary, told: tuple[int | None, int | None], size: int | None, found: int | str
) -> None:
    groups = count_groups(lists, reported=told, device_bytes=size, block_bytes=BLOCK, free_blocks=9)
    if isinstance(found, int):
        assert instance(Groups, groups).unread == found
    else:
        assert found in instance(NotAvailable, groups).reason


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


NVME = Ext4("nvme0n1p2")
SPACE = StatvfsSpace(4096, 4096, 3_700_000_000, 1_000_000, 900_000, 100, 60, 0)


def _machine(tmp_path: Path, mb_stats: str) -> Host:
    settings = tmp_path / "sys/fs/ext4/dm-0"
    settings.mkdir(parents=True)
    (settings / "mb_stats").write_text(f"{mb_stats}\n")
    return Host(str(tmp_path))


def _value(machine: Host) -> str:
    return machine.path("/sys/fs/ext4/dm-0/mb_stats").read_text().strip()


def test_counters_that_are_off_say_how_to_turn_them_on(tmp_path: Path) -> None:
    statistics, source = read_statistics(host("nvme-partition"), NVME)
    assert isinstance(statistics, NotAvailable)
    assert "writing 1 to /sys/fs/ext4/nvme0n1p2/mb_stats" in statistics.reason
    assert source == "/proc/fs/ext4/nvme0n1p2/mb_stats"
    folder = tmp_path / "proc/fs/ldiskfs/sdb"
    folder.mkdir(parents=True)
    (folder / "mb_alloc_stats").write_text(
        "mballoc:\n\treqs: 5\n\tuseless_c1_loops: 2\n\tdiscarded: 0\n"
    )
    statistics, source = read_statistics(Host(str(tmp_path)), Ext4("sdb", "ldiskfs"))
    assert isinstance(statistics, AllocatorStatistics)
    assert statistics.criteria[0].name == "cr0"
    assert source == "/proc/fs/ldiskfs/sdb/mb_alloc_stats"


def test_lists_that_leave_groups_out_give_no_number() -> None:
    """A disk of 15 TB and lists of 8 groups: nearly all groups were not read since the mount."""
    machine = host("nvme-partition")
    free = read_free_space(machine, NVME, space=SPACE, device_bytes=15362990366720)
    reason = instance(NotAvailable, free.extent_mean_bytes).reason
    assert "of 114464 groups are not loaded yet" in reason
    assert isinstance(free.fragmented_fraction, NotAvailable)
    assert free.source == "/proc/fs/ext4/nvme0n1p2/mb_structs_summary"
    # Without the free space nothing is known of it.
    silent = NotAvailable("/ did not answer in 10 s")
    free = read_free_space(machine, NVME, space=silent, device_bytes=1)
    assert (free.extent_mean_bytes, free.fragmented_fraction) == (silent, silent)


@pytest.mark.parametrize("leave", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_counting_is_put_back_on_every_way_out(
    leave: type[BaseException] | None, tmp_path: Path
) -> None:
    machine = _machine(tmp_path, "0")

    leaving = nullcontext() if leave is None else pytest.raises(leave)
    with leaving, counting(machine, Ext4("dm-0"), allowed=True) as why_not:
        assert why_not is None
        assert _value(machine) == "1"
        if leave is not None:
            raise leave
    assert _value(machine) == "0"


@pytest.mark.parametrize("before", ["1", "3"])
def test_what_counts_already_is_left_alone(before: str, tmp_path: Path) -> None:
    machine = _machine(tmp_path, before)
    os.utime(machine.path("/sys/fs/ext4/dm-0/mb_stats"), (0, 0))
    with counting(machine, Ext4("dm-0"), allowed=True) as why_not:
        assert why_not is None
    assert _value(machine) == before
    assert machine.modified_at_s("/sys/fs/ext4/dm-0/mb_stats") == 0


def test_nothing_is_written_unless_it_is_allowed_and_an_unmount_meanwhile_is_no_error(
    tmp_path: Path,
) -> None:
    machine = _machine(tmp_path, "0")
    with counting(machine, Ext4("dm-0"), allowed=False) as why_not:
        assert isinstance(why_not, NotAvailable)
        assert _value(machine) == "0"
    with counting(machine, Ext4("dm-0"), allowed=True):
        machine.path("/sys/fs/ext4/dm-0/mb_stats").unlink()
    with counting(machine, Ext4("dm-0"), allowed=True) as why_not:  # a kernel without the setting
        assert isinstance(why_not, NotAvailable)


def test_a_setting_that_cannot_be_put_back_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = _machine(tmp_path, "0")
    write = Host.write_text

    def fails_on_0(self: Host, path: str, value: str) -> OSError | None:
        return OSError(30, "Read-only file system") if value == "0" else write(self, path, value)

    monkeypatch.setattr(Host, "write_text", fails_on_0)
    with (
        raises(ToolError, "setting-not-restored", "restored to 0"),
        counting(machine, Ext4("dm-0"), allowed=True),
    ):
        pass


_opened: list[str] = []
_listening = False


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if _listening and event == "open":
        _opened.append(
            os.fsdecode(arguments[0]) if isinstance(arguments[0], bytes) else str(arguments[0])
        )


@pytest.fixture
def opened() -> Callable[[], list[str]]:
    """Return what this process opened since; an audit hook sees it all, and stays for ever."""
    global _listening  # noqa: PLW0603
    if not hasattr(sys, "_trimtab_listens"):
        sys.addaudithook(_listen)
        sys._trimtab_listens = True  # type: ignore[attr-defined]
    _opened.clear()
    _listening = True

    def stop() -> list[str]:
        global _listening  # noqa: PLW0603
        _listening = False
        return list(_opened)

    return stop


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_snapshot_never_opens_mb_groups(opened: Callable[[], list[str]], tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        target = driver.targets()[0].name
        with driver.allocator_counting(target, allowed=True):
            driver.snapshot(datetime.now(UTC))
        driver.settings(target)
        driver.trim_practice(target)
        seen = opened()
        assert any(path.endswith("mb_structs_summary") for path in seen)
        assert not any(path.endswith("mb_groups") for path in seen)


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_useless_loops_are_counted_while_it_counts(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, size_bytes=3 * loopback.GIB) as scratch:
        loopback.fragment_ext4(scratch.mount_point)
        driver = LocalDriver(str(scratch.mount_point))
        target, now = driver.targets()[0].name, datetime.now(UTC)
        assert driver.snapshot(now).targets[0].value("allocator_requests_total") is None
        with driver.allocator_counting(target, allowed=True) as why_not:
            assert why_not is None
            before = driver.snapshot(now).targets[0]
            loopback.ext4_allocate_large(scratch.mount_point)
            after = driver.snapshot(now).targets[0]
        name = "allocator_useless_loops_total"
        grown = sum(after.labelled(name).values()) - sum(before.labelled(name).values())
        requests = present(after.number("allocator_requests_total"))
        assert grown > 100
        assert grown / requests > 0.01
        mean = present(after.number("free_extent_mean_bytes"))
        assert 32 * 1024 < mean < 128 * 1024
        fragmented = present(after.number("free_space_fragmented_fraction"))
        assert fragmented > 0.9
        setting = Path(f"/sys/fs/ext4/{scratch.device.name}/mb_stats")
        assert setting.read_text().strip() == "0"
