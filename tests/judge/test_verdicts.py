"""A trend, and a run against earlier ones: direction, ratio and interval, or why there is none."""

import dataclasses
import math
import statistics
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.judge.history import noise, points
from tests.support.narrow import present
from tests.support.sentences import numbers

from trimtab.base.verdict import TrendDirection
from trimtab.judge.run_verdict import compare_with_earlier
from trimtab.judge.series_level import trend

# A trend


def judged(series, metric="write_bandwidth", **more):
    return trend(series, metric=metric, probe="check", **more)


def hourly(days, per_day, seed=1):
    base = noise(1, 24 * days, cov=0.02, seed=seed)[0]
    return points(base * [1 + per_day * hour / 24 for hour in range(24 * days)])


def test_a_steady_loss_is_found_with_its_size():
    found = judged(hourly(20, -0.01))
    assert (found.direction, found.days) == (TrendDirection.FALLING, 20)
    # The slope is a fraction of the median, which is 0.9 of the first day here.
    assert found.change_per_day == pytest.approx(-0.01 / 0.9, rel=0.1)
    assert found.change_per_day_interval is not None
    assert found.change_per_day_interval.low < -0.01 / 0.9 < found.change_per_day_interval.high
    assert (found.reason.code, numbers(found.reason)[0]) == ("falling", -1.1)


def test_it_rises_and_it_stays():
    assert judged(hourly(20, 0.01)).direction is TrendDirection.RISING
    still = judged(hourly(20, 0.0))
    assert (still.direction, still.reason.code) == (TrendDirection.NONE_SEEN, "no-trend")


def test_the_slope_is_the_median_over_all_pairs_of_days():
    daily = [float(v) for v in (10, 12, 9, 14, 13, 17, 15, 18)]
    found = judged(points(daily, step_s=86400.0))
    pairs = combinations(range(8), 2)
    slopes = [(daily[j] - daily[i]) / (j - i) / statistics.median(daily) for i, j in pairs]
    assert found.change_per_day == pytest.approx(statistics.median(slopes))


def test_six_days_are_too_few():
    found = judged(hourly(6, -0.05))
    assert (found.direction, found.reason.code) == (TrendDirection.CANNOT_TELL, "too-few-days")
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
    assert (found.days, found.from_, found.to) == (30, past[-720].at, past[-1].at)


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


# A run against earlier ones


EARLIER = points([95.0, 100, 105, 98, 102, 101], step_s=6 * 3600.0)


def compare(values, earlier=EARLIER, metric="write_bandwidth"):
    return compare_with_earlier(values, earlier, metric=metric, probe="check")


def test_the_ratio_of_medians_and_its_interval():
    compared = compare([99.0, 100.5, 104.0])
    assert (compared.n_earlier, compared.earlier_median, compared.this_median) == (6, 100.5, 100.5)
    assert compared.ratio == 1
    spread = statistics.stdev(math.log(p.value) for p in EARLIER)
    half = stats.t.ppf(0.975, 5) * spread * math.sqrt(1 + math.pi / 12)
    assert present(compared.ratio_interval).low == pytest.approx(math.exp(-half))
    assert present(compared.ratio_interval).high == pytest.approx(math.exp(half))
    assert (compared.reason.code, numbers(compared.reason)) == ("within-earlier", [6])


@pytest.mark.parametrize(
    ("metric", "value", "code", "figures"),
    [
        ("write_bandwidth", 50.0, "worse-than-earlier", [50.2, 6]),
        ("write_bandwidth", 200.0, "better-than-earlier", [99.0, 6]),
        ("output_time", 50.0, "better-than-earlier", [50.2, 6]),
        ("output_time", 200.0, "worse-than-earlier", [99.0, 6]),
    ],
)
def test_an_unusual_run_is_called_by_its_metric(metric, value, code, figures):
    earlier = [dataclasses.replace(p, metric=metric) for p in EARLIER]
    compared = compare([value], earlier, metric)
    assert (compared.reason.code, numbers(compared.reason)) == (code, figures)
    assert (" above " in compared.reason) == (value > 100)


def test_four_runs_are_too_few_for_an_interval():
    compared = compare([100.0], EARLIER[:4])
    assert (compared.ratio, compared.ratio_interval) == (pytest.approx(100 / 99), None)
    assert compared.reason.code == "too-few-earlier-runs"
    assert numbers(compared.reason)[2:4] == [5, 24]


def test_runs_of_one_hour_are_no_measure_of_days():
    compared = compare([100.0], points([100.0, 101, 99, 100, 100, 101], step_s=600.0))
    assert (compared.ratio, compared.ratio_interval) == (1, None)
    assert (compared.reason.code, numbers(compared.reason)[-1]) == ("too-few-earlier-runs", 0.8)


def test_nothing_to_compare():
    assert compare([]).ratio is None
    assert compare([]).reason.code == "no-believed-repetition"
    alone = compare([100.0], [])
    assert (alone.ratio, alone.n_earlier, alone.earlier_median) == (None, 0, None)
    assert alone.reason.code == "no-earlier-run"


def test_unfinished_and_empty_runs_other_metrics_and_doubles_are_passed_over():
    more = [
        *EARLIER,
        *EARLIER[:2],
        *points([1.0] * 3, metric="read_bandwidth"),
        dataclasses.replace(EARLIER[0], value=0.0, unfinished=True, run="hung"),
        dataclasses.replace(EARLIER[0], value=0.0, run="nothing moved"),
    ]
    assert compare([99.0], more) == compare([99.0])


def test_a_run_of_0_is_far_off():
    compared = compare([0.0])
    assert (compared.ratio, compared.ratio_interval) == (0, None)
    assert compared.reason.code == "measured-zero"


def test_a_value_that_is_none_is_refused():
    with pytest.raises(ValueError, match="cannot be compared"):
        compare([math.nan])
    with pytest.raises(ValueError, match="cannot be compared"):
        compare([-1.0])
