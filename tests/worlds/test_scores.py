"""What a found, a missed, a twice told and a wrongly named fault count for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from scripts.worlds_page import table
from scripts.worlds_scores import Case, Scored, scores
from tests.worlds.world import Fault

START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
FAULT = Fault(
    name="network-0", family="network", variant="fabric", cause="network", mechanism="network",
    begin=START + 400 * HOUR, end=START + 500 * HOUR, targets=(), accepted={}, told_by=("log",),
    noticed_by=("ior:write_bandwidth",), effect={"ior:write_bandwidth": 0.8}, because_of=None,
)  # fmt: skip
CASE = Case(
    at=START + 402 * HOUR, until=START + 500 * HOUR, detected_at=START + 410 * HOUR,
    integrity=False, series="ior:write_bandwidth", targets=(), effect=0.8,
    causes=(("network", 0.95),), unexplained=False, true=frozenset({"network"}),
    simple="configuration-change",
)  # fmt: skip


def world(*cases: Case, fault: Fault = FAULT) -> Scored:
    begin = fault.begin
    placed = (fault, begin - 24 * HOUR, (fault.end or begin) + 24 * HOUR, begin)
    return Scored("network", "fabric", START, START + 1440 * HOUR, (placed,), cases)


def figures(*worlds: Scored) -> dict[str, object]:
    return scores(worlds)["families"]["network"]


def test_a_fault_that_is_told_once_and_rightly() -> None:
    row = figures(world(CASE))
    assert [row[name] for name in ("noticed", "found", "once", "knowable", "first")] == [1] * 5
    assert [row[name] for name in ("simple", "silent", "named_wrongly", "false")] == [0] * 4
    assert row["delay_h"] == [10.0, 10.0]
    assert row["effect_error"] == [0.0, 0.0]
    assert row["calibration_error"] == 0.05


def test_a_fault_that_is_told_twice_or_missed() -> None:
    later = replace(CASE, at=CASE.at + 20 * HOUR)
    assert figures(world(CASE, later))["once"] == 0
    missed = figures(world())
    assert (missed["noticed"], missed["found"]) == (1, 0)
    assert missed["missed"] == {"fabric: network": 1}


def test_a_wrong_name_counts_where_it_is_sure() -> None:
    wrong = replace(CASE, causes=(("failover", 0.95), ("network", 0.3)))
    row = figures(world(wrong))
    assert (row["first"], row["named"], row["named_wrongly"]) == (0, 1, 1)
    assert row["wrong"] == {"fabric: network -> failover": 1}
    unsure = replace(CASE, causes=(("failover", 0.6),), unexplained=True)
    row = figures(world(unsure))
    assert (row["named_wrongly"], row["silent"]) == (0, 1)


def test_an_incident_is_of_a_fault_if_it_may_have_begun_with_it() -> None:
    early = replace(CASE, at=FAULT.begin - 40 * HOUR)
    assert (figures(world(early))["false"], figures(world(early))["noticed"]) == (1, 1)
    placed = replace(early, onset=(early.at, FAULT.begin + 2 * HOUR))
    row = figures(world(placed))
    assert (row["false"], row["found"], row["once"]) == (0, 1, 1)


def test_slow_targets_of_another_kind_are_a_false_incident() -> None:
    noise = replace(CASE, series="", targets=("OST0003",))
    row = figures(world(CASE, noise))
    assert (row["once"], row["false"]) == (1, 1)
    own = replace(FAULT, targets=("OST0003",))
    assert figures(world(CASE, noise, fault=own))["once"] == 0


def test_a_fault_without_a_trace_is_to_be_left_open() -> None:
    unknown = replace(FAULT, cause=None, told_by=())
    row = figures(world(replace(CASE, unexplained=True, causes=()), fault=unknown))
    assert (row["knowable"], row["unknown"], row["unknown_left"]) == (0, 1, 1)


def test_the_true_cause_of_another_fault_in_the_same_hours_is_no_guess() -> None:
    unknown = replace(FAULT, cause=None, told_by=(), mechanism="garbage-collection")
    both = world(CASE, fault=unknown)
    both = replace(both, faults=(*both.faults, (FAULT, *both.faults[0][1:])))
    assert figures(both)["unknown"] == 0
    guessed = replace(CASE, causes=(("failover", 0.95),))
    row = figures(replace(both, cases=(guessed,)))
    assert (row["unknown"], row["unknown_left"]) == (1, 0)


def test_the_table_has_a_row_for_each_family_and_all() -> None:
    lines = table(scores([world(CASE)])).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| network", "| **all**"]
    assert len({line.count("|") for line in lines}) == 1
