"""After few runs a large step is told promptly, noise is not; a step by a unit is told as that."""

import numpy as np
import pytest
from tests.judge.changes.made import ar1, noisy, times, walked
from tests.support.changes import changes_among
from tests.support.narrow import present

from trimtab.base.series import ChangeStatus
from trimtab.base.verdict import Interval
from trimtab.judge.change_point import unit_change
from trimtab.judge.noise import SPLIT_RUNS, noise_of, split_of

DAY_S = 86400.0


def confirmed_after(seed: int, before: int, factor: float, step_s: float, after: int) -> float:
    """Return after how many runs a step was confirmed where it was; infinite: never."""
    values = noisy(seed, before + after, 0.3, 0.1)
    values[before:] *= factor
    delays = [
        detection.confirmed - before + 1
        for detection in walked(values, step_s).detections
        if detection.confirmed is not None and abs(detection.place - before) <= 3
    ]
    return min(delays, default=np.inf)


@pytest.mark.calibration
@pytest.mark.parametrize("before", [27, 36, 48, 72, 120])
@pytest.mark.parametrize("factor", [2.0, 0.59])
def test_a_step_without_overlap_is_confirmed_in_two_weeks_of_daily_runs(
    before: int, factor: float
) -> None:
    """Until the noise left the change out: a median of 55 to 95 runs for each of these."""
    delays = [confirmed_after(seed, before, factor, DAY_S, 40) for seed in range(10)]
    assert np.median(delays) <= 12
    assert np.quantile(delays, 0.8) <= 20


@pytest.mark.calibration
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.7])
@pytest.mark.parametrize("step_s", [DAY_S, 3600.0])
def test_noise_of_a_short_record_is_hardly_ever_confirmed(phi: float, step_s: float) -> None:
    """At every length up to 70 runs together: 1 of 100 records at phi 0.7, none of the others."""
    alarms = [
        detection.confirmed
        for seed in range(25)
        for detection in walked(noisy(900 + seed, 70, phi, 0.1), step_s).detections
        if detection.confirmed is not None
    ]
    assert len(alarms) <= 2


@pytest.mark.parametrize("after", [3, 6, 20])
def test_the_noise_of_a_short_history_is_that_about_both_levels(after: int) -> None:
    heights = 0.1 * ar1(4, 40 + after, 0.3)
    stepped = heights + np.where(np.arange(len(heights)) >= 40, 0.69, 0.0)
    assert abs(present(split_of(stepped)) - 40) <= 1
    assert noise_of(stepped).autocorrelation > 0.55 or after < 6
    assert split_of(heights) is None


def test_levels_of_few_runs_are_no_levels() -> None:
    heights = 0.1 * ar1(4, sum(SPLIT_RUNS) - 1, 0.3)
    heights[-3:] += 5
    assert split_of(heights) is None
    assert split_of(np.zeros(0)) is None
    assert split_of(np.concatenate([0.1 * ar1(4, 40, 0.3), np.full(10, np.nan)])) is None
    assert split_of(np.full(60, 2.0)) is None


@pytest.mark.calibration
def test_a_dip_of_a_day_is_no_lasting_change_and_none_of_nothing() -> None:
    """Dips of 2 to 47 h in 80 to 700 hourly runs: before, one in seven was a change of 0 to 5 %.

    What confirmed the dip found too few days of it to confirm that it was over, or the other way
    round.
    """
    rng = np.random.default_rng(0)
    left = []
    for seed in range(40):
        n = int(rng.integers(80, 700))
        begin, length = int(rng.integers(30, n - 40)), int(rng.integers(2, 48))
        values = noisy(seed, n, float(rng.choice([0.0, 0.3, 0.6])), float(rng.choice([0.03, 0.06])))
        values[begin : begin + min(length, n - begin - 8)] *= rng.uniform(0.1, 0.8)
        points = changes_among(times(n, 3600.0), values.tolist()).points
        left += [
            (seed, point.effect)
            for point in points
            if point.status is ChangeStatus.CONFIRMED
            and point.effect is not None
            and abs(np.log(point.effect)) < 0.05
        ]
    assert not left


@pytest.mark.calibration
@pytest.mark.parametrize("factor", [0.94, 0.8])
def test_a_level_that_lasts_is_not_taken_for_a_dip_that_is_over(factor: float) -> None:
    """Confirmed recoveries in 20 records of seven weeks in which none is."""
    back = 0
    for seed in range(20):
        values = noisy(seed, 24 * 50, 0.5, 0.05)
        values[400:] *= factor
        walk = walked(values)
        back += sum(hit.confirmed is not None and hit.up for hit in walk.detections)
    assert back <= 1


# A step as large as one unit is of another


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1 / 1000, "1/1,000"), (1 / 1024, "1/1,024"), (1000.0, "1,000 times"),
        (1024.0**2, "1,024 squared times"), (1e-9, "1/1,000 cubed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("step_s", [3600.0, 86400.0])
def test_a_step_by_a_thousand_is_a_change_of_unit(factor: float, words: str, step_s: float) -> None:
    values = noisy(1, 400, phi=0.3)
    values[300:] *= factor
    (change,) = changes_among(times(400, step_s), values.tolist()).points
    assert (change.status, change.reason.code) == (ChangeStatus.CONFIRMED, "change-of-unit")
    assert change.of_unit is not None
    assert words in change.of_unit


@pytest.mark.parametrize("factor", [1.024, 1.048576, 1 / 1.024, 1 / 1.048576])
def test_a_small_factor_is_told_where_the_ratio_is_known_well(factor: float) -> None:
    steady = noisy(2, 900, phi=0.0, cov=0.005)
    steady[600:] *= factor
    (change,) = changes_among(times(900), steady.tolist()).points
    assert change.reason.code == "change-of-unit"
    ratio = max(factor, 1 / factor)
    assert f"{ratio:g}" in change.reason


def test_steps_of_performance_are_not() -> None:
    for factor in (0.5, 0.59, 0.83, 0.92, 1.1, 2.0, 8.0):
        values = noisy(3, 1000, phi=0.3)
        values[600:] *= factor
        points = changes_among(times(1000), values.tolist()).points
        assert all(point.of_unit is None for point in points)


def test_of_ratios_between_a_hundredth_and_a_half_none_is_a_unit() -> None:
    for effect in np.geomspace(0.002, 0.9, 400):
        interval = Interval(effect * 0.97, effect * 1.03, 0.95)
        assert unit_change(float(effect), interval) is None
        assert unit_change(1 / float(effect), None) is None
    assert unit_change(0.0, None) is None


def test_a_small_factor_needs_a_narrow_interval() -> None:
    assert unit_change(1.024, Interval(1.0, 1.05, 0.95)) is None
    assert unit_change(1.024, None) is None
    assert unit_change(1.024, Interval(1.020, 1.028, 0.95)) is not None
    assert unit_change(1.03, Interval(1.028, 1.032, 0.95)) is None
