"""Which telemetry moves with performance, and how seldom chance does."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from scipy import stats
from tests.judge.frames import hour, series
from tests.judge.history import noise
from tests.support.narrow import present

from trimtab.judge.correlation import correlate, rate_of


def telemetry(values, *, step_s=3600.0, offset_s=300.0):
    """Return a frame of telemetry, each value a little after the hour."""
    at = [hour(place * step_s / 3600) + timedelta(seconds=offset_s) for place in range(len(values))]
    schema = {"at": pl.Datetime("us", "UTC"), "value": pl.Float64}
    return pl.DataFrame({"at": at, "value": [float(v) for v in values]}, schema=schema)


def ar(n, phi, seed):
    return noise(1, n, phi=phi, cov=1.0, seed=seed)[0] - 1


def spearman(first, second):
    """Return correlation and p-value as scipy has them, made for independent pairs."""
    found = stats.spearmanr(first, second)
    return float(found[0]), float(found[1])


def single(values, beside, **more):
    (found,) = correlate(series(values), {"x": telemetry(beside)}, **more)
    return found


def test_it_is_spearmans_rank_correlation():
    x = ar(200, 0.3, 1)
    y = 5 + np.exp(x) + 0.3 * ar(200, 0.3, 2) ** 2
    found = single(y, x)
    assert (found.rho, found.n) == (pytest.approx(spearman(y, x)[0]), 200)
    assert found.apart_s == pytest.approx(300.0)
    assert found.moves_with
    assert found.reason.code == "moves-with"


@pytest.mark.calibration
def test_independent_pairs_have_the_usual_p_value():
    p_values, usual = [], []
    for seed in range(100):
        x, y = ar(200, 0.0, seed), ar(200, 0.0, seed + 1000)
        p_values.append(single(20 + y, x).p_value)
        usual.append(spearman(x, y)[1])
    assert np.corrcoef(np.log(p_values), np.log(usual))[0, 1] > 0.95


@pytest.mark.calibration
def test_series_with_a_memory_seldom_correlate_by_chance():
    rounds, wrong, usual = 150, 0, 0
    for seed in range(rounds):
        x, y = ar(168, 0.9, seed), ar(168, 0.9, seed + 5000)
        wrong += single(20 + y, x).moves_with
        usual += spearman(x, y)[1] <= 0.05
    # 5 % are promised, 8 of 150; 15 or more would come by chance in under 1 % of cases.
    assert wrong <= 14
    assert usual > 0.3 * rounds  # what it is for


@pytest.mark.calibration
def test_of_many_unrelated_telemetry_hardly_any_is_named():
    rounds, alarms = 12, 0
    for seed in range(rounds):
        frame = series(20 + ar(336, 0.9, seed))
        many = {f"t{k}": telemetry(ar(336, 0.9, 10_000 + 30 * seed + k)) for k in range(20)}
        alarms += any(one.moves_with for one in correlate(frame, many))
    assert alarms <= 3


@pytest.mark.calibration
def test_what_moves_with_performance_is_found_among_many():
    hits = 0
    for seed in range(10):
        load = ar(336, 0.7, seed)
        frame = series(20 - 0.6 * load + 0.8 * ar(336, 0.7, seed + 100))
        many = {f"t{k}": telemetry(ar(336, 0.7, 20_000 + 30 * seed + k)) for k in range(20)}
        found = correlate(frame, {**many, "load": telemetry(load)})
        hits += found[0].name == "load" and found[0].moves_with
        assert found[0].rho is not None
    assert hits >= 9


def test_what_only_the_clock_connects_is_said_to_be_so():
    hours = np.arange(24 * 28)
    day = np.sin(2 * np.pi * hours / 24)
    found = single(20 - day + 0.3 * ar(len(hours), 0, 1), day + 0.3 * ar(len(hours), 0, 2))
    assert present(found.rho) < -0.7
    assert found.rho_without_rhythm == pytest.approx(0.0, abs=0.1)
    assert not found.moves_with or "without the hour of the day" in found.reason


def test_what_says_the_same_as_another_has_nothing_left_beside_it():
    load = ar(500, 0.3, 1)
    follower = load + 0.7 * ar(500, 0.3, 2)
    frame = series(20 - load + 0.3 * ar(500, 0.3, 3))
    found = {
        one.name: one for one in correlate(frame, {"a": telemetry(load), "b": telemetry(follower)})
    }
    assert found["b"].moves_with
    assert (found["b"].beside, found["b"].rho_beside) == ("a", pytest.approx(0.0, abs=0.2))
    assert found["b"].beside == "a"
    assert "allowing for a" in found["b"].reason
    assert found["a"].beside == "b"
    assert present(found["a"].rho_beside) < -0.7


def test_a_partial_correlation_is_that_of_residuals():
    x, z = ar(300, 0.2, 1), ar(300, 0.2, 2)
    x = x + z
    y = 20 + x + z + 0.5 * ar(300, 0.2, 3)
    found = {one.name: one for one in correlate(series(y), {"x": telemetry(x), "z": telemetry(z)})}
    rank = [stats.rankdata(values) for values in (x, y, z)]
    left = [values - np.polyval(np.polyfit(rank[2], values, 1), rank[2]) for values in rank[:2]]
    assert found["x"].rho_beside == pytest.approx(np.corrcoef(left[0], left[1])[0, 1])


@pytest.mark.parametrize(("more_is_better", "sign"), [(True, -1), (False, 1)])
def test_an_unfinished_run_is_the_worst_of_all(more_is_better, sign):
    frame = series(np.linspace(10, 11, 60).tolist(), unfinished=set(range(40, 60)))
    load = telemetry([0.0] * 40 + [1.0] * 20)
    (found,) = correlate(frame, {"load": load}, more_is_better=more_is_better)
    assert sign * present(found.rho) > 0.8


def test_values_are_matched_in_time_and_not_from_afar():
    frame = series(20 + ar(60, 0, 1))
    late = telemetry(ar(60, 0, 2), offset_s=1700.0)
    (found,) = correlate(frame, {"x": late})
    assert (found.n, found.apart_s) == (60, pytest.approx(1700.0))
    (far,) = correlate(frame, {"x": late}, tolerance_s=60.0)
    assert (far.n, far.rho, far.p_value, far.apart_s) == (0, None, None, None)
    assert far.reason.code == "too-few-runs"


@pytest.mark.parametrize(
    ("values", "beside", "code"),
    [
        (np.arange(30.0), np.ones(30), "telemetry-constant"),
        (np.ones(30), np.arange(30.0), "performance-constant"),
    ],
)
def test_what_never_changed_is_said(values, beside, code):
    found = single(values, beside)
    assert (found.rho, found.q_value, found.moves_with) == (None, None, False)
    assert found.reason.code == code


def test_nothing_at_all():
    assert correlate(series([1.0, 2.0]), {}) == ()
    empty = pl.DataFrame(schema={"at": pl.Datetime("us", "UTC"), "value": pl.Float64})
    assert correlate(series([]), {"x": empty})[0].n == 0


def test_a_counter_becomes_a_rate_and_a_reset_none():
    found = rate_of(telemetry([0.0, 3600.0, 10_800.0, 50.0, 3650.0], offset_s=0.0).reverse())
    assert found["value"].to_list() == [1.0, 2.0, 1.0]
    assert found["at"].to_list() == [hour(1), hour(2), hour(4)]


def test_counters_that_differ_by_a_constant_are_one_finding():
    x, noise_of_others = ar(200, 0.3, 1), ar(200, 0.3, 7)
    y = 5 + x + 0.3 * ar(200, 0.3, 2)
    told = correlate(
        series(y),
        {
            "used": telemetry(x), "used and reserved": telemetry(x + 3), "free": telemetry(9 - x),
            "other": telemetry(noise_of_others),
        },
    )  # fmt: skip
    alike = {one.name: one.alike for one in told}
    assert alike == {"used": ("used and reserved", "free"), "other": ()}
    assert told[0].beside is None
    alone = correlate(series(y), {"used": telemetry(x), "other": telemetry(noise_of_others)})
    assert told[0].q_value == alone[0].q_value
