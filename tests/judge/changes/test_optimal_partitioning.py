from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.judge.changes.optimal_partitioning import cuts

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
