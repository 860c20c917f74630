"""A purge that fails quietly: runs that fail or stop coming, plans that are not made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from trimtab.base.event import JOURNAL, Event, EventKind
from trimtab.explain.status import PlanSlot
from trimtab.explain.trouble import purge_troubles

START = datetime(2026, 1, 4, 2, tzinfo=UTC)
DAY, WEEK = timedelta(days=1), timedelta(days=7)


def run(at: datetime, *, failed: bool = False, source: str = JOURNAL, lasts_h: float = 3) -> Event:
    kind = EventKind.PURGE_FAILED if failed else EventKind.PURGE
    detail = "it was refused (atime: changed)" if failed else "5 files, 1.00 GB freed"
    until = at + timedelta(hours=lasts_h)
    return Event(f"{at} {kind}", "scratch", kind, at, detail, source, until)


def weekly(count: int) -> list[Event]:
    return [run(START + week * WEEK) for week in range(count)]


def ids(events: list[Event], now: datetime | None, plans: tuple[PlanSlot, ...] = ()) -> list[str]:
    return [trouble.id for trouble in purge_troubles(events, plans, now)]


def test_a_purge_that_comes_as_it_always_did_is_no_trouble() -> None:
    for late in (timedelta(), WEEK, WEEK + 3 * DAY):
        assert ids(weekly(8), START + 7 * WEEK + late) == []


def test_a_weekly_purge_that_stopped_is_told_half_a_week_after_its_time() -> None:
    (trouble,) = purge_troubles(weekly(8), (), START + 7 * WEEK + 11 * DAY)
    assert trouble.id == "purge-overdue"
    assert trouble.text == "no purge has run since 2026-02-22; before that, one ran every 7.0 d"


def test_of_a_purge_that_runs_when_it_must_the_longest_gap_counts() -> None:
    days = (0, 7, 28, 35, 70, 77)
    events = [run(START + day * DAY) for day in days]
    assert ids(events, START + (77 + 52) * DAY) == []
    assert ids(events, START + (77 + 54) * DAY) == ["purge-overdue"]


def test_runs_of_one_night_are_one_and_three_runs_are_no_habit() -> None:
    night = [run(START + timedelta(hours=hours), lasts_h=0.5) for hours in (0, 1, 2, 3, 4)]
    assert ids(night, START + 300 * DAY) == []
    assert ids(weekly(3), START + 300 * DAY) == []
    assert ids(weekly(8), None) == []


@pytest.mark.parametrize("source", [JOURNAL, "person"])
def test_failed_runs_are_told_until_one_is_good_again(source: str) -> None:
    failed = [*weekly(4), run(START + 4 * WEEK, failed=True)]
    (trouble,) = purge_troubles(failed, (), START + 4 * WEEK + DAY)
    assert trouble.text == ("the purge run of 2026-02-01 failed: it was refused (atime: changed)")
    failed.append(run(START + 5 * WEEK, failed=True))
    (trouble,) = purge_troubles(failed, (), START + 20 * WEEK)
    assert trouble.text.startswith("all 2 purge runs since 2026-02-01 failed, the last: it was")
    assert ids([*failed, run(START + 6 * WEEK, source=source)], START + 6 * WEEK + DAY) == []


def test_a_run_that_freed_something_and_failed_has_failed() -> None:
    at = START + 4 * WEEK
    assert ids([*weekly(4), run(at), run(at, failed=True)], at + DAY) == ["purge-failed"]


def test_a_run_that_outlasts_a_failed_start_beside_it_is_good() -> None:
    at = START + 4 * WEEK
    beside = run(at + DAY, failed=True, lasts_h=0)
    assert ids([*weekly(4), run(at, lasts_h=48), beside], at + 3 * DAY) == []


def plan(week: int, state: str, detail: str | None = None) -> PlanSlot:
    return PlanSlot(START + week * WEEK, state, detail)  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "why"), [("failed", "purge scan: denied"), ("missed", "off")])
def test_a_plan_that_was_not_made_is_told_until_the_next_one_is(state: str, why: str) -> None:
    plans = (plan(0, "done"), plan(1, state, why))
    (trouble,) = purge_troubles((), plans, START + WEEK)
    assert trouble.text == f"the purge plan of 2026-01-11 was not made: {why}"
    assert ids([], START + 2 * WEEK, (*plans, plan(2, "done"))) == []


def test_where_no_plan_is_needed_no_run_is_overdue() -> None:
    plans = [plan(week, "done") for week in range(8)]
    plans += [plan(week, "done", "purge plan: nothing has to go") for week in range(8, 30)]
    assert ids(weekly(8), START + 30 * WEEK, tuple(plans)) == []
    assert ids(weekly(8), START + 32 * WEEK, tuple(plans)) == ["purge-overdue"]
