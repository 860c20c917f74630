"""The day on which a level is passed: exact where growth is even, its interval in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.judge.crossing import AHEAD_DAYS, Crossing, crossings
from trimtab.judge.growth import DAYS_MINIMUM

DAY_S = 86400
START_S = 1_700_000_000
FAR = datetime.max.replace(tzinfo=UTC)


def points_of(daily: np.ndarray, begin: float = 0.25) -> list[tuple[int, float]]:
    values = begin + np.concatenate(([0.0], np.cumsum(daily)))
    return [(START_S + day * DAY_S, float(value)) for day, value in enumerate(values)]


def when(crossing: Crossing) -> tuple[datetime, datetime, datetime]:
    """Return earliest, middle and latest; the end of time for those beyond the forecast."""
    return crossing.earliest or FAR, crossing.at or FAR, crossing.latest or FAR


def test_even_growth_passes_on_the_day_that_it_must() -> None:
    points = points_of(np.full(20, 1 / 64))
    last = datetime.fromtimestamp(points[-1][0], UTC)
    (crossing,) = crossings(points, [points[-1][1] + 10 / 64])
    assert set(when(crossing)) == {last + timedelta(days=10)}
    assert (crossing.days, crossing.reason, crossing.is_passed) == (20, None, False)


def test_a_level_that_is_passed_has_no_day() -> None:
    (passed, full) = crossings(points_of(np.full(20, 1 / 64)), [0.5, 1.0])
    assert passed.is_passed
    assert passed.at is None
    assert full.at is not None


def test_what_does_not_grow_is_not_full_in_time() -> None:
    (crossing,) = crossings(points_of(np.zeros(30)), [0.75])
    assert when(crossing) == (FAR, FAR, FAR)
    assert crossing.reason is None


def test_a_purge_a_week_is_expected_again() -> None:
    days = np.full(56, 1 / 64)
    purged = np.where(np.arange(56) % 7 == 6, -5 / 64, days)
    each = [points_of(daily, 0.0) for daily in (days, purged)]
    growing, kept_down = (crossings(points, [points[-1][1] + 0.25])[0] for points in each)
    assert when(growing)[1] < when(kept_down)[1]


@pytest.mark.parametrize("count", [0, 1, DAYS_MINIMUM])
def test_too_little_has_a_reason(count: int) -> None:
    (crossing,) = crossings(points_of(np.full(DAYS_MINIMUM, 0.01))[:count], [0.75])
    assert crossing.at is None
    assert crossing.reason


@given(
    st.lists(st.floats(-0.05, 0.05), min_size=DAYS_MINIMUM, max_size=40),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_the_ends_are_in_order_and_a_higher_level_is_passed_later(days, random) -> None:
    points = points_of(np.array(days), 0.5)
    levels = [0.55, 0.75, 1.0]
    made = crossings(points, levels)
    for crossing in made:
        assert list(when(crossing)) == sorted(when(crossing))
        assert crossing.latest is None or crossing.latest <= datetime.fromtimestamp(
            points[-1][0], UTC
        ) + timedelta(days=AHEAD_DAYS)
    for lower, higher in pairwise(made):
        if not lower.is_passed:
            assert all(a <= b for a, b in zip(when(lower), when(higher), strict=True))
    random.shuffle(points)
    assert crossings(points, levels) == made
