"""Direction and size of a trend, and when nothing can be told."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.history import noise, points
from tests.support.sentences import numbers

from trimtab.base.verdict import TrendDirection
from trimtab.judge.trend import trend


def judged(series, metric="write_bandwidth", **more):
    return trend(series, metric=metric, probe="check", **more)


def hourly(days, per_day, seed=1):
    base = noise(1, 24 * days, cov=0.02, seed=seed)[0]
    return points(base * [1 + per_day * hour / 24 for hour in range(24 * days)])


def test_a_steady_loss_is_found_with_its_size():
    found = judged(hourly(20, -0.01))
    assert found.direction is TrendDirection.FALLING
    assert found.days == 20
    # The slope is a fraction of the median, which is 0.9 of the first day here.
    assert found.change_per_day == pytest.approx(-0.01 / 0.9, rel=0.1)
    assert found.change_per_day_interval is not None
    assert found.change_per_day_interval.low < -0.01 / 0.9 < found.change_per_day_interval.high
    assert found.reason.code == "falling"
    assert numbers(found.reason)[0] == -1.1


def test_it_rises_and_it_stays():
    assert judged(hourly(20, 0.01)).direction is TrendDirection.RISING
    still = judged(hourly(20, 0.0))
    assert still.direction is TrendDirection.NONE_SEEN
    assert still.reason.code == "no-trend"


def test_the_slope_is_the_median_over_all_pairs_of_days():
    daily = [float(v) for v in (10, 12, 9, 14, 13, 17, 15, 18)]
    found = judged(points(daily, step_s=86400.0))
    slopes = [
        (daily[j] - daily[i]) / (j - i) / statistics.median(daily)
        for j in range(8)
        for i in range(j)
    ]
    assert found.change_per_day == pytest.approx(statistics.median(slopes))


def test_six_days_are_too_few():
    found = judged(hourly(6, -0.05))
    assert found.direction is TrendDirection.CANNOT_TELL
    assert found.reason.code == "too-few-days"
    assert numbers(found.reason) == [6, 7]
    assert found.change_per_day is found.change_per_day_interval is None


def test_no_runs_at_all():
    found = judged([])
    assert found.direction is TrendDirection.CANNOT_TELL
    assert (found.days, found.from_, found.to) == (0, None, None)


def test_days_at_0_have_no_relative_slope():
    assert judged(points([0.0] * 24 * 9)).direction is TrendDirection.CANNOT_TELL


def test_a_single_bad_day_is_no_trend():
    series = [100.0, 101, 99, 100, 102, 98, 100, 101, 99, 30]
    assert judged(points(series, step_s=86400.0)).direction is TrendDirection.NONE_SEEN


def test_only_the_window_counts():
    past = hourly(40, -0.02)
    found = judged(past)
    assert found.days == 30
    assert found.from_ == past[-720].at
    assert found.to == past[-1].at


def test_an_unfinished_run_is_no_short_time():
    values = [10.0] * 24 * 8
    series = points(values, metric="output_time", unfinished=set(range(24 * 7, 24 * 8)))
    assert judged(series, metric="output_time").days == 7


@given(st.randoms(use_true_random=False), st.floats(1e-3, 1e9))
def test_order_doubles_and_unit_change_nothing(shuffler, factor):
    daily = [10.0, 12, 9, 14, 13, 17, 15, 18]
    mixed = points([factor * v for v in daily], step_s=86400.0)
    mixed += mixed[2:5]
    shuffler.shuffle(mixed)
    plain, other = judged(points(daily, step_s=86400.0)), judged(mixed)
    assert other.change_per_day == pytest.approx(plain.change_per_day)
    assert (other.direction, other.days) == (plain.direction, plain.days)
