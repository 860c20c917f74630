"""docs/calibration.md shows what was measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.calibration_page import pooled_alarms
from tests.calibration.changes import HABIT_PHIS, speaks_against_ratio
from tests.calibration.intervals import GOAL, POWER_COVS, POWER_PHIS
from tests.calibration.patterns import HABITS
from tests.support.counts import at_most

ROOT = Path(__file__).parents[2]


@pytest.mark.system
def test_the_page_is_what_the_results_give():
    script = ROOT / "scripts" / "calibration_page.py"
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, "run scripts/calibration_page.py"


@pytest.fixture(scope="module")
def result():
    return json.loads((ROOT / "benchmarks" / "results" / "calibration.json").read_text())


def test_the_measured_rates_keep_what_the_page_claims(result):
    for row in result["false_alarms"]["rows"]:
        assert row["confirmed_per_year"] <= 1, row
        assert row["suspects_per_year"] <= 12, row
    long = [row for row in result["power"]["rows"] if row["history_h"] > 168]
    normal = [row for row in long if (row["kind"], row["phi"]) == ("normal", 0.5)]
    (eight,), (four,) = ([row for row in normal if row["step"] == step] for step in (-0.08, -0.04))
    assert eight["both"] >= 0.9 * eight["series"]
    assert four["confirmed_14d"] >= 0.8 * four["series"]
    for row in result["cov_intervals"]["rows"]:
        if row["kind"] == "normal":
            assert row["held"] >= 0.93, row


def test_the_measured_verdicts_keep_what_the_page_claims(result):
    rows = {(row["phi"], row["cov"]): row for row in result["cov_power"]["rows"]}
    assert len(rows) == len(POWER_PHIS) * len(POWER_COVS)
    for (phi, cov), row in rows.items():
        count = row["series"]
        wrong = [
            row[side] for side, false in (("met", cov >= GOAL), ("missed", cov <= GOAL)) if false
        ]
        assert max(wrong) <= at_most(0.025, count) * count, row
        if phi <= 0.8 and cov in (0.05, 0.12):
            assert row["met" if cov < GOAL else "missed"] >= 0.85 * count, row


def test_the_measured_rates_keep_what_is_claimed_of_every_habit(result):
    rows = result["habit_alarms"]["rows"]
    for phis in HABIT_PHIS:
        base = pooled_alarms(rows, "hourly", phis)
        for habit in HABITS:
            assert not speaks_against_ratio(*pooled_alarms(rows, habit, phis), *base), habit
    for row in result["habit_steps"]["rows"]:
        if row["step"] == -0.2:
            assert row["both"] >= 0.9 * row["series"], row
        if row["step"] == -0.1:
            assert row["placed"] >= 0.8 * row["series"], row


def test_the_measured_forecasts_of_fullness_keep_what_the_page_claims(result):
    missed = (("above", "below"), ("before", "after"))
    rows = [(row, ends) for row in result["space"]["rows"] for ends in missed if ends[0] in row]
    assert len(rows) == 8
    for row, ends in rows:
        assert sum(row[end] for end in ends) <= 0.15 * row["forecasts"], row


def test_the_measured_coverage_of_ratios_is_complete_and_holds_from_a_week_on(result):
    rows = [row for row in result["ratio_intervals"]["rows"] if row["kind"] == "normal"]
    held = {(row["n"], row["phi"]): row["held"] for row in rows}
    sizes, memories = {n for n, _ in held}, {phi for _, phi in held}
    assert len(held) == len(sizes) * len(memories)
    assert {12, 48, 168} <= sizes
    assert all(0 < share <= 1 for share in held.values())
    assert held[8, 0.0] > 0.9 > 0.75 > held[8, 0.7]
    assert min(held[n, phi] for n in (168, 336) for phi in (0.0, 0.3, 0.5, 0.7)) >= 0.92
