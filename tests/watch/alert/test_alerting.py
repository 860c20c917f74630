"""Alerts of a watch: decided once, kept, delivered once, whatever fails in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest
from tests.support.memory_driver import MemoryDriver, MemoryTarget
from tests.support.watched import HOURLY, MONDAY, Ended, Moving, a_log, a_site, a_watch
from tests.watch.alert.parcels_of import NOON, alert

from trimtab.base.error import Undelivered, UnreadableError
from trimtab.base.finding import Alert, Delivery, DeliveryState, Phase, Severity
from trimtab.base.site import Site
from trimtab.base.site_policy import Alerts, parse_window
from trimtab.store.store import Store
from trimtab.watch import alerting as module
from trimtab.watch.alerting import (
    ATTEMPTS,
    FIRST_WAIT_S,
    KEPT,
    LONGEST_WAIT_S,
    MOST,
    Alerting,
    Courier,
)
from trimtab.watch.payload import Parcel
from trimtab.watch.receiver import Receiver
from trimtab.watch.watch_state import overdue

pytestmark = pytest.mark.system


class Chat(Receiver):
    """Takes alerts, or fails as ``problem`` says."""

    def __init__(self, name: str = "chat") -> None:
        self.name = name
        self.parcels: list[Parcel] = []
        self.attempts: list[datetime] = []
        self.problem: Exception | None = None

    def deliver(self, parcel: Parcel, now: datetime) -> str | None:
        self.attempts.append(now)
        if self.problem is not None:
            raise self.problem
        self.parcels.append(parcel)
        return None

    @property
    def ids(self) -> list[str]:
        return [alert.id for parcel in self.parcels for alert in parcel.alerts]


HOUR = timedelta(hours=1)
SITE = a_site(HOURLY, snapshots="every 6h")
DOWN = Undelivered("it answered 503", code="receiver-refused")


class Idle:
    """Looks on and does nothing."""

    def after_slot(self, slot: object) -> None: ...
    def idle(self, now: datetime) -> None: ...
    def close(self) -> None: ...


class Place:
    """A store, a clock, and what alerts of a site go through."""

    def __init__(
        self, store: Store, chat: Chat | None = None, clock: Moving | None = None,
        site: Site | None = None,
    ) -> None:  # fmt: skip
        self.store = store
        self.clock = clock or Moving(NOON)
        self.site = site or a_site(alerts=Alerts())
        self.log, self.lines = a_log()
        self.chat = chat or Chat()

    def alerting(self, *others: Receiver, threads: bool = False) -> Alerting:
        """Return alerting as a new process has it."""
        return Alerting(
            self.site, self.store, log=self.log, clock=self.clock,
            receivers=(*others, self.chat), threads=threads,
        )  # fmt: skip

    def courier(self) -> Courier:
        return Courier(self.site, self.store, self.chat, self.log, self.clock)

    def after(self, seconds: float, idle: Alerting | None = None) -> None:
        """Let time pass; then a watch is idle."""
        self.clock.at += timedelta(seconds=seconds)
        if idle is not None:
            idle.idle(self.clock())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    with ExitStack() as stores:

        def make(**settings: Any) -> Place:
            store = stores.enter_context(Store.open(tmp_path / "t.db"))
            return Place(store, site=a_site(alerts=Alerts(**settings)))

        yield make


@pytest.fixture
def here(place: Callable[..., Place]) -> Place:
    return place()


def decided(monkeypatch: pytest.MonkeyPatch, *alerts: Alert) -> None:
    """Let these be what the record asks for, until they are in the ledger."""

    def decide(observed: object, sent: list[Alert], now: datetime) -> list[Alert]:
        known = {alert.id for alert in sent}
        return [replace(alert, at=now) for alert in alerts if alert.id not in known]

    monkeypatch.setattr(module, "decide", decide)


def states(place: Place) -> list[DeliveryState]:
    entries = place.store.alerts("scratch")
    return [delivery.state for entry in entries for delivery in entry.deliveries]


def test_an_alert_is_delivered_once_and_the_ledger_says_so(here, monkeypatch) -> None:
    decided(monkeypatch, alert(1))
    alerting = here.alerting()
    for _ in range(3):
        alerting.after_slot()
        here.after(0, alerting)
    here.alerting().after_slot()
    assert here.chat.ids == [alert(1).id]
    assert states(here) == [DeliveryState.DELIVERED]


def test_a_receiver_that_is_down_gets_it_when_it_is_back_also_after_a_restart(
    here, monkeypatch
) -> None:
    decided(monkeypatch, alert(1), alert(2))
    here.chat.problem = DOWN
    here.alerting().after_slot()
    assert states(here) == [DeliveryState.WAITING] * 2
    here.after(0, restarted := here.alerting())
    assert restarted.standing()[0].waiting == 2
    here.chat.problem = None
    here.after(3600)
    here.after(0, restarted := here.alerting())
    assert sorted(here.chat.ids) == [alert(1).id, alert(2).id]
    assert states(here) == [DeliveryState.DELIVERED] * 2
    assert restarted.standing()[0].waiting == 0


def test_attempts_are_further_and_further_apart(here, monkeypatch) -> None:
    decided(monkeypatch, alert(1))
    here.chat.problem = DOWN
    alerting = here.alerting()
    alerting.after_slot()
    for _ in range(8 * 60):
        here.after(60, alerting)
    attempts = here.chat.attempts
    apart = [(later - earlier).total_seconds() for earlier, later in pairwise(attempts)]
    assert apart[0] <= FIRST_WAIT_S + 60
    assert apart == sorted(apart)
    assert max(apart) == LONGEST_WAIT_S
    assert len(attempts) < 16


def test_a_receiver_that_asks_for_time_gets_it(here, monkeypatch) -> None:
    decided(monkeypatch, alert(1))
    here.chat.problem = Undelivered("429", code="receiver-refused", retry_after_s=600)
    alerting = here.alerting()
    alerting.after_slot()
    here.chat.problem = None
    here.after(599, alerting)
    assert here.chat.ids == []
    here.after(1, alerting)
    assert here.chat.ids == [alert(1).id]


def test_a_message_that_is_refused_for_good_does_not_hold_up_the_next(here, monkeypatch) -> None:
    decided(monkeypatch, alert(1))
    here.chat.problem = Undelivered("400", code="receiver-refused", for_good=True)
    alerting = here.alerting()
    alerting.after_slot()
    for _ in range(ATTEMPTS):
        here.after(3600, alerting)
    assert len(here.chat.attempts) == ATTEMPTS
    assert states(here) == [DeliveryState.DROPPED]
    here.chat.problem = None
    decided(monkeypatch, alert(2))
    alerting.after_slot()
    assert here.chat.ids == [alert(2).id]


def test_killed_anywhere_an_alert_is_neither_lost_nor_decided_twice(place, monkeypatch) -> None:
    """Killed between any two steps; sent again is only what may not have been marked, same key."""
    steps = [(Store, "add_alert"), (Chat, "deliver"), (Store, "put_delivery")]
    for number, (owner, name) in enumerate(steps, 1):
        for after, idle_first in product((False, True), repeat=2):
            here = place(per_hour=100)
            one = alert(number * 10 + 2 * after + idle_first)
            decided(monkeypatch, one)
            with monkeypatch.context() as patched:
                done = getattr(owner, name)

                def killed(*arguments: Any, done=done, after=after) -> None:
                    if after:
                        done(*arguments)
                    raise Ended

                patched.setattr(owner, name, killed)
                with pytest.raises(Ended):
                    here.alerting().after_slot()
            here.after(3600)
            restarted = here.alerting()
            # What waits may be delivered before anything is decided.
            here.after(0, restarted if idle_first else None)
            restarted.after_slot()
            here.after(3600, restarted)
            rows = [row for row in here.store.alerts("scratch") if row.id == one.id]
            assert len(rows) == 1, (name, after)
            assert [each.state for each in rows[0].deliveries] == [DeliveryState.DELIVERED]
            again = (name, after) in {("deliver", True), ("put_delivery", False)}
            assert here.chat.ids.count(one.id) == (2 if again else 1), (name, after)


def test_quiet_hours_end_in_one_digest(place, monkeypatch) -> None:
    here = place(quiet=parse_window("11:00-14:00"))
    decided(monkeypatch, alert(1), alert(2), alert(3, severity=Severity.CRITICAL))
    alerting = here.alerting()
    alerting.after_slot()
    assert here.chat.ids == [alert(3).id]
    here.after(3 * 3600, alerting)
    assert [len(parcel.alerts) for parcel in here.chat.parcels] == [1, 2]


def test_only_what_is_severe_enough_is_sent_and_all_is_kept(place, monkeypatch) -> None:
    here = place(least="critical")
    critical, noted = alert(2, severity=Severity.CRITICAL), alert(3, phase=Phase.NOTED)
    decided(monkeypatch, alert(1), critical, noted)
    here.alerting().after_slot()
    assert here.chat.ids == [critical.id]
    assert len(here.store.alerts("scratch")) == 3


def test_what_was_pruned_from_the_ledger_is_not_looked_through_for_ever(here, monkeypatch) -> None:
    sent: list[int] = []

    def decide(observed: object, ledger: list[Alert], now: datetime) -> list[Alert]:
        sent.append(len(ledger))
        return []

    monkeypatch.setattr(module, "decide", decide)
    for number in range(3):
        here.store.add_alert(alert(number))
    alerting = here.alerting()
    alerting.after_slot()
    locked = UnreadableError("the store is locked", code="store-locked")
    for answer in (Mock(side_effect=locked), Mock(return_value=())):
        monkeypatch.setattr(Store, "alerts", answer)
        alerting.after_slot()
        here.after(86400)
        alerting.after_slot()
    assert sent == [3, 3, 3, 0, 0]


def test_a_store_that_cannot_be_written_delays_the_ledger_alone(here, monkeypatch) -> None:
    decided(monkeypatch, alert(1))
    alerting = here.alerting()
    with monkeypatch.context() as patched:
        full = Mock(side_effect=UnreadableError("the store is full", code="store-full"))
        patched.setattr(Store, "add_alert", full)
        patched.setattr(Store, "put_delivery", full)
        alerting.after_slot()
        alerting.after_slot()
    assert here.chat.ids == [alert(1).id]
    assert here.store.alerts("scratch") == ()
    alerting.after_slot()
    assert [row.id for row in here.store.alerts("scratch")] == [alert(1).id]
    assert states(here) == [DeliveryState.DELIVERED]
    here.after(3600)
    here.after(0, here.alerting())
    assert here.chat.ids == [alert(1).id]


def test_what_waits_is_bounded_and_old_alerts_are_dropped(here) -> None:
    here.chat.problem = DOWN
    courier = here.courier()
    for number in range(MOST + 5):
        severity = Severity.CRITICAL if number == 0 else Severity.WARNING
        each = alert(number, severity=severity, at=NOON + timedelta(seconds=number))
        here.store.add_alert(each)
        courier.add(each)
    here.clock.at = NOON + HOUR
    courier.run()
    waiting = courier.waiting()
    assert (len(waiting), waiting[0].id) == (MOST, alert(0).id)
    here.clock.at = NOON + KEPT + HOUR
    courier.run()
    assert courier.waiting() == []
    assert set(states(here)) <= {DeliveryState.DROPPED}


def test_a_receiver_that_hangs_holds_up_neither_the_watch_nor_the_others(here, monkeypatch) -> None:
    released, hanging = threading.Event(), Chat("hanging")
    gave_up: list[bool] = []
    monkeypatch.setattr(
        hanging, "deliver", lambda parcel, now: gave_up.append(not released.wait(30))
    )
    monkeypatch.setattr(module, "CLOSING_S", 0.2)
    decided(monkeypatch, alert(1))
    alerting = here.alerting(hanging, threads=True)
    alerting.after_slot()
    here.after(0, alerting)
    alerting.close()
    assert here.chat.ids == [alert(1).id]
    assert gave_up == []  # it still hangs
    released.set()
    alerting.close()


def test_what_waits_is_tried_again_while_a_slot_takes_long(here, monkeypatch) -> None:
    """Nobody calls in between: a trim may take hours."""
    decided(monkeypatch, alert(1))
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.0)
    here.chat.problem = DOWN
    failed, delivered = threading.Event(), threading.Event()
    deliver = here.chat.deliver

    def telling(parcel: Parcel, now: datetime) -> str | None:
        try:
            note = deliver(parcel, now)
        except Undelivered:
            here.chat.problem = None
            failed.set()
            raise
        delivered.set()
        return note

    monkeypatch.setattr(here.chat, "deliver", telling)
    alerting = here.alerting(threads=True)
    alerting.after_slot()
    assert failed.wait(30)
    assert delivered.wait(30)
    alerting.close()
    assert here.chat.ids == [alert(1).id]


def test_a_delivery_of_an_alert_that_is_not_kept_is_no_error(store: Store) -> None:
    store.put_delivery("0" * 32, Delivery("chat", DeliveryState.DELIVERED, NOON))
    assert store.alerts("scratch") == ()


def test_a_watch_tells_of_a_target_that_is_lost_and_of_its_return_once_each(
    store: Store,
) -> None:
    clock, target = Moving(), MemoryTarget("OST0000")
    site = a_site(HOURLY, snapshots="every 15m")

    class Scene(Idle):
        """Lets the target become read-only for some hours."""

        def after_slot(self, slot: object) -> None:
            target.readings["read_only"] = 3 * HOUR <= clock.at - MONDAY < 6 * HOUR

    here = Place(store, clock=clock, site=site)
    watch = a_watch(
        site, store, clock, driver=MemoryDriver(target, clock=clock),
        until=MONDAY + 9 * HOUR, observers=(Scene(), here.alerting()),
    )  # fmt: skip
    with pytest.raises(Ended):
        watch.run()
    told = [(each.name, each.phase) for parcel in here.chat.parcels for each in parcel.alerts]
    assert told == [("target-read-only", Phase.OPENED), ("target-read-only", Phase.CLOSED)]
    assert "exception" not in here.lines.text()


def test_an_observer_that_fails_ends_neither_the_watch_nor_the_others(store: Store) -> None:
    class Broken:
        """Fails wherever it is called."""

        after_slot = idle = close = Mock(side_effect=ValueError("broken"))

    fine, clock = Mock(spec_set=Idle), Moving()
    log, lines = a_log()
    terms = {"until": MONDAY + 2 * HOUR, "observers": (Broken(), fine), "log": log}
    with pytest.raises(Ended):
        a_watch(a_site(), store, clock, **terms).run()
    assert len(store.slots("scratch")) == 2
    assert fine.mock_calls[-1] == call.close()
    assert "Broken" in lines.text()


def watch_until(store: Store, clock: Moving, hour: float, chat: Chat) -> None:
    """Watch, and be killed at that hour: the lease stays."""
    observers = (Place(store, chat, clock, SITE).alerting(),)
    watch = a_watch(SITE, store, clock, until=MONDAY + hour * HOUR, observers=observers)
    with pytest.raises(Ended):
        watch.run()


def test_a_slot_is_overdue_only_where_no_process_watches(store: Store) -> None:
    clock = Moving()
    watch_until(store, clock, 2.1, Chat())
    assert overdue(SITE, store, MONDAY + 2.5 * HOUR) == {}  # its lease has not lapsed
    assert overdue(SITE, store, MONDAY + 3.5 * HOUR) == {}  # the slot may still be begun
    late = overdue(SITE, store, MONDAY + 3.6 * HOUR)
    assert late == {"probe:hourly": MONDAY + 3 * HOUR}
    late = overdue(SITE, store, MONDAY + 7 * HOUR)
    assert late == {"probe:hourly": MONDAY + 3 * HOUR, "snapshot": MONDAY + 6 * HOUR}
    store.renew_lease("scratch", "here:1:1", MONDAY + 9 * HOUR)  # a probe may take hours
    assert overdue(SITE, store, MONDAY + 7 * HOUR) == {}
    clock.at = MONDAY + 7 * HOUR
    watch_until(store, clock, 7.6, Chat())
    assert overdue(SITE, store, clock.at) == {}


def test_it_is_sent_once_though_the_receiver_was_down_and_closed_by_the_next_watch(
    store: Store,
) -> None:
    clock, chat = Moving(MONDAY + 5 * HOUR), Chat()
    chat.problem = DOWN
    Place(store, chat, clock, SITE).alerting().watch_gone("probe hourly", MONDAY + 3 * HOUR)
    chat.problem = None
    for _ in range(3):  # another process each time, as cron starts them
        clock.at += HOUR / 4
        Place(store, chat, clock, SITE).alerting().watch_gone("probe hourly", MONDAY + 3 * HOUR)
    watch_until(store, clock, 7.1, chat)
    clock.at += HOUR
    Place(store, chat, clock, SITE).alerting().watch_gone("probe hourly", MONDAY + 8 * HOUR)
    sent = [alert for parcel in chat.parcels for alert in parcel.alerts]
    assert [(alert.name, alert.phase) for alert in sent] == [
        ("watch-gone", Phase.OPENED),
        ("watch-gone", Phase.CLOSED),
        ("watch-gone", Phase.OPENED),
    ]
    assert len({alert.id for alert in sent}) == 3
    assert sent[0].since == MONDAY + 3 * HOUR
