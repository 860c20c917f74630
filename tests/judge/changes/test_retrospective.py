from __future__ import annotations

import math
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.judge.change_tier import cuts, energy_ratio

heights = st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=11)


def squares(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def cost(values: list[float], at: tuple[int, ...], penalty: float) -> float:
    edges = [0, *at, len(values)]
    parts = [values[a:b] for a, b in pairwise(edges)]
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
    alone = cuts(values, np.ones(30, dtype=np.int64), 5.0, 1)
    assert alone == (12,)


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
    pairs = [
        abs(side[i] - side[j])
        for side in (before, after)
        for i in range(len(side))
        for j in range(i + 1, len(side))
    ]
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
    rng = np.random.default_rng(1)
    same = rng.standard_normal(40)
    moved = same + 3.0 * (np.arange(40) >= 25)
    assert energy_ratio(same, 25) < 3
    assert energy_ratio(moved, 25) > 20


def test_one_day_on_a_side_says_nothing() -> None:
    assert energy_ratio(np.array([1.0, 2.0, 9.0]), 2) == 0.0


def test_two_constants_are_as_unlike_as_can_be_and_one_is_not() -> None:
    assert energy_ratio(np.array([1.0, 1.0, 2.0, 2.0]), 2) == math.inf
    assert energy_ratio(np.ones(6), 3) == 0.0
