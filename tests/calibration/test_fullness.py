"""Forecasts of fullness hold on the public record of a large site about as often as they say."""

import pytest
from tests.calibration.fullness import FILE, MORE, day_held, growth_held, read
from tests.reach.hosts import real_data
from tests.support.counts import repetitions

pytestmark = pytest.mark.calibration
LEAST = 0.8
"""Nominal 90 %; forecasts of two years overlap, and have the weight of some thirty."""


@pytest.mark.parametrize("step", repetitions(gate=14, soak=1))
def test_growth_and_days_are_within_their_intervals(step: int) -> None:
    for name, points in read(real_data(FILE)).items():
        for ahead in (7, 28):
            held = growth_held(name, points, ahead, step)
            assert held.forecasts > 400 // step
            assert held.above + held.below <= (1 - LEAST) * held.forecasts, held
        for more in MORE:
            told = day_held(name, points, more, step)
            assert told.forecasts > 300 // step
            assert told.before + told.after <= (1 - LEAST) * told.forecasts, told
