"""Sweeps: the same whatever the number of processes, taken up again, with honest intervals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trimtab.launch.interruption import Interrupted
from trimtab.loop.workers import one_by_one, side_by_side
from trimtab.twin.scenario.keys import replace_keys
from trimtab.twin.scenario.load import load_scenario
from trimtab.whatif.figures import KINDS
from trimtab.whatif.runs import FigureCache, Run, seeded
from trimtab.whatif.sweep import summed, sweep
from trimtab.whatif.vary import Axis, combinations

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
    base = Run(SMALL, UNTIL_S)
    others = [
        Run(replace(SMALL, seed=SMALL.seed + 1), UNTIL_S),
        Run(SMALL, UNTIL_S + 1),
        Run(replace(SMALL, trim=replace(SMALL.trim, every_s=1.0)), UNTIL_S),
        Run(replace(SMALL, changes=()), UNTIL_S) if SMALL.changes else Run(SMALL, 1.0),
    ]
    keys = [one.key for one in (base, *others)]
    assert len(set(keys)) == len(keys)


def test_words_about_a_scenario_are_no_physics():
    base = Run(SMALL, UNTIL_S)
    assert Run(replace(SMALL, source="elsewhere", title="x"), UNTIL_S).key == base.key
    assert Run(replace(SMALL, assumptions={}), UNTIL_S).key == base.key


@pytest.mark.system
def test_the_key_is_the_same_in_every_process():
    with side_by_side(2, hint="") as together:
        keys = list(together([_Ask(Run(SMALL, UNTIL_S)) for _ in range(4)]))
    assert set(keys) == {Run(SMALL, UNTIL_S).key}


class _Ask:
    def __init__(self, run: Run) -> None:
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
    runs = [{"ior_write": value} for value in (10.0, 12.0, 14.0)]
    first = [{"ior_write": value} for value in (9.0, 12.5, 12.0)]
    told = next(one for one in summed(runs, first) if one.name == "ior_write")
    # t(0.975, 2) = 4.3027; the standard deviation is 2, of the differences 1.258306.
    assert told.mean == 12
    assert told.interval is not None
    assert told.interval.high == pytest.approx(12 + 4.302653 * 2 / 3**0.5, rel=1e-6)
    assert told.difference == pytest.approx(2.5 / 3)
    assert told.difference_interval is not None
    assert told.difference_interval.high == pytest.approx(2.5 / 3 + 4.302653 * 1.258306 / 3**0.5)


def test_an_interval_holds_only_what_can_be():
    runs = [{"fullness": value, "ior_write": value} for value in (0.01, 0.99)]
    told = {one.name: one for one in summed(runs, None)}
    fullness, write = told["fullness"].interval, told["ior_write"].interval
    assert fullness is not None
    assert (fullness.low, fullness.high) == (0.0, 1.0)
    assert write is not None
    assert write.low == 0.0
    assert write.high > 1


def test_what_no_run_tells_has_no_figure():
    told = summed([{"ior_write": None}], [{"ior_write": 1.0}])
    assert [one.name for one in told] == [kind.name for kind in KINDS]
    assert {(one.n, one.mean, one.interval, one.difference) for one in told} == {
        (0, None, None, None)
    }


def test_differences_of_nothing_are_found_within_chance():
    """False alarms: two combinations that are alike, of 95 of 100 the interval holds 0."""
    draws = np.random.default_rng(5)
    alarms = 0
    for _ in range(2000):
        both = draws.normal(10, 1, (2, 4))
        runs, first = ([{"ior_write": float(value)} for value in side] for side in both)
        told = next(one for one in summed(runs, first) if one.name == "ior_write")
        interval = told.difference_interval
        assert interval is not None
        alarms += not interval.low <= 0 <= interval.high
    assert 0.035 < alarms / 2000 < 0.065


def test_a_file_of_rubbish_is_no_results(tmp_path):
    path: Path = tmp_path / "rubbish"
    path.write_bytes(b'\xff\xfe\n[1, 2]\n{"key": 3}\nnull\n')
    assert FigureCache(path).get("3") is None
