"""Slots and leases on each database: claimed once, kept whole, taken over only when free."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection
from tests.store.conftest import OpenStore
from tests.store.values import NOON, a_run, a_snapshot, an_event, an_output, keep
from tests.support.codes import raises

from trimtab.base.error import Message, RefusedError, UnreadableError
from trimtab.base.run import RunStatus
from trimtab.base.verdict import Interval, Scope, Verdict, VerdictStatus
from trimtab.store import checksum, maintenance, schema
from trimtab.store.maintenance import Pruned
from trimtab.store.raw_output import YOUNG_S
from trimtab.store.slot import Lease, Slot, SlotState, claim_slot_row, put_lease
from trimtab.store.store import Store

HOUR = timedelta(hours=1)
VERDICT = Verdict(
    "write_bandwidth",
    "B/s",
    "hourly (fio)",
    Scope.HISTORY,
    VerdictStatus.MISSED,
    Message("goal-missed", "its whole interval is over the goal"),
    48,
    from_=NOON - 48 * HOUR,
    to=NOON,
    mean=2e9,
    mean_interval=Interval(1.9e9, 2.1e9, 0.95),
    cov=0.0,
    cov_interval=Interval(0.0, 0.2, 0.9),
    unfinished=2,
)


def a_slot(hour: int = 0, state: SlotState = SlotState.DONE, **changes: object) -> Slot:
    """Return a slot at noon and so many hours."""
    fields: dict[str, object] = {"started_at": NOON + hour * HOUR, "holder": "a:1:1"}
    return Slot("scratch", "probe:hourly", NOON + hour * HOUR, state, **(fields | changes))  # type: ignore[arg-type]


def claimed(store: Store, hour: int = 0, holder: str = "a:1:1") -> bool:
    """Return whether the slot of that hour could be claimed, under a lease of its holder."""
    until = NOON + (hour + 1) * HOUR
    assert store.take_lease("scratch", holder, now=NOON, until=until, gone=lambda _: True) is None
    return claim(store, hour, holder)


def claim(store: Store, hour: int = 0, holder: str = "a:1:1") -> bool:
    """Return whether the slot of that hour could be claimed under the lease that there is."""
    at = NOON + hour * HOUR
    return store.claim_slot(
        "scratch", "probe:hourly", at, started_at=at, holder=holder, lease_until=at + HOUR
    )


def test_a_slot_is_claimed_until_it_has_ended(store: Store) -> None:
    assert claimed(store)
    assert claimed(store, holder="b:2:2")  # the first one is gone
    (slot,) = store.open_slots("scratch")
    assert slot == a_slot(state=SlotState.STARTED, holder="b:2:2")
    assert store.finish_slot(replace(slot, state=SlotState.DONE))
    assert not claimed(store)
    assert store.open_slots("scratch") == ()


def test_a_slot_comes_back_with_all_that_belongs_to_it(open_store: OpenStore) -> None:
    store = open_store()
    run, before, after = a_run(outputs=(an_output(),)), a_snapshot(0), a_snapshot(9)
    assert claimed(store)
    part = a_slot(state=SlotState.STARTED, run=run.id, before="b")
    assert store.finish_slot(part, run=run, snapshots={"b": before})
    whole = replace(
        part,
        state=SlotState.DONE,
        ended_at=NOON + HOUR,
        after="a",
        verdicts=(VERDICT,),
        detail="\0x",
    )
    assert store.finish_slot(whole, snapshots={"a": after})
    again = open_store()
    assert again.slots("scratch") == (whole,)
    assert again.run(run.id, outputs=True) == run
    assert (again.snapshot("b"), again.snapshot("a")) == (before, after)
    assert again.snapshot("c") is None
    # Who kept them reads them from memory; what was refused is not there.
    assert store.snapshot("a") is after
    assert not store.finish_slot(whole, snapshots={"c": replace(after, complete=False)})
    assert (store.snapshot("a"), store.snapshot("c")) == (after, None)


def test_what_has_ended_stays_as_it_is_and_nothing_is_kept_with_it(store: Store) -> None:
    first, second = a_run(values=(1.0,)), a_run(values=(2.0,))
    assert store.finish_slot(a_slot(run=first.id), run=first)
    later = a_slot(state=SlotState.FAILED, run=second.id)
    assert not store.finish_slot(later, run=second, snapshots={"x": a_snapshot()}, event=an_event())
    assert store.runs() == (first,)
    assert store.snapshots("scratch") == store.events() == ()
    assert store.slots("scratch") == (a_slot(run=first.id),)


def test_what_another_process_has_started_is_left_to_it(store: Store) -> None:
    assert claimed(store, holder="b:2:2")
    run = a_run()
    assert not store.finish_slot(a_slot(run=run.id), run=run)
    assert store.runs() == ()


def test_a_run_that_is_kept_already_is_not_kept_twice(store: Store) -> None:
    run = keep(store, a_run())
    assert store.finish_slot(a_slot(run=run.id), run=replace(run, problem="another"))
    assert store.runs() == (run,)


def test_all_of_a_slot_is_kept_or_nothing(store: Store) -> None:
    run = a_run(parameters={"not": float("nan")})
    assert claimed(store)
    with pytest.raises(ValueError, match="JSON"):
        store.finish_slot(a_slot(run=run.id), run=run, snapshots={"x": a_snapshot()})
    assert store.runs() == store.snapshots("scratch") == ()
    assert len(store.open_slots("scratch")) == 1


def test_a_snapshot_with_a_given_id_is_kept_once(store: Store) -> None:
    assert store.add_snapshot("scratch", a_snapshot(0), identifier="one") == "one"
    assert store.add_snapshot("scratch", a_snapshot(5), identifier="one") == "one"
    assert store.snapshots("scratch") == (a_snapshot(0),)


def test_slots_are_listed_by_time_and_item(store: Store) -> None:
    for hour in (3, 1, 2):
        store.finish_slot(a_slot(hour))
    store.finish_slot(replace(a_slot(2), item="snapshot"))
    store.finish_slot(replace(a_slot(9), site="other"))
    store.finish_slot(a_slot(0, SlotState.BEGUN, detail="every 1h"))
    found = store.slots("scratch", item="probe:hourly")
    assert [one.due_at for one in found] == [NOON + hour * HOUR for hour in (1, 2, 3)]
    within = store.slots("scratch", since=NOON + 2 * HOUR, until=NOON + 2 * HOUR)
    assert [one.item for one in within] == ["probe:hourly", "snapshot"]
    last = store.last_slot("scratch", "probe:hourly")
    assert last == a_slot(3)
    assert store.last_slot("scratch", "probe:hourly", until=NOON + 2 * HOUR) == a_slot(2)
    begun = store.last_slot("scratch", "probe:hourly", state=SlotState.BEGUN)
    assert begun == a_slot(0, SlotState.BEGUN, detail="every 1h")
    assert store.last_slot("scratch", "probe:daily") is None


def test_a_lease_is_one_process_s_until_it_lapses(store: Store) -> None:
    def take(holder: str, hour: int, **named: object) -> str | None:
        now = NOON + hour * HOUR
        there = store.take_lease("scratch", holder, now=now, until=now + 2 * HOUR, **named)  # type: ignore[arg-type]
        return None if there is None else there.holder

    assert take("a", 0) is None
    assert take("b", 1) == "a"
    assert take("a", 1) is None  # its own
    assert take("b", 2) == "a"
    assert store.renew_lease("scratch", "a", NOON + 4 * HOUR)
    assert take("b", 3) == "a"
    assert take("b", 4) is None  # lapsed
    assert not store.renew_lease("scratch", "a", NOON + 9 * HOUR)
    assert take("c", 5, gone=lambda holder: holder == "b") is None
    store.release_lease("scratch", "b")
    assert take("d", 5) == "c"
    store.release_lease("scratch", "c")
    assert store.lease("scratch") is None
    assert take("d", 5) is None


def test_who_has_lost_the_lease_claims_nothing(store: Store) -> None:
    store.take_lease("scratch", "b:2:2", now=NOON, until=NOON + HOUR)
    with raises(RefusedError, "site-watched-elsewhere", "b:2:2"):
        claim(store)
    store.release_lease("scratch", "b:2:2")
    with raises(RefusedError, "site-watched-elsewhere", "released"):
        claim(store)
    assert store.open_slots("scratch") == ()


def test_a_claim_under_a_lease_that_has_ended_renews_it(store: Store) -> None:
    store.take_lease("scratch", "a:1:1", now=NOON, until=NOON + HOUR)
    assert claim(store, 5)
    lease = store.lease("scratch")
    assert lease == Lease("scratch", "a:1:1", NOON, NOON + 6 * HOUR)
    now = NOON + 5 * HOUR
    assert store.take_lease("scratch", "b:2:2", now=now, until=now + HOUR) == lease


def test_a_lease_that_is_taken_while_its_last_holder_claims_is_gone(
    store: Store, open_store: OpenStore
) -> None:
    store.take_lease("scratch", "a:1:1", now=NOON, until=NOON + HOUR)
    before = store.lease("scratch")
    told: list[str] = []

    def late() -> None:
        try:
            claim(other, 5)
        except RefusedError as error:
            told.append(error.message)

    with open_store() as other:
        claiming = threading.Thread(target=late)
        with store._writing() as connection:
            now = NOON + 5 * HOUR
            assert put_lease(connection, Lease("scratch", "b:2:2", now, now + HOUR), before)
            claiming.start()
            # Long enough for it to ask: however late it is, the lease may not be its own.
            claiming.join(0.5)
        claiming.join()
    assert len(told) == 1
    assert "b:2:2" in told[0]
    assert store.open_slots("scratch") == ()


def test_a_lease_lost_to_several_in_a_row_is_told_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = iter("bcd")

    def lost(connection: Connection, lease: Lease, there: Lease | None) -> bool:
        assert put_lease(connection, replace(lease, holder=next(others)), there)
        return False

    monkeypatch.setattr("trimtab.store.slot.put_lease", lost)
    there = store.take_lease(
        "scratch", "a", now=NOON, until=NOON + HOUR, gone=lambda holder: holder != "d"
    )
    assert there == store.lease("scratch") == Lease("scratch", "d", NOON, NOON + HOUR)


def test_what_is_taken_over_while_it_is_finished_stays_taken_over(
    store: Store, open_store: OpenStore
) -> None:
    assert claimed(store)
    kept: list[bool] = []
    run = a_run(0)
    with open_store() as other:
        finishing = threading.Thread(
            target=lambda: kept.append(other.finish_slot(replace(a_slot(), run=run.id), run=run))
        )
        with store._writing() as connection:
            began = a_slot(state=SlotState.STARTED, holder="b:2:2")
            assert claim_slot_row(connection, began)
            finishing.start()
            # Long enough for it to ask: however late it is, it may not find its own slot.
            finishing.join(0.5)
        finishing.join()
    assert kept == [False]
    assert store.open_slots("scratch") == (began,)
    assert store.runs() == ()


def test_a_slot_that_was_missed_is_claimed_after_all_and_its_empty_run_goes(store: Store) -> None:
    run = replace(a_run(0, outputs=()), samples=(), status=RunStatus.NOT_STARTED, problem="missed")
    missed = a_slot(state=SlotState.MISSED, started_at=None, holder=None, run=run.id)
    assert store.finish_slot(missed, run=run)
    assert not store.finish_slot(missed, run=run)  # a miss takes the place of nothing
    assert claimed(store)
    (slot,) = store.open_slots("scratch")
    assert slot == a_slot(state=SlotState.STARTED)
    assert store.runs() == ()
    assert store.finish_slot(replace(slot, state=SlotState.DONE, run=run.id), run=a_run(0))
    assert not claimed(store)


def test_a_state_of_a_newer_program_is_said(store: Store) -> None:
    store.finish_slot(a_slot())
    with store._writing() as connection:
        connection.execute(schema.slot.update().values(state="postponed"))
        checksum.resum(connection, schema.slot)
    with raises(UnreadableError, "record-unreadable", "postponed"):
        store.slots("scratch")


def _age(store: Store) -> None:
    """Make all raw outputs look as if they had lain there for long."""
    for file in store.raw.path.rglob("*.z"):
        long_ago = time.time() - 2 * YOUNG_S
        os.utime(file, (long_ago, long_ago))


def test_what_outlived_its_retention_goes_and_runs_stay(store: Store) -> None:
    old = a_run(0, outputs=(an_output(b"old"), an_output(b"shared")))
    new = a_run(9, outputs=(an_output(b"shared"), an_output(b"new")))
    other = a_run(0, site="other", outputs=(an_output(b"other"),))
    keep(store, old, new, other)
    for minute in (0, 10, 600):
        store.add_snapshot("scratch", a_snapshot(minute))
    store.add_snapshot("other", a_snapshot(0))
    _age(store)
    removed = store.prune("scratch", NOON + 5 * HOUR, now=NOON + 10 * HOUR)
    assert (removed.snapshots, removed.outputs, removed.files) == (2, 2, 1)
    assert store.snapshots("scratch") == (a_snapshot(600),)
    assert len(store.snapshots("other")) == 1
    assert store.run(old.id) == replace(old, outputs=())
    assert [one.pruned_at for one in store.outputs(old.id)] == [NOON + 10 * HOUR] * 2
    with raises(UnreadableError, "raw-output-pruned", "2026-11-20"):
        store.run(old.id, outputs=True)
    assert store.run(new.id, outputs=True) == new
    assert store.run(other.id, outputs=True) == other
    assert store.check(contents=True).problems == ()
    assert store.prune("scratch", NOON + 5 * HOUR, now=NOON + 10 * HOUR) == Pruned()


def test_content_that_was_put_just_now_is_not_pruned(store: Store) -> None:
    store.add_run(a_run(0, outputs=(an_output(b"again"),)))
    _age(store)
    store.raw.put(b"again")  # by a process that is about to keep its run
    assert store.prune("scratch", NOON + HOUR, now=NOON + HOUR).files == 0
    late = keep(store, a_run(2, outputs=(an_output(b"again"),)))
    assert store.run(late.id, outputs=True) == late


@pytest.mark.system
def test_many_old_things_go_step_by_step(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "AT_ONCE", 20)
    monkeypatch.setattr(maintenance, "_OUTPUTS_AT_ONCE", 20)
    for number in range(45):
        store.add_snapshot("scratch", a_snapshot(0), identifier=f"{number}")
    store.add_run(a_run(0, outputs=tuple(an_output(b"%d" % n) for n in range(21))))
    _age(store)
    removed = store.prune("scratch", NOON + HOUR, now=NOON + HOUR)
    assert (removed.snapshots, removed.outputs, removed.files) == (45, 21, 21)
    assert store.snapshots("scratch") == ()
    assert store.prune("nowhere", NOON, now=NOON) == Pruned()
