"""Each measure of spread against a slow, obvious twin, published figures and its own laws."""

import itertools
import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.judge import spread
from trimtab.judge.spread import occasions, usual_gap_s

POSITIVE = st.floats(min_value=1e-3, max_value=1e12)
SERIES = st.lists(POSITIVE, min_size=2, max_size=60)


@pytest.mark.parametrize(
    ("n", "low", "high"),
    [
        (8, 5.28, 16.40),
        (16, 5.90, 12.43),
        (24, 6.21, 11.25),
        (48, 6.65, 10.04),
        (96, 7.00, 9.33),
        (168, 7.22, 8.97),
    ],
)
def test_interval_of_an_observed_cov_of_8_per_cent(n, low, high):
    interval = spread.cov_interval(0.08, n)
    assert (100 * interval.low, 100 * interval.high) == pytest.approx((low, high), abs=0.005)


@pytest.mark.parametrize(
    ("k", "low", "high"),
    [
        (0.060, 4.99, 7.52),
        (0.065, 5.41, 8.15),
        (0.070, 5.82, 8.78),
        (0.100, 8.31, 12.56),
        (0.110, 9.14, 13.82),
    ],
)
def test_interval_from_48_runs(k, low, high):
    interval = spread.cov_interval(k, 48)
    assert (100 * interval.low, 100 * interval.high) == pytest.approx((low, high), abs=0.005)


@given(k=st.floats(0.001, 3), n=st.floats(2, 500))
def test_the_interval_holds_its_cov(k, n):
    interval = spread.cov_interval(k, n)
    assert 0 < interval.low <= k * 1.01
    assert k < interval.high < math.inf


@given(k=st.floats(0.001, 0.3), n=st.integers(5, 200))
def test_more_runs_narrow_the_interval(k, n):
    few, many = spread.cov_interval(k, n), spread.cov_interval(k, 2 * n)
    assert few.low < many.low < many.high < few.high


def test_the_interval_does_not_jump_where_the_method_changes():
    below = spread.cov_interval(0.3299, 24)
    above = spread.cov_interval(0.3301, 24)
    assert above.low == pytest.approx(below.low, rel=0.05)
    assert above.high == pytest.approx(below.high, rel=0.05)


def test_no_interval_from_one_number():
    with pytest.raises(ValueError, match="no interval"):
        spread.cov_interval(0.1, 1)


@given(SERIES)
def test_cov_is_the_textbook_formula(values):
    expected = statistics.stdev(values) / statistics.mean(values)
    assert spread.cov(values) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(st.lists(st.integers(1, 10**6), min_size=4, max_size=60), st.floats(1e-3, 1e3))
def test_no_measure_depends_on_the_unit(values, factor):
    scaled = [factor * value for value in values]
    for measure in (spread.cov, spread.mad_cv, spread.quartile_dispersion):
        assert measure(scaled) == pytest.approx(measure(values), rel=1e-6, abs=1e-9)
    assert spread.excess_kurtosis(scaled) == pytest.approx(
        spread.excess_kurtosis(values), rel=1e-4, abs=1e-4
    )


@given(SERIES)
def test_every_interval_is_in_order(values):
    for interval in (spread.mean_interval(values), spread.cov_interval_of_history(values)):
        assert interval is None or interval.low <= interval.high


@given(st.integers(2, 50), POSITIVE)
def test_equal_values_scatter_by_exactly_0(n, value):
    values = [value] * n
    assert spread.cov(values) == 0
    assert spread.mad_cv(values) == 0
    assert spread.lag1_autocorrelation(values) == pytest.approx(0)


def test_what_is_undefined_is_none():
    assert spread.cov([]) is spread.cov([5.0]) is spread.cov([0.0, 0.0]) is None
    assert spread.mad_cv([5.0]) is spread.mad_cv([0.0, 0.0, 1.0]) is None
    assert spread.quartile_dispersion([1.0, 2.0, 3.0]) is None
    assert spread.mean_interval([1.0]) is None
    assert spread.cov_interval_of_history([1.0, 2.0, 3.0]) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("measure", [spread.cov, spread.mad_cv, spread.lag1_autocorrelation])
def test_what_is_no_number_is_refused(measure, bad):
    with pytest.raises(ValueError, match="cannot be judged"):
        measure([1.0, bad, 2.0])


def test_mad_cv_and_quartiles_of_normal_numbers_are_near_the_cov():
    values = (1 + 0.08 * np.random.default_rng(5).standard_normal(20_000)).tolist()
    assert spread.mad_cv(values) == pytest.approx(0.08, rel=0.03)
    assert spread.quartile_dispersion(values) == pytest.approx(0.6745 * 0.08, rel=0.03)


@given(st.lists(POSITIVE, min_size=4, max_size=40))
def test_quartiles_are_numpys(values):
    first, third = np.quantile(values, [0.25, 0.75])
    assert spread.quartile_dispersion(values) == pytest.approx(
        (third - first) / (third + first), rel=1e-6, abs=1e-9
    )


def test_a_series_with_memory_is_seen_through_its_dips():
    rng = np.random.default_rng(7)
    series = [0.0]
    for shock in rng.standard_normal(4000):
        series.append(0.6 * series[-1] + 0.8 * shock)
    values = 10 + np.array(series)
    assert spread.lag1_autocorrelation(values.tolist()) == pytest.approx(0.6, abs=0.05)
    values[rng.random(values.size) < 0.03] -= 9
    robust = spread.lag1_autocorrelation(values.tolist())
    deviations = values - values.mean()
    plain = (deviations[1:] @ deviations[:-1]) / (deviations @ deviations)
    assert robust > 0.5 > 0.45 > plain


def test_small_samples_are_corrected_for_their_bias():
    rng = np.random.default_rng(11)
    plain, corrected = [], []
    for _ in range(600):
        series = [rng.standard_normal()]
        for shock in rng.standard_normal(23):
            series.append(0.5 * series[-1] + math.sqrt(0.75) * shock)
        plain.append(spread.lag1_autocorrelation(series))
        corrected.append(spread.corrected_autocorrelation(series))
    assert statistics.mean(plain) < 0.42
    assert statistics.mean(corrected) == pytest.approx(0.5, abs=0.05)


@given(SERIES)
def test_autocorrelation_stays_in_its_bounds(values):
    assert -1 <= spread.lag1_autocorrelation(values) <= 1
    careful = spread.corrected_autocorrelation(values, cautious=True)
    assert 0 <= spread.corrected_autocorrelation(values) <= careful <= 0.95


@given(st.floats(2, 1000), st.floats(0, 0.95), st.floats(0, 50))
def test_nothing_counts_as_more_than_itself(n, phi, kurtosis):
    assert 0 < spread.effective_n_mean(n, phi) <= spread.effective_n_cov(n, phi) <= n
    assert spread.effective_n_cov(n, phi, kurtosis) <= spread.effective_n_cov(n, phi)


@given(st.lists(POSITIVE, min_size=4, max_size=40, unique=True))
def test_kurtosis_is_scipys(values):
    from scipy.stats import kurtosis

    if (spread.cov(values) or 0) > 1e-6:
        assert spread.excess_kurtosis(values) == pytest.approx(
            kurtosis(values, bias=False), rel=1e-3, abs=1e-3
        )


def test_ranks_of_very_many_numbers_are_those_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [float(n * n % 17) + (0.25 if n % 3 else 0.0) for n in range(200)]
    few = spread.lag1_autocorrelation(values)
    monkeypatch.setattr("trimtab.judge.spread._MANY", 10)
    assert spread.lag1_autocorrelation(values) == few
    assert spread.lag1_autocorrelation([2.0] * 50) == 0.0


# Runs made close together are one occasion, those at their usual distance are each one


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


@pytest.mark.parametrize("seed", range(8))
def test_the_usual_gap_of_years_is_the_same_to_the_last_bit(monkeypatch, seed):
    drawn = np.random.default_rng(seed)
    gaps = drawn.choice(
        [0.0, 60.0, 3600.0, 3600.7, 86400.0], size=3000, p=(0.1, 0.2, 0.4, 0.2, 0.1)
    )
    times_s = np.cumsum(gaps + drawn.random(3000) * (seed % 2)).tolist()
    of_many = usual_gap_s(times_s)
    monkeypatch.setattr(spread, "_MANY_TIMES", len(times_s))
    assert (type(of_many), of_many) == (float, usual_gap_s(times_s))
    assert spread._usual_gap_of_many_s([5.0, 5.0]) == 0.0


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
