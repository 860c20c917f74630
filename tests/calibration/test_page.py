"""docs/calibration.md and the table in judge/coverage.py are what was measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.system
def test_page_and_table_are_what_the_results_give():
    script = ROOT / "scripts" / "calibration_page.py"
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, "run scripts/calibration_page.py"


def test_the_measured_rates_keep_what_the_page_claims():
    result = json.loads((ROOT / "benchmarks" / "results" / "calibration.json").read_text())
    for row in result["false_alarms"]["rows"]:
        assert row["confirmed_per_year"] <= 1, row
        assert row["suspects_per_year"] <= 12, row
    (eight,), (four,) = (
        [
            row
            for row in result["power"]["rows"]
            if (row["kind"], row["phi"], row["step"]) == ("normal", 0.5, step)
            and row["history_h"] > 168
        ]
        for step in (-0.08, -0.04)
    )
    assert eight["both"] >= 0.9 * eight["series"]
    assert four["confirmed_14d"] >= 0.8 * four["series"]
    for row in result["cov_intervals"]["rows"]:
        if row["kind"] == "normal":
            assert row["held"] >= 0.93, row
