"""The ledger of alerts, on each database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.store.values import a_run
from tests.watch.alert.parcels_of import NOON, alert

from trimtab.base.alert import Delivery, DeliveryState, Phase
from trimtab.base.event import new_identifier
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store

WAITING = Delivery("mail", DeliveryState.WAITING, NOON)
TAKEN = Delivery("mail", DeliveryState.DELIVERED, NOON + timedelta(minutes=1), "and one refused")


def test_an_alert_comes_back_as_it_was_kept(store: Store) -> None:
    whole = alert(
        1,
        title="OST\udcff \u202e",
        lines=("one", "two\udcfe"),
        facts={"told": "open", "places": {"OST0000": 3.0}},
        since=None,
        phase=Phase.WORSENED,
        deliveries=(WAITING,),
    )
    assert store.add_alert(whole)
    assert store.alerts("scratch") == (whole,)
    assert store.alerts("other") == ()


def test_an_alert_is_kept_once_and_the_ledger_has_the_order_of_decisions(store: Store) -> None:
    later, earlier = alert(1, at=NOON + timedelta(hours=1)), alert(2)
    assert store.add_alert(later)
    assert store.add_alert(earlier)
    assert not store.add_alert(alert(1, title="another"))
    assert store.alerts("scratch") == (later, earlier)
    assert store.alerts("scratch", since=NOON + timedelta(minutes=1)) == (later,)


def test_a_delivery_takes_the_place_of_that_receivers_alone(store: Store) -> None:
    chat = Delivery("chat", DeliveryState.WAITING, NOON)
    store.add_alert(alert(1, deliveries=(WAITING, chat)))
    store.put_delivery(alert(1).id, TAKEN)
    assert set(store.alerts("scratch")[0].deliveries) == {TAKEN, chat}
    store.put_delivery(alert(9).id, TAKEN)
    assert len(store.alerts("scratch")) == 1


def test_runs_and_slots_are_counted_for_each_site(store: Store) -> None:
    run = a_run()
    for number in range(3):
        at = NOON + timedelta(hours=number)
        store.add_run(replace(run, id=new_identifier(at), site="scratch", probe="hourly", at=at))
        slot = Slot("scratch", "snapshot", at, SlotState.DONE if number else SlotState.MISSED)
        assert store.finish_slot(slot)
    assert store.run_counts("scratch") == {("hourly", run.status.value): 3}
    assert store.slot_counts("scratch") == {("snapshot", "done"): 2, ("snapshot", "missed"): 1}
    assert store.run_counts("other") == store.action_counts("scratch") == {}
