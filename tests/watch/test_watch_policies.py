"""Armed policies under the watch, in simulated time: kept once, in time, and never in the way."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.command import trimtab
from tests.support.counts import all_in_soak
from tests.support.documents import misfits
from tests.support.memory_driver import MemoryDriver, MemoryTarget
from tests.support.watched import MONDAY, Ended, Moving, SimulatedProbe, a_log, a_site, a_watch

from trimtab.act.apply import never
from trimtab.act.session import ActingPlace
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.site import Site
from trimtab.base.site_policy import BalancePolicy, Policies, TrimPolicy, TunablesPolicy
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store
from trimtab.watch.agenda import items
from trimtab.watch.armed_policy import PolicyKeeper, state_of
from trimtab.watch.slot_work import AN_ERROR_ENDED_IT
from trimtab.watch.watch_state import watch_state

pytestmark = pytest.mark.system

WBT = "block/memory0/queue/wbt_lat_usec"
HOUR = timedelta(hours=1)
TIB = 1 << 40


class Slow(MemoryDriver):
    """A driver whose changes take time, and which a kill may end at any of them."""

    def __init__(self, *targets: MemoryTarget, clock: Moving, trim_s: float = 0.0) -> None:
        super().__init__(*targets, clock=clock)
        self.moving, self.trim_s = clock, trim_s
        self.changes: list[tuple[str, ...]] = []
        self.kill_after: int | None = None

    def trim(self, target: str, start: int = 0, length: int | None = None) -> int | NotAvailable:
        self.moving.at += timedelta(seconds=self.trim_s)
        answer = super().trim(target, start, length)
        self._changed("trim", target, str(start))
        return answer

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        answer = super().set(target, name, value)
        self._changed("set", target, value)
        return answer

    def set_creation(self, target: str, enabled: bool) -> NotAvailable | None:
        answer = super().set_creation(target, enabled)
        self._changed("creation", target, str(enabled))
        return answer

    def _changed(self, *change: str) -> None:
        self.changes.append(change)
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after < 0:
                self.kill_after = None
                raise Ended


def site_with(policies: Policies, **changes: Any) -> Site:
    return a_site(snapshots="every 1h", policies=policies, **changes)


def run(
    site: Site, store: Store, driver: Slow, clock: Moving, until: datetime, **more: Any
) -> None:
    """Watch until a time."""
    more = {"open_acting": lambda *_, **__: driver} | more
    watch = a_watch(site, store, clock, until=until, driver=driver, **more)
    with pytest.raises(Ended):
        watch.run()


def one_full(clock: Moving) -> tuple[Slow, MemoryTarget]:
    """Return a driver of six targets, and the first, which is full."""
    full = MemoryTarget("OST0000", used_bytes=9 * TIB, capacity_bytes=10 * TIB)
    others = (MemoryTarget(f"OST000{number}") for number in range(1, 6))
    return Slow(full, *others, clock=clock), full


def keeper_of(site: Site, store: Store, driver: Slow) -> PolicyKeeper:
    store.ensure_site(site.name)
    place = ActingPlace(
        site, store, driver.moving, open_acting=lambda *_, **__: driver, sleep=driver.moving.sleep
    )
    return PolicyKeeper(place, driver, logging.getLogger("test"))


def states(slots: tuple[Slot, ...], item: str) -> Mapping[SlotState, int]:
    return Counter(slot.state for slot in slots if slot.item == item)


def test_nothing_is_scheduled_that_is_not_armed() -> None:
    names = [item.name for item in items(site_with(Policies()))]
    assert names == ["snapshot", "probe:hourly"]
    armed = Policies(trim=TrimPolicy(armed=True))
    assert [item.name for item in items(site_with(armed))] == [*names, "policies"]


def test_a_setting_is_held_and_asserted_again_when_it_comes_back(store: Store) -> None:
    clock = Moving()
    driver = Slow(MemoryTarget("OST0000"), MemoryTarget("OST0001", server="oss2"), clock=clock)
    tunables = TunablesPolicy(armed=True, settings={"wbt_lat_usec": "0"}, settle_s=60.0)
    site = site_with(Policies(tunables=tunables))
    run(site, store, driver, clock, MONDAY + 3 * HOUR)
    assert [state.settings[WBT] for state in driver.state.values()] == ["0", "0"]
    assert len(driver.changes) == 2
    driver.state["OST0001"].settings[WBT] = "2000"  # a reboot
    run(site, store, driver, clock, MONDAY + 6 * HOUR)
    assert driver.state["OST0001"].settings[WBT] == "0"
    assert driver.changes[2:] == [("set", "OST0001", "0")]
    actions = store.actions("scratch")
    assert [action.outcome for action in actions] == [Outcome.DONE] * 3
    slots = store.slots("scratch")
    assert states(slots, "policies") == {SlotState.DONE: 24}
    assert states(slots, "probe:hourly") == {SlotState.DONE: 6}


def test_a_site_is_observed_once_for_each_policy_and_once_more_with_the_right_to_act(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, _ = one_full(Moving())
    tunables = TunablesPolicy(armed=True, settings={"wbt_lat_usec": "0"})
    policies = Policies(tunables=tunables, balance=BalancePolicy(armed=True))
    snapshots = Mock(wraps=driver.snapshot)
    monkeypatch.setattr(driver, "snapshot", snapshots)
    keeper = keeper_of(site_with(policies), store, driver)
    kept = keeper.keep(never)
    assert [len(result.actions) for result in kept] == [1, 1]
    assert snapshots.call_count == 4
    # What a change has brought about is kept: a page of the store shows it as the ledger does.
    latest = store.latest_snapshot("scratch")
    assert latest is not None
    closed = latest.of("OST0000")
    assert closed is not None
    assert closed.value("create_enabled") is False
    snapshots.reset_mock()
    assert not any(result.actions for result in keeper.keep(never))
    assert snapshots.call_count == 1


def test_policies_that_gave_way_are_not_done(store: Store) -> None:
    clock = Moving()
    driver, full = one_full(clock)
    policies = Policies(trim=TrimPolicy(armed=True), balance=BalancePolicy(armed=True))
    keeper = keeper_of(site_with(policies), store, driver)
    assert state_of(keeper.keep(never)) is SlotState.DONE
    full.used_bytes = 0
    clock.at += 30 * HOUR
    kept = keeper.keep(lambda _: True)
    assert [str(result) for result in kept] == [
        "balance: gave way to the slot that is due: 1 change left for later",
        "trim: gave way to the slot that is due: 6 changes left for later",
    ]
    assert state_of(kept) is SlotState.MISSED
    # The next slot comes after the first change: what was done is done, the rest is told.
    begun = len(driver.changes)
    kept = keeper.keep(lambda _: len(driver.changes) > begun)
    assert [str(result) for result in kept] == [
        "balance: 1 change: 1 done",
        "trim: gave way to the slot that is due",
    ]
    assert state_of(kept) is SlotState.DONE


def test_a_trim_gives_way_to_probes_and_resumes(store: Store) -> None:
    clock = Moving()
    driver = Slow(MemoryTarget("OST0000", capacity_bytes=8 * TIB), clock=clock, trim_s=20 * 60)
    trim = TrimPolicy(armed=True, every_s=86400.0, range_bytes=TIB, slower=None)
    probe = SimulatedProbe(clock, takes_s=600.0)
    site = site_with(Policies(trim=trim))
    run(site, store, driver, clock, MONDAY + 8 * HOUR, probe=probe)
    slots = store.slots("scratch")
    actions = store.actions("scratch")
    starts = [slot.started_at - slot.due_at for slot in slots if slot.run and slot.started_at]
    assert [int(offset) for _, _, offset in driver.changes] == [n * TIB for n in range(8)]
    assert {action.instruction.kind for action in actions} == {ActionKind.TRIM}
    assert [action.outcome for action in actions][-1] is Outcome.DONE
    assert all(action.facts["interrupted"] == "gave-way" for action in actions[:-1])
    assert len(actions) > 2
    assert states(slots, "probe:hourly") == {SlotState.DONE: 8}
    assert max(starts) <= timedelta(minutes=20)  # of the first range nobody knows how long it takes
    assert states(slots, "policies")[SlotState.FAILED] == 0


@pytest.mark.parametrize("kill_after", all_in_soak(range(6), gate=(0, 3, 5)))
def test_a_watch_killed_within_a_change_does_nothing_twice_and_loses_nothing(
    tmp_path: Path, store: Store, kill_after: int
) -> None:
    clock = Moving()
    names = [f"OST{number:04x}" for number in range(5)]
    targets = [MemoryTarget(name, used_bytes=TIB // 2, server=f"oss{name[-1]}") for name in names]
    targets[0].used_bytes = int(0.9 * TIB)
    driver = Slow(*targets, clock=clock, trim_s=30)
    policies = Policies(
        tunables=TunablesPolicy(armed=True, settings={"wbt_lat_usec": "0"}, settle_s=60.0),
        balance=BalancePolicy(armed=True, most_closed=0.5),
        trim=TrimPolicy(armed=True, slower=None),
    )
    site = site_with(policies)
    driver.kill_after = kill_after
    run(site, store, driver, clock, MONDAY + 6 * HOUR)
    run(site, store, driver, clock, MONDAY + 12 * HOUR)
    actions = store.actions("scratch")
    assert all(action.outcome is not None for action in actions)
    assert not store.open_slots("scratch")
    journal = next(tmp_path.glob("actions/*.journal.jsonl"))
    assert journal.read_text().count('"do":"begin"') == len(actions)
    assert {state.settings[WBT] for state in driver.state.values()} == {"0"}
    assert not driver.state["OST0000"].create_enabled
    done = {
        kind: [change[1:] for change in driver.changes if change[0] == kind]
        for kind in ("set", "creation", "trim")
    }
    assert sorted(target for target, _ in done["set"]) == names
    assert done["creation"] == [("OST0000", "False")]
    assert {target for target, _ in done["trim"]} == set(names)


def test_a_slot_killed_too_late_to_begin_again_is_failed_and_the_next_goes_on(
    store: Store,
) -> None:
    clock = Moving()
    # The slot of an hour begins until half past: killed at twenty to, its time is over.
    driver = Slow(MemoryTarget("OST0000", capacity_bytes=2 * TIB), clock=clock, trim_s=40 * 60)
    site = site_with(Policies(trim=TrimPolicy(armed=True, range_bytes=TIB, slower=None)))
    driver.kill_after = 0
    run(site, store, driver, clock, MONDAY + 6 * HOUR)
    killed_at = clock()
    run(site, store, driver, clock, MONDAY + 6 * HOUR)
    slots = [slot for slot in store.slots("scratch") if slot.item == "policies"]
    actions = store.actions("scratch")
    assert killed_at - slots[0].due_at > timedelta(minutes=30)
    assert [slot.state for slot in slots].count(SlotState.FAILED) == 1
    assert slots[0].state is SlotState.FAILED
    assert slots[-1].state is SlotState.DONE
    assert slots[0].detail == AN_ERROR_ENDED_IT  # a kill by a signal is another process to the next
    assert [action.outcome for action in actions][-1] is Outcome.DONE
    assert {int(offset) for _, _, offset in driver.changes} == {0, TIB}


def test_a_site_that_another_process_acts_on_is_left_to_it(store: Store) -> None:
    clock, (log, lines) = Moving(), a_log()
    driver = Slow(clock=clock)
    trim = Policies(trim=TrimPolicy(armed=True, slower=None))
    store.ensure_site("scratch", driver="local", path="/scratch")
    other = {"now": MONDAY, "until": MONDAY + 2 * HOUR, "gone": lambda _: False}
    store.take_right("scratch", "elsewhere:1:1:x", **other)
    run(site_with(trim), store, driver, clock, MONDAY + 1.9 * HOUR, log=log)
    assert driver.changes == []
    slots = store.slots("scratch")
    assert states(slots, "policies") == {SlotState.FAILED: 7}
    assert states(slots, "probe:hourly") == {SlotState.DONE: 1}
    run(site_with(trim), store, driver, clock, MONDAY + 3 * HOUR, log=log)
    assert len(driver.changes) == 1
    assert "elsewhere:1:1:x has the right to act" in lines.text()


def test_what_ran_last_and_what_comes_next(store: Store) -> None:
    clock = Moving()
    site = site_with(Policies(trim=TrimPolicy(armed=True, slower=None)))
    run(site, store, Slow(clock=clock), clock, MONDAY + 2.1 * HOUR)
    state = watch_state(site, store, clock.at)
    assert state.lease is not None
    assert state.lease.holder == "here:1:1"
    policies, probe, snapshot = sorted(state.items, key=lambda item: item.item)
    names = [policies.item, probe.item, snapshot.item]
    assert names == ["policies", "probe:hourly", "snapshot"]
    assert policies.next_at == MONDAY + 2.25 * HOUR
    assert policies.last is not None
    assert policies.last.due_at == MONDAY + 2 * HOUR
    assert probe.next_at == snapshot.next_at == MONDAY + 3 * HOUR
    assert watch_state(site, store, clock.at + HOUR).lease is None  # it has lapsed


@pytest.mark.parametrize("option", ["--status", "--dry-run"])
def test_the_command_shows_it_and_changes_nothing(tmp_path: Path, option: str) -> None:
    mount, file, store = (tmp_path / name for name in ("scratch", "here.toml", "t.db"))
    mount.mkdir()
    armed = "[policy.trim]\narmed = true\n"
    file.write_text(f'[site]\nname = "here"\ndriver = "local"\npath = "{mount}"\n{armed}')
    assert trimtab("watch", file, "--once", store=store).code == 0
    shown = trimtab("watch", file, option, "--json", store=store)
    assert shown.code == 0, shown.stderr
    assert misfits(shown.document, "watch-status") == []
    assert [item["item"] for item in shown.document["items"]] == ["policies"]
    assert [plan["policy"] for plan in shown.document["plans"]] == (
        ["trim"] if option == "--dry-run" else []
    )
    with Store.open(store) as opened:
        assert len(opened.slots("here")) == 2  # of --once alone
    text = trimtab("watch", file, option, store=store)
    assert text.code == 0
    assert "policies" in text.stdout
    both = trimtab("watch", file, "--status", "--dry-run", store=store)
    assert both.code == 2
