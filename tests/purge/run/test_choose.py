"""Which rows come next, against a loop over them that anybody can follow."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.purge.run.exchange import StopReason
from trimtab.purge.run.next_batch import choose
from trimtab.purge.run.rows import Allowance, ListedRows, RowBatch, Rows, Spent


def listed(pairs, first=0):
    return ListedRows(
        Rows(first, len(pairs)),
        np.array([uid for uid, _ in pairs], np.uint32),
        np.array([size for _, size in pairs], np.uint64),
    )


def twin(pairs, spent, allowance, stopped, needed):
    """Return rows dealt with, those left alone, users stopped, and the cap that stops the run."""
    files, size, users = spent.files, spent.bytes, dict(spent.by_user)
    stopped, left, reached = set(stopped), [], 0
    for row, (uid, one) in enumerate(pairs):
        most = allowance.of_user(uid)
        keep = uid in stopped and most is not None
        if allowance.bytes is not None and one > allowance.bytes:
            keep = True
        elif not keep and most is not None and users.get(uid, 0) + one > most and users.get(uid, 0):
            keep = True
            stopped.add(uid)
        elif not keep and most is not None and users.get(uid, 0) == 0 and (uid, "began") in users:
            keep = one > most
            if keep:
                stopped.add(uid)
        if keep:
            left.append(row)
            continue
        if allowance.files is not None and files + 1 > allowance.files:
            return row, left, stopped, StopReason.FILES_CAP
        if allowance.bytes is not None and size + one > allowance.bytes:
            return row, left, stopped, StopReason.BYTES_CAP
        files, size, reached = files + 1, size + one, reached + one
        users[uid] = users.get(uid, 0) + one
        users[uid, "began"] = True
        if needed is not None and reached >= needed:
            return row + 1, left, stopped, None
    return len(pairs), left, stopped, None


SIZES = st.integers(1, 50)


@given(
    st.lists(st.tuples(st.integers(0, 3), SIZES), min_size=1, max_size=25),
    st.builds(
        Allowance,
        st.none() | st.integers(0, 30),
        st.none() | st.integers(0, 400),
        st.none() | st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        st.dictionaries(st.integers(0, 3), st.integers(0, 300)),
    ),
    st.builds(
        Spent,
        st.integers(0, 10),
        st.integers(0, 100),
        st.dictionaries(st.integers(0, 3), st.integers(1, 60)),
    ),
    st.frozensets(st.integers(0, 3), max_size=2),
    st.none() | st.integers(1, 300),
)
def test_the_rows_are_those_of_a_plain_loop(pairs, allowance, spent, stopped, needed):
    result = choose(
        listed(pairs, 100),
        spent=spent,
        allowance=allowance,
        stopped_users=stopped,
        needed_bytes=needed,
    )
    count, left, now_stopped, capped = twin(pairs, spent, allowance, stopped, needed)
    if not count:
        assert result.batch is None
        assert result.capped is capped
        return
    assert result.batch is not None
    assert result.batch.rows == Rows(100, count)
    kept = [row - 100 for one in result.batch.leave for row in range(one.first, one.end)]
    assert kept == [row for row in left if row < count]
    if allowance.user_fraction is not None:
        assert result.stopped_users == now_stopped | stopped


def test_without_limits_everything_is_taken():
    result = choose(listed([(1, 5)] * 4), spent=Spent(), allowance=Allowance())
    assert result.batch == RowBatch(Rows(0, 4))


def test_it_ends_with_the_row_that_reaches_the_need():
    result = choose(listed([(1, 5)] * 4), spent=Spent(), allowance=Allowance(), needed_bytes=11)
    assert result.batch == RowBatch(Rows(0, 3))


def test_a_user_with_much_old_data_does_not_stop_the_others():
    allowance = Allowance(user_fraction=0.5, user_bytes={1: 20, 2: 100})
    pairs = [(1, 5), (1, 5), (1, 5), (2, 5), (1, 1), (2, 5)]
    result = choose(listed(pairs), spent=Spent(), allowance=allowance)
    assert result.batch == RowBatch(Rows(0, 6), (Rows(2, 1), Rows(4, 1)))
    assert result.stopped_users == {1}


def test_a_cap_that_only_rows_behind_the_batch_would_meet_stops_nobody():
    allowance = Allowance(user_fraction=0.5, user_bytes={1: 20})
    result = choose(
        listed([(1, 5), (1, 5), (1, 5)]), spent=Spent(), allowance=allowance, needed_bytes=5
    )
    assert result.batch == RowBatch(Rows(0, 1))
    assert result.stopped_users == frozenset()


def test_the_only_file_of_a_user_may_go_however_large_its_share():
    allowance = Allowance(user_fraction=0.25, user_bytes={1: 100})
    result = choose(listed([(1, 100), (1, 1)]), spent=Spent(), allowance=allowance)
    assert result.batch == RowBatch(Rows(0, 2), (Rows(1, 1),))


def test_a_file_larger_than_the_whole_cap_is_passed_over_and_not_in_the_way():
    result = choose(listed([(1, 500), (1, 5)]), spent=Spent(), allowance=Allowance(bytes=100))
    assert result.batch == RowBatch(Rows(0, 2), (Rows(0, 1),))


def test_sizes_that_no_disk_has_get_round_no_cap():
    pairs = [(1, 2**63), (1, 2**63), (1, 2**63)]
    result = choose(listed(pairs), spent=Spent(), allowance=Allowance(bytes=2**63))
    assert result.batch == RowBatch(Rows(0, 1))


def test_a_cap_that_is_reached_leaves_no_batch():
    result = choose(listed([(1, 5)]), spent=Spent(files=3), allowance=Allowance(files=3))
    assert result.batch is None
    assert result.capped is StopReason.FILES_CAP
