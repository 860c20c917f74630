"""Alerts of a watch: decided once, kept, delivered once, whatever fails in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.support.memory_driver import MemoryDriver, MemoryTarget
from tests.support.watched import HOURLY, MONDAY, Ended, Moving, a_log, a_site, a_watch
from tests.watch.alert.parcels_of import NOON, alert

from trimtab.base.alert import Alert, Delivery, DeliveryState, Phase
from trimtab.base.error import Undelivered, UnreadableError
from trimtab.base.finding import Severity
from trimtab.base.notification import Alerts
from trimtab.base.site import Site
from trimtab.store.store import Store
from trimtab.watch.alert import alerting as module
from trimtab.watch.alert.alerting import (
    ATTEMPTS,
    FIRST_WAIT_S,
    KEPT,
    LONGEST_WAIT_S,
    MOST,
    Alerting,
    Courier,
)
from trimtab.watch.alert.payload import Parcel
from trimtab.watch.alert.receiver import Receiver

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


DOWN = Undelivered("it answered 503", code="receiver-refused")


class Place:
    """A store, a clock, and what alerts of a site go through."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.store = Store.open(directory / "t.db")
        self.clock = Moving(NOON)
        self.site: Site = a_site(alerts=Alerts(**settings))
        self.log, self.lines = a_log()
        self.chat = Chat()

    def alerting(self) -> Alerting:
        """Return alerting as a new process has it."""
        return Alerting(
            self.site,
            self.store,
            log=self.log,
            clock=self.clock,
            receivers=(self.chat,),
            threads=False,
        )

    def courier(self) -> Courier:
        return Courier(self.site, self.store, self.chat, self.log, self.clock)

    def after(self, seconds: float) -> None:
        self.clock.at += timedelta(seconds=seconds)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    made: list[Place] = []

    def make(**settings: Any) -> Place:
        made.append(Place(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


def decided(monkeypatch: pytest.MonkeyPatch, *alerts: Alert) -> None:
    """Let these be what the record asks for, until they are in the ledger."""

    def decide(observed: object, sent: list[Alert], now: datetime) -> list[Alert]:
        known = {alert.id for alert in sent}
        return [replace(alert, at=now) for alert in alerts if alert.id not in known]

    monkeypatch.setattr(module, "decide", decide)


def states(place: Place) -> list[DeliveryState]:
    return [
        delivery.state for entry in place.store.alerts("scratch") for delivery in entry.deliveries
    ]


def test_an_alert_is_delivered_once_and_the_ledger_says_so(place, monkeypatch) -> None:
    here = place()
    decided(monkeypatch, alert(1))
    alerting = here.alerting()
    for _ in range(3):
        alerting.after_slot()
        alerting.idle(here.clock())
    here.alerting().after_slot()
    assert here.chat.ids == [alert(1).id]
    assert states(here) == [DeliveryState.DELIVERED]


def test_a_receiver_that_is_down_gets_it_when_it_is_back_also_after_a_restart(
    place, monkeypatch
) -> None:
    here = place()
    decided(monkeypatch, alert(1), alert(2))
    here.chat.problem = DOWN
    here.alerting().after_slot()
    assert states(here) == [DeliveryState.WAITING] * 2
    restarted = here.alerting()
    restarted.idle(here.clock())
    assert restarted.standing()[0].waiting == 2
    here.chat.problem = None
    here.after(3600)
    restarted = here.alerting()
    restarted.idle(here.clock())
    assert sorted(here.chat.ids) == [alert(1).id, alert(2).id]
    assert states(here) == [DeliveryState.DELIVERED] * 2
    assert restarted.standing()[0].waiting == 0


def test_attempts_are_further_and_further_apart(place, monkeypatch) -> None:
    here = place()
    decided(monkeypatch, alert(1))
    here.chat.problem = DOWN
    alerting = here.alerting()
    alerting.after_slot()
    for _ in range(8 * 60):
        here.after(60)
        alerting.idle(here.clock())
    apart = [
        (later - earlier).total_seconds()
        for earlier, later in zip(here.chat.attempts, here.chat.attempts[1:], strict=False)
    ]
    assert apart[0] <= FIRST_WAIT_S + 60
    assert apart == sorted(apart)
    assert max(apart) == LONGEST_WAIT_S
    assert len(here.chat.attempts) < 16


def test_a_receiver_that_asks_for_time_gets_it(place, monkeypatch) -> None:
    here = place()
    decided(monkeypatch, alert(1))
    here.chat.problem = Undelivered("429", code="receiver-refused", retry_after_s=600)
    alerting = here.alerting()
    alerting.after_slot()
    here.chat.problem = None
    here.after(599)
    alerting.idle(here.clock())
    assert here.chat.ids == []
    here.after(1)
    alerting.idle(here.clock())
    assert here.chat.ids == [alert(1).id]


def test_a_message_that_is_refused_for_good_does_not_hold_up_the_next(place, monkeypatch) -> None:
    here = place()
    decided(monkeypatch, alert(1))
    here.chat.problem = Undelivered("400", code="receiver-refused", for_good=True)
    alerting = here.alerting()
    alerting.after_slot()
    for _ in range(ATTEMPTS):
        here.after(3600)
        alerting.idle(here.clock())
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
            identifier = alert(number * 10 + 2 * after + idle_first).id
            decided(monkeypatch, alert(number * 10 + 2 * after + idle_first))
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
            if idle_first:  # what waits is delivered before anything is decided
                restarted.idle(here.clock())
            restarted.after_slot()
            here.after(3600)
            restarted.idle(here.clock())
            rows = [row for row in here.store.alerts("scratch") if row.id == identifier]
            assert len(rows) == 1, (name, after)
            assert [each.state for each in rows[0].deliveries] == [DeliveryState.DELIVERED]
            again = (name, after) in {("deliver", True), ("put_delivery", False)}
            assert here.chat.ids.count(identifier) == (2 if again else 1), (name, after)


def test_quiet_hours_end_in_one_digest(place, monkeypatch) -> None:
    from trimtab.base.site_policy import parse_window

    here = place(quiet=parse_window("11:00-14:00"))
    decided(monkeypatch, alert(1), alert(2), alert(3, severity=Severity.CRITICAL))
    alerting = here.alerting()
    alerting.after_slot()
    assert here.chat.ids == [alert(3).id]
    here.after(3 * 3600)
    alerting.idle(here.clock())
    assert [len(parcel.alerts) for parcel in here.chat.parcels] == [1, 2]


def test_only_what_is_severe_enough_is_sent_and_all_is_kept(place, monkeypatch) -> None:
    here = place(least="critical")
    decided(
        monkeypatch, alert(1), alert(2, severity=Severity.CRITICAL), alert(3, phase=Phase.NOTED)
    )
    here.alerting().after_slot()
    assert here.chat.ids == [alert(2).id]
    assert len(here.store.alerts("scratch")) == 3


def test_what_was_pruned_from_the_ledger_is_not_looked_through_for_ever(place, monkeypatch) -> None:
    here = place()
    sent: list[int] = []

    def decide(observed: object, ledger: list[Alert], now: datetime) -> list[Alert]:
        sent.append(len(ledger))
        return []

    monkeypatch.setattr(module, "decide", decide)
    for number in range(3):
        here.store.add_alert(alert(number))
    alerting = here.alerting()
    alerting.after_slot()

    def unreadable(*arguments: Any, **more: Any) -> None:
        raise UnreadableError("the store is locked", code="store-locked")

    for answer in (unreadable, lambda *_, **__: ()):
        monkeypatch.setattr(Store, "alerts", answer)
        alerting.after_slot()
        here.after(86400)
        alerting.after_slot()
    assert sent == [3, 3, 3, 0, 0]


def test_a_store_that_cannot_be_written_delays_the_ledger_alone(place, monkeypatch) -> None:
    here = place()
    decided(monkeypatch, alert(1))
    alerting = here.alerting()
    with monkeypatch.context() as patched:

        def full(*_: object) -> None:
            raise UnreadableError("the store is full", code="store-full")

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
    here.alerting().idle(here.clock())
    assert here.chat.ids == [alert(1).id]


def test_what_waits_is_bounded_and_old_alerts_are_dropped(place) -> None:
    here = place()
    here.chat.problem = DOWN
    courier = here.courier()
    for number in range(MOST + 5):
        severity = Severity.CRITICAL if number == 0 else Severity.WARNING
        each = alert(number, severity=severity, at=NOON + timedelta(seconds=number))
        here.store.add_alert(each)
        courier.add(each)
    here.clock.at = NOON + timedelta(hours=1)
    courier.run()
    waiting = courier.waiting()
    assert len(waiting) == MOST
    assert waiting[0].id == alert(0).id
    here.clock.at = NOON + KEPT + timedelta(hours=1)
    courier.run()
    assert courier.waiting() == []
    assert set(states(here)) <= {DeliveryState.DROPPED}


def test_a_receiver_that_hangs_holds_up_neither_the_watch_nor_the_others(
    place, monkeypatch
) -> None:
    here = place()
    released, hanging = threading.Event(), Chat("hanging")
    gave_up: list[bool] = []
    monkeypatch.setattr(
        hanging, "deliver", lambda parcel, now: gave_up.append(not released.wait(30))
    )
    monkeypatch.setattr(module, "CLOSING_S", 0.2)
    decided(monkeypatch, alert(1))
    receivers = (hanging, here.chat)
    alerting = Alerting(here.site, here.store, log=here.log, clock=here.clock, receivers=receivers)
    alerting.after_slot()
    alerting.idle(here.clock())
    alerting.close()
    assert here.chat.ids == [alert(1).id]
    assert gave_up == []  # it still hangs
    released.set()
    alerting.close()


def test_what_waits_is_tried_again_while_a_slot_takes_long(place, monkeypatch) -> None:
    """Nobody calls in between: a trim may take hours."""
    here = place()
    decided(monkeypatch, alert(1))
    monkeypatch.setattr("trimtab.watch.alert.alerting.FIRST_WAIT_S", 0.0)
    here.chat.problem = DOWN
    failed = threading.Event()
    delivered = threading.Event()
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
    receivers = (here.chat,)
    alerting = Alerting(here.site, here.store, log=here.log, clock=here.clock, receivers=receivers)
    alerting.after_slot()
    assert failed.wait(30)
    assert delivered.wait(30)
    alerting.close()
    assert here.chat.ids == [alert(1).id]


def test_a_delivery_of_an_alert_that_is_not_kept_is_no_error(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        store.put_delivery("0" * 32, Delivery("chat", DeliveryState.DELIVERED, NOON))
        assert store.alerts("scratch") == ()


def test_a_watch_tells_of_a_target_that_is_lost_and_of_its_return_once_each(
    tmp_path: Path,
) -> None:
    clock, chat = Moving(), Chat()
    target = MemoryTarget("OST0000")
    driver = MemoryDriver(target, clock=clock)
    site = a_site(HOURLY, snapshots="every 15m")

    class Scene:
        """Lets the target become read-only for some hours."""

        def after_slot(self, slot: object) -> None:
            hours = (clock.at - MONDAY).total_seconds() / 3600
            target.readings["read_only"] = 3 <= hours < 6

        def idle(self, now: datetime) -> None:
            """Do nothing."""

        close = lambda self: None  # noqa: E731

    with Store.open(tmp_path / "t.db") as store:
        log, lines = a_log()
        alerting = Alerting(site, store, log=log, clock=clock, receivers=(chat,), threads=False)
        watch = a_watch(
            site,
            store,
            clock,
            driver=driver,
            until=MONDAY + timedelta(hours=9),
            observers=(Scene(), alerting),
        )
        with pytest.raises(Ended):
            watch.run()
    told = [(each.name, each.phase) for parcel in chat.parcels for each in parcel.alerts]
    assert told == [("target-read-only", Phase.OPENED), ("target-read-only", Phase.CLOSED)]
    assert "exception" not in lines.text()


def test_an_observer_that_fails_ends_neither_the_watch_nor_the_others(tmp_path: Path) -> None:
    called = []

    class Broken:
        def after_slot(self, slot: object) -> None:
            raise ValueError("broken")

        def idle(self, now: datetime) -> None:
            raise ValueError("broken")

        def close(self) -> None:
            raise ValueError("broken")

    class Fine:
        def after_slot(self, slot: object) -> None:
            called.append(slot)

        def idle(self, now: datetime) -> None:
            called.append(now)

        def close(self) -> None:
            called.append("closed")

    clock = Moving()
    log, lines = a_log()
    with Store.open(tmp_path / "t.db") as store:
        until = MONDAY + timedelta(hours=2)
        observers = (Broken(), Fine())
        watch = a_watch(a_site(), store, clock, until=until, observers=observers, log=log)
        with pytest.raises(Ended):
            watch.run()
        assert len(store.slots("scratch")) == 2
    assert called[-1] == "closed"
    assert "Broken" in lines.text()
