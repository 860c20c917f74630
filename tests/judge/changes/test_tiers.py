"""What the detector rests on: scores of a step, levels, days, rhythm and noise."""

import math
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.changes.made import ar1

from trimtab.judge.change_tier import BEFORE_MINIMUM, cuts, energy_ratio, scores
from trimtab.judge.noise import (
    HOURS_WEEKS_MINIMUM,
    SeriesNoise,
    _medians,
    noise_of,
    weekly_seasonality,
)

# A step that has just come


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


# Levels of a whole series


heights = st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=11)


def squares(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def cost(values: list[float], at: tuple[int, ...], penalty: float) -> float:
    parts = [values[a:b] for a, b in pairwise([0, *at, len(values)])]
    return sum(squares(part) for part in parts) + penalty * len(at)


def every_way(n: int, shortest: int) -> list[tuple[int, ...]]:
    ways = []
    for number in range(n):
        for at in combinations(range(1, n), number):
            edges = [0, *at, n]
            if all(b - a >= shortest for a, b in pairwise(edges)):
                ways.append(at)
    return ways


@given(heights, st.sampled_from([0.5, 3.0, 20.0, 100.0]), st.integers(1, 4))
def test_no_way_of_cutting_is_cheaper_than_the_one_found(
    values: list[float], penalty: float, shortest: int
) -> None:
    found = cuts(np.array(values), np.ones(len(values), dtype=np.int64), penalty, shortest)
    ways = every_way(len(values), shortest) or [()]
    least = min(cost(values, at, penalty) for at in ways)
    assert cost(values, found, penalty) <= least + 1e-9
    assert found in ways


def slow_cuts(values: list[float], penalty: float) -> tuple[int, ...]:
    @cache
    def best(end: int) -> tuple[float, tuple[int, ...]]:
        if end == 0:
            return -penalty, ()
        ways = []
        for begin in range(end):
            before, at = best(begin)
            whole = before + penalty + squares(values[begin:end])
            ways.append((whole, (*at, begin) if begin else at))
        return min(ways)

    return best(len(values))[1]


def test_a_longer_series_is_cut_where_the_slow_way_cuts_it() -> None:
    rng = np.random.default_rng(4)
    levels = np.repeat([0.0, 3.0, -1.0, 1.5], [30, 20, 25, 35])
    values = (levels + rng.standard_normal(len(levels))).tolist()
    found = cuts(np.array(values), np.ones(len(values), dtype=np.int64), 12.0, 1)
    assert found == slow_cuts(values, 12.0)
    assert len(found) == 3


def test_places_of_several_runs_weigh_as_their_runs_do() -> None:
    values = np.concatenate([np.full(12, 1.0), np.full(18, 4.0)])
    begins = np.arange(0, 30, 3)
    counts = np.full(10, 3, dtype=np.int64)
    assert cuts(np.add.reduceat(values, begins), counts, 5.0, 1) == (4,)
    assert cuts(values, np.ones(30, dtype=np.int64), 5.0, 1) == (12,)


def test_too_short_a_series_is_one_level() -> None:
    assert cuts(np.array([0.0, 100.0]), np.ones(2, dtype=np.int64), 1.0, 2) == ()


# Energy distance

days = st.lists(st.floats(-5, 5).map(lambda x: round(x, 2)), min_size=2, max_size=12)


def slow_ratio(before: list[float], after: list[float]) -> float:
    """The formula of the module's head, one pair at a time."""
    n, m = len(before), len(after)
    between = sum(abs(x - y) for x in before for y in after) / (n * m)
    first = sum(abs(x - y) for x in before for y in before) / n**2
    second = sum(abs(x - y) for x in after for y in after) / m**2
    both = [*combinations(before, 2), *combinations(after, 2)]
    pairs = [abs(one - other) for one, other in both]
    return n * m / (n + m) * (2 * between - first - second) / (sum(pairs) / len(pairs))


@given(days, days)
def test_it_is_what_the_formula_says_pair_by_pair(before: list[float], after: list[float]) -> None:
    if max(before) == min(before) and max(after) == min(after):
        return
    found = energy_ratio(np.array(before + after), len(before))
    assert found == pytest.approx(slow_ratio(before, after), rel=1e-6, abs=1e-9)


@given(days, days, st.floats(0.1, 10), st.floats(-3, 3))
def test_unit_and_zero_of_the_days_do_not_matter(
    before: list[float], after: list[float], factor: float, offset: float
) -> None:
    plain = energy_ratio(np.array(before + after), len(before))
    turned = energy_ratio(np.array(before + after) * factor + offset, len(before))
    if math.isfinite(plain) and plain < 1e6 and max(before + after) - min(before + after) > 0.1:
        assert turned == pytest.approx(plain, rel=1e-6, abs=1e-6)


def test_a_shift_is_told_from_none() -> None:
    same = np.random.default_rng(1).standard_normal(40)
    moved = same + 3.0 * (np.arange(40) >= 25)
    assert energy_ratio(same, 25) < 3
    assert energy_ratio(moved, 25) > 20


def test_one_day_on_a_side_says_nothing() -> None:
    assert energy_ratio(np.array([1.0, 2.0, 9.0]), 2) == 0.0


def test_two_constants_are_as_unlike_as_can_be_and_one_is_not() -> None:
    assert energy_ratio(np.array([1.0, 1.0, 2.0, 2.0]), 2) == math.inf
    assert energy_ratio(np.ones(6), 3) == 0.0


# The rhythm of a week


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
    assert (many[0].tolist(), many[1].tolist()) == (few[0].tolist(), few[1].tolist())
