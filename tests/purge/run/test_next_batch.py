"""Which rows come next, against a loop over them that anybody can follow, and how many.

How many: more by a constant, less by half, then pauses that double and halve.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.narrow import present

from trimtab.base.error import UsageError
from trimtab.purge.run.next_batch import Pace, PaceLimits, Unjudged, choose, first_pace, next_pace
from trimtab.purge.run.rows import Allowance, BatchOutcome, ListedRows, RowBatch, Rows, Spent
from trimtab.purge.run.situation import StopReason


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
    terms = {"spent": spent, "allowance": allowance, "needed_bytes": needed}
    result = choose(listed(pairs, 100), stopped_users=stopped, **terms)
    count, left, now_stopped, capped = twin(pairs, spent, allowance, stopped, needed)
    if not count:
        assert (result.batch, result.capped) == (None, capped)
        return
    batch = present(result.batch)
    assert batch.rows == Rows(100, count)
    kept = [row - 100 for one in batch.leave for row in range(one.first, one.end)]
    assert kept == [row for row in left if row < count]
    if allowance.user_fraction is not None:
        assert result.stopped_users == now_stopped | stopped


def test_a_user_with_much_old_data_does_not_stop_the_others():
    allowance = Allowance(user_fraction=0.5, user_bytes={1: 20, 2: 100})
    pairs = [(1, 5), (1, 5), (1, 5), (2, 5), (1, 1), (2, 5)]
    result = choose(listed(pairs), spent=Spent(), allowance=allowance)
    assert result.batch == RowBatch(Rows(0, 6), (Rows(2, 1), Rows(4, 1)))
    assert result.stopped_users == {1}
    # A cap that only rows behind the batch would meet stops nobody.
    result = choose(listed(pairs[:3]), spent=Spent(), allowance=allowance, needed_bytes=5)
    assert (result.batch, result.stopped_users) == (RowBatch(Rows(0, 1)), frozenset())


def test_the_only_file_of_a_user_may_go_however_large_its_share():
    allowance = Allowance(user_fraction=0.25, user_bytes={1: 100})
    for pairs, leave in (([(1, 100)], ()), ([(1, 100), (1, 1)], (Rows(1, 1),))):
        result = choose(listed(pairs), spent=Spent(), allowance=allowance)
        assert result.batch == RowBatch(Rows(0, len(pairs)), leave)


def test_a_file_larger_than_the_whole_cap_is_passed_over_and_not_in_the_way():
    result = choose(listed([(1, 500), (1, 5)]), spent=Spent(), allowance=Allowance(bytes=100))
    assert result.batch == RowBatch(Rows(0, 2), (Rows(0, 1),))


def test_sizes_that_no_disk_has_get_round_no_cap():
    pairs = [(1, 2**63), (1, 2**63), (1, 2**63)]
    result = choose(listed(pairs), spent=Spent(), allowance=Allowance(bytes=2**63))
    assert result.batch == RowBatch(Rows(0, 1))


LIMITS = PaceLimits(
    rows_min=10,
    rows_max=100,
    rows_step=20,
    latency_s_max=0.05,
    batch_s_max=10.0,
    pause_s_step=0.5,
    pause_s_max=3.0,
)
GOOD = BatchOutcome(RowBatch(Rows(0, 200)), (("deleted", 200),), 200, 1, 1, {}, 0.5, 0.001, 0.01)
LATE = replace(GOOD, latency_s_p99=0.06)
LONG = replace(GOOD, elapsed_s=11.0)
NOTHING = replace(GOOD, latency_s_median=None, latency_s_p99=None)
BUSY_S, QUIET_S, SPIKE_S = 1.0, 0.0005, 3.0


def batch(rows, latencies_s, elapsed_s=None):
    """Return the outcome of rows with these latencies, quantiles as the core takes them."""
    ordered = np.sort(latencies_s)
    median, p99 = (float(ordered[max(1, math.ceil(rows * part)) - 1]) for part in (0.5, 0.99))
    elapsed_s = float(ordered.sum()) if elapsed_s is None else elapsed_s
    return BatchOutcome(
        RowBatch(Rows(0, rows)), (("deleted", rows),), rows, 0, 0, {}, elapsed_s, median, p99
    )


def purged(latencies_s, until_s, threads=2):
    """Return time, rows so far and pace after each batch of a run, by a clock of its own.

    Parameters
    ----------
    latencies_s
        Returns those of so many rows at a time in seconds.
    """
    limits, now_s, rows, history = PaceLimits(), 0.0, 0, []
    pace = first_pace(limits)
    while now_s < until_s:
        took_s = latencies_s(now_s, pace.rows)
        rows, now_s = rows + pace.rows, now_s + float(took_s.sum()) / threads
        outcome = batch(pace.rows, took_s, float(took_s.sum()) / threads)
        pace = next_pace(pace, limits, outcome)
        history.append((now_s, rows, pace))
        now_s += pace.pause_s
    return history


def steadily(latency_s, *, late_part=0.0, late_s=BUSY_S, seed=7):
    generator = np.random.default_rng(seed)
    return lambda _now_s, rows: np.where(
        generator.random(rows) < late_part, late_s, np.full(rows, latency_s)
    )


def paces(pace, *outcomes):
    result = []
    for outcome in outcomes:
        pace = next_pace(pace, LIMITS, outcome)
        result.append((pace.rows, pace.pause_s))
    return result


def test_it_begins_gently():
    assert first_pace(replace(LIMITS, rows_max=5000)) == Pace(50)
    assert first_pace(PaceLimits(rows_min=10, rows_max=12)) == Pace(10)


def test_it_rises_by_a_constant_to_the_most():
    assert paces(Pace(25), GOOD, GOOD, GOOD, GOOD, GOOD) == [
        (45, 0), (65, 0), (85, 0), (100, 0), (100, 0),
    ]  # fmt: skip


def test_it_falls_by_half_and_then_pauses_double():
    assert paces(Pace(50), *[LATE] * 7) == [
        (25, 0), (12, 0), (10, 0), (10, 0.5), (10, 1.0), (10, 2.0), (10, 3.0),
    ]  # fmt: skip


def test_a_batch_that_is_long_and_not_late_is_shortened_and_not_followed_by_a_pause():
    assert paces(Pace(50), *[LONG] * 4) == [(25, 0), (12, 0), (10, 0), (10, 0)]


def test_pauses_halve_and_go_before_batches_grow():
    assert paces(Pace(10, 2.0), GOOD, GOOD, GOOD, GOOD) == [(10, 1.0), (10, 0.5), (10, 0), (30, 0)]


def test_a_batch_that_asked_nothing_says_nothing():
    assert paces(Pace(10, 1.0), NOTHING) == [(10, 1.0)]


def test_it_is_back_at_full_speed_within_a_minute_of_a_slow_one():
    quiet = steadily(QUIET_S, late_part=0.005, late_s=0.06)

    def busy_for_a_minute(now_s, rows):
        return np.full(rows, BUSY_S) if now_s < 60.0 else quiet(now_s, rows)

    history = purged(busy_for_a_minute, 681.0)
    slowest = max(pace.pause_s for now_s, _, pace in history if now_s < 60.0)
    assert slowest >= 4.0
    full_s = next(now_s for now_s, _, pace in history if now_s > 60.0 and pace.rows == 1000)
    assert full_s < 120.0
    assert history[-1][1] > 1_000_000  # 672 before rows were judged a hundred together


def test_however_long_it_was_slow_it_recovers_in_two_minutes():
    quiet = steadily(QUIET_S)
    history = purged(
        lambda now_s, rows: np.full(rows, BUSY_S) if now_s < 3600.0 else quiet(now_s, rows), 4000.0
    )
    good_s = next(now_s for now_s, _, pace in history if now_s > 3600.0 and pace.pause_s < 60.0)
    full_s = next(now_s for now_s, _, pace in history if now_s > 3600.0 and pace.rows == 1000)
    assert full_s - good_s < 65.0


@pytest.mark.parametrize("latency_s", [0.06, 0.2, BUSY_S, 10.0])
def test_it_stays_slow_on_a_file_system_that_is_always_late(latency_s):
    history = purged(steadily(latency_s), 3600.0)
    assert {(pace.rows, pace.pause_s) for now_s, _, pace in history if now_s > 1200.0} == {
        (16, 60.0)
    }


def test_it_never_reaches_full_speed_while_one_row_in_twenty_is_late():
    history = purged(steadily(0.001, late_part=0.05), 600.0)
    assert max(pace.rows for _, _, pace in history) < 500


@pytest.mark.parametrize("seed", range(5))
def test_single_spikes_make_no_pause(seed):
    history = purged(steadily(0.001, late_part=0.001, late_s=SPIKE_S, seed=seed), 600.0)
    assert max(pace.pause_s for _, _, pace in history) == 0.0


@pytest.mark.parametrize("rows", [1, 2, 16, 99])
def test_one_late_row_of_few_is_no_late_file_system(rows):
    took_s = np.full(rows, QUIET_S)
    took_s[0] = SPIKE_S
    limits = replace(LIMITS, rows_min=1)
    pace = next_pace(Pace(1), limits, batch(rows, took_s))
    assert (pace.rows, pace.pause_s) == (1, 0.0)
    assert (pace.unjudged.rows, pace.unjudged.late_rows) == (rows, 1)
    assert next_pace(pace, limits, batch(rows, took_s)).pause_s == 0.5


def test_fewer_than_a_hundred_rows_are_judged_once_they_took_a_second():
    took_s = np.full(8, 0.06)
    pace = next_pace(Pace(10), LIMITS, batch(8, took_s, 0.4))
    assert (pace.rows, pace.pause_s, pace.unjudged.rows) == (10, 0.0, 8)
    pace = next_pace(pace, LIMITS, batch(8, took_s, 0.6))
    assert (pace.rows, pace.pause_s, pace.unjudged) == (10, 0.5, Unjudged())


@pytest.mark.parametrize("rows", [1, 2, 3, 16, 99, 100, 101, 199, 200, 1000])
def test_quantiles_never_show_more_late_rows_than_there_are(rows):
    for late in range(min(rows, 30) + 1):
        took_s = np.full(rows, QUIET_S)
        took_s[:late] = BUSY_S
        shown = batch(rows, took_s).late_rows(0.05)
        assert shown <= late
        assert (shown > rows / 100) is (late > rows / 100)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows_min": 0},
        {"rows_min": 20, "rows_max": 10},
        {"rows_step": 0},
        {"latency_s_max": 0.0},
        {"batch_s_max": float("nan")},
        {"pause_s_step": 0.0},
        {"pause_s_step": 100.0},
    ],
)
def test_a_pace_that_cannot_be_is_refused(wrong):
    with pytest.raises(UsageError):
        PaceLimits(**wrong)
