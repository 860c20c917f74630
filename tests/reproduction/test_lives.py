"""What is kept of a life, and what the months of one say."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest
from benchmarks.reproduction import eth, perlmutter
from benchmarks.reproduction.life import LifeRun
from benchmarks.reproduction.statements import SeededRow
from tests.reproduction.lives import NEW_YEAR, coarse, hourly, job, life, survey

from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.probe_run import NAMES

DAY_S = 86400.0


def said(rows, id: str) -> SeededRow:
    return next(one for one in rows if one.row.id == id)


def test_a_life_is_what_the_simulation_says_with_marks_and_trims_on_the_way() -> None:
    scenario = coarse("eth-euler")
    first, second = (scenario.start + timedelta(days=days) for days in (1, 2))
    run = LifeRun("eth", scenario, 3 * DAY_S, marks=(second,), trims=(first,))
    found = run.answer()
    other = Simulation(scenario, threads=1)
    other.run(first)
    given = [other.trim(column) for column in range(other.columns.count)]
    assert sum(given) > 0
    other.run(scenario.start + timedelta(days=3))
    assert found.until == other.now
    for name in NAMES:
        np.testing.assert_array_equal(found.traced[name], other.trace.of(name))
    assert found.jobs == tuple(other.trace.jobs)
    mark = found.at(second)
    assert mark is not None
    assert mark.at == second
    assert 0 < mark.percentage_used < 0.01
    assert found.at(second + timedelta(days=30)) is None


def test_means_are_weighted_by_osts_and_leave_out_columns_that_were_not_there() -> None:
    values = np.array([[1.0, 3.0], [2.0, np.nan]], np.float32)
    found = life(traced=dict.fromkeys(NAMES, values))
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
    days = perlmutter.days_over(found, NEW_YEAR, until)
    assert days == [date(2024, 1, 11)]
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
    rows = list(eth.rows([life(scenario=load_scenario("eth-euler"))]))
    late = said(rows, "27-trimmed")
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
