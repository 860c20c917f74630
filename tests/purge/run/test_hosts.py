"""Several hosts at one plan: each row once, caps and need of all, whatever becomes of them."""

import os
import signal
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
from tests.purge.run.hosts import Hosts, audit
from tests.purge.run.lines import journal_of
from tests.purge.run.world import FILE_BYTES, NO_CAPS, time_of, with_plan
from tests.support.codes import raises
from tests.support.counts import repetitions, seeded

from trimtab.base.error import DataError, RefusedError
from trimtab.purge.run.journal_line import DoneLine, RunBeginLine, RunEndLine, TakeoverLine
from trimtab.purge.run.plan_progress import Shared, advanced
from trimtab.purge.run.purge_report import report
from trimtab.purge.run.run_journal import read

pytestmark = pytest.mark.system

EVER = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def hosts(tmp_path):
    """Return a way to make a plan with hosts; no process of theirs is left in the end."""
    made = []

    def make(files, **changes):
        made.append(Hosts(tmp_path / f"plan-{len(made)}", files, **changes))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()


def check(hosts, *, whole=True):
    """Hold the journal against what is there; return the fate of each row."""
    fates = hosts.world.settled()
    if whole:
        assert sorted(fates) == list(range(hosts.files))
    gone = hosts.files - len(hosts.world.there())
    aside = hosts.directory / "aside"
    assert [path for path in aside.rglob("*") if path.is_file()] == []
    deleted = sum(line.files for line in hosts.world.lines(DoneLine))
    assert deleted == gone, "each deletion is journalled once"
    most_files, most_bytes = audit(hosts.lines())
    caps = hosts.caps or NO_CAPS
    assert caps.files is None or most_files <= caps.files
    assert caps.bytes is None or most_bytes <= caps.bytes
    (day,) = report([read(journal_of(hosts.directory))]).days
    assert day.files == gone
    return fates


def lost_at(step, at, end):
    """Return what kills or stops a host that comes to a step of a row; not the test's process."""
    test = os.getpid()

    def lost(call, row):
        if os.getpid() != test and (call, row) == (step, at):
            os.kill(os.getpid(), end)

    return lost


def by_run(hosts):
    return Counter(line.run for line in hosts.world.lines(DoneLine))


def test_two_hosts_share_a_plan_and_need_is_of_both(hosts):
    def together(job, name):
        (plan.directory / f"ready-{name}").touch()
        while len(list(plan.directory.glob("ready-*"))) < 2:
            time.sleep(0.001)
        return job

    plan = hosts(300, target=0.5, delay_s=0.001, jobs=together)
    processes = [plan.start("one"), plan.start("other")]
    assert {plan.wait(process) for process in processes} == {"target-reached"}
    check(plan, whole=False)
    assert len(plan.world.there()) == 150, "no file more than all together needed"
    assert set(by_run(plan)) == {"one", "other"}


@pytest.mark.parametrize(
    ("caps", "end"),
    [
        (replace(NO_CAPS, files=40), "files-cap"),
        (replace(NO_CAPS, bytes=40 * FILE_BYTES), "bytes-cap"),
    ],
)
def test_caps_are_of_all_hosts(hosts, caps, end):
    plan = hosts(200, caps=caps, delay_s=0.001)
    processes = [plan.start(f"host-{number}") for number in range(3)]
    ends = {plan.wait(process) for process in processes}
    assert end in ends
    # Who begins when the others have used the cap up is refused for that.
    refused = [line for line in plan.world.lines(RunEndLine) if line.reason != end]
    assert all(line.reason == "refused" and "used up" in line.text for line in refused)
    check(plan, whole=False)
    assert len(plan.world.there()) == 160


def test_the_kill_switch_stops_all_within_a_batch(hosts):
    def pulled(job, _name):
        switch = plan.directory / "switch"

        def look(world):
            world.now = replace(world.now, kill_switch="pulled" if switch.exists() else None)

        job.surroundings.look = look
        return job

    plan = hosts(2000, delay_s=0.002, jobs=pulled)
    processes = [plan.start("one"), plan.start("other")]
    while not plan.has_begun() or len(by_run(plan)) < 2:
        time.sleep(0.01)
    (plan.directory / "switch").touch()
    before = sum(by_run(plan).values())
    assert {plan.wait(process) for process in processes} == {"objection"}
    check(plan, whole=False)
    assert sum(by_run(plan).values()) <= before + 4, "the batch of each, and one just begun"


STEPS = ("look", "take", "remove")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_lost_host_is_recovered_and_wakes_up_too_late(hosts, step, end):
    """Stopped before each step of a row, and continued once its rows were dealt with by another."""
    plan = hosts(40, lease_s=0.3, before=lost_at(step, 5, signal.SIGSTOP))
    process = plan.start("lost")
    os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOWAIT)
    result = plan.run("other")
    assert result.recovered_rows > 0
    assert result.reason in ("target-reached", "plan-exhausted")
    fates = check(plan)
    there = plan.world.there()
    os.kill(process, signal.SIGKILL if end == "killed" else signal.SIGCONT)
    assert plan.wait(process) == (None if end == "killed" else "overtaken")
    assert plan.world.there() == there, "who was taken over deletes nothing"
    assert check(plan) == fates, "and what it says of the rows counts for nothing"
    assert fates[5] == {"look": "deleted", "take": "deleted", "remove": "put_back"}[step]
    (taken,) = plan.world.lines(TakeoverLine)
    assert (taken.run, taken.of) == ("other", "lost")


def test_who_takes_over_may_be_lost_too(hosts):
    def dies(job, name):
        if name == "second":
            restorer = job.restorer()
            restorer.take_over = lambda *_arguments: os.kill(os.getpid(), signal.SIGKILL)
        return job

    plan = hosts(40, lease_s=0.3, before=lost_at("remove", 5, signal.SIGKILL), jobs=dies)
    assert plan.wait(plan.start("first")) is None
    assert plan.wait(plan.start("second")) is None
    plan.run("third")
    assert check(plan)[5] == "put_back"
    taken = [(line.run, line.of) for line in plan.world.lines(TakeoverLine)]
    assert taken == [("second", "first"), ("third", "second")]


def test_a_refused_run_still_recovers_what_a_lost_host_had_aside(hosts):
    def expired(job, name):
        if name == "refused":
            now = job.surroundings.now
            job.surroundings.now = with_plan(now, expires_at=time_of(now.now_s - 1))
        return job

    plan = hosts(40, lease_s=0.3, before=lost_at("remove", 5, signal.SIGKILL), jobs=expired)
    assert plan.wait(plan.start("first")) is None
    before = len(plan.world.there())
    result = plan.run("refused")
    assert (result.reason, result.files) == ("refused", 1), "row 4, the first of its last batch"
    assert len(plan.world.there()) == before + 1
    check(plan, whole=False)


@pytest.mark.parametrize("ends", repetitions(gate=6, soak=600))
def test_hosts_killed_and_stopped_at_random_rows_add_up(hosts, ends):
    """Three hosts; one is killed, or stopped beyond its lease and continued, again and again."""
    files = 3000 if ends <= 12 else 60_000
    caps, chance, test = replace(NO_CAPS, files=files * 3 // 4), seeded("lost hosts"), os.getpid()
    rows = chance.sample(range(files * 2 // 3), ends)
    doom = {
        row: (chance.choice(STEPS), chance.choice((signal.SIGKILL, signal.SIGSTOP))) for row in rows
    }

    def lost(call, row):
        if os.getpid() == test or doom.get(row, ("",))[0] != call:
            return
        mark = plan.directory / f"doomed-{row}"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), doom[row][1])

    plan = hosts(files, caps=caps, lease_s=0.2, delay_s=2e-4, rows=64, before=lost)
    number = 0
    while len(list(plan.directory.glob("doomed-*"))) < ends:
        while len(plan.started) - len(plan.stopped) < 3:
            plan.start(f"host-{number}")
            number += 1
        plan.look_after(stopped_s=0.5)
    while plan.started:
        plan.look_after(stopped_s=0.0)
    assert plan.run("last", delay_s=0.0).reason in ("files-cap", "refused"), "by the cap, both"
    check(plan, whole=False)
    assert plan.killed == sum(end is signal.SIGKILL for _, end in doom.values())
    assert len(plan.world.lines(TakeoverLine)) >= plan.killed, "each was lost within a batch"


def test_one_host_and_several_are_kept_apart(hosts):
    plan = hosts(40, target=0.5)
    dry = partial(plan.world.run, dry=True)
    assert dry().files == 20  # before anybody deletes, and for that matter after
    plan.run("one")
    with raises(RefusedError, "plan-shared"):
        plan.world.run()
    assert (dry().reason, len(plan.world.there())) == ("target-reached", 20)
    alone = hosts(40, target=0.5)
    alone.world.run()
    with raises(RefusedError, "plan-not-shared"):
        alone.run("other")


def test_lines_that_do_not_fit_together_are_refused(hosts):
    plan = hosts(12)
    plan.run("one")
    lines = plan.lines()
    assert [line.run for line in plan.world.lines(RunBeginLine)] == ["one"]
    done = next(line for line in lines if isinstance(line, DoneLine))
    for wrong in (replace(done, run="other"), done):
        with pytest.raises(DataError):
            advanced(Shared(EVER), (*lines, wrong))
    claim = next(line for line in lines if line.do == "claim")
    taken = TakeoverLine("other", claim.at, "nobody", claim.rows)
    for wrong in (claim, replace(claim, run="other"), taken):
        with pytest.raises(DataError):
            advanced(Shared(EVER), (*lines, wrong))
