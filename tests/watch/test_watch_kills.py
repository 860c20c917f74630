"""The watch in simulated time, ended at hundreds of moments, and a real one under kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.support.counts import repetitions, seeded
from tests.support.killing import Killer, Killing
from tests.support.memory_driver import MemoryDriver
from tests.support.watched import MONDAY, Ended, Moving, SimulatedProbe, a_site, a_watch

from trimtab.base.run import RunStatus
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store

pytestmark = pytest.mark.system

WEEK_H = 168
SEEDS = ((0, WEEK_H // 2), *(pytest.param(n, WEEK_H, marks=pytest.mark.soak) for n in range(20)))
"""And hours: half a week in the gate."""


def _lives(
    store: Store, killer: Killer, down_s: tuple[float, float], hours: int, **site: str
) -> None:
    """Watch for hours in as many processes as it takes, with some time between any two."""
    clock, end = Moving(), MONDAY + timedelta(hours=hours, minutes=10)
    # The first lives long enough to begin: before that nothing can be missed.
    a_watch(a_site(**site), store, clock, holder="here:first:1").step(MONDAY)  # type: ignore[arg-type]
    while clock.at < end:
        killer.arm()
        watch = a_watch(
            a_site(**site),  # type: ignore[arg-type]
            Killing(store, killer, "store"),  # type: ignore[arg-type]
            clock,
            driver=Killing(MemoryDriver(clock=clock), killer, "driver"),
            probe=Killing(SimulatedProbe(clock), killer, "probe"),
            sleep=Killing(_Sleep(clock, end), killer, "sleep"),
            holder=f"here:{len(killer.kills)}:1",
        )
        with pytest.raises(Ended):
            watch.run()
        clock.at += timedelta(seconds=killer.chance.uniform(*down_s))
    clock.at = end  # one that lives, in case the last one did not see the last hour through
    a_watch(a_site(**site), store, clock, holder="here:last:1").step(end)  # type: ignore[arg-type]


class _Sleep:
    def __init__(self, clock: Moving, end: datetime) -> None:
        self.clock, self.end = clock, end

    def __call__(self, seconds: float) -> None:
        if self.clock.at >= self.end:
            raise Ended
        self.clock.sleep(seconds)


def _assert_kept_once(store: Store, slots: tuple[Slot, ...], hours: int) -> None:
    """Assert one slot and one run for each hour, done ones with all that belongs to them."""
    due = [MONDAY + timedelta(hours=hour) for hour in range(1, hours + 1)]
    assert [one.due_at for one in slots] == due
    runs = {run.id: run for run in store.runs(site="scratch")}
    assert len(runs) == hours
    assert sorted(one.run for one in slots if one.run) == sorted(runs)
    for slot in slots:
        assert slot.run is not None
        run = runs[slot.run]
        if slot.state is SlotState.DONE:
            assert run.status is RunStatus.OK
            for one in (slot.before, slot.after):
                assert one is not None
                assert store.snapshot(one) is not None
            assert len(slot.verdicts) == 4
        else:
            assert run.samples == ()
            assert run.problem
            assert slot.detail
    assert store.open_slots("scratch") == ()


@pytest.mark.parametrize(("seed", "hours"), SEEDS)
def test_a_week_of_kills_with_quick_restarts_loses_nothing(
    store: Store, seed: int, hours: int
) -> None:
    killer = Killer(seeded(f"week of kills {seed}"), every=12)
    _lives(store, killer, (1.0, 60.0), hours)
    slots = store.slots("scratch", item="probe:hourly")
    assert Counter(one.state for one in slots) == {SlotState.DONE: hours}
    _assert_kept_once(store, slots, hours)
    assert store.check(contents=True).problems == ()
    assert len(killer.kills) > 300 * hours / WEEK_H
    assert len(set(killer.kills)) >= 10  # in all kinds of calls


@pytest.mark.parametrize(("seed", "hours"), SEEDS)
def test_a_week_of_kills_with_long_outages_says_what_is_missing(
    store: Store, seed: int, hours: int
) -> None:
    # So often that a life ends within a few slots, each of which asks the store some ten times.
    killer = Killer(seeded(f"week of outages {seed}"), every=40)
    _lives(store, killer, (1.0, 3 * 3600.0), hours, snapshots="every 2h")
    slots = store.slots("scratch", item="probe:hourly")
    _assert_kept_once(store, slots, hours)
    states = Counter(one.state for one in slots)
    assert states[SlotState.MISSED] > 20 * hours / WEEK_H
    assert states[SlotState.DONE] > 20 * hours / WEEK_H
    taken = store.slots("scratch", item="snapshot")
    assert [one.due_at for one in taken] == [
        MONDAY + timedelta(hours=hour) for hour in range(2, hours + 1, 2)
    ]
    statuses = Counter(run.status for run in store.runs())
    assert statuses[RunStatus.OK] == states[SlotState.DONE]
    assert statuses[RunStatus.NOT_STARTED] == states[SlotState.MISSED]
    assert statuses[RunStatus.FAILED] == states[SlotState.FAILED]
    assert store.check().problems == ()


def test_a_day_of_hours_is_twenty_four_runs_each_with_all_that_belongs_to_it(
    store: Store,
) -> None:
    with pytest.raises(Ended):
        a_watch(a_site(), store, Moving(), until=MONDAY + timedelta(hours=24.1)).run()
    slots = store.slots("scratch")
    assert {one.state for one in slots} == {SlotState.DONE}
    _assert_kept_once(store, slots, 24)
    for slot in slots:
        run = store.run(slot.run or "")
        assert run.at == slot.started_at == slot.due_at
        before, after = (store.snapshot(one) for one in (slot.before, slot.after) if one)
        assert before is not None
        assert before.at == run.at
        assert after is not None
        assert after.at == run.until == slot.ended_at
        assert slot.detail is None
    assert store.check(contents=True).problems == ()


ROOT = Path(__file__).parents[2]

# A real clock and real sleeping; the probe takes a tenth of a second.
WATCH = """
import sys, time
from datetime import UTC, datetime
from tests.support.memory_driver import MemoryDriver
from tests.support.watched import HOURLY, Moving, SimulatedProbe, a_site
from dataclasses import replace
from trimtab.site.path_access import since_boot_s
from trimtab.site.lookup import open_acting_driver
from trimtab.watch.watch import Watch
from trimtab.watch.service import configured
from trimtab.store.store import Store

def now():
    return datetime.now(UTC)

class Probe(SimulatedProbe):
    def __call__(self, probe, context):
        self.clock.at = now()
        time.sleep(0.1)
        return super().__call__(probe, context)

site = a_site(replace(HOURLY, schedule="every 1s"))
with Store.open(sys.argv[1]) as store:
    watch = Watch(site, store, MemoryDriver(), Probe(Moving(), 0.1), clock=now, sleep=time.sleep,
                  elapsed_s=since_boot_s, open_acting=open_acting_driver, log=configured())
    watch.run()
"""


@pytest.mark.parametrize("kills", repetitions(gate=4, soak=60))
def test_a_killed_watch_is_gone_on_with(tmp_path: Path, kills: int) -> None:
    path, chance = tmp_path / "t.db", seeded("killed watch")
    with (tmp_path / "log").open("w+") as log:
        for _ in range(kills):
            watch = subprocess.Popen(
                [sys.executable, "-c", WATCH, path], cwd=ROOT, stderr=log, start_new_session=True
            )
            _wait_for_a_slot(path, watch)
            time.sleep(chance.uniform(0.0, 1.2))
            os.kill(watch.pid, signal.SIGKILL)
            assert watch.wait() == -signal.SIGKILL
    with Store.open(path) as store:
        slots, runs = store.slots("scratch"), store.runs()
        assert store.check(contents=True).problems == ()
    assert len({one.due_at for one in slots}) == len(slots)
    seconds = [one.due_at.timestamp() for one in slots]
    assert seconds == [seconds[0] + number for number in range(len(seconds))]  # none is lost
    ended = [one for one in slots if one.state is not SlotState.STARTED]
    assert len(slots) - len(ended) <= 1
    kept = {one.run for one in slots if one.run}
    assert {run.id for run in runs} == kept
    assert len(runs) >= len(ended)
    for slot in ended:
        if slot.state is SlotState.DONE:
            assert slot.before
            assert slot.after
            assert len(slot.verdicts) == 4
    assert Counter(one.state for one in ended)[SlotState.DONE] >= kills


def _wait_for_a_slot(path: Path, watch: subprocess.Popen[bytes]) -> None:
    """Wait until this process has seen a slot through."""
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        assert watch.poll() is None
        if path.exists():
            with Store.open(path) as store:
                done = [one for one in store.slots("scratch") if one.state is SlotState.DONE]
            if any(f":{watch.pid}:" in (one.holder or "") for one in done):
                return
        time.sleep(0.1)
    raise AssertionError("no slot was seen through")
