"""After few runs: a large step is told promptly, and noise is not told for being short."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge.changes.made import LEVEL, ar1, times
from tests.support.changes import changes_among

from trimtab.base.series import ChangeStatus
from trimtab.judge.change import of_sequences
from trimtab.judge.noise import SPLIT_RUNS, noise_of, split_of
from trimtab.judge.walk_forward import WalkForward

DAY_S = 86400.0


def walked(values: np.ndarray, step_s: float) -> WalkForward:
    runs = of_sequences(
        times(len(values), step_s), values.tolist(), more_is_better=True, timezone="UTC"
    )
    walk = WalkForward(runs)
    walk.go()
    return walk


def noisy(seed: int, n: int, phi: float = 0.3, cov: float = 0.1) -> np.ndarray:
    return LEVEL * np.exp(cov * ar1(seed, n, phi))


def confirmed_after(seed: int, before: int, factor: float, step_s: float, after: int) -> float:
    """Return after how many runs a step was confirmed where it was; infinite: never."""
    values = noisy(seed, before + after)
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
        for detection in walked(noisy(900 + seed, 70, phi), step_s).detections
        if detection.confirmed is not None
    ]
    assert len(alarms) <= 2


@pytest.mark.parametrize("after", [3, 6, 20])
def test_the_noise_of_a_short_history_is_that_about_both_levels(after: int) -> None:
    heights = 0.1 * ar1(4, 40 + after, 0.3)
    stepped = heights + np.where(np.arange(len(heights)) >= 40, 0.69, 0.0)
    split = split_of(stepped)
    assert split is not None
    assert abs(split - 40) <= 1
    assert noise_of(stepped).autocorrelation > 0.55 or after < 6
    assert split_of(heights) is None


def test_levels_of_few_runs_are_no_levels() -> None:
    heights = 0.1 * ar1(4, sum(SPLIT_RUNS) - 1, 0.3)
    heights[-3:] += 5
    assert split_of(heights) is None
    assert split_of(np.zeros(0)) is None
    lost = np.concatenate([0.1 * ar1(4, 40, 0.3), np.full(10, np.nan)])
    assert split_of(lost) is None
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
        walk = walked(values, 3600.0)
        back += sum(hit.confirmed is not None and hit.up for hit in walk.detections)
    assert back <= 1
