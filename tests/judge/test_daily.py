"""One day after another: means with error bars, and what did not run."""

import statistics
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.frames import hour, series
from tests.judge.history import noise

from trimtab.judge.series_frame import daily, missing


def test_each_day_has_its_own_mean_deviation_and_cov_with_unfinished_runs_as_0():
    values = [float(v) for v in noise(1, 48)[0]]
    first, second = daily(series(values, unfinished={30}))
    assert (first.day, first.n, first.unfinished, first.missing) == (date(2026, 3, 1), 24, 0, None)
    assert first.mean == pytest.approx(statistics.fmean(values[:24]))
    assert first.standard_deviation == pytest.approx(statistics.stdev(values[:24]))
    counted = [0.0 if place == 30 else values[place] for place in range(24, 48)]
    finished = [values[place] for place in range(24, 48) if place != 30]
    assert (second.n, second.unfinished) == (24, 1)
    assert second.mean == pytest.approx(statistics.fmean(counted))
    assert second.cov == pytest.approx(statistics.stdev(counted) / statistics.fmean(counted))
    assert second.median == pytest.approx(statistics.median(finished))


def test_of_a_time_unfinished_runs_are_left_out():
    (day,) = daily(series([10.0, 1.0, 12.0], unfinished={1}), more_is_better=False)
    assert (day.n, day.unfinished, day.mean) == (3, 1, 11.0)
    (none,) = daily(series([1.0, 1.0], unfinished={0, 1}), more_is_better=False)
    assert (none.n, none.mean, none.cov, none.median) == (2, None, None, None)


def test_a_day_of_nothing_but_unfinished_runs_is_0_and_has_no_cov():
    (day,) = daily(series([1.0] * 3, unfinished={0, 1, 2}))
    assert (day.mean, day.standard_deviation, day.cov, day.median) == (0.0, 0.0, None, None)


def test_one_run_has_no_deviation():
    (day,) = daily(series([5.0]))
    assert (day.mean, day.standard_deviation, day.cov) == (5.0, None, None)


def test_equal_values_have_none_at_all():
    (day,) = daily(series([0.1] * 3))
    assert (day.standard_deviation, day.cov) == (0.0, 0.0)


def test_days_are_the_sites_own_across_the_change_of_clocks():
    # 29 March 2026: 23 hours in Zurich. Runs from 1 March 00:00 UTC on, 01:00 there.
    days = daily(series([1.0] * 24 * 31), timezone="Europe/Zurich")
    assert [day.n for day in days if day.day in {date(2026, 3, 28), date(2026, 3, 29)}] == [24, 23]
    assert days[0].n == 23
    west = daily(series([1.0] * 30), timezone="America/Los_Angeles")
    assert [(day.day, day.n) for day in west] == [(date(2026, 2, 28), 8), (date(2026, 3, 1), 22)]


def test_a_day_without_any_run_is_told_where_runs_were_due():
    frame = series([1.0] * 72, gaps=set(range(24, 48)))
    assert [day.n for day in daily(frame)] == [24, 24]
    due = [hour(place) for place in range(72)]
    days = daily(frame, schedule=due)
    assert [(day.n, day.missing) for day in days] == [(24, 0), (0, 24), (24, 0)]
    assert (days[1].mean, days[1].standard_deviation, days[1].cov) == (None, None, None)


def test_a_run_that_was_not_judged_is_not_missing():
    frame = series([1.0] * 5, gaps={3})
    due = [hour(place) for place in range(5)]
    assert daily(frame, schedule=due)[0].missing == 1
    assert daily(frame, schedule=due, present=[hour(3)])[0].missing == 0


def test_late_and_slightly_early_runs_are_the_ones_that_were_due():
    due = [hour(0), hour(1), hour(2), hour(3)]
    runs = [hour(0.0), hour(1.9), hour(2) - timedelta(seconds=30)]
    assert missing(due, runs) == (hour(3),)
    assert missing(due, [hour(-1)]) == tuple(due)
    assert missing([], runs) == ()


@pytest.mark.calibration
@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 3000)))
def test_a_due_time_is_missing_if_no_run_begins_before_the_next(due_hours, run_minutes):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    due = sorted({start + timedelta(hours=h) for h in due_hours})
    runs = [start + timedelta(minutes=m) for m in run_minutes]
    early = timedelta(seconds=60)
    slow = []
    for place, at in enumerate(due):
        until = due[place + 1] if place + 1 < len(due) else datetime(2027, 1, 1, tzinfo=UTC)
        if not any(at <= run + early < until for run in runs):
            slow.append(at)
    assert missing(due[::-1], runs) == tuple(slow)
