"""What a run says of itself, and what journals say day by day, is what the file system says."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.purge.run.lines import journal_of, plan_line
from tests.purge.run.world import FILE_BYTES, NOW_S, Surroundings, World, undisturbed
from tests.support.narrow import present

from trimtab.base.encode import to_json
from trimtab.base.error import ToolError
from trimtab.base.units import format_percent
from trimtab.purge.run.journal_line import (
    Chronicle,
    ClaimLine,
    DoneLine,
    RunBeginLine,
    RunEndLine,
    RunPace,
    SyncedLine,
    UndoneLine,
)
from trimtab.purge.run.purge_report import Day, PurgeReport, PurgeReportDocument, report
from trimtab.purge.run.rows import Allowance, Rows
from trimtab.purge.run.run_account import RunResult
from trimtab.purge.run.run_journal import read
from trimtab.purge.run.screen import _run_facts
from trimtab.purge.run.situation import ArmingFacts, StopReason

DAY = datetime.fromtimestamp(NOW_S, UTC).date()
ENDS = {
    "target": StopReason.TARGET,
    "exhausted": StopReason.EXHAUSTED,
    "files": StopReason.FILES_CAP,
    "bytes": StopReason.BYTES_CAP,
    "time": StopReason.OUT_OF_TIME,
    "objection": StopReason.OBJECTION,
    "refused": StopReason.REFUSED,
    "interrupted": None,
    "failed": None,
    "broken": None,
}
LOADED: Any = SimpleNamespace(
    plan=SimpleNamespace(
        candidates=SimpleNamespace(files=0), file_system=SimpleNamespace(kind="ext4")
    )
)


def terms_for(world: World, end: str, at: int) -> Any:
    """Return terms by which a run comes to an end of this kind, if the others do not come first."""
    caps = {
        "files": Allowance(files=at),
        "bytes": Allowance(bytes=at * FILE_BYTES),
    }
    # A second passes with each look.
    changes = {"allowance": caps.get(end, Allowance()), "settle_s_min": 0.0}
    if end == "time":
        changes["ends_at_s"] = NOW_S + at
    return lambda now: world.terms(now, apply=True, **changes)


def ended(world: World, end: str, at: int) -> RunResult | None:
    """Return what a run came to that ends so; ``None`` where it raised."""
    looks = 0

    def look(surroundings: Surroundings) -> None:
        nonlocal looks
        looks, surroundings.at_s = looks + 1, surroundings.at_s + 1
        if looks > 1 + at // 8:
            if end == "objection":
                surroundings.now = replace(surroundings.now, kill_switch="it is pulled")
            elif end in ("interrupted", "failed"):
                raise KeyboardInterrupt if end == "interrupted" else ToolError("it fails")

    def broken(_call: str, row: int) -> None:
        if end == "broken" and row == at:
            raise ToolError("the remover fails")

    world.surroundings.look, world.remover.before = look, broken
    now = world.surroundings.now
    if end == "refused":
        world.surroundings.now = replace(now, arming=ArmingFacts("nobody armed it"))
    try:
        with contextlib.suppress(KeyboardInterrupt, ToolError):
            return world.run(terms=terms_for(world, end, at))
        return None
    finally:
        world.surroundings.now = now
        world.surroundings.look = lambda _self: None
        world.remover.before = undisturbed


def reported(world: World, **chosen: Any) -> PurgeReport:
    return report([read(journal_of(world.directory))], **chosen)


def day_of(world: World) -> Day:
    (day,) = reported(world).days
    return day


@settings(max_examples=25, deadline=None)
@given(
    end=st.sampled_from([*ENDS]),
    files=st.integers(1, 60),
    at=st.integers(0, 60),
    touched=st.integers(0, 5),
)
@example("files", 40, 7, 2)
@example("bytes", 40, 7, 0)
@example("time", 60, 4, 1)
@example("objection", 60, 9, 1)
@example("interrupted", 60, 9, 0)
@example("failed", 60, 9, 0)
@example("broken", 40, 11, 0)
@example("exhausted", 20, 0, 3)
def test_the_figures_of_a_run_are_those_of_the_file_system(end, files, at, touched):
    with tempfile.TemporaryDirectory() as directory:
        target = 0.01 if end != "target" else 0.5
        world = World(Path(directory), files, target=target).make()
        for path in world.paths[:touched]:
            path.write_bytes(b"y" * (FILE_BYTES - 1))
        world.surroundings.others_bytes = FILE_BYTES  # so that it is never under its target
        world.surroundings.capacity_bytes += FILE_BYTES
        first, there = world.surroundings.usage(), world.there()
        result = ended(world, end, at)
        gone = there - world.there()
        last = world.surroundings.usage()
        if result is not None:
            size = len(gone) * FILE_BYTES
            assert (result.files, result.bytes, result.freed_bytes) == (len(gone), size, size)
            if end not in ("target", "exhausted"):
                assert result.reason in (ENDS[end], StopReason.EXHAUSTED)
            assert result.after == (last if gone else None)
            assert_printed(result, first, last)
        day = day_of(world)
        if end != "broken":
            assert (day.files, day.bytes) == (len(gone), len(gone) * FILE_BYTES)
        if day.files:
            assert present(day.before).usage == first
            after = present(day.after).usage
            assert end == "broken" or after == last
        # The next run accounts for what one that broke off had begun.
        world.run()
        gone = there - world.there()
        day = day_of(world)
        assert (day.files, day.bytes) == (len(gone), len(gone) * FILE_BYTES)
        if gone:
            assert present(day.after).usage == world.surroundings.usage()


def fullness(usage: Any) -> str:
    return format_percent(usage.fullness, 2)


def assert_printed(result: RunResult, first: Any, last: Any) -> None:
    """Check the line that is printed of how full it was."""
    text = dict(_run_facts(result, LOADED)).get("full")
    if result.before is None:
        assert text is None
    elif result.files:
        words = f"{fullness(first)}, then {fullness(last)}, measured "
        assert present(text).startswith(words)
        assert present(text).endswith("after the last deletion")
    else:
        assert text == fullness(first)


def test_why_it_was_not_measured_is_said(tmp_path):
    world = World(tmp_path, 30, target=0.01).make()
    measure, asked = world.surroundings.measure, []

    def measured_once() -> Any:
        if asked:
            raise OSError(5, "Input/output error")
        asked.append(1)
        return measure()

    world.surroundings.measure = measured_once  # type: ignore[method-assign]
    result = world.run(terms=terms_for(world, "files", 5))
    assert (result.reason, result.files, result.after) == (StopReason.FILES_CAP, 5, None)
    assert dict(_run_facts(result, LOADED))["full"] == (
        f"{fullness(result.before)}; not measured since: [Errno 5] Input/output error"
    )


@pytest.mark.parametrize("destroyed", [0, 12])
def test_what_is_still_being_destroyed_is_said(tmp_path, destroyed):
    world = World(tmp_path, 30, target=0.01).make()
    world.surroundings.in_flight = [0, destroyed]
    result = world.run(terms=terms_for(world, "files", 5))
    text = dict(_run_facts(result, LOADED))["full"]
    assert text.endswith("; 12 objects still being destroyed") is bool(destroyed)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, 100).make()


def test_of_no_journals_there_is_nothing_to_say():
    result = report([])
    assert (result.days, result.plans) == ((), ())


def test_a_day_says_what_went_what_stayed_and_why(world):
    for row in (3, 4):
        world.paths[row].write_bytes(b"changed")
    world.run(who="alice")
    day = day_of(world)
    assert (day.day, day.dry, day.files, day.kept) == (DAY, False, 50, {"touched": 2})
    assert day.bytes == day.freed_bytes == 50 * FILE_BYTES
    assert [present(at).usage.fullness for at in (day.before, day.after)] == [1.0, 0.5]
    assert day.horizons == (datetime.fromtimestamp(NOW_S - 60 * 86400, UTC),)
    assert sum(user.files for user in day.users) == 50
    sizes = [user.bytes for user in day.users]
    assert sizes == sorted(sizes, reverse=True)
    (one,) = day.runs
    assert (one.pace.rows, one.pace.latency_s_p99) == (52, 0.002)
    assert (one.plan, one.end, one.who, one.objections) == ("plan-1", "target-reached", "alice", ())


def test_dry_runs_are_told_apart_with_what_would_have_held_them_back(world):
    world.situate(arming=ArmingFacts(None))
    world.run(dry=True)
    day = day_of(world)
    assert (day.dry, day.files) == (True, 50)
    assert day.runs[0].objections == ("armed: the plan is not armed",)
    (plan,) = reported(world).plans
    assert (plan.outcomes, plan.waiting_rows) == ({}, 100)


def test_a_run_that_was_refused_is_told_with_its_reasons(world):
    world.situate(arming=ArmingFacts(None))
    world.run()
    day = day_of(world)
    assert (day.files, day.before, day.runs[0].end) == (0, None, "refused")
    assert day.runs[0].objections == ("armed: the plan is not armed",)


def test_days_follow_each_other_and_can_be_chosen(world):
    world.run()
    world.surroundings.at_s += 86400.0
    world.surroundings.others_bytes = 10 * FILE_BYTES
    world.run()
    result = reported(world)
    assert [(day.day, day.files) for day in result.days] == [(DAY, 50), (DAY + timedelta(1), 10)]
    assert reported(world, first=DAY + timedelta(1)).days == result.days[1:]
    assert reported(world, last=DAY).days == result.days[:1]
    (plan,) = result.plans
    assert (plan.outcomes, plan.waiting_rows) == ({"deleted": 60}, 40)


def test_a_run_that_was_killed_has_no_end_and_its_batch_is_told(world):
    world.interrupted()
    (plan,) = reported(world).plans
    assert plan.interrupted_rows > 0
    assert plan.interrupted_rows + plan.waiting_rows + sum(plan.outcomes.values()) == 100
    world.run()
    day = day_of(world)
    # Those that were found gone are counted where they went, and not among what was kept.
    assert (day.files, day.kept) == (50, {})


def test_it_is_ready_for_json_and_says_the_same(world):
    world.run()
    result = reported(world)
    values = json.loads(to_json(PurgeReportDocument("/place", result.days, result.plans)))
    (day,) = values["days"]
    assert (day["day"], day["files"], day["before"]["fullness"]) == (DAY.isoformat(), 50, 1.0)
    assert day["runs"][0]["began"].endswith("Z")


PLAN = plan_line("plan-1", "", 10**6, "/scratch", "ext4")
AT = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)


def done(at, first, outcomes, *, uid=5):
    count = sum(number for _, number in outcomes)
    gone = sum(number for name, number in outcomes if name == "deleted")
    by_user = {uid: (gone, 7 * gone)} if gone else {}
    return DoneLine(
        "r", at, True, Rows(first, count), outcomes, gone, 7 * gone, 6 * gone, by_user, 0.1
    )


def test_the_pace_of_a_run_includes_its_pauses_and_names_its_slowest_batch():
    pace = RunPace()
    assert (pace.rows_per_s, pace.text()) == (None, "")
    first = replace(done(AT, 0, (("deleted", 90), ("capped", 10))), elapsed_s=10.0)
    second = done(AT + timedelta(seconds=70), 100, (("touched", 60),))
    for line in (replace(first, latency_s_p99=0.5), replace(second, latency_s_p99=0.25), second):
        pace = pace.after(line)
    assert (pace.rows, pace.rows_per_s, pace.latency_s_p99) == (210, 210 / 80, 0.5)


OUTCOMES = st.lists(
    st.tuples(st.sampled_from(["deleted", "touched", "open", "capped"]), st.integers(1, 9)),
    min_size=1,
    max_size=4,
).map(tuple)


@given(st.lists(st.tuples(OUTCOMES, st.integers(0, 72), st.integers(0, 3)), max_size=12))
def test_over_all_days_every_row_is_counted_once(batches):
    lines = [RunBeginLine("r", AT, True, AT, 0.7, "", "", "")]
    first, hours, rows = 0, 0, Counter()
    for outcomes, pause_h, uid in batches:
        hours += pause_h
        line = done(AT + timedelta(hours=hours), first, outcomes, uid=uid)
        lines += [ClaimLine("r", line.at, line.rows, (), 0, 0, {}), line]
        first = line.rows.end
        for name, count in outcomes:
            rows[name] += count
    result = report([Chronicle(PLAN, tuple(lines))])
    assert sum(day.files for day in result.days) == rows["deleted"]
    for name in ("touched", "open", "capped"):
        assert sum(day.kept.get(name, 0) for day in result.days) == rows[name]
    assert sum(user.bytes for day in result.days for user in day.users) == 7 * rows["deleted"]
    assert [day.day for day in result.days] == sorted({line.at.date() for line in lines})
    (plan,) = result.plans
    assert (plan.outcomes, plan.waiting_rows) == (dict(rows), PLAN.rows - rows.total())


def test_what_a_power_cut_brought_back_is_taken_from_the_day_that_counted_it():
    first, later = AT, AT + timedelta(days=1)
    begin = RunBeginLine("r", first, True, first, 0.7, "1", "h", "w")
    lines = (
        begin,
        ClaimLine("r", first, Rows(0, 5), (), 5, 0, {}),
        done(first, 0, (("deleted", 5),)),
        replace(begin, run="r2", at=later),
        UndoneLine("r2", later, Rows(0, 5), (Rows(3, 2),), 2, 14, {5: (2, 14)}),
        SyncedLine("r2", later),
    )
    told = report([Chronicle(replace(PLAN, rows=5), lines)])
    before, after = told.days
    assert (before.files, before.bytes, before.freed_bytes) == (3, 21, 16)
    assert [(user.uid, user.files, user.bytes) for user in before.users] == [(5, 3, 21)]
    assert (after.files, after.bytes) == (0, 0)
    (plan,) = told.plans
    assert (plan.outcomes, plan.waiting_rows) == ({"deleted": 3}, 2)


def test_a_day_is_that_of_the_time_zone():
    lines = (RunBeginLine("r", AT, True, AT, None, "", "", ""), RunEndLine("r", AT, "refused", ""))
    zurich = timezone(timedelta(hours=1))
    (day,) = report([Chronicle(PLAN, lines)], timezone=zurich).days
    assert day.day == date(2026, 11, 23)
