"""Bends, balance and the experiments on a few OSTs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.reproduction import aging
from benchmarks.reproduction.tensions import balance, drawn_balance
from tests.reproduction.lives import coarse

from trimtab.twin.scenario import Resolution

FRESH = 28e9


def slow_bend(x: np.ndarray, y: np.ndarray) -> float:
    """Return the same by every pair of lines through a point at each place."""
    best, found = np.inf, np.nan
    for place in np.linspace(x[1], x[-2], 201):
        left, right = x <= place, x > place
        design = np.zeros((len(x), 3))
        design[:, 0] = 1
        design[left, 1] = x[left] - place
        design[right, 2] = x[right] - place
        error = y - design @ np.linalg.pinv(design) @ y
        if error @ error < best - 1e-12:
            best, found = float(error @ error), float(place)
    return found


def point(fullness: float, drives: float, delivered: float) -> aging.Point:
    return aging.Point(fullness, 1.5, 0.9, drives, delivered)


def test_a_bend_is_where_two_lines_meet() -> None:
    x = np.array(aging.FULLNESS)
    random = np.random.default_rng(1)
    for place in (0.62, 0.7, 0.78):
        y = 20 - 5 * x - 90 * np.maximum(x - place, 0)
        assert aging.bend(x.tolist(), y.tolist()) == pytest.approx(place, abs=0.003)
        noisy = y + random.normal(0, 0.3, len(x))
        assert aging.bend(x.tolist(), noisy.tolist()) == pytest.approx(slow_bend(x, noisy))


def test_fullness_rows_say_where_each_begins() -> None:
    curve = [point(full, 20e9, 20e9 * (1 - max(0, full - 0.7))) for full in aging.FULLNESS]
    rows = {one.row.id: one.row for one in aging.fullness_rows({"before": [curve]})}
    assert rows["19-knee"].twin == pytest.approx(0.75)
    assert rows["46-fullness"].twin == pytest.approx(0.7, abs=0.003)
    assert rows["17-throttling"].twin == pytest.approx(1 / 0.9 - 1)
    flat = [point(full, 20e9, 20e9) for full in aging.FULLNESS]
    none = {one.row.id: one.row for one in aging.fullness_rows({"before": [flat]})}
    assert none["19-knee"].twin is None
    early = [point(full, 20e9, 10e9) for full in aging.FULLNESS]
    first = {one.row.id: one.row for one in aging.fullness_rows({"before": [early]})}
    assert first["19-knee"].twin == aging.FULLNESS[0]


@pytest.mark.calibration
def test_a_young_system_is_written_five_times_then_trimmed() -> None:
    perlmutter = coarse("perlmutter")
    run = aging.young_runs(perlmutter)[1]
    scenario = run.scenario
    daily = scenario.users.daily_writes_bytes
    days = (run.trims[0] - scenario.start).total_seconds() / 86400
    assert days * daily == pytest.approx(5 * aging.OSTS * 133e12, rel=1e-4)
    # As much on each OST as users and probe write to Perlmutter's.
    assert daily / aging.OSTS == pytest.approx(
        (perlmutter.users.daily_writes_bytes + 24 * 125e12) / 274, rel=0.01
    )
    assert scenario.trim.every_s is None
    # A day later. One block group would be walked at any fullness: as fine as it is by default.
    small = replace(scenario, resolution=Resolution(classes=None))
    life = replace(run, scenario=small).answer()
    day = small.length_s / 86400 - 3
    before, after = (aging.point(life, 0.3, *days) for days in ((day - 2, day), (day + 1, day + 2)))
    assert before.amplification > after.amplification >= 1.0
    assert before.delivered < after.delivered <= aging.fresh(small)
    assert life.over_time("fullness")[-1] == pytest.approx(aging.YOUNG[1], abs=0.06)


def test_balance_of_files_that_go_around() -> None:
    for files, osts in ((2048, 274), (2048, 298), (7, 7), (8, 7)):
        counts = np.bincount(np.arange(files) % osts, minlength=osts)
        assert balance(files, osts) == pytest.approx(counts.mean() / counts.max())
    assert balance(2048, 274) == pytest.approx(0.934, abs=5e-4)
    assert balance(2048, 298) == pytest.approx(0.982, abs=5e-4)


def test_balance_of_files_that_are_drawn() -> None:
    random = np.random.default_rng(3)
    most = [np.bincount(random.integers(298, size=2048), minlength=298).max() for _ in range(4000)]
    assert drawn_balance(2048, 298) == pytest.approx(2048 / 298 / np.mean(most), rel=5e-3)
