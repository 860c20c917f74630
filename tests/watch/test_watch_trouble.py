"""How the watch bears what goes wrong around it."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from tests.support.codes import raises
from tests.support.counts import repetitions
from tests.support.memory_driver import MemoryDriver
from tests.support.watched import (
    HOURLY,
    MONDAY,
    Ended,
    Lines,
    Moving,
    SimulatedProbe,
    a_log,
    a_site,
    a_watch,
)
from tests.watch.alert.test_alerting import Idle

from trimtab.base.error import Interrupted, RefusedError, ToolError, UnreadableError
from trimtab.base.event import EventKind
from trimtab.base.run import RunStatus
from trimtab.base.site import Site, SiteProbe, SiteStore
from trimtab.judge import run_verdict
from trimtab.store.slot import LEASE_S, Slot, SlotState
from trimtab.store.store import Store
from trimtab.watch.upkeep import Retention
from trimtab.watch.watch import Watch

pytestmark = pytest.mark.calibration  # weeks of a watch, or of a world, are simulated

HOUR = timedelta(hours=1)
NEVER = SiteProbe("asked", schedule=None)
"""A probe that no watch runs by itself: it leaves snapshots alone."""


def _watched(
    store: Store, site: Site, clock: Moving, until_h: float, **changes: object
) -> tuple[Slot, ...]:
    """Watch until so many hours after Monday, and return all slots."""
    with pytest.raises(Ended):
        a_watch(site, store, clock, until=MONDAY + until_h * HOUR, **changes).run()
    return store.slots(site.name)


def _stepped(watch: Watch, clock: Moving, hours: float, slewed_s: float = 0.0) -> None:
    """Let a watch look every quarter of an hour until so many hours have passed."""
    end = clock.at + hours * HOUR
    while clock.at < end:
        watch.step(clock.at)
        clock.at += HOUR / 4
        if slewed_s:
            clock.set_forward(timedelta(seconds=slewed_s))


def _after(hours: Iterable[float]) -> list[datetime]:
    return [MONDAY + hour * HOUR for hour in hours]


def _failing(call: Callable[..., Any], when: Callable[[], bool], error: BaseException) -> Any:
    def wrapped(*given: Any, **named: Any) -> Any:
        if when():
            raise error
        return call(*given, **named)

    return wrapped


def _failing_probe(clock: Moving, error: Any, until_h: float = 1.5) -> SimulatedProbe:
    """Return a probe that fails until so many hours after Monday."""
    probe = SimulatedProbe(clock)
    probe.meanwhile = _failing(lambda: None, lambda: clock.at < MONDAY + until_h * HOUR, error)
    return probe


PANIC = pl.exceptions.PanicException("called `Result::unwrap()` on an `Err` value: code: 24")
"""Of PyO3: a BaseException."""


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("driver", "snapshot"),
        ("probe", "__call__"),
        ("trimtab.probe.probe_now", "verdicts"),
        ("store", "finish_slot"),
        ("store", "prune"),
        ("observer", "after_slot"),
        ("observer", "idle"),
        ("observer", "close"),
        ("incidents", "after"),
    ],
)
def test_a_panic_of_rust_ends_one_slot_and_not_the_watch(
    store: Store, monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    clock, driver, panics = Moving(), MemoryDriver(), list[bool]()

    def once_later() -> bool:
        due = name == "close" or (clock.at > MONDAY + 0.2 * HOUR and not panics)
        panics.extend([True] * due)
        return due

    probe, observer, log = SimulatedProbe(clock), Idle(), a_log()
    site = a_site(snapshots="every 30m", store=SiteStore(retention_s=30 * 86400.0))
    monkeypatch.setattr(Retention, "_trusted", lambda self, now, now_s: True)
    watch = a_watch(
        site, store, clock, until=MONDAY + 2 * HOUR, driver=driver, probe=probe, log=log[0],
        observers=(observer,),
    )  # fmt: skip
    places = {
        "driver": driver, "probe": SimulatedProbe, "store": Store, "observer": observer,
        "incidents": watch._incident_watch,
    }  # fmt: skip
    whole = places.get(place, place)
    target = f"{whole}.{name}" if isinstance(whole, str) else whole
    if isinstance(target, str):
        call = _failing(run_verdict.verdicts, once_later, PANIC)
        monkeypatch.setattr(target, call)
    else:
        call = _failing(getattr(target, name), once_later, PANIC)
        monkeypatch.setattr(target, name, call)
    with pytest.raises(Ended):
        watch.run()
    assert panics
    slots = store.slots(site.name)
    assert max(slot.due_at for slot in slots) > MONDAY + 1.4 * HOUR
    assert sum(slot.state is not SlotState.DONE for slot in slots) <= 1
    told = [slot.detail or "" for slot in slots]
    assert "Result::unwrap" in "".join(told) + "".join(
        str(record.exc_info[1]) for record in log[1].records if record.exc_info
    )


@pytest.mark.parametrize("end", [KeyboardInterrupt, Interrupted("stopped"), SystemExit])
def test_a_request_to_end_is_no_failure_of_a_slot(
    store: Store, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    driver = MemoryDriver()
    monkeypatch.setattr(driver, "snapshot", _failing(driver.snapshot, lambda: True, end))
    watch = a_watch(a_site(snapshots="every 15m"), store, Moving(), driver=driver)
    with pytest.raises(end if isinstance(end, type) else type(end)):
        watch.run()


def test_a_snapshot_that_fails_does_not_stop_the_probe(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, driver = Moving(), MemoryDriver()
    outage = lambda: clock.at < MONDAY + 2.5 * HOUR  # noqa: E731
    error = ToolError("no server answers")
    monkeypatch.setattr(driver, "snapshot", _failing(driver.snapshot, outage, error))
    site = a_site(snapshots="every 1h at :30")
    slots = _watched(store, site, clock, 3.1, driver=driver)
    kept = [(one.item, one.state.value, one.before is None, one.after is None) for one in slots]
    fails = [("snapshot", "failed", True, True), ("probe:hourly", "done", True, True)]
    works = [("snapshot", "done", True, False), ("probe:hourly", "done", False, False)]
    assert kept == [*fails, *fails, *works]
    assert slots[1].detail == (
        "no snapshot before it: no server answers; no snapshot after it: no server answers"
    )
    assert [run.status for run in store.runs()] == [RunStatus.OK] * 3


@pytest.mark.parametrize("error", [RefusedError("it would fill it"), ToolError("no fio")])
def test_a_probe_that_cannot_be_started_leaves_a_run_that_says_so(
    store: Store, error: Exception
) -> None:
    clock = Moving()
    probe = _failing_probe(clock, error)
    first, second = _watched(store, a_site(), clock, 2.1, probe=probe)
    assert (first.state, second.state) == (SlotState.FAILED, SlotState.DONE)
    assert first.run is not None
    run = store.run(first.run)
    assert (run.status, run.problem) == (RunStatus.NOT_STARTED, str(error))
    assert run.samples == ()
    assert first.before is not None
    assert probe.cleaned == [run.id]


def test_a_bug_in_one_slot_is_told_whole_and_the_watch_goes_on(store: Store) -> None:
    clock, (log, lines) = Moving(), a_log()
    probe = _failing_probe(clock, KeyError("x"))
    slots = _watched(store, a_site(), clock, 2.1, probe=probe, log=log)
    assert [one.state for one in slots] == [SlotState.FAILED, SlotState.DONE]
    assert [one.exc_info is not None for one in lines.records if one.levelname == "ERROR"] == [True]


def test_a_store_that_fails_for_an_hour_loses_nothing_but_says_what_it_kept_from_starting(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Moving()
    log, lines = a_log()
    down = lambda: 2 * HOUR < clock.at - MONDAY < 3.4 * HOUR  # noqa: E731
    error = UnreadableError("the store has no space left on its disk")
    for name in ("finish_slot", "claim_slot", "history", "renew_lease"):
        monkeypatch.setattr(store, name, _failing(getattr(store, name), down, error))
    site = a_site(HOURLY, replace(HOURLY, name="quarters", schedule="every 15m"))
    slots = _watched(store, site, clock, 5.1, log=log)
    hourly = [one for one in slots if one.item == "probe:hourly"]
    assert [one.state for one in hourly] == [SlotState.DONE] * 5
    missed = [one.detail for one in slots if one.state is SlotState.MISSED]
    assert set(missed) == {"the store could not be used"}
    assert 3 <= len(missed) <= 6
    assert "no space left" in lines.text()
    quarters = [one.due_at for one in slots if one.item == "probe:quarters"]
    assert quarters == _after(n / 4 for n in range(1, 21))


def test_a_probe_longer_than_its_period_is_named_in_what_was_missed(store: Store) -> None:
    clock = Moving()
    probe = SimulatedProbe(clock, takes_s=1.75 * 3600)
    slots = _watched(store, a_site(), clock, 5, probe=probe)
    states = [(one.due_at.hour, one.state.value, one.detail) for one in slots]
    said = "the probe hourly of 01:00 was still running"
    assert states[:3] == [(1, "done", None), (2, "missed", said), (3, "done", None)]
    runs = sorted(store.runs(), key=lambda run: run.id)
    assert [run.status.value for run in runs[:3]] == ["ok", "not_started", "ok"]
    # What is missing stands in the series of what was measured.
    assert len(store.series()) == 1


def test_a_clock_that_goes_back_gives_nothing_twice(store: Store) -> None:
    clock, (log, lines) = Moving(), a_log()
    watch = a_watch(a_site(), store, clock, until=MONDAY + 6.1 * HOUR, log=log)
    watch.step(clock.at)
    for _ in range(3):
        clock.at += HOUR
        watch.step(clock.at)
    clock.at = MONDAY + 1.5 * HOUR
    with pytest.raises(Ended):
        watch.run()
    assert "the clock went back" in lines.text()
    assert [one.due_at for one in store.slots("scratch")] == _after(range(1, 7))
    assert len(store.runs()) == 6


def test_slots_that_a_clock_ahead_has_missed_are_done_when_their_time_comes(store: Store) -> None:
    clock, site = Moving(), a_site(snapshots="every 6h")
    watch = a_watch(site, store, clock)
    _stepped(watch, clock, 2.5)
    clock.at += 72 * HOUR  # set wrongly, and mended a minute later
    watch.step(clock.at)
    clock.at -= 72 * HOUR - HOUR / 60
    _stepped(watch, clock, (MONDAY + 12.2 * HOUR - clock.at) / HOUR)
    done = [one for one in store.slots("scratch") if one.state is SlotState.DONE]
    assert [one.due_at for one in done if one.item != "snapshot"] == _after(range(1, 13))
    assert [one.due_at for one in done if one.item == "snapshot"] == _after((6, 12))
    measured = {one.run for one in done if one.run is not None}
    assert {run.status for run in store.runs() if run.id in measured} == {RunStatus.OK}
    assert len(measured) == 12
    assert store.check(contents=True).problems == ()


def test_a_clock_that_was_years_ahead_does_not_end_the_watch(store: Store) -> None:
    clock = Moving(MONDAY + timedelta(days=3000))
    for _ in range(2):
        a_watch(a_site(), store, clock).step(clock.at)
        clock.at += HOUR
    clock.at = MONDAY
    slots = _watched(store, a_site(), clock, 2.1)
    assert [one.due_at for one in slots[:2]] == _after((1, 2))


def test_nothing_is_missed_before_an_item_was_watched(store: Store) -> None:
    clock = Moving()
    _watched(store, a_site(), clock, 2.1)
    slots = _watched(store, a_site(HOURLY, replace(HOURLY, name="late")), clock, 4.1)
    assert [one.due_at for one in slots if one.item == "probe:late"] == _after((3, 4))


def test_another_schedule_counts_from_when_it_was_read(store: Store) -> None:
    clock = Moving()
    _watched(store, a_site(), clock, 1.1)
    clock.at = MONDAY + 4.2 * HOUR
    slots = _watched(store, a_site(replace(HOURLY, schedule="every 30m")), clock, 5.1)
    assert [one.due_at for one in slots] == _after((1, 2, 3, 4.5, 5))
    assert [one.state.value for one in slots] == ["done", "missed", "missed", "done", "done"]


def test_a_long_absence_is_one_event(store: Store) -> None:
    clock, last = Moving(), MONDAY + timedelta(days=60)
    _watched(store, a_site(), clock, 1.1)
    clock.at = last + 0.9 * HOUR
    a_watch(a_site(), store, clock).step(clock.at)
    (event,) = store.events(site="scratch")
    assert event.kind is EventKind.LAUNCH_FAILURE
    assert (event.at, event.until) == (MONDAY + 2 * HOUR, last)
    assert len(store.runs()) == 1
    assert [one.due_at for one in store.slots("scratch")] == [MONDAY + HOUR, last]


def test_a_second_watch_is_refused_and_told_who_is_first_and_what_to_do(store: Store) -> None:
    clock, site = Moving(), a_site()
    a_watch(site, store, clock, holder="vm:30484:1b0c7a3e-81273:0a1b2c3d-4026531836").step(clock.at)
    second = a_watch(site, store, clock, holder="vm:2:2:2", gone=lambda holder: False)
    first = "already watched by process 30484 on vm since"
    with pytest.raises(RefusedError, match=first) as caught:
        second.run()
    assert caught.value.code == "already-watched"
    assert "--status" in (caught.value.hint or "")
    assert "systemctl stop trimtab-watch@scratch" in (caught.value.hint or "")
    clock.at += timedelta(seconds=LEASE_S)
    second.step(clock.at)  # the first has said nothing for so long


def test_a_watch_that_lost_its_lease_ends_and_leaves_the_slot_to_the_other(store: Store) -> None:
    clock, site = Moving(), a_site()
    probe = SimulatedProbe(clock)
    first = a_watch(site, store, clock, holder="one:1:1", probe=probe, gone=lambda holder: False)
    first.step(clock.at)
    clock.at += HOUR
    second, due_at = a_watch(site, store, clock, holder="two:2:2"), clock.at

    def meanwhile() -> None:
        second.step(due_at)

    probe.meanwhile = meanwhile
    with raises(RefusedError, "lease-lost"):
        first.step(clock.at)
    (slot,) = store.slots("scratch")
    assert (slot.holder, slot.state) == ("two:2:2", SlotState.DONE)
    assert len(store.runs()) == 1


def test_a_stop_leaves_the_slot_to_the_next_watch(store: Store) -> None:
    clock = Moving()
    probe = SimulatedProbe(clock)
    stop = Interrupted("stopped by SIGTERM")
    probe.meanwhile = _failing(lambda: None, lambda: len(probe.started) == 1, stop)  # type: ignore[arg-type]
    with pytest.raises(Interrupted):
        a_watch(a_site(), store, clock, probe=probe, holder="one:1:1").run()
    assert (store.runs(), store.lease("scratch")) == ((), None)
    assert [one.state for one in store.slots("scratch")] == [SlotState.STARTED]
    (slot,) = _watched(store, a_site(), clock, 1.4, probe=probe, holder="two:2:2")
    assert slot.state is SlotState.DONE
    assert probe.started == [slot.run] * 2


def test_a_stop_that_lasts_is_a_failed_run_and_no_zero(store: Store) -> None:
    clock = Moving()
    probe = _failing_probe(clock, Interrupted("stopped"), until_h=1000)
    with pytest.raises(Interrupted):
        a_watch(a_site(), store, clock, probe=probe).run()
    clock.at = MONDAY + 1.9 * HOUR
    a_watch(a_site(), store, clock, probe=probe, holder="here:2:2").step(clock.at)
    (run,) = store.runs()
    assert (run.status, run.problem) == (RunStatus.FAILED, "the watch ended while it ran")
    assert probe.cleaned == [run.id]


def test_once_takes_a_snapshot_and_runs_what_is_not_yet_done(store: Store) -> None:
    clock = Moving(MONDAY + 1.9 * HOUR)
    daily = SiteProbe("daily", schedule="daily at 20:00")
    site = a_site(HOURLY, daily, NEVER)
    first = a_watch(site, store, clock).run(once=True)
    assert [one.item for one in first] == ["snapshot", "probe:hourly", "probe:daily"]
    assert {one.state for one in first} == {SlotState.DONE}
    second = a_watch(site, store, clock).run(once=True)
    assert [one.item for one in second] == ["snapshot"]
    clock.at += HOUR
    third = a_watch(site, store, clock).run(once=True)
    assert [one.item for one in third] == ["snapshot", "probe:hourly"]
    assert store.lease("scratch") is None


@pytest.mark.parametrize("hours_away", [3, 1200])
def test_once_after_a_watch_hides_nothing_that_was_missed(store: Store, hours_away: int) -> None:
    clock, site = Moving(), a_site(snapshots="every 6h")
    _watched(store, site, clock, 2.5)
    clock.at = MONDAY + (2 + hours_away + 0.9) * HOUR
    a_watch(site, store, clock).run(once=True)
    _watched(store, site, clock, hours_away + 4.5)
    slots = store.slots("scratch", item="probe:hourly")
    missed = hours_away - 1
    if hours_away < 1000:
        assert [one.due_at for one in slots] == _after(range(1, hours_away + 5))
    else:  # so many are one event, which says from when to when
        (event,) = store.events()
        assert [event.at, event.until] == _after((3, 1 + hours_away))
        missed = 1
    states = [SlotState.DONE] * 2 + [SlotState.MISSED] * missed + [SlotState.DONE] * 3
    assert [one.state for one in slots] == states


def test_what_has_outlived_its_retention_goes_once_a_day(store: Store) -> None:
    clock = Moving()
    site = a_site(store=SiteStore(retention_s=24 * 3600.0))
    _watched(store, site, clock, 60.5)
    assert len(store.runs()) == 60
    # It went two days after the beginning, and not at the last of the 60 hours.
    oldest = min(one.at for one in store.snapshots("scratch"))
    assert MONDAY + timedelta(hours=23) <= oldest <= MONDAY + timedelta(hours=26)


@pytest.mark.system
@pytest.mark.parametrize("back", [False, True])
def test_a_clock_that_was_set_forward_removes_nothing_for_a_day(store: Store, back: bool) -> None:
    clock, jump = Moving(), timedelta(days=8)
    log, lines = a_log()
    site = a_site(NEVER, snapshots="every 1h", store=SiteStore(retention_s=7 * 86400.0))
    watch = a_watch(site, store, clock, log=log)

    def kept() -> int:
        return len(store.snapshots("scratch", until=MONDAY + 60 * HOUR))

    _stepped(watch, clock, 60)  # well past the first pruning, which finds nothing
    before = kept()
    assert before > 50
    clock.set_forward(jump)
    _stepped(watch, clock, 1)
    assert "the clock was set" in lines.text()
    if back:
        clock.set_forward(-jump)
    _stepped(watch, clock, 23)
    # The next watch knows nothing of the jump, and waits for a day by itself.
    watch = a_watch(site, store, clock, log=log)
    _stepped(watch, clock, 23)
    assert kept() == before
    # A day has gone by as it should: that is the time now, whatever it was before.
    _stepped(watch, clock, 2)
    assert kept() == (before if back else 0)


@pytest.mark.system
def test_a_clock_that_is_slewed_is_trusted(store: Store) -> None:
    clock = Moving()
    site = a_site(NEVER, snapshots="every 1h", store=SiteStore(retention_s=24 * 3600.0))
    watch = a_watch(site, store, clock)
    _stepped(watch, clock, 51, slewed_s=0.45)  # 500 ppm
    oldest = min(one.at for one in store.snapshots("scratch"))
    assert oldest >= MONDAY + 24 * HOUR


@pytest.mark.parametrize("state", [SlotState.DONE, SlotState.STARTED])
def test_a_slot_that_an_error_left_half_done_is_ended_within_the_hour(
    store: Store, state: SlotState, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks = Moving(), Counter[str]()
    finish, open_slots = store.finish_slot, store.open_slots

    def finishing(slot: Slot, **named: Any) -> bool:
        if slot.state is state and clock.at < MONDAY + 1.5 * HOUR:
            raise KeyError("a bug")
        return finish(slot, **named)

    def looking(site: str) -> tuple[Slot, ...]:
        looks["at open slots"] += 1
        return open_slots(site)

    monkeypatch.setattr(store, "finish_slot", finishing)
    monkeypatch.setattr(store, "open_slots", looking)
    probe = SimulatedProbe(clock)
    first, *others = _watched(store, a_site(), clock, 3.1, probe=probe)
    assert [one.state for one in others] == [SlotState.DONE] * 2
    assert looks["at open slots"] <= 4
    assert first.detail is not None
    assert first.detail.startswith("an error of the watch ended it")
    assert first.run is not None
    run = store.run(first.run)
    if state is SlotState.DONE:  # the run was kept, and all that comes after it still comes
        assert (first.state, run.status) == (SlotState.DONE, RunStatus.OK)
        assert first.after is not None
    else:
        assert (first.state, run.status) == (SlotState.FAILED, RunStatus.FAILED)
        assert probe.cleaned == [run.id]
    assert store.open_slots("scratch") == ()


@pytest.mark.system
@pytest.mark.parametrize("days", repetitions(gate=10, soak=365))
def test_memory_stays_flat_over_weeks(store: Store, days: int) -> None:
    clock = Moving()
    sizes: list[int] = []
    every_2h = replace(HOURLY, schedule="every 2h")
    site = a_site(every_2h, snapshots="every 6h", store=SiteStore(retention_s=3 * 86400.0))
    log = a_log()[0]
    log.handlers[:] = [_Nothing()]
    tracemalloc.start()
    try:
        watch = a_watch(site, store, clock, log=log)
        for _ in range(days * 24):
            watch.step(clock.at)
            clock.at += HOUR
            if clock.at.hour == 0:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # After two days the window of 48 hours is full and every cache is warm.
    assert max(sizes[-2:]) < max(sizes[2:5]) + min(300_000, 12_500 * (days - 5))


class _Nothing(Lines):
    def emit(self, record: object) -> None:
        """Keep nothing."""
