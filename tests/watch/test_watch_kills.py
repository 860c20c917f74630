"""The watch is ended at hundreds of random moments: every slot is kept, once, and whole."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.support.counts import seeded
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
    tmp_path: Path, seed: int, hours: int
) -> None:
    killer = Killer(seeded(f"week of kills {seed}"), every=12)
    with Store.open(tmp_path / "t.db") as store:
        _lives(store, killer, (1.0, 60.0), hours)
        slots = store.slots("scratch", item="probe:hourly")
        assert Counter(one.state for one in slots) == {SlotState.DONE: hours}
        _assert_kept_once(store, slots, hours)
        assert store.check(contents=True).problems == ()
    assert len(killer.kills) > 300 * hours / WEEK_H
    assert len(set(killer.kills)) >= 10  # in all kinds of calls


@pytest.mark.parametrize(("seed", "hours"), SEEDS)
def test_a_week_of_kills_with_long_outages_says_what_is_missing(
    tmp_path: Path, seed: int, hours: int
) -> None:
    # So often that a life ends within a few slots, each of which asks the store some ten times.
    killer = Killer(seeded(f"week of outages {seed}"), every=40)
    with Store.open(tmp_path / "t.db") as store:
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
