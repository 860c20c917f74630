"""Runs, events and encoded snapshots kept many at once are what they are kept one by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.event import Event, EventKind, identifier_of
from trimtab.base.run import RawOutput, Run, RunStatus, Sample
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.store.snapshot_batch import Base, Values, frame_of
from trimtab.store.snapshot_record import Changes
from trimtab.store.store import Store

AT = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


def run(place: int) -> Run:
    at = AT + place * HOUR
    return Run(
        identifier_of(at, "run"),
        ("one", "two")[place % 2],
        "hourly",
        "ior",
        RunStatus.OK,
        at,
        parameters={"spec": {"tasks": 4}},
        samples=(Sample("write_bandwidth", 1e9 + place, 0), Sample("read_bandwidth", 2e9, 0)),
        outputs=(RawOutput("command", ("ior",), b"text %d" % (place // 2), b"said"),),
    )


def event(place: int) -> Event:
    at = AT + place * HOUR
    return Event(identifier_of(at, "event"), "one", EventKind.TRIM, at, f"trim {place}", "test")


def snapshot(place: int) -> Snapshot:
    readings = (Reading("used_bytes", 10**12 + place, "df"),)
    target = TargetSnapshot(Target("OST0000", "ost", "oss0"), readings)
    return Snapshot(AT + place * HOUR, "twin", place != 1, (target,))


def changes(name: str, one: Snapshot, base: Base) -> Changes:
    return Changes(
        name, one.at, one.driver, one.complete, base, base.changes(Values.of(frame_of(one)))
    )


@pytest.fixture(params=["one by one", "at once"])
def store(request, tmp_path):
    with Store.open(tmp_path / "t.db") as opened:
        runs, events = [run(n) for n in range(5)], [event(n) for n in range(3)]
        snapshots = [(identifier_of(one.at, "s"), one) for one in map(snapshot, range(3))]
        if request.param == "at once":
            opened.add_runs(runs)
            opened.add_events(events)
            base = Base.of(frame_of(snapshots[0][1]))
            opened.add_changes("one", [changes(name, one, base) for name, one in snapshots])
        else:
            for one in runs:
                opened.add_run(one)
            for one in events:
                opened.add_event(one)
            for name, one in snapshots:
                opened.add_snapshot("one", one, identifier=name)
        yield opened


def test_what_is_kept_is_the_same(store):
    for place in range(5):
        assert store.run(run(place).id, outputs=True) == run(place)
    assert store.events() == tuple(event(place) for place in range(3))
    assert store.snapshots("one") == tuple(snapshot(place) for place in (2, 1, 0))
    assert store.check(contents=True).problems == ()


def test_a_taken_id_is_told_and_nothing_is_added(store):
    with raises(UsageError, "run-already-kept"):
        store.add_runs([run(7), run(0)])
    with raises(UsageError, "event-already-kept", "one of the events is already kept"):
        store.add_events([event(7), event(8), event(0)])
    with raises(UsageError, "event-already-kept", f"event {event(0).id} is already kept"):
        store.add_event(event(0))
    assert len(store.runs()) == 5
    assert len(store.events()) == 3


def test_a_snapshot_under_a_taken_id_stays_as_it_was(store):
    other = replace(snapshot(0), targets=())
    base = Base.of(frame_of(other))
    store.add_changes("one", [changes(identifier_of(other.at, "s"), other, base)])
    assert store.snapshots("one")[-1] == snapshot(0)


def test_nothing_at_once_is_nothing(store):
    before = (store.runs(), store.events(), store.snapshots("one"))
    store.add_runs([])
    store.add_events([])
    store.add_changes("one", [])
    assert (store.runs(), store.events(), store.snapshots("one")) == before
