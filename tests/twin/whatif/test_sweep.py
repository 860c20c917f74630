"""Sweeps and the figures of their runs: the same however they are run, by hand and by slow ways."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.narrow import present

from trimtab.base.error import Interrupted
from trimtab.base.run import RunStatus
from trimtab.base.verdict import Interval
from trimtab.reach.worker_process import one_by_one, side_by_side
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.probe_run import JobRun, SurveyRun
from trimtab.twin.whatif import whatif_figure
from trimtab.twin.whatif.whatif_figure import (
    KINDS,
    FigureCache,
    SimulatedRun,
    answered,
    listener,
    seeded,
)
from trimtab.twin.whatif.whatif_request import Axis, combinations
from trimtab.twin.whatif.whatif_sweep import seeds_interval, summed, sweep, without_effect

SMALL = replace_keys(
    load_scenario("template"),
    {"resolution.classes": "1", "resolution.groups": "1", "resolution.superblock_units": "16"},
)
AXES = [Axis("trim", ("never", "nightly")), Axis("start-fullness", ("0.5", "0.7"))]
UNTIL_S = 12 * 3600.0


def run(kept: FigureCache | None = None, together=one_by_one, seeds: int = 2):
    return sweep(
        combinations(SMALL, AXES), seeds=seeds, until_s=UNTIL_S, together=together,
        cache=kept or FigureCache(None),
    )  # fmt: skip


@pytest.fixture(scope="module")
def swept():
    return run()


def test_fuller_is_fuller(swept):
    assert len(swept.rows) == 4
    half, fuller = (swept.rows[at].figure("fullness").mean for at in (0, 1))
    assert half == pytest.approx(0.5, abs=0.05)
    assert fuller - half == pytest.approx(0.2, abs=0.02)
    assert swept.rows[1].figure("fullness").difference == pytest.approx(fuller - half)
    assert swept.rows[0].figure("fullness").difference is None


def test_it_is_taken_up_from_a_file(tmp_path, swept):
    path = tmp_path / "deep" / "kept.jsonl"
    assert run(FigureCache(path)) == swept
    lines = path.read_text().splitlines()
    assert [{*json.loads(line)} for line in lines] == [{"key", "figures"}] * 8
    # Killed within the sixth line: five are whole.
    path.write_text("\n".join(lines[:5]) + "\n" + lines[5][:40])
    assert run(FigureCache(path)) == replace(swept, taken_up=5)
    assert {*lines} <= {*path.read_text().splitlines()}
    assert run(FigureCache(path), together=_nothing) == replace(swept, taken_up=8)


def _nothing(questions) -> Iterator[object]:
    assert list(questions) == []
    return iter(())


def test_what_was_done_before_an_interruption_is_kept(tmp_path):
    def interrupted(questions):
        for number, question in enumerate(questions):
            if number == 3:
                raise Interrupted("interrupted")
            yield question.answer()

    path = tmp_path / "kept.jsonl"
    with pytest.raises(Interrupted):
        run(FigureCache(path), together=interrupted)
    assert len(path.read_text().splitlines()) == 3
    assert run(FigureCache(path)).taken_up == 3


def test_other_scenarios_have_other_keys():
    base = SimulatedRun(SMALL, UNTIL_S)
    others = [
        SimulatedRun(replace(SMALL, seed=SMALL.seed + 1), UNTIL_S),
        SimulatedRun(SMALL, UNTIL_S + 1),
        SimulatedRun(replace(SMALL, trim=replace(SMALL.trim, every_s=1.0)), UNTIL_S),
        SimulatedRun(replace(SMALL, changes=()), UNTIL_S)
        if SMALL.changes
        else SimulatedRun(SMALL, 1.0),
    ]
    keys = [one.key for one in (base, *others)]
    assert len(set(keys)) == len(keys)


def test_words_about_a_scenario_are_no_physics():
    base = SimulatedRun(SMALL, UNTIL_S)
    assert SimulatedRun(replace(SMALL, source="elsewhere", title="x"), UNTIL_S).key == base.key
    assert SimulatedRun(replace(SMALL, assumptions={}), UNTIL_S).key == base.key


@pytest.mark.system
def test_the_key_is_the_same_in_every_process():
    with side_by_side(2, hint="") as together:
        keys = list(together([_Ask(SimulatedRun(SMALL, UNTIL_S)) for _ in range(4)]))
    assert set(keys) == {SimulatedRun(SMALL, UNTIL_S).key}


class _Ask:
    def __init__(self, run: SimulatedRun) -> None:
        self.run = run

    def answer(self) -> str:
        return self.run.key


def test_equal_scenarios_are_run_once(tmp_path):
    cases = combinations(SMALL, [Axis("trim", ("weekly", "7d"))])
    path = tmp_path / "kept.jsonl"
    found = sweep(cases, seeds=1, until_s=UNTIL_S, together=one_by_one, cache=FigureCache(path))
    assert len(path.read_text().splitlines()) == 1
    one, other = (row.figure("fullness").mean for row in found.rows)
    assert one == other


def test_seeds_follow_the_scenarios_own():
    assert [one.seed for one in seeded(SMALL, 3)] == [SMALL.seed + n for n in range(3)]


def test_intervals_by_hand():
    runs = [{"ior_write": value} for value in (10.0, 12.0, 14.0, 30.0, 11.0)]
    first = [{"ior_write": value} for value in (9.0, 12.5, 12.0, 30.0, 8.0)]
    summary = next(figure for figure in summed(runs, first) if figure.name == "ior_write")
    # The median of all lies outside of the range of five with 2 / 2^5.
    assert (summary.mean, summary.median) == (15.4, 12.0)
    assert (summary.interval, summary.difference) == (Interval(10.0, 30.0, 1 - 2 / 2**5), 1.0)
    assert summary.difference_interval == Interval(-0.5, 3.0, 1 - 2 / 2**5)


def test_fewer_than_five_seeds_have_no_interval():
    runs = [{"fullness": value} for value in (0.01, 0.4, 0.6, 0.99)]
    summary = next(figure for figure in summed(runs, runs) if figure.name == "fullness")
    assert (summary.interval, summary.difference_interval, summary.median) == (None, None, 0.5)


@pytest.mark.parametrize("count", [5, 8, 20])
def test_the_interval_holds_the_median_as_often_as_it_says(count):
    """Of a distribution with a cliff: the interval never leaves what runs gave."""
    draws = np.random.default_rng(count)
    held, level = 0, 0.0
    for _ in range(2000):
        values = np.where(draws.random(count) < 0.3, 1.0, 100.0 + draws.normal(size=count))
        interval = present(seeds_interval(values.tolist()))
        assert values.min() <= interval.low <= interval.high <= values.max()
        level = interval.level
        # The median of all: the least 2/7 of the upper part of 0.7.
        held += interval.low <= 100.0 - 0.5659488 <= interval.high
    assert level >= 0.9375
    assert held / 2000 == pytest.approx(level, abs=0.02)


def test_a_setting_without_effect_is_named_with_its_reason():
    cases = combinations(SMALL, [Axis("purge", ("0.7", "0.8")), Axis("trim", ("never", "weekly"))])
    figures = [[{"fullness": 0.69, "ior_write": speed}] for speed in (1.0, 2.0) * 2]
    assert {name: why.code for name, why in without_effect(cases, figures).items()} == {
        "purge": "value-not-reached"
    }
    alike = [[{"fullness": 0.75, "ior_write": 1.0}] for _ in cases]
    reasons = {name: why.code for name, why in without_effect(cases, alike).items()}
    assert reasons == {"purge": "no-figure-differs", "trim": "no-figure-differs"}
    figures[3] = [{"fullness": 0.69, "ior_write": 3.0}]
    assert without_effect(cases, figures) == {}


def test_what_no_run_tells_has_no_figure():
    told = summed([{"ior_write": None}], [{"ior_write": 1.0}])
    assert [one.name for one in told] == [kind.name for kind in KINDS]
    assert {(one.n, one.mean, one.median, one.interval, one.difference) for one in told} == {
        (0, None, None, None, None)
    }


def test_differences_of_nothing_are_found_within_chance():
    """False alarms: two combinations that are alike, of 15 of 16 the interval holds 0."""
    draws = np.random.default_rng(5)
    alarms = 0
    for _ in range(2000):
        both = draws.normal(10, 1, (2, 5))
        runs, first = ([{"ior_write": float(value)} for value in side] for side in both)
        told = next(one for one in summed(runs, first) if one.name == "ior_write")
        interval = present(told.difference_interval)
        alarms += not interval.low <= 0 <= interval.high
    assert alarms / 2000 == pytest.approx(2 / 2**5, abs=0.015)


def test_a_file_of_rubbish_is_no_results(tmp_path):
    path: Path = tmp_path / "rubbish"
    path.write_bytes(b'\xff\xfe\n[1, 2]\n{"key": 3}\nnull\n')
    assert FigureCache(path).get("3") is None


@dataclass(frozen=True)
class Telling:
    """A run that says when it is half done."""

    def answer(self) -> str:
        present(listener.get())(0.5)
        return "answer"


def test_how_far_runs_are_is_told_from_the_first_on_and_within_each():
    seen: list[tuple[str, float]] = []
    runs = [Telling()] * 4
    answers = answered(
        runs, one_by_one, lambda text, part: seen.append((text, part)), noun="runs", at_once=2
    )
    assert list(answers) == ["answer"] * 4
    parts = [part for _, part in seen]
    assert parts[:3] == [0.0, 0.25, 0.25]
    assert parts == sorted(parts)
    assert seen[-1] == ("4 of 4 runs", 1.0)
    assert listener.get() is None


# Figures of a run


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
    assert (found["ior_cov"], found["ior_cov_missed"], found["ior_write"]) == (None, None, 6e11)


def test_no_runs_tell_nothing():
    assert set(whatif_figure.of_jobs([]).values()) == {None}
    assert set(whatif_figure.of_surveys([]).values()) == {None}


def test_probes_that_ask_for_different_things_are_no_spread():
    small = [replace(one, probe="daily", write_bytes_per_s=1e11) for one in jobs_of([6e11] * 60)]
    both = sorted([*jobs_of([6e11] * 60), *small], key=lambda one: one.at)
    found = whatif_figure.of_jobs(both)
    assert (found["ior_cov"], found["ior_cov_missed"]) == (pytest.approx(0, abs=1e-12), 0)


def test_runs_that_were_not_started_are_missing_and_not_0():
    jobs = jobs_of([6e11] * 60)
    jobs[40] = JobRun("hourly", jobs[40].at, RunStatus.NOT_STARTED)
    assert whatif_figure.of_jobs(jobs)["ior_cov"] == pytest.approx(0, abs=1e-12)
    assert whatif_figure.of_jobs(jobs)["ior_unfinished"] == pytest.approx(1 / 60)


def test_surveys_leave_out_what_did_not_answer():
    rates = [np.array([20e9, np.nan, 10e9]), np.array([18e9, 19e9, 2e9])]
    # As `run_survey` has it: one with a silent OST is unfinished, and the others' rates are there.
    both = zip(ENDED, rates, strict=True)
    surveys = [SurveyRun("daily", START, status, rate, rate) for status, rate in both]
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
    limits = {"gating.limit": "3%", "gating.reopen": "2%", "gating.most_closed": "1"}
    keys = {"resolution.classes": "2", **limits}
    closed = replace_keys(load_scenario("template"), {**keys, "gating.enabled": "true"})
    found = SimulatedRun(closed, 86400.0).answer()
    assert (found["write_amplification"], found["flash_drive_writes_per_day"]) == (None, None)


def test_the_horizon_by_hand(simulated):
    by_day = simulated.population.by_age().sum(axis=0)
    whole, seen, days = by_day.sum(), 0.0, 0
    while seen < 0.99 * whole:
        seen += by_day[days]
        days += 1
    assert whatif_figure.figures_of(simulated)["horizon"] == pytest.approx(days * 86400.0)
