"""How much comes next: more by a constant, less by half, then pauses that double and halve."""

import math
from dataclasses import replace

import numpy as np
import pytest

from trimtab.base.error import UsageError
from trimtab.purge.run.next_batch import Pace, PaceLimits, Unjudged, first_pace, next_pace
from trimtab.purge.run.rows import BatchOutcome, RowBatch, Rows

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
