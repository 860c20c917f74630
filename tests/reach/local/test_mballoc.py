"""Every format in which ext4 has spoken of its allocator, the recorded ones and real kernels'."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.reach.hosts import real_data
from tests.support import loopback
from tests.support.narrow import instance

from trimtab.base.snapshot import NotAvailable
from trimtab.reach.local.block_allocator import (
    AllocatorStatistics,
    CriterionStatistics,
    FreeSpaceSummary,
    parse_mb_alloc_stats,
    parse_mb_stats,
    parse_structs_summary,
)


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


def test_counters_that_are_off_are_not_zero() -> None:
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


def test_mb_alloc_stats_names_its_loops() -> None:
    statistics = parse_mb_alloc_stats(OLD.format(loops=_loops(0, 11, 22, 33, 44)))
    assert isinstance(statistics, AllocatorStatistics)
    assert statistics.family == "loops-by-number"
    assert statistics.requests == 5000
    assert {c.name: c.useless_loops for c in statistics.criteria} == {
        "cr0": 11,
        "cr1": 22,
        "cr2": 33,
        "cr3": 44,
    }


def test_the_older_labels_are_put_right() -> None:
    """Before LU-17744 loop 0's failures were printed as c1: without a c0 every name is one off."""
    statistics = parse_mb_alloc_stats(OLD.format(loops=_loops(1, 11, 22, 33)))
    assert isinstance(statistics, AllocatorStatistics)
    assert statistics.family == "loops-by-number-shifted"
    assert {c.name: c.useless_loops for c in statistics.criteria} == {
        "cr0": 11,
        "cr1": 22,
        "cr2": 33,
    }


def _summary(lists: dict[str, list[int]], optimize: int = 1) -> str:
    text = f"optimize_scan: {optimize}\n"
    for name, counts in lists.items():
        text += f"{name}:\n"
        text += "".join(f"\tlist_order_{i}_groups: {n}\n" for i, n in enumerate(counts))
    return text


def test_the_lists_of_groups() -> None:
    text = _summary({"max_free_order_lists": [0, 1, 2], "avg_fragment_size_lists": [3, 4]})
    assert parse_structs_summary(text) == FreeSpaceSummary(True, (0, 1, 2), (3, 4))


def test_the_tree_of_linux_5_14() -> None:
    text = _summary({"max_free_order_lists": [0, 1]})
    text += "fragment_size_tree:\n\ttree_min: 5\n\ttree_max: 32768\n\ttree_nodes: 12\n"
    summary = parse_structs_summary(text)
    assert summary == FreeSpaceSummary(True, (0, 1), ())


def test_a_list_with_a_gap_is_not_believed() -> None:
    text = "optimize_scan: 1\navg_fragment_size_lists:\n\tlist_order_0_groups: 1\n"
    assert isinstance(parse_structs_summary(text + "\tlist_order_2_groups: 1\n"), NotAvailable)


def test_recorded_ldiskfs_counters() -> None:
    text = real_data("lustre-2.17/mballoc/11_after_fill.out").read_text()
    statistics = instance(AllocatorStatistics, parse_mb_stats(text))
    assert (statistics.family, statistics.requests) == ("criteria-by-name", 4349)
    assert [criterion.name for criterion in statistics.criteria] == NAMED
    assert statistics.criteria[0].groups_considered == 2488


def test_every_recorded_counter_file_is_read() -> None:
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
