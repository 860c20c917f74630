"""A store copied to another kind of database and back is the same store."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from tests.store.values import NOON, a_run, an_event, an_output

from trimtab.base.error import RefusedError, UsageError
from trimtab.base.run import RawOutput
from trimtab.store.store import Store

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
        with pytest.raises(UsageError) as refused:
            store.copy_to(copy, now=LATER)
        assert refused.value.code == "store-not-empty"
        assert copy.runs() == ()


def test_a_store_that_is_watched_is_not_copied(tmp_path: Path) -> None:
    with filled(opened(tmp_path, "a")) as store, opened(tmp_path, "b") as copy:
        store.take_lease("scratch", "watch 1", now=NOON, until=LATER)
        with pytest.raises(RefusedError) as refused:
            store.copy_to(copy, now=NOON)
        assert refused.value.code == "site-watched-elsewhere"
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
        first = a_run(0)
        store.add_run(first)
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
