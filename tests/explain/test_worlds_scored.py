"""The records of sites are scored as they should be; the figures are in the committed results."""

from __future__ import annotations

import pytest
from scripts.score_worlds import play, scores
from tests.worlds.faults import FORMS

from trimtab.explain.causes import TABLE

pytestmark = pytest.mark.calibration


def test_every_cause_can_be_put_in() -> None:
    assert {cause for cause in FORMS if cause is not None} == {cause.id for cause in TABLE}


def test_a_world_is_played_and_scored() -> None:
    results = scores([play(2)])
    assert results["worlds"] == 1
    assert results["found"] == results["noticed"] == 1
    assert results["quiet"]["months"] > 1
