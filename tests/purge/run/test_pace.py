"""How much comes next: more by a constant, less by half, then pauses that double."""

from dataclasses import replace

import pytest

from trimtab.errors import UsageError
from trimtab.purge.run.pace import Pace, PaceLimits, first_pace, next_pace
from trimtab.purge.run.state import Batch, Outcome, Rows

LIMITS = PaceLimits(
    rows_min=10,
    rows_max=100,
    rows_step=20,
    latency_s_max=0.05,
    batch_s_max=10.0,
    pause_s_step=0.5,
    pause_s_max=3.0,
)
GOOD = Outcome(Batch(Rows(0, 1)), (("deleted", 1),), 1, 1, 1, {}, 0.5, 0.001, 0.01)
LATE = replace(GOOD, latency_s_p99=0.06)
LONG = replace(GOOD, elapsed_s=11.0)
NOTHING = replace(GOOD, latency_s_median=None, latency_s_p99=None)


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


@pytest.mark.parametrize("bad", [LATE, LONG])
def test_it_falls_by_half_and_then_pauses_double(bad):
    assert paces(Pace(50), *[bad] * 7) == [
        (25, 0), (12, 0), (10, 0), (10, 0.5), (10, 1.0), (10, 2.0), (10, 3.0),
    ]  # fmt: skip


def test_pauses_go_before_batches_grow():
    assert paces(Pace(10, 1.0), GOOD, GOOD, GOOD) == [(10, 0.5), (10, 0), (30, 0)]


def test_a_batch_that_asked_nothing_says_nothing():
    assert paces(Pace(10, 1.0), NOTHING) == [(10, 1.0)]


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
