"""A run against earlier ones: the ratio, its interval, and what is said when there is none."""

import dataclasses
import math
import statistics

import pytest
from scipy import stats
from tests.judge.history import points
from tests.support.known import known
from tests.support.sentences import numbers

from trimtab.judge.run_verdict import compare_with_earlier

EARLIER = points([95.0, 100, 105, 98, 102, 101], step_s=6 * 3600.0)


def compare(values, earlier=EARLIER, metric="write_bandwidth"):
    return compare_with_earlier(values, earlier, metric=metric, probe="check")


def test_the_ratio_of_medians_and_its_interval():
    compared = compare([99.0, 100.5, 104.0])
    assert (compared.n_earlier, compared.earlier_median, compared.this_median) == (6, 100.5, 100.5)
    assert compared.ratio == 1
    spread = statistics.stdev(math.log(p.value) for p in EARLIER)
    half = stats.t.ppf(0.975, 5) * spread * math.sqrt(1 + math.pi / 12)
    assert known(compared.ratio_interval).low == pytest.approx(math.exp(-half))
    assert known(compared.ratio_interval).high == pytest.approx(math.exp(half))
    assert compared.reason.code == "within-earlier"
    assert numbers(compared.reason) == [6]


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
    assert compared.ratio == pytest.approx(100 / 99)
    assert compared.ratio_interval is None
    assert compared.reason.code == "too-few-earlier-runs"
    assert numbers(compared.reason)[2:4] == [5, 24]


def test_runs_of_one_hour_are_no_measure_of_days():
    compared = compare([100.0], points([100.0, 101, 99, 100, 100, 101], step_s=600.0))
    assert compared.ratio == 1
    assert compared.ratio_interval is None
    assert compared.reason.code == "too-few-earlier-runs"
    assert numbers(compared.reason)[-1] == 0.8


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
    assert compared.ratio == 0
    assert compared.ratio_interval is None
    assert compared.reason.code == "measured-zero"


def test_a_value_that_is_none_is_refused():
    with pytest.raises(ValueError, match="cannot be compared"):
        compare([math.nan])
    with pytest.raises(ValueError, match="cannot be compared"):
        compare([-1.0])
