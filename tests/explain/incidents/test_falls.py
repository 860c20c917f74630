"""A level that falls over hours or days is one incident, as deep as it fell and as long."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.calibration import series as noise
from tests.support.small_site import HOUR, hour

from trimtab.base.incident import Incident, Shape
from trimtab.base.series import SeriesKey
from trimtab.explain.context import SURVEYS
from trimtab.explain.incidents.detection import find_troubles
from trimtab.judge.series_analysis import judge_series

FALLS = 400
"""Hour at which the level begins to fall."""


def incidents(values: np.ndarray) -> tuple[Incident, ...]:
    """Return the incidents of an hourly series, the earliest first."""
    key = SeriesKey("s", "hourly", "ior", "write_bandwidth", "B/s")
    frame = noise.frame(values)
    troubles = find_troubles(
        [judge_series(frame, key)], {key: frame}, pl.DataFrame(schema=SURVEYS),
        site="s", now=hour(len(values)),
    )  # fmt: skip
    return troubles.incidents[::-1]


def falling(seed: int, over_h: int, level: float, lasts_h: int | None = None) -> np.ndarray:
    """Return a series that falls to ``level`` over some hours, and is back after ``lasts_h``."""
    rng = np.random.default_rng([seed, over_h])
    values = noise.lognormal(noise.ar1(24 * 35, 0.4, rng), cov=0.04)
    since = np.arange(len(values)) - FALLS
    factor = np.interp(since, [0, over_h], [1.0, level])
    if lasts_h is not None:
        factor = np.where(since < lasts_h, factor, 1.0)
    return values * factor


@pytest.mark.calibration
@pytest.mark.parametrize("over_h", [6, 12, 24, 36, 48])
@pytest.mark.parametrize("lasts_h", [None, 144])
def test_a_fall_over_hours_is_reported_whole(over_h: int, lasts_h: int | None) -> None:
    """The levels during the fall are uncertain, those before and after it are not."""
    for level in (0.9, 0.75, 0.5):
        for seed in range(3):
            deepest, *_ = sorted(
                incidents(falling(seed, over_h, level, lasts_h)),
                key=lambda incident: incident.effect or 1.0,
            )
            assert deepest.shape in {Shape.STEP, Shape.DRIFT}
            assert deepest.effect == pytest.approx(level, rel=0.08)
            assert abs(deepest.at - hour(FALLS)) <= max(over_h, 12) * HOUR
            if lasts_h is None:
                assert deepest.until is None
            else:
                assert deepest.until is not None
                assert abs(deepest.until - hour(FALLS + lasts_h)) <= 12 * HOUR


@pytest.mark.parametrize("lasts_h", [60, 100, 144, 200])
def test_the_recovery_from_a_step_is_no_incident(lasts_h: int) -> None:
    """The windows that hold the end of a step spread as those that hold its beginning."""
    (step,) = incidents(falling(1, 0, 0.5, lasts_h))
    assert (step.shape, step.at) == (Shape.STEP, hour(FALLS))
