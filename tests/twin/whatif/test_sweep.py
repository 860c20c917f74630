"""Sweeps: the same whatever the number of processes, taken up again, with honest intervals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from trimtab.base.error import Interrupted
from trimtab.base.verdict import Interval
from trimtab.reach.worker_process import one_by_one, side_by_side
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.whatif.variation import Axis, combinations
from trimtab.twin.whatif.whatif_figure import (
    KINDS,
    FigureCache,
    SimulatedRun,
    answered,
    listener,
    seeded,
)
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


@pytest.mark.calibration
def test_two_processes_find_the_same_bit_for_bit(swept):
    with side_by_side(2, hint="") as together:
        assert run(together=together) == swept


def test_fuller_is_fuller(swept):
    assert len(swept.rows) == 4
    half, fuller = (swept.rows[at].figure("fullness").mean for at in (0, 1))
    assert half == pytest.approx(0.5, abs=0.05)
    assert fuller - half == pytest.approx(0.2, abs=0.02)
    told = swept.rows[1].figure("fullness")
    assert told.difference == pytest.approx(fuller - half)
    assert swept.rows[0].figure("fullness").difference is None


def test_it_is_taken_up_from_a_file(tmp_path, swept):
    path = tmp_path / "deep" / "kept.jsonl"
    first = run(FigureCache(path))
    assert first == swept
    lines = path.read_text().splitlines()
    assert len(lines) == 8
    # Killed within the sixth line: five are whole.
    path.write_text("\n".join(lines[:5]) + "\n" + lines[5][:40])
    again = run(FigureCache(path))
    assert again == replace(swept, taken_up=5)
    assert sum(_is_json(line) for line in path.read_text().splitlines()) == 8
    whole = run(FigureCache(path), together=_nothing)
    assert whole == replace(swept, taken_up=8)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


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
    assert summary.interval == Interval(10.0, 30.0, 1 - 2 / 2**5)
    assert summary.difference == 1.0
    assert summary.difference_interval == Interval(-0.5, 3.0, 1 - 2 / 2**5)


def test_fewer_than_five_seeds_have_no_interval():
    runs = [{"fullness": value} for value in (0.01, 0.4, 0.6, 0.99)]
    summary = next(figure for figure in summed(runs, runs) if figure.name == "fullness")
    assert (summary.interval, summary.difference_interval) == (None, None)
    assert summary.median == 0.5


@pytest.mark.parametrize("count", [5, 8, 20])
def test_the_interval_holds_the_median_as_often_as_it_says(count):
    """Of a distribution with a cliff: the interval never leaves what runs gave."""
    draws = np.random.default_rng(count)
    held, level = 0, 0.0
    for _ in range(2000):
        values = np.where(draws.random(count) < 0.3, 1.0, 100.0 + draws.normal(size=count))
        interval = seeds_interval(values.tolist())
        assert interval is not None
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
    assert {name: why.code for name, why in without_effect(cases, alike).items()} == {
        "purge": "no-figure-differs",
        "trim": "no-figure-differs",
    }
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
        interval = told.difference_interval
        assert interval is not None
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
        tell = listener.get()
        assert tell is not None
        tell(0.5)
        return "answer"


def test_how_far_runs_are_is_told_from_the_first_on_and_within_each():
    seen: list[tuple[str, float]] = []
    runs = [Telling()] * 4
    answers = answered(
        runs,
        one_by_one,
        lambda text, part: seen.append((text, part)),
        noun="runs",
        at_once=2,
    )
    assert list(answers) == ["answer"] * 4
    parts = [part for _, part in seen]
    assert parts[:3] == [0.0, 0.25, 0.25]
    assert parts == sorted(parts)
    assert seen[-1] == ("4 of 4 runs", 1.0)
    assert listener.get() is None
