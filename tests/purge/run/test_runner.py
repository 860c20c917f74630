"""Whole runs over real files: what is journalled, what stops them, what they do after any end."""

import errno
import os
import signal
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from tests.purge.run.lines import journal_of, numbers
from tests.purge.run.world import (
    FILE_BYTES,
    NO_CAPS,
    NOW_S,
    World,
    candidates,
    policy,
    situation,
    time_of,
    undisturbed,
    with_plan,
    with_planned,
)
from tests.support.codes import raises
from tests.support.narrow import instance

from trimtab.base.error import RefusedError, ToolError
from trimtab.purge.run.journal_line import (
    ClaimLine,
    DoneLine,
    NeedLine,
    RunBeginLine,
    RunEndLine,
    TakeoverLine,
)
from trimtab.purge.run.rows import Rows, latency_of
from trimtab.purge.run.run_account import RunInterrupted
from trimtab.purge.run.run_journal import RunJournal, read
from trimtab.purge.run.runner import run
from trimtab.purge.run.situation import ArmingFacts, RootFacts, StopReason


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, 100).make()


def test_it_deletes_the_oldest_first_down_to_the_target(world):
    result = world.run()
    assert (result.reason, result.files) == (StopReason.TARGET, 50)
    assert world.there() == set(range(50, 100))
    assert all(path.exists() for path in world.strangers)
    assert result.freed_bytes == result.bytes == 50 * FILE_BYTES
    assert (result.before.fullness, result.after.fullness) == (1.0, 0.5)
    assert (result.rows_left, result.outcomes) == (50, {"deleted": 50})
    assert result.trim_due
    assert world.standing().todo == (Rows(50, 50),)


def test_every_batch_is_on_record_before_the_first_of_its_files_is_touched(world):
    seen = []

    def before(_call, row):
        seen.append(row)
        (claim,) = world.standing().claims
        assert row in numbers([claim.batch.rows])

    world.remover.before = before
    result = world.run()
    assert seen == list(range(50))
    batches, ends = world.lines(ClaimLine), world.lines(DoneLine)
    assert [batch.rows for batch in batches] == [one.rows for one in ends]
    (begin,), (end,) = world.lines(RunBeginLine), world.lines(RunEndLine)
    assert (begin.apply, begin.target_fullness) == (True, 0.5)
    assert (end.reason, end.text) == ("target-reached", result.text)
    used = [line.used_bytes for line in world.lines(NeedLine)]
    assert used == [100 * FILE_BYTES, 50 * FILE_BYTES]


def test_a_batch_is_on_stable_storage_before_its_files_are_touched_and_so_is_its_end(
    world, monkeypatch
):
    events = []

    def told(name, real):
        def call(*arguments, **named):
            events.append(name)
            return real(*arguments, **named)

        return call

    for name in ("link", "fsync"):
        monkeypatch.setattr(os, name, told(name, getattr(os, name)))
    world.remover.before = lambda what, _row: events.append(what)
    world.run()
    calls = " ".join(name for name, _ in groupby(events))
    batches = calls.count("delete")
    assert batches > 3
    # A line of the journal is never the last thing that was done when a file is touched.
    assert calls.count("fsync link fsync delete") == batches
    assert calls.count("delete fsync link fsync") == batches


def test_by_default_of_the_caller_nothing_is_deleted_and_all_else_happens(world):
    result = world.run(dry=True)
    assert world.there() == set(range(100))
    assert (result.reason, result.files) == (StopReason.TARGET, 50)
    assert (result.bytes, result.outcomes) == (50 * FILE_BYTES, {"would_delete": 50})
    assert not result.trim_due
    assert {what for what, _, _ in world.remover.asked} == {"check"}
    assert not world.lines(ClaimLine)
    assert world.standing().todo == (Rows(0, 100),)
    # A run that deletes begins where all runs that deleted ended, whatever dry runs saw.
    assert world.run().files == 50


def test_the_next_run_goes_on_where_this_one_ended(world):
    world.run()
    world.surroundings.others_bytes = 20 * FILE_BYTES
    assert world.run().files == 20
    assert world.there() == set(range(70, 100))
    world.surroundings.others_bytes = 70 * FILE_BYTES
    last = world.run()
    assert (last.reason, last.files, last.rows_left) == (StopReason.EXHAUSTED, 30, 0)
    assert sorted(world.fates()) == [*range(100)]


def test_what_earlier_runs_freed_is_in_the_first_measurement_of_the_next(world):
    """Nobody says whether objects are being destroyed, and users wrote as much as was freed."""
    late = {"terms": lambda now: world.terms(now, apply=True, frees_late=True)}
    assert world.run(**late).reason is StopReason.TARGET
    world.surroundings.others_bytes = 30 * FILE_BYTES
    world.interrupted(55, **late)
    # What the interrupted run had removed is accounted for as freed.
    recover = world.restorer.recover
    world.restorer.recover = lambda *rows: replace(recover(*rows), freed_bytes=50 * FILE_BYTES)
    world.surroundings.others_bytes = 40 * FILE_BYTES
    told = []
    result = run(world.job(**late), apply=True, progress=told.append)
    assert result.reason is StopReason.TARGET
    assert len(world.there()) == 10
    # Nor is what an earlier run still needed a measurement of this one.
    assert told[0].doing == "objects of deleted files are being destroyed"
    assert told[0].needed_bytes is None


def test_at_or_under_the_target_a_run_ends_and_nothing_is_wrong(world):
    world.run()
    result = world.run()
    assert (result.reason, result.files, result.refusal()) == (StopReason.TARGET, 0, None)
    assert "was already 50.0 % full" in result.text


def test_every_guard_that_objects_is_told_and_nothing_is_touched(world):
    now = world.surroundings.now
    world.surroundings.now = replace(with_planned(now, publication=None), arming=ArmingFacts(None))
    made = []
    result = world.run(remover=lambda: made.append(1))
    assert (world.there(), made) == (set(range(100)), [])
    refusal = result.refusal()
    assert isinstance(refusal, RefusedError)
    assert "nothing was deleted, 2 guards object: published: " in refusal.message
    assert "; armed: the plan is not armed" in refusal.message
    (end,) = world.lines(RunEndLine)
    assert (end.reason, len(end.objections)) == ("refused", 2)


def test_a_dry_run_tells_what_would_hold_it_back_and_goes_on(world):
    world.situate(arming=ArmingFacts(None), canary=None)
    result = world.run(dry=True)
    assert (result.files, result.refusal()) == (50, None)
    assert [objection.guard for objection in result.objections] == ["armed"]
    assert world.lines(RunBeginLine)[0].objections == ("armed: the plan is not armed",)


def test_where_nothing_is_mounted_a_dry_run_does_not_look_either(world):
    world.situate(root=RootFacts("no such directory"))
    assert world.run(dry=True).reason is StopReason.REFUSED
    assert not world.remover.asked


def test_the_kill_switch_ends_it_before_the_next_batch(world):
    def pull(_surroundings):
        if len(world.there()) < 80:
            world.situate(kill_switch="the switch is pulled")

    world.surroundings.look = pull
    result = world.run()
    assert (result.reason, result.text) == (StopReason.OBJECTION, "the switch is pulled")
    assert 20 < result.files == 100 - len(world.there()) <= 20 + 16
    # And keeps the next one from beginning.
    assert world.run().reason is StopReason.REFUSED


def test_a_plan_that_expires_on_the_way_ends_it(world):
    def later(surroundings):
        surroundings.at_s += 86400.0

    world.surroundings.look = later
    result = world.run()
    assert (result.reason, "expired" in result.text) == (StopReason.OBJECTION, True)
    assert 0 < result.files < 50


def test_what_is_kept_is_counted_by_its_reason_and_others_go_in_its_place(world):
    for row in (3, 4, 20):
        world.paths[row].write_bytes(b"changed")
    world.paths[7].unlink()
    result = world.run()
    assert result.outcomes == {"deleted": 49, "touched": 3, "gone": 1}
    assert world.there() >= {3, 4, 20}
    assert result.reason is StopReason.TARGET
    expected = {3: "touched", 7: "gone", 20: "touched", 52: "deleted"}
    assert {row: fate for row, fate in world.fates().items() if row in {*expected, 53}} == expected


def test_errors_of_the_system_are_counted_and_whether_changes_were_seen(world):
    answer = world.remover._answer
    errors = [[(1, errno.EACCES), (2, errno.EACCES)], [(9, errno.EIO)]]
    world.remover._answer = lambda names: replace(
        answer(names), errors=errors.pop(0) if errors else []
    )
    world.remover.watches = False
    result = world.run()
    assert (result.errors, result.unwatched) == ({errno.EACCES: 2, errno.EIO: 1}, True)
    world.remover.watches = None
    assert not world.run(dry=True).unwatched


def test_a_users_cap_keeps_that_users_files_and_not_the_others(world):
    held = {1000: 20 * FILE_BYTES, 1001: 10**9, 1002: 10**9}
    world.situate(policy=policy(target=0.5, caps=replace(NO_CAPS, user_fraction=0.25)))
    now = world.surroundings.now
    world.surroundings.now = with_plan(now, candidates=candidates(2000, 2**31, held))
    result = world.run()
    kept = {row for row in world.there() if world.table.uids[row] == 1000}
    assert (len(kept), result.files) == (34 - 5, 50)
    assert result.outcomes["capped"] > 0
    for what, first, count in world.remover.asked:
        assert what == "delete"
        assert all(world.table.uids[row] != 1000 or row < 15 for row in range(first, first + count))
    assert world.fates()[15] == "capped"


def test_caps_hold_for_all_runs_of_a_day_together(world):
    world.situate(policy=policy(target=0.5, caps=replace(NO_CAPS, files=30)))
    first = world.run()
    assert (first.reason, first.files) == (StopReason.FILES_CAP, 30)
    world.surroundings.at_s += 19 * 3600.0
    again = world.run()
    (objection,) = again.objections
    assert objection.guard == "caps"
    assert "free again at" in objection.reason
    assert "in 1.0 h" in objection.reason
    assert again.refusal().message.isprintable()
    world.surroundings.at_s += 1.1 * 3600.0
    assert world.run().files == 20


def test_a_remover_that_does_not_account_for_a_row_is_not_believed(world):
    answer = world.remover._answer(["deleted"])
    world.remover.delete = lambda *_rows: answer
    with raises(ToolError, "remover-contradictory"):
        world.run()
    assert world.standing().claims
    last = instance(RunEndLine, read(journal_of(world.directory)).lines[-1])
    assert last.reason == "failed"


def test_codes_that_nobody_knows_are_troubles(world):
    for path in world.paths[:40]:
        path.unlink()
    changes = {"target_fullness": 0.1, "troubles_rows_min": 5}
    result = world.run(
        codes={1: "deleted", 2: "would_delete"},
        terms=lambda now: world.terms(now, apply=True, **changes),
    )
    assert (result.reason, set(result.outcomes)) == (StopReason.TROUBLES, {"unknown"})


@pytest.mark.parametrize("fault", [RuntimeError("bug"), ToolError("the mount is gone")])
def test_after_an_error_within_a_batch_the_next_run_recovers_it(world, fault):
    def fail(_call, row):
        if row == 21:
            raise fault

    world.remover.before = fail
    with pytest.raises(type(fault)):
        world.run()
    world.remover.before = undisturbed
    world.remover.asked.clear()
    result = world.run(id="second")
    what, first, count = world.remover.asked[0]
    assert (what, 21 in range(first, first + count)) == ("recover", True)
    assert result.recovered_rows == count
    assert world.there() == set(range(50, 100))
    # At once, whatever a lease is of several hosts; and before anything is measured.
    (taken,) = world.lines(TakeoverLine)
    assert (taken.run, taken.rows) == ("second", Rows(first, count))
    kinds = [line.do for line in read(result.journal).lines if getattr(line, "run", "") == "second"]
    assert kinds[:3] == ["begin", "takeover", "done"]
    assert kinds.index("need") < kinds.index("claim")
    assert sorted(world.fates()) == [*range(50)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_batch_and_all_of_that_is_on_record(world, number):
    def kill(_call, row):
        if row == 21:
            os.kill(os.getpid(), number)

    world.remover.before = kill
    with pytest.raises(RunInterrupted) as caught:
        world.run()
    standing, result = world.standing(), caught.value.result
    assert result.reason is StopReason.INTERRUPTED
    assert result.rows_left == sum(rows.count for rows in standing.todo)
    assert result.files == result.outcomes["deleted"] == 100 - len(world.there())
    assert (result.freed_bytes > 0, result.journal) == (True, journal_of(world.directory))
    assert standing.claims == ()
    assert instance(RunEndLine, read(result.journal).lines[-1]).reason == "interrupted"
    gone = set(world.fates())
    assert world.there() == set(range(100)) - gone
    assert 21 in gone
    assert world.run().reason is StopReason.TARGET
    assert world.there() == set(range(50, 100))


def test_a_line_is_written_whole_before_a_signal_ends_the_run(world, monkeypatch):
    offer, whole = RunJournal.offer, []

    def offered(journal, line):
        if isinstance(line, NeedLine):
            os.kill(os.getpid(), signal.SIGTERM)
        taken = offer(journal, line)
        whole.append(type(line))
        return taken

    monkeypatch.setattr(RunJournal, "offer", offered)
    with pytest.raises(RunInterrupted):
        world.run()
    assert whole[-2:] == [NeedLine, RunEndLine]


def test_what_was_moved_aside_is_put_back_though_the_plan_has_expired(world):
    world.interrupted()
    world.paths[21].rename(world.remover.aside / "21")
    world.surroundings.now = with_plan(world.surroundings.now, expires_at=time_of(NOW_S - 1))
    assert world.run().reason is StopReason.REFUSED
    assert [what for what, _, _ in world.remover.asked] == ["recover"]
    assert world.there() == set(range(21, 100))
    assert world.standing().claims == ()


def test_files_aside_that_no_row_explains_are_told(world):
    world.interrupted()
    world.restorer.sweep = lambda: ([], [b".aside/x\n\xff"])
    assert world.run().unexplained == (b".aside/x\n\xff",)
    assert world.lines(RunEndLine)[-1].unexplained == (".aside/x\\n\\xff",)


def test_on_another_file_system_nothing_is_recovered(world):
    world.interrupted()
    root = world.surroundings.now.root
    world.situate(root=replace(root, file_system=replace(root.file_system, fsid=1)))
    assert world.run().reason is StopReason.REFUSED
    assert not world.remover.asked
    assert world.standing().claims


def test_a_dry_run_beside_an_open_batch_looks_at_its_rows_too_and_leaves_it(world):
    world.interrupted()
    assert world.run(dry=True).outcomes["gone"] > 0
    assert world.standing().claims


def test_progress_is_told(world):
    told = []
    run(world.job(), apply=True, progress=told.append)
    assert told[-1].files == 50
    assert [one.rows_left for one in told] == sorted((one.rows_left for one in told), reverse=True)
    assert {one.doing for one in told} >= {
        "checking and deleting",
        "objects of deleted files are being destroyed",
    }


def test_an_empty_plan_is_over_at_once(tmp_path):
    world = World(tmp_path, 0, outside=1).make()
    world.surroundings.others_bytes = world.surroundings.capacity_bytes
    result = world.run()
    assert (result.reason, result.files) == (StopReason.EXHAUSTED, 0)


def test_of_several_calls_the_latency_is_that_of_their_rows_together(world):
    now = situation(policy=policy(target=0.5, caps=replace(NO_CAPS, user_fraction=0.0)))
    world.surroundings.now = with_plan(now, horizon={"target": 0.5})
    world.table.uids = np.where(np.arange(100) % 2, 1000, 1001).astype(np.uint32)
    real = world.remover.delete
    world.remover.delete = lambda *rows: replace(real(*rows), latency_s_p99=0.001)
    result = world.run()
    assert result.files == 2
    assert {line.latency_s_p99 for line in world.lines(DoneLine)} == {0.001, None}
    assert (result.users, result.pace.rows, result.pace.latency_s_p99) == (2, 2, 0.001)


def test_one_slow_row_of_many_short_calls_is_not_their_99th_percentile():
    quick = [(10, 0.001, 0.001)] * 19
    assert latency_of([*quick, (10, 0.001, 3.0)]) == (0.001, 0.001)
    slow = [(10, 0.001, slowest_s) for slowest_s in (3.0, 2.0, 1.0)]
    assert latency_of([*quick[2:], *slow]) == (0.001, 1.0)
    assert latency_of([(200, 0.001, 3.0)]) == (0.001, 3.0)
    assert latency_of([]) is None
