"""Stretches of rows, rows of a real Parquet file, and what a batch comes to.

Each against a slow and obvious twin.
"""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.run.lines import numbers
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab import _core
from trimtab.base.error import DataError, UsageError
from trimtab.purge.run.rows import (
    CAPS_WINDOW_S,
    Allowance,
    ListedRows,
    RowBatch,
    Rows,
    Spent,
    joined,
    outcome_of,
    stretches,
    without,
)
from trimtab.purge.run.situation import CandidatesListing

small_rows = st.builds(Rows, st.integers(0, 30), st.integers(0, 10))


@given(st.lists(small_rows, max_size=5), small_rows)
def test_taking_rows_out_leaves_the_others(rows, taken):
    assert numbers(without(rows, taken)) == numbers(rows) - numbers([taken])


@given(st.lists(small_rows, max_size=6))
def test_joined_rows_are_the_same_rows_in_order_and_apart(rows):
    result = joined(rows)
    assert numbers(result) == numbers(rows)
    assert all(one.count for one in result)
    assert all(one.end < other.first for one, other in pairwise(result))


@given(small_rows, st.lists(small_rows, max_size=3))
def test_a_batch_takes_what_it_does_not_leave(rows, leave):
    assert numbers(RowBatch(rows, tuple(leave)).taken()) == numbers([rows]) - numbers(leave)


def test_rows_that_cannot_be_are_refused():
    with pytest.raises(UsageError):
        Rows(-1, 3)
    listed = ListedRows(Rows(5, 2), np.zeros(2, np.uint32), np.zeros(2, np.uint64))
    with pytest.raises(UsageError):
        listed.part(Rows(4, 2))
    with raises(UsageError, "rows-out-of-range"):
        outcome_of(RowBatch(listed.rows), listed, ["gone"], freed_bytes=0, elapsed_s=0.0)
    assert stretches([]) == ()


OUTCOMES = ("deleted", "gone", "touched", "would_delete", "capped")


@given(
    st.lists(
        st.tuples(st.sampled_from(OUTCOMES), st.integers(0, 3), st.integers(0, 2**63)), max_size=20
    ),
    st.booleans(),
    st.booleans(),
)
def test_what_a_batch_came_to_is_the_sum_of_its_rows(rows, recovered, dry):
    batch = RowBatch(Rows(7, len(rows)))
    listed = ListedRows(
        batch.rows,
        np.array([uid for _, uid, _ in rows], np.uint32),
        np.array([size >> 8 for _, _, size in rows], np.uint64),
    )
    how = {"freed_bytes": 3, "elapsed_s": 1.0, "recovered": recovered, "dry": dry}
    outcome = outcome_of(batch, listed, [name for name, _, _ in rows], **how)
    wanted = {"would_delete"} if dry else {"deleted", "gone"} if recovered else {"deleted"}
    counted = [(uid, size >> 8) for name, uid, size in rows if name in wanted]
    assert (outcome.files, outcome.bytes) == (len(counted), sum(size for _, size in counted))
    for uid in range(4):
        sizes = [size for owner, size in counted if owner == uid]
        assert outcome.by_user.get(uid, (0, 0)) == (len(sizes), sum(sizes))
    assert outcome.freed_bytes == (outcome.bytes if dry else 3)
    assert [name for name, count in outcome.outcomes for _ in range(count)] == [
        name for name, _, _ in rows
    ]


def test_spending_adds_up():
    total = Spent(1, 10, {1: 10}) + Spent(2, 5, {1: 3, 2: 2})
    assert (total.files, total.bytes, dict(total.by_user)) == (3, 15, {1: 13, 2: 2})


def test_a_share_counts_as_it_is_written():
    # 0.29 * 100 is 28.999... in floating point, and 2**53 + 1 is not among its numbers at all.
    assert Allowance(user_fraction=0.29, user_bytes={1: 100}).of_user(1) == 29
    assert Allowance(user_fraction=1.0, user_bytes={1: 2**53 + 1}).of_user(1) == 2**53 + 1


def test_a_user_who_holds_nothing_known_may_lose_nothing():
    allowance = Allowance(user_fraction=0.25, user_bytes={1: 1000})
    assert (allowance.of_user(1), allowance.of_user(2)) == (250, 0)
    assert Allowance().of_user(2) is None


@for_each("most, expected", [
    (Allowance(files=10), 0.0),
    (Allowance(files=9), 3600.0),
    (Allowance(files=7, bytes=1000), 7200.0),
    (Allowance(bytes=81), 0.0),
    (Allowance(files=0), None),
    (Allowance(), None),
])  # fmt: skip
def test_a_cap_is_free_again_when_enough_of_what_used_it_up_is_long_ago(most, expected):
    """The batches leave the window in the order in which they were deleted."""
    hours = ((2, 3, 30), (0, 1, 10), (1, 1, 10), (3, 5, 40))
    batches = [Spent(n, size, {}, ((hour * 3600.0, n, size),)) for hour, n, size in hours]
    spent = sum(batches, start=Spent())
    free = spent.free_at_s(most)
    assert free == (None if expected is None else expected + CAPS_WINDOW_S)


def test_a_size_that_the_plan_knew_too_small_is_no_way_round_a_cap():
    rows = ListedRows(Rows(0, 2), np.array([7, 7], np.uint32), np.array([512, 512], np.uint64))
    for freed, counted in ((512, 1024), (4096, 4096)):
        outcome = outcome_of(
            RowBatch(Rows(0, 2)), rows, ["deleted"] * 2, freed_bytes=freed, elapsed_s=1.0
        )
        assert outcome.spent.bytes == counted


def write(path, rows, **columns):
    usual = {
        "uid": pl.Series([row % 5 for row in range(rows)], dtype=pl.UInt32),
        "allocated_bytes": pl.Series([row * 512 for row in range(rows)], dtype=pl.UInt64),
        "name": pl.Series([b"\xff\n"] * rows, dtype=pl.Binary),
    }
    pl.DataFrame(usual | columns).write_parquet(path, row_group_size=100)
    return CandidatesListing(_core.Candidates(path), rows)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write(tmp_path_factory.mktemp("plan") / "candidates.parquet", 950)


@given(st.integers(0, 949), st.integers(0, 300))
def test_any_rows_are_those_of_the_file(table, first, count):
    rows = Rows(first, min(count, 950 - first))
    result = table.listed(rows)
    assert result.rows == rows
    assert result.uids.tolist() == [row % 5 for row in range(rows.first, rows.end)]
    assert result.allocated_bytes.tolist() == [row * 512 for row in range(rows.first, rows.end)]


def test_rows_in_order_are_read_up_to_the_end_of_a_group(tmp_path, monkeypatch):
    table = write(tmp_path / "candidates.parquet", 950)
    reads = []
    real = table._read
    monkeypatch.setattr(table, "_read", lambda rows: reads.append(rows) or real(rows))
    for first in range(0, 950, 50):
        table.listed(Rows(first, 50))
    assert reads == [Rows(first, 50) for first in range(0, 950, 100)]
    table.listed(Rows(130, 100))
    table.listed(Rows(250, 50))
    assert reads[10:] == [Rows(130, 100)]


def test_the_largest_numbers_are_read_as_they_are(tmp_path):
    uids = pl.Series([2**32 - 2], dtype=pl.UInt32)
    sizes = pl.Series([2**64 - 512], dtype=pl.UInt64)
    table = write(tmp_path / "candidates.parquet", 1, uid=uids, allocated_bytes=sizes)
    result = table.listed(Rows(0, 1))
    assert (result.uids.tolist(), result.allocated_bytes.tolist()) == ([*uids], [*sizes])


def test_rows_that_there_are_not_are_refused(table):
    with raises(UsageError, "rows-out-of-range"):
        table.listed(Rows(940, 11))


def test_a_file_that_is_not_the_plans_is_an_error(tmp_path):
    path = tmp_path / "candidates.parquet"
    write(path, 10)
    with raises(DataError, "candidates-changed"):
        CandidatesListing(_core.Candidates(path), 11)
    for uids in (pl.Series([1, None], dtype=pl.UInt32), pl.Series([1, -1], dtype=pl.Int64)):
        with pytest.raises(DataError):
            write(path, 2, uid=uids).listed(Rows(0, 2))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError):
        _core.Candidates(path)
    with pytest.raises(FileNotFoundError):
        _core.Candidates(tmp_path / "none")
