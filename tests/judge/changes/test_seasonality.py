from __future__ import annotations

import numpy as np
import pytest
from tests.judge.changes.made import ar1

from trimtab.judge.noise import HOURS_WEEKS_MINIMUM, SeriesNoise, _medians, weekly_seasonality

NOISE = SeriesNoise(0.05, 0.5, 1.0, 0.87, (1.0, 1.0), (1.0, 1.0), 1.0)


def found(truth: np.ndarray, weeks: int, seed: int = 1) -> np.ndarray:
    n = 168 * weeks
    hour = np.arange(n) % 168
    week = np.arange(n) // 168
    return weekly_seasonality(ar1(seed, n, 0.5) + truth[hour], hour, week, NOISE)


def left(truth: np.ndarray, seasonality: np.ndarray) -> float:
    return float(np.var(truth - truth.mean() - (seasonality - seasonality.mean())))


def test_office_hours_and_a_slow_wave_are_both_found() -> None:
    hour = np.arange(168)
    office = np.where((hour < 120) & (hour % 24 >= 8) & (hour % 24 < 20), -2.0, 2.0)
    wave = 2.0 * np.sin(2 * np.pi * hour / 168)
    for truth in (office, wave, office + wave):
        assert left(truth, found(truth, 8)) < 0.1 * np.var(truth)


def test_one_slow_hour_a_week_is_found_once_there_are_weeks_enough() -> None:
    truth = np.zeros(168)
    truth[30] = -8.0
    assert found(truth, 8)[30] < -5.0
    assert found(truth, HOURS_WEEKS_MINIMUM - 1)[30] > -2.0


def test_noise_alone_has_next_to_no_rhythm() -> None:
    spread = [np.var(found(np.zeros(168), 8, seed)) for seed in range(8)]
    assert np.mean(spread) < 0.02


def test_a_step_is_no_rhythm() -> None:
    n = 168 * 8
    hour, week = np.arange(n) % 168, np.arange(n) // 168
    stepped = ar1(3, n, 0.5) - 2.0 * (np.arange(n) > 900)
    assert np.var(weekly_seasonality(stepped, hour, week, NOISE)) < 0.05


def test_runs_once_a_day_and_unfinished_ones_are_taken_as_they_are() -> None:
    hour = np.tile(np.arange(7) * 24 + 9, 12)
    week = np.arange(84) // 7
    heights = np.where(hour == 9, -2.0, 0.0) + 0.3 * ar1(1, 84, 0.0)
    heights[10] = np.nan
    seasonality = weekly_seasonality(heights, hour, week, NOISE)
    assert np.isfinite(seasonality).all()
    assert seasonality[9] < -0.8 + seasonality[9 + 48]


def test_medians_of_very_many_runs_are_those_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    left, groups = generator.normal(size=500), generator.integers(0, 47, 500)
    few = _medians(left, groups, 48)
    monkeypatch.setattr("trimtab.judge.noise._MANY", 10)
    many = _medians(left, groups, 48)
    assert many[0].tolist() == few[0].tolist()
    assert many[1].tolist() == few[1].tolist()
