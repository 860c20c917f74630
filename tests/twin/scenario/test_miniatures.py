"""What is said of a miniature's size is what was measured."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from trimtab.twin import scenario_fact
from trimtab.twin.scenario import Resolution
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.whatif.ost_amplification import Probing, fine

RESULT = Path(__file__).parents[3] / "benchmarks" / "results" / "miniature_size.json"
PAGE = Path(__file__).parents[3] / "docs" / "twin.md"


APART = {
    "never trimmed, reset every 15 min": "reset_untrimmed",
    "nightly, probed": "probed",
    "never trimmed, probed": "probed_untrimmed",
}


def measured() -> dict[tuple[int, int], tuple[float, ...]]:
    off: dict[tuple[int, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in json.loads(RESULT.read_text())["rows"]:
        size = (row["groups"], row["superblock_units"])
        off[size][APART.get(row["regime"], "plain")].append(row["off"])
    return {
        size: (
            round(min(parts["plain"]), 3),
            round(max(parts["plain"]), 3),
            *(round(max(parts[name], key=abs), 3) for name in APART.values()),
        )
        for size, parts in off.items()
    }


def test_the_table_is_the_committed_measurement():
    assert {size: tuple(off) for size, off in scenario_fact.OFF.items()} == {
        size: (least, most, probed) for size, (least, most, _, probed, _) in measured().items()
    }


@pytest.mark.parametrize("resolution", [Resolution(), fine(), fine(Probing(0.5, 0.01))])
def test_defaults_are_3_per_cent_off_at_the_most(resolution):
    off = scenario_fact.OFF[resolution.groups, resolution.superblock_units]
    assert max(-off.least, off.most) <= 0.03


@pytest.mark.parametrize("resolution", [Resolution(), fine(Probing(0.5, 0.01))])
def test_defaults_are_3_per_cent_off_beside_a_probe(resolution):
    off = scenario_fact.OFF[resolution.groups, resolution.superblock_units]
    assert abs(off.probed) <= 0.03


def test_a_scenario_says_how_far_its_miniature_is_off():
    assert "off" in scenario_fact.sentence(load_scenario("template").resolution)
    assert "not measured" in scenario_fact.sentence(Resolution(groups=17))


def test_the_page_has_the_table():
    page = PAGE.read_text()
    for (groups, units), off in measured().items():
        cells = " | ".join(f"{part:+.1%}".replace("%", " %") for part in off)
        assert f"| {groups:,} x {units:,} | {cells} |" in page
