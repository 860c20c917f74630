"""What is kept of a life and what its months say; bends, balance and a few OSTs."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest
from benchmarks.reproduction import aging, eth, perlmutter
from benchmarks.reproduction.life import LifeRun
from benchmarks.reproduction.statements import SeededRow
from benchmarks.reproduction.tensions import balance, drawn_balance
from tests.reproduction.lives import NEW_YEAR, coarse, hourly, job, life, survey
from tests.support.narrow import present

from trimtab.twin.scenario import Resolution
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.probe_run import NAMES

DAY_S = 86400.0


def said(rows, id: str) -> SeededRow:
    return next(one for one in rows if one.row.id == id)


def test_a_life_is_what_the_simulation_says_with_marks_and_trims_on_the_way() -> None:
    scenario = coarse("eth-euler")
    first, second = (scenario.start + timedelta(days=days) for days in (1, 2))
    found = LifeRun("eth", scenario, 3 * DAY_S, marks=(second,), trims=(first,)).answer()
    other = Simulation(scenario, threads=1)
    other.run(first)
    given = [other.trim(column) for column in range(other.columns.count)]
    assert sum(given) > 0
    other.run(scenario.start + timedelta(days=3))
    assert found.until == other.now
    for name in NAMES:
        np.testing.assert_array_equal(found.traced[name], other.trace.of(name))
    assert found.jobs == tuple(other.trace.jobs)
    mark = present(found.at(second))
    assert mark.at == second
    assert 0 < mark.percentage_used < 0.01
    assert found.at(second + timedelta(days=30)) is None


def test_means_are_weighted_by_osts_and_leave_out_columns_that_were_not_there() -> None:
    found = life(traced=dict.fromkeys(NAMES, np.array([[1.0, 3.0], [2.0, np.nan]], np.float32)))
    start = found.scenario.start
    one, two = (start + timedelta(hours=hours) for hours in (1, 2))
    assert found.mean("fullness", start, one) == pytest.approx((1 + 3 * 3) / 4)
    assert found.mean("fullness", one, two) == 2.0
    assert found.mean("fullness", start, two) == pytest.approx((1 + 3 * 3 + 2) / 5)
    assert found.mean("fullness", two, two) is None
    assert found.over_time("fullness").tolist() == pytest.approx([2.5, 2.0])


def test_months_are_the_first_and_the_last_of_the_calendar() -> None:
    first = load_scenario("perlmutter").start + timedelta(days=40)
    last = load_scenario("perlmutter").end - timedelta(days=3)
    between = first + timedelta(days=90)
    surveys = [survey(first, [10e9, np.nan]), survey(between, [1e9]), survey(last, [20e9, 22e9])]
    found = life(surveys=surveys)
    early, late = (perlmutter.month_of(found, last=last) for last in (False, True))
    assert early is not None
    assert early.tolist() == [10e9]
    assert late is not None
    assert late.tolist() == [20e9, 22e9]
    assert perlmutter.month_of(life(surveys=surveys[:2]), last=True) is None
    assert perlmutter.month_of(life(), last=False) is None
    rows = list(perlmutter.rows([found, life(surveys=[*surveys[:2], survey(last, [30e9])])]))
    gain = said(rows, "23-ratio")
    assert gain.row.twin == pytest.approx((1.1 + 2.0) / 2)
    assert (gain.low, gain.high) == (pytest.approx(1.1), pytest.approx(2.0))
    assert gain.missed
    assert said(rows, "24-minimum-last").low == 20e9
    assert said(rows, "25-tail").row.twin == 0.0


def test_240_hours_beside_a_change_count_what_did_not_finish_as_zero() -> None:
    scenario = load_scenario("perlmutter")
    at = next(one.at for one in scenario.changes if "clients.checksums" in one.set)
    runs = [job(at + timedelta(hours=hour), 600e9) for hour in range(-300, 0)]
    runs += [job(at + timedelta(hours=hour), 480e9) for hour in range(1, 300)]
    runs[-100] = job(runs[-100].at, None)
    before, after = perlmutter.beside(life(jobs=runs), "clients.checksums")
    assert (len(before), len(after)) == (240, 240)
    assert before == [600e9] * 240
    assert sorted(after)[:2] == [0.0, 480e9]
    rows = list(perlmutter.rows([life(jobs=runs)]))
    assert said(rows, "37-240h-ratio").row.twin == pytest.approx(0.8 * 239 / 240 - 1)
    assert said(rows, "36-240h").row.twin is None


def test_days_over_the_goal_are_those_on_which_it_rose() -> None:
    runs = hourly(NEW_YEAR - timedelta(days=5), 24 * 40, {24 * 15: None, 24 * 30: 300e9})
    found = life(jobs=runs)
    until = NEW_YEAR + timedelta(days=91)
    assert perlmutter.days_over(found, NEW_YEAR, until) == [date(2024, 1, 11)]
    worse = life(jobs=hourly(NEW_YEAR, 24 * 40, {24 * 15: None, 24 * 29: None}))
    assert perlmutter.days_over(worse, NEW_YEAR, until) == [date(2024, 1, 16), date(2024, 1, 30)]
    rows = list(perlmutter.rows([worse]))
    assert said(rows, "43-days").row.twin == 2
    # The one of January the 30th is within 48 h of the OST that fills up on the 29th.
    assert said(rows, "44-unexplained").row.twin == 2 - 1


def test_the_horizon_is_the_age_of_the_oldest_bytes() -> None:
    by_day = np.zeros(732)
    by_day[[0, 100, 380]] = [1e15, 1e15, 1e13]
    by_day[700] = 1.0
    assert perlmutter.horizon_s(life(by_day=by_day)) == 380 * DAY_S
    early = replace(life(by_day=by_day), until=life().scenario.start)
    assert perlmutter.horizon_s(early) is None


def test_rows_that_were_not_reached_say_so() -> None:
    late = said(list(eth.rows([life(scenario=load_scenario("eth-euler"))])), "27-trimmed")
    assert late.row.twin is None
    assert "no run came that far" in late.row.note
    assert late.row.error is None


def test_eth_is_held_against_perfect_conditions_around_the_first_trim() -> None:
    scenario = load_scenario("eth-euler")
    fixed, trim = eth.fixed_at(scenario), eth.first_trim(scenario)
    assert scenario.start < fixed < trim < scenario.end
    runs = [
        job(fixed - timedelta(days=3), 1e9),
        job(fixed + timedelta(days=3), 9e9),
        job(fixed + timedelta(days=30), 27e9),
        job(trim + timedelta(days=3), 36e9),
    ]
    rows = list(eth.rows([life(scenario=scenario, jobs=runs)]))
    assert said(rows, "27-slow").row.twin == pytest.approx(0.25)
    assert said(rows, "27-slow").verdict == "met"
    assert "0.75 from then to the trim" in said(rows, "27-slow").row.note
    assert said(rows, "27-read").row.twin == pytest.approx(9 / 45)
    assert said(rows, "27-trimmed").row.twin == 1.0


# Bends, balance and the experiments on a few OSTs


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
