"""What a person may ask of a survey: a number of nothing is refused, and never taken for none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.probe.survey.places import Place
from tests.support.codes import raises
from tests.support.command import trimtab

from trimtab.base.error import UsageError
from trimtab.probe.survey.survey import SurveyRequest


@pytest.mark.parametrize(
    "asked",
    [
        {"size_bytes": 0},
        {"size_bytes": -1},
        {"objects": 0},
        {"threads": 0},
        {"tasks": 0},
        {"tasks": -4},
        {"repetitions": 0},
        {"duration_s": 0.0},
        {"duration_s": float("nan")},
        {"deadline_s": 0.0},
        {"deadline_s": -1.0},
        {"deadline_s": 0.4},
        {"load_bytes_per_s": -1.0},
    ],
)
@pytest.mark.parametrize("way", ["client", "server"])
def test_nothing_is_no_number(way: Any, asked: dict[str, Any]) -> None:
    (name,) = asked
    with raises(UsageError, "option-invalid", name):
        SurveyRequest(way=way, **asked)


def test_none_and_no_load_at_all_are_fine() -> None:
    SurveyRequest(way="server", size_bytes=None, deadline_s=None, load_bytes_per_s=None)
    SurveyRequest(way="server", load_bytes_per_s=0.0, deadline_s=1.0)


@pytest.mark.cli
@pytest.mark.parametrize(
    "words",
    [
        ("--size", "0"),
        ("--duration", "0s"),
        ("--deadline", "0"),
        ("--deadline", "-1"),
        ("--tasks", "0"),
        ("--tasks", "-1"),
        ("--repetitions", "0"),
        ("--threads", "0"),
        ("--objects", "0"),
    ],
)
def test_nothing_is_no_option(place: Place, words: tuple[str, ...]) -> None:
    found = trimtab("survey", place.site.path, *words, store=place.root / "t.db")
    assert found.code == 2, found.stderr
    assert "Traceback" not in found.stderr
    # It is the number that is refused, before anything else is looked at.
    assert words[0].strip("-").split("_")[0] in found.stderr
