"""Runs made close together are one occasion; runs made at their usual distance are each one."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.judge.spread import occasions, usual_gap_s

HOUR, DAY = 3600.0, 86400.0


def usual_by_trying(times_s):
    """Return the usual gap the slow way: every gap is tried, each gap counted up to it."""
    gaps = sorted(b - a for a, b in itertools.pairwise(times_s) if b > a)
    gaps = gaps[: len(gaps) - min(5, len(gaps) // 24)]
    for gap in gaps:
        if sum(min(other, gap) for other in gaps) >= sum(gaps) / 2 * (1 - 1e-12):
            return gap
    return 0.0


times = st.lists(st.integers(0, 40_000).map(lambda minutes: 60.0 * minutes), max_size=80).map(
    sorted
)


@settings(max_examples=200, deadline=None)
@given(times)
def test_the_usual_gap_is_the_first_that_covers_half_of_the_time(times_s):
    assert usual_gap_s(times_s) == usual_by_trying(times_s)


@settings(max_examples=200, deadline=None)
@given(times, st.sampled_from([1.0, 1e9]))
def test_every_run_is_of_one_occasion_and_each_is_short(times_s, later_s):
    starts = occasions(times_s)
    assert starts == sorted(set(starts))
    assert starts == occasions([time_s + later_s for time_s in times_s])
    for begin, end in itertools.pairwise([*starts, len(times_s)]):
        assert times_s[end - 1] - times_s[begin] <= 12 * HOUR


@settings(max_examples=100, deadline=None)
@given(times, st.integers(2, 4))
def test_runs_made_twice_are_the_same_occasions(times_s, copies):
    unlike = sorted(set(times_s))
    again = [time_s for time_s in unlike for _ in range(copies)]
    assert [start // copies for start in occasions(again)] == occasions(unlike)


PATTERNS = {
    "hourly": ([HOUR * run for run in range(500)], 500),
    "hourly, an outage of weeks": ([HOUR * run for run in (*range(60), *range(700, 760))], 120),
    "hourly but at weekends": ([HOUR * run for run in range(1500) if run // 24 % 7 < 5], 1080),
    "every minute": ([60.0 * run for run in range(5000)], 5000),
    "three a night": ([DAY * night + 300 * run for night in range(60) for run in range(3)], 60),
    "three at one time": ([DAY * night for night in range(60) for _ in range(3)], 60),
    "nine to five": ([DAY * day + HOUR * run for day in range(60) for run in range(9)], 60),
    "Mondays": ([7 * DAY * week + 1800 * run for week in range(30) for run in range(12)], 30),
    "an hour of minutes a day": (
        [DAY * day + 60 * run for day in range(30) for run in range(60)],
        30,
    ),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_in_which_people_measure(pattern):
    times_s, number = PATTERNS[pattern]
    assert len(occasions(times_s)) == number


@pytest.mark.parametrize("day", [0, 30, 59])
def test_a_burst_in_daily_runs_is_one_more_occasion(day):
    """Also where the record begins with it: later runs say that it was one."""
    daily = [DAY * run for run in range(60)]
    burst = [DAY * day + 3 * HOUR + 30 * run for run in range(3000)]
    starts = occasions(sorted(daily + burst))
    assert 60 <= len(starts) <= 63  # it lasts for 25 h, an occasion for half a day at most


@pytest.mark.parametrize("jitter_s", [60.0, 600.0, 1200.0])
def test_hourly_runs_that_begin_late_stay_single(jitter_s):
    source = random.Random(3)
    late = [HOUR * run + source.uniform(0, jitter_s) for run in range(2000)]
    assert len(occasions(late)) == len(late)


def test_nothing_and_one():
    assert occasions([]) == []
    assert occasions([5.0]) == [0]
    assert usual_gap_s([]) == usual_gap_s([5.0, 5.0]) == 0.0
