"""What may be asked of a survey, which targets at the same time, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.state import FakeLustre
from tests.probe.survey.places import SIZE, Place, on_servers, short
from tests.support.codes import raises
from tests.support.command import trimtab
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import Message, RefusedError, UsageError
from trimtab.base.event import Event, EventKind
from trimtab.base.run import Sample
from trimtab.formats.obdfilter_survey import SurveySpec
from trimtab.probe.server_survey import begins, cost_of, ended, is_directory, results_left
from trimtab.probe.survey import SurveyRequest, prepare
from trimtab.probe.survey_plan import Candidate, SurveyPlan, waves


def names(found: tuple[tuple[Candidate, ...], ...]) -> list[list[str]]:
    return [[one.target for one in wave] for wave in found]


def plan_of(place: Place, asked: SurveyRequest, **tools: Any) -> SurveyPlan:
    return prepare(place.site, place.driver(), asked, place.tools(**tools)).plan


def one(target: str, server: str | None, *partners: str) -> Candidate:
    return Candidate(target, server, frozenset(partners))


def test_waves_keep_servers_and_partners_apart() -> None:
    found = waves(
        [
            one("OST0000", "oss1", "oss2"),
            one("OST0001", "oss1", "oss2"),
            one("OST0002", "oss2", "oss1"),
            one("OST0003", "oss3", "oss4"),
            one("OST0004", "oss4", "oss3"),
        ],
        together=False,
    )
    assert names(found) == [["OST0000", "OST0003"], ["OST0001", "OST0004"], ["OST0002"]]


def test_who_may_be_a_partner_of_anybody_is_alone() -> None:
    strange = Candidate("OST0000", "oss1", None)
    found = waves([strange, one("OST0001", "oss5", "oss6")], together=False)
    assert names(found) == [["OST0000"], ["OST0001"]]


def test_together_is_one_wave_without_what_is_refused() -> None:
    refused = Candidate("OST0002", "oss2", refusal=Message("target-degraded", "it is degraded"))
    found = waves([one("OST0000", "oss1"), one("OST0001", "oss1"), refused], together=True)
    assert names(found) == [["OST0000", "OST0001"]]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=24))
def test_no_wave_has_a_pair_twice(places: list[tuple[int, bool]]) -> None:
    candidates = [
        one(f"OST{n:04x}", f"oss{pair}{side}", f"oss{pair}{not side}")
        for n, (pair, side) in enumerate(places)
    ]
    found = waves(candidates, together=False)
    assert sorted(name for wave in names(found) for name in wave) == [
        candidate.target for candidate in candidates
    ]
    for wave in found:
        pairs = [(candidate.server or "")[:4] for candidate in wave]
        assert len(set(pairs)) == len(pairs)


def degrade(state: FakeLustre) -> None:
    state.target("OST0003").degraded = True


def make_read_only(state: FakeLustre) -> None:
    state.target("OST0003").readonly = True


def abort(state: FakeLustre) -> None:
    state.target("OST0003").errors_count = 2


def fill(state: FakeLustre) -> None:
    target = state.target("OST0003")
    target.used_bytes = target.capacity_bytes - target.reserved_bytes - SIZE


def kill(state: FakeLustre) -> None:
    state.kill_server("oss2")


def fail_over(state: FakeLustre) -> None:
    state.fail_over("OST0003")


@pytest.mark.system
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (degrade, "it is degraded"),
        (make_read_only, "it is read-only"),
        (abort, "its file system counts 2 errors"),
        (fill, "it is too full: 64.0 MiB are available"),
        (kill, "(it is not connected|no known server has it mounted)"),
        (fail_over, "it has failed over to oss1"),
    ],
)
def test_a_named_target_that_is_not_well_ends_it_all(
    place: Place, change: Callable[[FakeLustre], None], reason: str
) -> None:
    with place.changing() as state:
        change(state)
    asked = on_servers("OST0000", "OST0003")
    with pytest.raises(RefusedError, match=f"not surveyed: OST0003: {reason}") as refused:
        prepare(place.site, place.driver(), asked, place.tools())
    assert refused.value.exit_code == 4
    assert place.calls == []


def test_all_leaves_out_what_is_not_well(place: Place) -> None:
    with place.changing() as state:
        degrade(state)
    plan = plan_of(place, on_servers(everything=True))
    assert [candidate.target for candidate in plan.refused] == ["OST0003"]
    assert (len(plan.targets), place.calls) == (7, [])


def test_a_target_in_use_is_refused(place: Place) -> None:
    def busy(seconds: float) -> None:
        with place.changing() as state:
            state.write("OST0003", 10 * 2**30)
        short(seconds)

    with raises(RefusedError, "survey-refused", "OST0003: it is in use"):
        plan_of(place, on_servers("OST0003"), pause=busy)
    plan = plan_of(place, on_servers("OST0003", load_bytes_per_s=1e18), pause=busy)
    assert [candidate.target for candidate in plan.targets] == ["OST0003"]


def test_which_osts_is_to_be_said(place: Place) -> None:
    for asked, why in (
        (on_servers(), "no OST is named"),
        (on_servers("OST00ff"), "there is no OST 'OST00ff'"),
        (on_servers("MDT0000"), "there is no OST 'MDT0000'"),
        (on_servers("OST0000", size_bytes=SIZE + 1), "whole records"),
        (on_servers("OST0000", threads=3, objects=2), "3 threads and 2 objects"),
        (SurveyRequest(way="client", benchmark="fio"), "fio cannot write into files"),
    ):
        with pytest.raises(UsageError, match=why):
            plan_of(place, asked)
    assert place.calls == []


NOTHING = {
    "size_bytes": (0, -1),
    "objects": (0,),
    "threads": (0,),
    "tasks": (0, -4),
    "repetitions": (0,),
    "duration_s": (0.0, float("nan")),
    "deadline_s": (0.0, -1.0, 0.4),
    "load_bytes_per_s": (-1.0,),
}


@pytest.mark.parametrize("way", ["client", "server"])
@for_each("name, number", [(name, number) for name, of in NOTHING.items() for number in of])
def test_nothing_is_no_number(way: Any, name: str, number: Any) -> None:
    with raises(UsageError, "option-invalid", name):
        SurveyRequest(way=way, **{name: number})


def test_none_and_no_load_at_all_are_fine() -> None:
    SurveyRequest(way="server", size_bytes=None, deadline_s=None, load_bytes_per_s=None)
    SurveyRequest(way="server", load_bytes_per_s=0.0, deadline_s=1.0)


@pytest.mark.cli
@pytest.mark.parametrize("words", [("--size", "0"), ("--deadline", "-1"), ("--tasks", "0")])
def test_nothing_is_no_option(place: Place, words: tuple[str, ...]) -> None:
    found = trimtab("survey", place.site.path, *words, store=place.root / "t.db")
    assert found.code == 2, found.stderr
    assert "Traceback" not in found.stderr
    # It is the number that is refused, before anything else is looked at.
    assert words[0].strip("-") in found.stderr


SPEC = SurveySpec(size_bytes=64 * 2**20)


def test_together_stands_only_where_it_is_so() -> None:
    alone = SPEC.compared_settings(together=False)
    together = SPEC.compared_settings(together=True)
    assert "together" not in alone
    assert together == {**alone, "together": True}


def test_each_ended_test_of_each_target_moved_the_whole_size() -> None:
    samples = [
        Sample("write_bandwidth", 1e9, target="OST0000"),
        Sample("rewrite_bandwidth", 1e9, target="OST0000"),
        Sample("read_bandwidth", 1e9, target="OST0000"),
        Sample("write_bandwidth", 1e9, target="OST0001"),
        Sample("rewrite_bandwidth", None, target="OST0001", reason="no total is printed"),
        Sample("write_bandwidth", 2e9),  # of both: the same bytes again
        Sample("write_bandwidth", 2e9, statistic="interval_max"),
    ]
    cost = cost_of(SPEC, samples, begun=True)
    assert cost == {"bytes_written": 3 * SPEC.size_bytes, "bytes_read": SPEC.size_bytes}


def test_what_was_cut_short_is_not_known() -> None:
    assert cost_of(SPEC, [], begun=True) == {"bytes_written": None, "bytes_read": None}
    assert cost_of(SPEC, [], begun=False) == {"bytes_written": 0, "bytes_read": 0}


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
    others = (f"{PLACE}/..", f"{PLACE}\n", "/tmp/trimtab-survey-abc/../..")
    assert [other for other in ("", "/tmp", PLACE[:-1], *others) if is_directory(other)] == []
