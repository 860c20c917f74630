"""Faults that a simulation puts in are detected and explained as the committed scores say."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.score_of_faults import KINDS, RESULT, Length, play

ROOT = Path(__file__).parents[2]
SHORT = Length(days=15.0, quiet_days=10.0)


def rows(fault: str) -> list[dict[str, Any]]:
    return [row for row in json.loads(RESULT.read_text())["rows"] if row["fault"] == fault]


def test_every_kind_is_scored_with_each_seed_and_both_books() -> None:
    seeds = json.loads(RESULT.read_text())["seeds"]
    assert seeds == 5
    cases = {(seed, book) for seed in range(1, seeds + 1) for book in ("open", "closed")}
    for fault in KINDS:
        assert {(row["seed"], row["book"]) for row in rows(fault)} == cases, fault


@pytest.mark.system
def test_the_page_is_what_the_results_give() -> None:
    script = ROOT / "scripts" / "fault_score_page.py"
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, "run scripts/fault_score_page.py"


@pytest.mark.calibration
def test_a_slow_drive_and_a_failover_are_found_without_an_event_of_them() -> None:
    (slow,) = play("slow drive", 1, SHORT, ["closed"])
    assert slow["target"]
    assert slow["delay_h"] <= 48
    (moved,) = play("failover", 1, SHORT, ["closed"])
    assert (moved["place"], moved["named"]) == (1, True)


def test_what_is_committed_holds_what_is_relied_on() -> None:
    """OSTs of drives at 62 % of their speed or less are found; no wrong cause is named."""
    for row in rows("slow drive"):
        if row["seed"] != 4:  # at 75 %
            assert row["target"], row
    for fault in KINDS:
        for row in rows(fault):
            assert not (row["named"] and row["place"] != 1), row
            assert row["false_named"] == 0, row


def test_sites_without_a_fault_have_few_incidents_and_none_with_a_cause() -> None:
    for months in json.loads(RESULT.read_text())["summary"].values():
        assert months["others_a_month"] <= 0.5
        assert months["false_named_a_month"] == 0


def test_what_costs_the_probe_a_seventh_for_a_day_is_detected() -> None:
    for fault in KINDS.keys() - {"competing job"}:  # of three hours
        for row in rows(fault):
            if min(row["write_left"], row["read_left"]) <= 6 / 7:
                assert row["delay_h"] is not None, row
