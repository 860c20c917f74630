"""Figures of a run against slow ways to the same, and against cases by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.base.run import RunStatus
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.probe_run import JobRun, SurveyRun
from trimtab.twin.whatif import whatif_figure
from trimtab.twin.whatif.whatif_figure import SimulatedRun

START = datetime(2026, 3, 2, tzinfo=UTC)
ENDED = (RunStatus.UNFINISHED, RunStatus.OK)


def jobs_of(rates: list[float | None]) -> list[JobRun]:
    return [
        JobRun("hourly", START + timedelta(hours=hour), ENDED[rate is not None],
               rate, rate)
        for hour, rate in enumerate(rates)
    ]  # fmt: skip


@pytest.mark.calibration
@settings(max_examples=30)
@given(st.lists(st.one_of(st.none(), st.floats(5e11, 8e11)), min_size=40, max_size=120))
def test_spread_against_windows_one_by_one(rates):
    found = whatif_figure.of_jobs(jobs_of(rates))
    covs = []
    for last in range(36, len(rates)):
        window = [rate or 0.0 for rate in rates[max(0, last - 47) : last + 1]]
        mean = sum(window) / len(window)
        if mean > 0:
            covs.append(stdev(window) / mean)
    if covs:
        assert found["ior_cov"] == pytest.approx(median(covs), rel=1e-6)
        assert found["ior_cov_missed"] == pytest.approx(
            sum(one > 0.08 for one in covs) / len(covs), abs=1e-9
        )
    finished = [rate for rate in rates if rate is not None]
    if finished:
        assert found["ior_write"] == pytest.approx(math.fsum(finished) / len(finished))
    assert found["ior_unfinished"] == pytest.approx(1 - len(finished) / len(rates))


def test_a_day_of_runs_is_too_little_for_a_spread():
    found = whatif_figure.of_jobs(jobs_of([6e11] * 30))
    assert found["ior_cov"] is None
    assert found["ior_cov_missed"] is None
    assert found["ior_write"] == 6e11


def test_no_runs_tell_nothing():
    assert set(whatif_figure.of_jobs([]).values()) == {None}
    assert set(whatif_figure.of_surveys([]).values()) == {None}


def test_probes_that_ask_for_different_things_are_no_spread():
    small = [replace(one, probe="daily", write_bytes_per_s=1e11) for one in jobs_of([6e11] * 60)]
    both = sorted([*jobs_of([6e11] * 60), *small], key=lambda one: one.at)
    found = whatif_figure.of_jobs(both)
    assert found["ior_cov"] == pytest.approx(0, abs=1e-12)
    assert found["ior_cov_missed"] == 0


def test_runs_that_were_not_started_are_missing_and_not_0():
    jobs = jobs_of([6e11] * 60)
    jobs[40] = JobRun("hourly", jobs[40].at, RunStatus.NOT_STARTED)
    assert whatif_figure.of_jobs(jobs)["ior_cov"] == pytest.approx(0, abs=1e-12)
    assert whatif_figure.of_jobs(jobs)["ior_unfinished"] == pytest.approx(1 / 60)


def test_surveys_leave_out_what_did_not_answer():
    rates = [np.array([20e9, np.nan, 10e9]), np.array([18e9, 19e9, 2e9])]
    # As `run_survey` has it: one with a silent OST is unfinished, and the others' rates are there.
    surveys = [
        SurveyRun("daily", START, status, one, one)
        for status, one in zip(ENDED, rates, strict=True)
    ]
    failed = SurveyRun("daily", START, RunStatus.FAILED, np.zeros(3), np.zeros(3))
    found = whatif_figure.of_surveys([*surveys, failed])
    assert found["ost_write"] == pytest.approx((20 + 10 + 18 + 19 + 2) / 5 * 1e9)
    assert found["ost_write_least"] == 2e9


@pytest.fixture(scope="module")
def simulated() -> Simulation:
    scenario = replace_keys(
        load_scenario("template"),
        {"resolution.classes": "2", "resolution.groups": "1", "resolution.superblock_units": "8"},
    )
    simulation = Simulation(scenario, threads=1)
    simulation.run(simulation.now + timedelta(days=2))
    return simulation


def test_every_kind_is_told_or_none(simulated):
    found = whatif_figure.figures_of(simulated)
    assert list(found) == [kind.name for kind in whatif_figure.KINDS]
    assert all(one is None or math.isfinite(one) for one in found.values())


def test_figures_of_a_run_against_its_columns_one_by_one(simulated):
    found = whatif_figure.figures_of(simulated)
    state, weight = simulated.state, simulated.columns.weight
    osts = range(len(weight))
    used = sum(weight[one] * state.used_bytes[one] for one in osts)
    whole = sum(weight[one] * state.capacity_bytes[one] for one in osts)
    assert found["fullness"] == pytest.approx(used / whole)
    written = sum(weight[one] * state.bytes_written_total[one] for one in osts)
    flash = sum(weight[one] * state.flash_written_total[one] for one in osts)
    assert written > 0
    assert found["write_amplification"] == pytest.approx(flash / written)
    raid, drive = simulated.scenario.osts.raid, simulated.scenario.osts.drive
    drives = weight.sum() * raid.drives / raid.shared
    per_day = flash * (raid.data + raid.parity) / raid.data / drives / 2
    assert found["flash_drive_writes_per_day"] == pytest.approx(per_day / drive.capacity_bytes)
    fullest = max(float(row[one]) for row in simulated.trace.of("fullness") for one in osts)
    assert found["fullest"] == pytest.approx(fullest)


def test_writes_of_a_day_are_of_the_time_that_passed_and_not_of_that_asked_for():
    scenario = replace_keys(
        load_scenario("e1000-f"), {"resolution.epoch": "6h", "users.daily_writes": "10TB"}
    )
    found = [SimulatedRun(scenario, hours * 3600.0).answer() for hours in (7, 12)]
    assert found[0] == found[1], "two epochs each"


def test_too_few_writes_tell_nothing_of_the_flash():
    """All OSTs are closed after an hour: what drives cleaned then was owed to writes before."""
    keys = {
        "resolution.classes": "2",
        "gating.limit": "3%",
        "gating.reopen": "2%",
        "gating.most_closed": "1",
    }
    closed = replace_keys(load_scenario("template"), {**keys, "gating.enabled": "true"})
    found = SimulatedRun(closed, 86400.0).answer()
    assert found["write_amplification"] is None
    assert found["flash_drive_writes_per_day"] is None


def test_the_horizon_by_hand(simulated):
    by_day = simulated.population.by_age().sum(axis=0)
    whole, seen, days = by_day.sum(), 0.0, 0
    while seen < 0.99 * whole:
        seen += by_day[days]
        days += 1
    found = whatif_figure.figures_of(simulated)["horizon"]
    assert found == pytest.approx(days * 86400.0)
