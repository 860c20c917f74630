"""The records of sites are scored as they should be; the figures are in the committed results."""

from __future__ import annotations

import json

import pytest
from scripts.score_worlds import play, scores
from scripts.worlds_page import RESULTS
from tests.worlds.faults import FORMS

from trimtab.base.incident import NAMED
from trimtab.explain.causes import TABLE

pytestmark = pytest.mark.calibration


def test_every_cause_can_be_put_in() -> None:
    assert {cause for cause in FORMS if cause is not None} == {cause.id for cause in TABLE}


def test_a_world_is_played_and_scored() -> None:
    results = scores([play(2)])
    assert results["worlds"] == 1
    assert results["found"] == results["noticed"] == 1
    assert results["quiet"]["months"] > 1


def test_the_scores_of_before_are_of_the_same_seeds() -> None:
    kept = json.loads(RESULTS.read_text())
    assert kept["first fit, seeds of now"]["seeds"] == kept["now"]["seeds"]
    assert max(kept["now"]["seeds"]) <= min(kept["now, other seeds"]["seeds"])


@pytest.mark.parametrize("section", ["now", "now, other seeds"])
def test_the_committed_scores_hold_what_is_promised(section: str) -> None:
    """Of what is named as much is true as is claimed; where nothing was wrong nothing is named."""
    kept = json.loads(RESULTS.read_text())
    before, now = kept["before"], kept[section]
    assert min(now["seeds"]) >= 10_000, "they were fitted on"
    assert now["found"] >= 0.95 * now["noticed"]
    assert now["first"] >= 0.85 * now["told"]
    assert now["unknown_unexplained"] >= 0.9 * now["unknown"]
    named = [row for row in now["calibration"] if row["to"] > NAMED]
    assert named[0]["from"] == NAMED, "a bin begins where naming does"
    for row in named:
        assert abs(row["true"] / row["n"] - row["mean"]) <= 0.07, "nothing is named in such a bin"
    named_a_month = now["quiet"]["named"] / now["quiet"]["months"]
    assert named_a_month <= 0.02 < before["quiet"]["named"] / before["quiet"]["months"]
    assert now["quiet"]["a_month"] < before["quiet"]["a_month"] / 2
