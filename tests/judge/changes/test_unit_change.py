"""A step as large as one unit is of another is told as that, and a step of performance is not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge.changes.made import noisy, times
from tests.support.changes import changes_among

from trimtab.base.series import ChangeStatus
from trimtab.base.verdict import Interval
from trimtab.judge.change_point import unit_change


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
    assert change.status is ChangeStatus.CONFIRMED
    assert change.reason.code == "change-of-unit"
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
