"""What the journals of whole runs say, day by day."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.run.lines import plan_line
from tests.purge.run.world import FILE_BYTES, NOW_S, World

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
from trimtab.purge.run.purge_report import PurgeReportDocument, report
from trimtab.purge.run.rows import Rows
from trimtab.purge.run.run_journal import journals, read
from trimtab.purge.run.runner import run
from trimtab.purge.run.situation import ArmingFacts
from trimtab.show.encode import to_json

DAY = datetime.fromtimestamp(NOW_S, UTC).date()


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, 100).make()


def chronicles(world):
    return [read(path) for path in journals(world.directory / "journals")]


def dry(world, **changes):
    return world.job(terms=lambda now: world.terms(now, apply=False), **changes)


def test_of_no_journals_there_is_nothing_to_say():
    result = report([])
    assert (result.days, result.plans) == ((), ())


def test_a_day_says_what_went_what_stayed_and_why(world):
    for row in (3, 4):
        world.paths[row].write_bytes(b"changed")
    run(world.job(who="alice"), apply=True)
    (day,) = report(chronicles(world)).days
    assert (day.day, day.dry, day.files) == (DAY, False, 50)
    assert day.bytes == day.freed_bytes == 50 * FILE_BYTES
    assert day.kept == {"touched": 2}
    assert day.before is not None
    assert day.after is not None
    assert (day.before.usage.fullness, day.after.usage.fullness) == (1.0, 0.5)
    assert day.horizons == (datetime.fromtimestamp(NOW_S - 60 * 86400, UTC),)
    assert sum(user.files for user in day.users) == 50
    assert [user.bytes for user in day.users] == sorted(
        (user.bytes for user in day.users), reverse=True
    )
    (one,) = day.runs
    assert (one.pace.rows, one.pace.latency_s_p99) == (52, 0.002)
    assert (one.plan, one.end, one.who, one.objections) == ("plan-1", "target-reached", "alice", ())


def test_dry_runs_are_told_apart_with_what_would_have_held_them_back(world):
    world.surroundings.now = replace(world.surroundings.now, arming=ArmingFacts(None))
    run(dry(world), apply=False)
    (day,) = report(chronicles(world)).days
    assert (day.dry, day.files) == (True, 50)
    assert day.runs[0].objections == ("armed: the plan is not armed",)
    (plan,) = report(chronicles(world)).plans
    assert (plan.outcomes, plan.waiting_rows) == ({}, 100)


def test_a_run_that_was_refused_is_told_with_its_reasons(world):
    world.surroundings.now = replace(world.surroundings.now, arming=ArmingFacts(None))
    run(world.job(), apply=True)
    (day,) = report(chronicles(world)).days
    assert (day.files, day.before) == (0, None)
    assert (day.runs[0].end, day.runs[0].objections) == (
        "refused", ("armed: the plan is not armed",),
    )  # fmt: skip


def test_days_follow_each_other_and_can_be_chosen(world):
    run(world.job(), apply=True)
    world.surroundings.at_s += 86400.0
    world.surroundings.others_bytes = 10 * FILE_BYTES
    run(world.job(id="second"), apply=True)
    result = report(chronicles(world))
    assert [(day.day, day.files) for day in result.days] == [(DAY, 50), (DAY + timedelta(1), 10)]
    assert report(chronicles(world), first=DAY + timedelta(1)).days == result.days[1:]
    assert report(chronicles(world), last=DAY).days == result.days[:1]
    (plan,) = result.plans
    assert (plan.outcomes, plan.waiting_rows) == ({"deleted": 60}, 40)


def test_a_run_that_was_killed_has_no_end_and_its_batch_is_told(world):
    def die(_call, row):
        if row == 21:
            raise RuntimeError("bug")

    world.remover.before = die
    with pytest.raises(RuntimeError):
        run(world.job(), apply=True)
    (plan,) = report(chronicles(world)).plans
    assert plan.interrupted_rows > 0
    assert plan.interrupted_rows + plan.waiting_rows + sum(plan.outcomes.values()) == 100
    world.remover.before = lambda _call, _row: None
    run(world.job(id="second"), apply=True)
    (day,) = report(chronicles(world)).days
    # Those that were found gone are counted where they went, and not among what was kept.
    assert (day.files, day.kept) == (50, {})


def test_it_is_ready_for_json_and_says_the_same(world):
    run(world.job(), apply=True)
    result = report(chronicles(world))
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
    first, hours = 0, 0
    rows = {"deleted": 0, "touched": 0, "open": 0, "capped": 0}
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
    assert plan.outcomes == {name: count for name, count in rows.items() if count}
    assert plan.waiting_rows == PLAN.rows - sum(rows.values())


def test_what_a_power_cut_brought_back_is_taken_from_the_day_that_counted_it():
    first, later = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
    gone = DoneLine(
        "r1", first, True, Rows(0, 5), (("deleted", 5),), 5, 50, 50, {7: (5, 50)}, 0.1
    )  # fmt: skip
    begin = RunBeginLine("r1", first, True, first, 0.7, "1", "h", "w")
    undone = UndoneLine("r2", later, Rows(0, 5), (Rows(3, 2),), 2, 20, {7: (2, 20)})
    lines = (
        begin, ClaimLine("r1", first, Rows(0, 5), (), 5, 0, {}), gone,
        replace(begin, run="r2", at=later), undone, SyncedLine("r2", later),
    )  # fmt: skip
    told = report([Chronicle(plan_line("p", "ab" * 32, 5, "/s", "ext4"), lines)])
    before, after = told.days
    assert (before.files, before.bytes, before.freed_bytes) == (3, 30, 30)
    assert [(user.uid, user.files, user.bytes) for user in before.users] == [(7, 3, 30)]
    assert (after.files, after.bytes) == (0, 0)
    (plan,) = told.plans
    assert (plan.outcomes, plan.waiting_rows) == ({"deleted": 3}, 2)


def test_a_day_is_that_of_the_time_zone():
    lines = (RunBeginLine("r", AT, True, AT, None, "", "", ""), RunEndLine("r", AT, "refused", ""))
    zurich = timezone(timedelta(hours=1))
    (day,) = report([Chronicle(PLAN, lines)], timezone=zurich).days
    assert day.day == date(2026, 11, 23)
