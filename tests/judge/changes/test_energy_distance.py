from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.judge.changes.energy_distance import energy_ratio

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
