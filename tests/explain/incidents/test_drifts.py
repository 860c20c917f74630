"""Losses in one direction: one drift with its total where they are gradual, steps where not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from tests.calibration import series as noise
from tests.support.small_site import hour

from trimtab.base.incident import Incident, Shape
from trimtab.base.series import ChangePoint, ChangeStatus, SeriesKey
from trimtab.explain.context import SURVEYS
from trimtab.explain.incidents.detection import find_troubles
from trimtab.judge.series_analysis import judge_series

KEY = SeriesKey("s", "hourly", "ior", "write_bandwidth", "B/s")
DAYS = 70

pytestmark = pytest.mark.calibration


def incidents(
    shape: Callable[[np.ndarray], np.ndarray], seed: int, cov: float = 0.04
) -> tuple[list[Incident], list[ChangePoint]]:
    """Return the incidents of a series with a shape of its level, and its confirmed changes."""
    rng = np.random.default_rng(seed)
    days = np.arange(24 * DAYS) / 24
    values = noise.lognormal(noise.ar1(24 * DAYS, 0.4, rng), cov=cov) * shape(days)
    frame = noise.frame(values)
    judged = judge_series(frame, KEY)
    lasting = find_troubles(
        [judged], {KEY: frame}, pl.DataFrame(schema=SURVEYS), site="s", now=hour(24 * DAYS)
    ).incidents
    confirmed = [change for change in judged.changes if change.status is ChangeStatus.CONFIRMED]
    return [entry for entry in lasting if entry.shape in (Shape.STEP, Shape.DRIFT)], confirmed


def line(first: float, last: float, share: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda days: 1 - (1 - share) * np.clip((days - first) / (last - first), 0, 1)


def stairs(*steps: tuple[float, float]) -> Callable[[np.ndarray], np.ndarray]:
    def level(days: np.ndarray) -> np.ndarray:
        values = np.ones(len(days))
        for day, share in steps:
            values[days >= day] *= share
        return values

    return level


@pytest.mark.parametrize(("share", "last"), [(0.85, 55), (0.7, 35)])
def test_a_gradual_loss_is_one_drift_with_its_total(share: float, last: int) -> None:
    whole = 0
    for seed in range(4):
        lasting, _ = incidents(line(20, last, share), seed)
        drifts = [incident for incident in lasting if incident.shape is Shape.DRIFT]
        whole += (
            len(lasting) == 1
            and len(drifts) == 1
            and drifts[0].until is None
            and abs((drifts[0].effect or 0) - share) < 0.03
        )
    assert whole >= 3


def test_steps_stay_steps() -> None:
    kept = 0
    for seed in range(6):
        lasting, confirmed = incidents(stairs((25, 0.85), (36, 0.85)), seed)
        assert len(confirmed) >= 2
        kept += sorted(incident.shape for incident in lasting) == [Shape.STEP, Shape.STEP]
    assert kept >= 5


def test_a_drift_that_recovers_has_ended() -> None:
    def level(days: np.ndarray) -> np.ndarray:
        return np.where(days < 55, line(20, 50, 0.75)(days), 1.0)

    lasting, _ = incidents(level, 1)
    (drift,) = [incident for incident in lasting if incident.shape is Shape.DRIFT]
    assert drift.until is not None
    assert abs(drift.until - hour(24 * 55)) <= hour(24) - hour(0)
