from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.changes.made import ar1

from trimtab.judge.change_tier import BEFORE_MINIMUM, scores
from trimtab.judge.noise import SeriesNoise, noise_of


def plain(phi: float, innovation: float = 1.0) -> SeriesNoise:
    return SeriesNoise(0.05, phi, 1.0, innovation, (1 / 1.2, 1 / 1.2), (1.0, 1.0), 1.0)


def slow_score(white: np.ndarray, phi: float, length: int, innovation: float) -> float:
    """Least squares of a level and a step, both as the whitening shows them."""
    n = len(white)
    level = np.full(n, 1 - phi)
    step = np.zeros(n)
    step[n - length] = 1.0
    step[n - length + 1 :] = 1 - phi
    design = np.column_stack([level, step])
    fitted = np.linalg.solve(design.T @ design, design.T @ white)
    error = innovation * np.sqrt(np.linalg.inv(design.T @ design)[1, 1])
    return float(fitted[1] / error)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.4, 0.8]), st.integers(3, 40))
def test_it_is_the_least_squares_step_over_its_error(seed: int, phi: float, length: int) -> None:
    white = np.random.default_rng(seed).standard_normal(60)
    found = scores(white, plain(phi, 0.9), np.array([59]), np.array([length]))
    assert found[0, 0] == pytest.approx(slow_score(white, phi, length, 0.9), rel=1e-9)


def test_an_earlier_end_knows_nothing_of_later_runs() -> None:
    white = ar1(3, 200, 0.0)
    lengths = np.array([3, 10, 24])
    ends = np.array([90, 120, 199])
    together = scores(white, plain(0.5), ends, lengths)
    for row, end in enumerate(ends):
        alone = scores(white[: end + 1], plain(0.5), np.array([end]), lengths)
        np.testing.assert_allclose(together[row], alone[0])


def test_without_runs_before_there_is_no_step() -> None:
    white = np.concatenate([np.zeros(BEFORE_MINIMUM - 1), np.full(10, 5.0)])
    ends = np.array([len(white) - 1])
    assert scores(white, plain(0.0), ends, np.array([10]))[0, 0] == 0.0
    assert scores(white, plain(0.0), ends, np.array([9]))[0, 0] > 3.0


def test_noise_that_wanders_makes_every_step_less_sure() -> None:
    white = ar1(5, 400, 0.0)
    ends, lengths = np.array([399]), np.array([3, 12, 24, 96])
    steady = scores(
        white, SeriesNoise(0.05, 0.3, 1.0, 1.0, (1.0, 1.0), (1.0, 1.0), 1.0), ends, lengths
    )
    wanders = scores(
        white, SeriesNoise(0.05, 0.3, 1.0, 1.0, (2.0, 2.0), (2.0, 2.0), 3.0), ends, lengths
    )
    assert (np.abs(wanders) < np.abs(steady)).all()


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.7])
def test_the_autocorrelation_is_found_with_a_step_in_the_series(phi: float) -> None:
    found = []
    for seed in range(10):
        heights = 0.05 * ar1(seed, 1400, phi)
        heights[700:] -= 0.08
        found.append(noise_of(heights).autocorrelation)
    # Told a little high, never low: a memory taken for too short makes alarms of nothing.
    assert phi - 0.01 < np.mean(found) < phi + 0.1


def test_dips_hide_neither_scatter_nor_memory() -> None:
    rng = np.random.default_rng(2)
    heights = 0.05 * ar1(2, 1400, 0.7)
    clean = noise_of(heights)
    heights[rng.random(1400) < 0.03] -= 0.7
    dipped = noise_of(heights)
    assert dipped.scale == pytest.approx(clean.scale, rel=0.1)
    assert dipped.autocorrelation == pytest.approx(clean.autocorrelation, abs=0.06)
    assert dipped.aftermath < 0.5
