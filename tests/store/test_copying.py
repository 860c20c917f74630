"""A store copied to another kind of database; kept many at once; and one whose file goes away."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.store.values import NOON, a_run, an_event, an_output, keep
from tests.support.codes import raises

from trimtab.base.error import RefusedError, UnreadableError, UsageError
from trimtab.base.event import Event, EventKind, identifier_of
from trimtab.base.run import RawOutput, Run, RunStatus, Sample
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.store.snapshot_batch import Base, Values, frame_of
from trimtab.store.snapshot_record import Changes
from trimtab.store.store import Store

# A store copied to another kind of database and back is the same store.

RUNS = 30
LATER = NOON + timedelta(days=1)
BAD = b"\xff\x00 not text"


def filled(store: Store) -> Store:
    """Return a store with runs, raw outputs, one of them empty, and events."""
    for hour in range(3):
        output = an_output(b"run %d\n" % hour + BAD)
        nothing = RawOutput("read", ("fio",), b"", b"", None, NOON, None)
        store.add_run(a_run(hour, outputs=(output, nothing)))
    store.add_run(a_run(site="other", path="/a\ud800b", values=()))
    store.add_events([an_event(1), an_event(2, site="other")])
    return store


def contents(store: Store) -> object:
    runs = store.runs()
    whole = [store.run(run.id, outputs=True) for run in runs]
    return store.sites(), whole, tuple(store.events())


def opened(tmp_path: Path, name: str) -> Store:
    return Store.open(tmp_path / name / "t.db")


def test_a_copy_is_the_same(tmp_path: Path) -> None:
    with filled(opened(tmp_path, "a")) as store, opened(tmp_path, "b") as copy:
        copied = store.copy_to(copy, now=LATER)
        assert contents(copy) == contents(store)
        assert (copied.rows["run"], copied.outputs, copied.missing) == (4, 3, ())
        assert copy.check(contents=True).problems == ()


def test_a_raw_output_that_is_missing_is_named(tmp_path: Path) -> None:
    with filled(opened(tmp_path, "a")) as store, opened(tmp_path, "b") as copy:
        (file, *_) = sorted(store.raw.path.rglob("*.z"))
        file.unlink()
        assert store.copy_to(copy, now=LATER).missing == (file.stem,)


def test_only_an_empty_store_takes_a_copy(tmp_path: Path) -> None:
    with filled(opened(tmp_path, "a")) as store, opened(tmp_path, "b") as copy:
        copy.add_event(an_event())
        with raises(UsageError, "store-not-empty"):
            store.copy_to(copy, now=LATER)
        assert copy.runs() == ()


def test_a_store_that_is_watched_is_not_copied(tmp_path: Path) -> None:
    with filled(opened(tmp_path, "a")) as store, opened(tmp_path, "b") as copy:
        store.take_lease("scratch", "watch 1", now=NOON, until=LATER)
        with raises(RefusedError, "site-watched-elsewhere"):
            store.copy_to(copy, now=NOON)
        assert copy.sites() == ()
        store.copy_to(copy, now=LATER)


@pytest.mark.system
def test_to_postgresql_and_back(tmp_path: Path, postgresql_url: str) -> None:
    server = Store.open(postgresql_url, raw=tmp_path / "raw")
    with filled(opened(tmp_path, "a")) as store, server, opened(tmp_path, "b") as back:
        store.copy_to(server, now=LATER)
        # New rows follow the numbers that were copied.
        server.add_run(a_run(9))
        store.add_run(server.run(server.runs()[0].id))
        server.copy_to(back, now=LATER)
        assert contents(back) == contents(server) == contents(store)
        assert back.check(contents=True).problems == ()


@pytest.mark.system
def test_a_writer_and_two_readers_share_a_server(tmp_path: Path, postgresql_url: str) -> None:
    """As a watch does, runs are added with a lease; readers see whole runs, more and more."""
    done = threading.Event()

    def read() -> int:
        known, last = 0, False
        with Store.open(postgresql_url, raw=tmp_path) as store:
            while not last:
                last = done.is_set()
                runs = store.runs(site="scratch")
                assert len(runs) >= known
                assert all(len(run.samples) == 2 for run in runs)
                assert len(store.history("scratch", key, metric="write_bandwidth")) >= known
                known = len(runs)
        return known

    with Store.open(postgresql_url, raw=tmp_path) as store:
        first = keep(store, a_run(0))
        (series,) = store.series("scratch")
        key = series.comparability
        with ThreadPoolExecutor(2) as threads:
            readers = [threads.submit(read) for _ in range(2)]
            try:
                for hour in range(1, RUNS):
                    now = NOON + timedelta(hours=hour)
                    until = now + timedelta(hours=2)
                    assert store.take_lease("scratch", "watch", now=now, until=until) is None
                    store.add_run(a_run(hour, parameters=first.parameters))
            finally:
                done.set()
            assert [reader.result(60) for reader in readers] == [RUNS, RUNS]


# Runs, events and encoded snapshots kept many at once are what they are kept one by one.

AT = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


def run_at(place: int) -> Run:
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


def event_at(place: int) -> Event:
    at = AT + place * HOUR
    return Event(identifier_of(at, "event"), "one", EventKind.TRIM, at, f"trim {place}", "test")


def snapshot_at(place: int) -> Snapshot:
    readings = (Reading("used_bytes", 10**12 + place, "df"),)
    target = TargetSnapshot(Target("OST0000", "ost", "oss0"), readings)
    return Snapshot(AT + place * HOUR, "twin", place != 1, (target,))


def changes_of(name: str, one: Snapshot, base: Base) -> Changes:
    return Changes(
        name, one.at, one.driver, one.complete, base, base.changes(Values.of(frame_of(one)))
    )


@pytest.fixture(params=["one by one", "at once"])
def filled_store(request, tmp_path):
    with Store.open(tmp_path / "t.db") as opened:
        runs, events = [run_at(n) for n in range(5)], [event_at(n) for n in range(3)]
        snapshots = [(identifier_of(one.at, "s"), one) for one in map(snapshot_at, range(3))]
        if request.param == "at once":
            opened.add_runs(runs)
            opened.add_events(events)
            base = Base.of(frame_of(snapshots[0][1]))
            opened.add_changes("one", [changes_of(name, one, base) for name, one in snapshots])
        else:
            keep(opened, *runs)
            for one in events:
                opened.add_event(one)
            for name, one in snapshots:
                opened.add_snapshot("one", one, identifier=name)
        yield opened


def test_what_is_kept_is_the_same(filled_store):
    for place in range(5):
        assert filled_store.run(run_at(place).id, outputs=True) == run_at(place)
    assert filled_store.events() == tuple(event_at(place) for place in range(3))
    assert filled_store.snapshots("one") == tuple(snapshot_at(place) for place in (2, 1, 0))
    assert filled_store.check(contents=True).problems == ()


def test_a_taken_id_is_told_and_nothing_is_added(filled_store):
    with raises(UsageError, "run-already-kept"):
        filled_store.add_runs([run_at(7), run_at(0)])
    with raises(UsageError, "event-already-kept", "one of the events is already kept"):
        filled_store.add_events([event_at(7), event_at(8), event_at(0)])
    with raises(UsageError, "event-already-kept", f"event {event_at(0).id} is already kept"):
        filled_store.add_event(event_at(0))
    assert len(filled_store.runs()) == 5
    assert len(filled_store.events()) == 3


def test_a_snapshot_under_a_taken_id_stays_as_it_was(filled_store):
    other = replace(snapshot_at(0), targets=())
    base = Base.of(frame_of(other))
    filled_store.add_changes("one", [changes_of(identifier_of(other.at, "s"), other, base)])
    assert filled_store.snapshots("one")[-1] == snapshot_at(0)


def test_nothing_at_once_is_nothing(filled_store):
    before = (filled_store.runs(), filled_store.events(), filled_store.snapshots("one"))
    filled_store.add_runs([])
    filled_store.add_events([])
    filled_store.add_changes("one", [])
    assert (filled_store.runs(), filled_store.events(), filled_store.snapshots("one")) == before


# A store whose file goes away while it is open says so instead of writing into nowhere.


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_was_removed_or_replaced_takes_nothing(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "t.db"
    with Store.open(path) as store:
        store.ensure_site("here")
        path.rename(tmp_path / "away.db")
        if replaced:
            path.write_bytes(b"another file")
        with raises(UnreadableError, "store-replaced"):
            store.add_snapshot("here", Snapshot(AT, "memory", True, ()))
        path.unlink(missing_ok=True)
        (tmp_path / "away.db").rename(path)
        assert store.add_snapshot("here", Snapshot(AT, "memory", True, ()))
