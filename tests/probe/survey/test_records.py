"""The notes of surveys: where the last one on a server left its results."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.support.narrow import present

from trimtab.base.event import Event, EventKind
from trimtab.probe.survey.server_survey import begins, ended, is_directory, results_left

PLACE = "/tmp/trimtab-survey-abcdefghij"
START = datetime(2026, 11, 20, 16, 13, tzinfo=UTC)


def notes(*details: str, source: str = "survey") -> list[Event]:
    return [
        Event(
            f"{n}", "here", EventKind.NOTE, START + timedelta(hours=n), detail, source,
            targets=("OST0003",),
        )
        for n, detail in enumerate(details)
    ]  # fmt: skip


def test_one_that_began_and_told_no_end() -> None:
    said = present(results_left(notes(begins("oss1", PLACE)), "oss1"))
    assert f"the one of 2026-11-20 16:13 UTC on OST0003 left oss1:{PLACE}" in said


def test_the_last_one_counts() -> None:
    whole = notes(begins("oss1", PLACE), ended("oss1", "OST0003 measured", ""))
    assert results_left(whole, "oss1") is None
    stays = ended("oss1", "OST0003 failed", f"its results stay in oss1:{PLACE}")
    assert results_left(notes(begins("oss1", PLACE), stays), "oss1") is not None


def test_other_servers_and_other_notes_do_not_count() -> None:
    assert results_left([], "oss1") is None
    assert results_left(notes(begins("oss11", PLACE)), "oss1") is None
    assert results_left(notes(begins("oss1", PLACE), source="person"), "oss1") is None
    events = notes(begins("oss1", PLACE), ended("oss11", "OST0003 measured", ""))
    assert results_left(events, "oss1") is not None


def test_a_directory_of_a_survey() -> None:
    assert is_directory(PLACE)
    for other in (
        "",
        "/tmp",
        PLACE[:-1],
        f"{PLACE}/..",
        f"{PLACE}\n",
        "/tmp/trimtab-survey-abc/../..",
    ):
        assert not is_directory(other)
