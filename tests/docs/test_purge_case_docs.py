"""The report of a purge is what was walked, and what was walked is what its mix comes to."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.purge_case import case, walk
from benchmarks.purge_case.places import planned_of

ROOT = Path(__file__).resolve().parents[2]
RESULT = json.loads((ROOT / "benchmarks" / "results" / "purge_case.json").read_text())
DAY_S = 86_400
STEPS = 400


def older(mix: case.Mix, days: float) -> float:
    """Return the share of a mix that was last used longer ago, added up in small steps.

    What is kept for ``kept`` days on the average was written e^(-age / kept) of it longer ago than
    an age, cut off at the oldest; what was read again was read at any time since, all as likely.
    """

    def written(kept: float, age: float) -> float:
        end = math.exp(-mix.oldest_days / kept)
        return max(0.0, (math.exp(-age / kept) - end) / (1 - end))

    def used(kept: float) -> float:
        parts = ((step + 0.5) / STEPS for step in range(STEPS))
        again = sum(written(kept, days / part) for part in parts) / STEPS
        return (1 - mix.reread_share) * written(kept, days) + mix.reread_share * again

    both = zip(mix.standing, mix.kept_days, strict=True)
    return sum(share * used(kept) for share, kept in both)


@pytest.mark.system
def test_the_page_is_what_the_results_give() -> None:
    script = ROOT / "scripts" / "purge_case_page.py"
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, "run scripts/purge_case_page.py"


def test_it_was_walked_at_the_size_that_the_page_is_about() -> None:
    walked = RESULT["case"]
    assert walked["index"]["rows"] == 100_000_000
    assert walked["capacity_bytes"] == 36 * 10**15
    horizon = walked["horizons"]["horizon"]
    assert horizon["needed"]["target"] == 0.75
    assert horizon["rules"]["minimum_age_s"] == 8 * 7 * DAY_S
    assert horizon["rules"]["reads_count"]
    assert not horizon["needed"]["doubts"]


def test_the_files_of_the_curve_are_those_of_the_mix() -> None:
    found = RESULT["case"]["horizons"]["horizon"]
    for step in found["steps"]:
        expected = older(case.MIXES[0], step["age_s"] / DAY_S)
        assert step["freed"]["files"] / found["files"] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("place", range(len(case.MIXES)))
def test_each_mix_is_what_it_says(place: int) -> None:
    mix, found = case.MIXES[place], RESULT["mixes"]["mixes"][place]
    assert found["name"] == mix.name
    for step in found["steps"]:
        expected = older(mix, step["age_s"] / DAY_S)
        assert step["freed"]["files"] / found["files"] == pytest.approx(expected, abs=0.02)


def test_a_horizon_is_the_least_that_suffices() -> None:
    for one in (RESULT["case"]["horizons"]["horizon"], *RESULT["mixes"]["mixes"]):
        needed = one["needed"]
        if needed["status"] != "reached":
            continue
        freed, required = needed["freed"]["allocated_bytes"], needed["required_bytes"]
        assert required <= freed
        # The curve at the next older age of the table is not enough.
        before = [step for step in one["steps"] if step["age_s"] > needed["age_s"] + 3600]
        assert all(step["freed"]["allocated_bytes"] < required for step in before)


def test_what_the_text_says_of_other_habits_holds() -> None:
    of = {one["name"]: one["needed"] for one in RESULT["mixes"]["mixes"]}
    usual = of["the case"]["age_s"]
    assert of["tidy users"]["age_s"] < 0.5 * usual
    assert 1.7 * usual < of["a second archive"]["age_s"] < 2 * usual
    assert of["young"]["age_s"] < 365 * DAY_S
    assert of["read again"]["age_s"] < usual
    files = [one["freed"]["files"] for one in of.values()]
    assert max(files) < 1.15 * min(files)


def test_what_the_text_says_of_targets_holds() -> None:
    found = RESULT["case"]["horizons"]["targets"]
    needed = [one["needed"]["status"] for one in found]
    published = [one["published"]["status"] for one in found]
    assert needed[-1] == "out_of_reach"
    assert needed.count("out_of_reach") < published.count("out_of_reach")
    assert published[0] == "reached"


def test_lists_and_plan_name_the_same_files() -> None:
    walked: dict[str, Any] = RESULT["case"]
    published = walked["horizons"]["horizon"]["published"]["freed"]
    assert walked["plan"]["files"] == published["files"] == walked["notices"]["files"]
    assert walked["plan"]["users"] == walked["notices"]["lists"]


def test_the_shares_of_what_is_there() -> None:
    mix = case.Mix("m", "", shares=(0.5, 0.5), kept_days=(1.0, 9.0))
    assert mix.standing == pytest.approx((0.1, 0.9))
    assert older(mix, 0.0) == pytest.approx(1.0)
    assert older(mix, mix.oldest_days) == 0.0


def test_the_walk_reads_the_documents_that_the_commands_print_now() -> None:
    golden = ROOT / "tests" / "goldens" / "purge"
    horizon = json.loads((golden / "horizon.json").read_text())["document"]
    found, before = walk.summary(horizon), RESULT["case"]["horizons"]["horizon"]
    assert before.keys() == found.keys()
    for name in ("needed", "published"):
        assert before[name].keys() <= found[name].keys()
    # From 2029-07-30 13:00 to 2029-12-26 12:00.
    assert found["needed"]["age_s"] == 149 * DAY_S - 3600
    for step, printed in zip(found["steps"], horizon["steps"], strict=True):
        assert before["steps"][0].keys() <= step.keys()
        assert step["age_s"] == printed["age_s"]
    plan = json.loads((golden / "plan.json").read_text())["document"]
    assert planned_of(plan).keys() == RESULT["small"]["planned"].keys()
