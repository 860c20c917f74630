"""Explaining scored on a few simulated incidents; the full table is in docs/explaining.md.

``make soak`` plays all scenarios of a seed. Here a dozen are played whose outcome is plain: they
fail when the way from raw telemetry to an explanation breaks, not when a score moves a little.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from tests.explain.scoring import CONFIDENT, Played, listed_causes, play, verdicts
from tests.incidents.scenarios import scenarios
from tests.support.counts import repetitions

from trimtab.base.incident import NAMED, Explanation

pytestmark = pytest.mark.calibration

ROOT = Path(__file__).resolve().parents[2]
SEED = 1
PLAIN = [
    "single/allocator-loops/", "single/failover/", "single/array-degraded/",
    "single/launch-failure/names", "single/bad-checksums/", "single/target-filling/",
    "single/configuration-change/checksums",
]  # fmt: skip
ALL = {scenario.spec.name: scenario for scenario in scenarios(SEED, rounds=1)}


@cache
def played(name: str) -> Played:
    return play(ALL[name])


def names(beginning: str) -> list[str]:
    named = [name for name in ALL if name.startswith(beginning)]
    assert named, f"no scenario {beginning}"
    return named


def explained(name: str) -> tuple[Explanation, ...]:
    return played(name).explanations()


@pytest.mark.parametrize("name", [name for plain in PLAIN for name in names(plain)[:1]])
def test_a_single_cause_is_ranked_first(name: str) -> None:
    (verdict,) = verdicts(played(name))
    assert verdict.visible
    assert verdict.detected
    assert verdict.place == 0, f"{verdict.first} at {verdict.confidence:.2f}"


def test_no_cause_is_confident_in_a_quiet_stretch() -> None:
    quiet = [played(name) for name in names("quiet/")[:2]]
    assert [verdict for verdict in listed_causes(quiet) if verdict.confidence >= CONFIDENT] == []


def test_a_mitigation_that_is_the_cause_is_named_as_one() -> None:
    (name,) = names("mitigation/")
    firsts = [verdict.causes[0] for verdict in explained(name) if verdict.causes]
    gated = next(first for first in firsts if first.cause == "few-targets-open")
    assert gated.confidence >= NAMED
    assert gated.because_of in {"targets-over-limit", "target-filling"}
    assert any(piece.what.code == "closed-by-mitigation" for piece in gated.evidence)


@pytest.mark.parametrize("name", names("standing/"))
def test_a_site_that_was_bad_from_its_first_run_has_a_standing_condition(name: str) -> None:
    standing = {verdict.cause: verdict for verdict in played(name).standing}
    expected = name.split("/")[1]
    assert expected in standing
    assert standing[expected].standing
    assert standing[expected].measurement


def test_withheld_telemetry_leaves_no_wrong_cause_confident() -> None:
    verdict = played("withheld/configuration-change")
    assert [
        each for each in listed_causes([verdict]) if each.confidence >= CONFIDENT and not each.true
    ] == []


@pytest.mark.parametrize("every", repetitions(gate=3, soak=1))
def test_scenarios_of_a_seed(every: int) -> None:
    """All of them with ``make soak``, one in three single causes else: of fewer none decides."""
    chosen = scenarios(20261121, rounds=1)
    if every > 1:
        chosen = [scenario for scenario in chosen if scenario.sort == "single"][::every]
    everything = [play(scenario) for scenario in chosen]
    single = [
        verdict for world in everything if world.sort == "single" for verdict in verdicts(world)
    ]
    named = [verdict for verdict in single if verdict.visible and verdict.detected]
    assert len(named) >= 10
    first = sum(verdict.place == 0 for verdict in named)
    assert first >= 0.85 * len(named), f"{first} of {len(named)}"
    confident = [
        verdict for verdict in listed_causes(everything) if verdict.confidence >= CONFIDENT
    ]
    assert sum(verdict.true for verdict in confident) >= 0.85 * len(confident)


def test_the_committed_scores_hold_what_is_promised() -> None:
    """At least 95 % of single causes first, nine in ten right at 90 %, nobody blamed in quiet."""
    results = json.loads((ROOT / "benchmarks" / "results" / "explaining.json").read_text())
    single = results["sorts"]["single"]
    assert single["first"] >= 0.95 * single["found"]
    pair = results["sorts"]["pair"]
    assert pair["among_two"] > 0.5 * pair["found"]
    sure = [row for row in results["calibration"] if row["from"] >= CONFIDENT]
    assert sum(row["true"] for row in sure) >= 0.9 * sum(row["n"] for row in sure)
    assert results["quiet"]["confident"] == 0
    assert results["withheld"]["wrong_and_confident"] == 0
    assert results["standing"]["listed"] == results["standing"]["worlds"]
    assert results["mitigation"]["named"] == results["mitigation"]["worlds"]


def test_the_page_shows_the_committed_scores_and_every_cause() -> None:
    from scripts import fit_confidence

    page = fit_confidence.PAGE.read_text()
    results = json.loads(fit_confidence.RESULTS.read_text())
    assert fit_confidence.made_page(page, results) == page
