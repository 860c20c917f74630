"""A store that is newer, locked, replaced or not to be reached gives a clear page, and recovers."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.store.conftest import postgresql_directory, postgresql_url  # noqa: F401 (fixtures)
from tests.support.command import TRIMTAB
from tests.support.small_site import SITE
from tests.support.watched import MONDAY, Ended, Moving, SimulatedProbe, a_site, a_watch
from tests.web.conftest import csrf_of, keep_small_site
from tests.web.serving import serving

from trimtab.store import database, schema
from trimtab.store.store import Store
from trimtab.web import desk as desks
from trimtab.web.desk import Desk

pytestmark = pytest.mark.system

PAGES = (f"/s/{SITE}/overview", f"/s/{SITE}/series", f"/s/{SITE}/targets", f"/s/{SITE}/incidents",
         f"/s/{SITE}/actions", f"/s/{SITE}/settings", "/")  # fmt: skip


@contextmanager
def shown(store: Path | str, raw: Path | None = None) -> Iterator[tuple[Desk, httpx.Client]]:
    """Yield the dashboard on a store, and somebody who looks at it."""
    url, raw = (f"sqlite:///{store}", store.parent) if isinstance(store, Path) else (store, raw)
    with Store.open(url, raw=raw) as opened:
        desk = Desk(opened)
        with serving(desk) as server, server.signed_in() as person:
            assert statuses(person) == {200}
            yield desk, person


def statuses(person: httpx.Client) -> set[int]:
    """Return what the pages answer."""
    return {person.get(page, follow_redirects=True).status_code for page in PAGES}


def fails_clearly(person: httpx.Client, code: str) -> None:
    """Assert that every page says what is wrong, and that the API has the code."""
    for page in PAGES:
        answer = person.get(page)
        assert (answer.status_code, code in answer.text) == (503, True), answer.text[-400:]
        assert "nothing is lost" in answer.text
    for part in ("overview", "series", "incidents", "events", "actions", "targets"):
        document = person.get(f"/api/v1/sites/{SITE}/{part}")
        assert (document.status_code, document.json()["error"]["code"]) == (503, code)
    assert person.get("/static/app.css").status_code == 200


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small store; the desk looks at it at every request."""
    monkeypatch.setattr(desks, "LOOKS_S", 0.0)
    return keep_small_site(tmp_path / "t.db")


def executed(path: Path, *statements: str) -> None:
    """Change a store from outside."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("revision", "code"), [("9999", "store-revision-unknown"), ("0000", "store-revision-old")]
)
def test_a_store_that_another_version_has_changed(kept, monkeypatch, revision, code):
    """Its tables may mean something else: nothing of it is shown."""
    monkeypatch.setattr(schema, "REVISIONS", ("0000", *schema.REVISIONS))
    set_to = f"UPDATE {schema.VERSION_TABLE} SET version_num = "
    with shown(kept) as (_, person):
        executed(kept, f"{set_to}'{revision}'")
        fails_clearly(person, code)
        executed(kept, f"{set_to}'{schema.HEAD}'")
        assert statuses(person) == {200}


def test_a_store_that_is_held_by_another_process(kept, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.2)
    with shown(kept) as (desk, person):
        desk.store.close()  # connections that are open keep others from holding it
        with closing(sqlite3.connect(kept, isolation_level=None)) as holder:
            holder.execute("PRAGMA locking_mode=EXCLUSIVE")
            holder.execute("BEGIN EXCLUSIVE")
            fails_clearly(person, "store-busy")
            holder.execute("ROLLBACK")
        assert statuses(person) == {200}


def test_a_store_that_another_process_writes_is_shown_and_takes_an_entry_later(kept, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.2)
    with shown(kept) as (desk, person):
        desk.store.close()
        entry = {"kind": "note", "detail": "words", "csrf": csrf_of(person)}  # type: ignore[arg-type]
        with closing(sqlite3.connect(kept, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("DELETE FROM event")
            assert statuses(person) == {200}
            refused = person.post(f"/s/{SITE}/log", data=entry)
            assert (refused.status_code, "store-busy" in refused.text) == (503, True)
            writer.execute("ROLLBACK")
        assert person.post(f"/s/{SITE}/log", data=entry).status_code == 303


def test_a_store_that_is_gone_and_restored_from_a_copy(kept):
    """The file of before may still be open: it is not what people restored."""
    copy = kept.with_name("copy.db")
    executed(kept, f"VACUUM INTO '{copy}'")
    with shown(kept) as (_, person):
        entry = {"kind": "note", "detail": "after the copy", "csrf": csrf_of(person)}  # type: ignore[arg-type]
        assert person.post(f"/s/{SITE}/log", data=entry).status_code == 303
        assert "after the copy" in person.get(f"/s/{SITE}/actions").text
        for name in ("t.db", "t.db-wal", "t.db-shm"):
            kept.with_name(name).unlink(missing_ok=True)
        fails_clearly(person, "store-missing")
        copy.rename(kept)
        assert statuses(person) == {200}
        assert "after the copy" not in person.get(f"/s/{SITE}/actions").text
        assert person.post(f"/s/{SITE}/log", data=entry).status_code == 303
        assert "after the copy" in person.get(f"/s/{SITE}/actions").text


@pytest.fixture
def administered(postgresql_directory: Path) -> Iterator[Callable[[str], object]]:  # noqa: F811
    """Yield what executes a statement as the administrator of the server."""
    import psycopg

    host = str(postgresql_directory)
    with psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True) as admin:
        yield lambda statement: admin.execute(statement.encode())


def test_a_lost_connection_to_postgresql(kept, administered, postgresql_url, tmp_path):  # noqa: F811
    with Store.open(kept) as source, Store.open(postgresql_url, raw=tmp_path / "raw") as target:
        source.copy_to(target, now=MONDAY)
    name = postgresql_url.partition("@/")[2].partition("?")[0]
    database_of = f"FROM pg_stat_activity WHERE datname = '{name}'"
    with shown(postgresql_url, tmp_path / "raw") as (_, person):
        administered(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        administered(f"SELECT pg_terminate_backend(pid) {database_of}")
        fails_clearly(person, "store-unusable")
        administered(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        assert statuses(person) == {200}
        assert person.get(f"/s/{SITE}/runs/%00").status_code == 404
        assert person.get(f"/s/{SITE}/targets?find=%00").status_code == 200
        page = {"kind": "note", "detail": "a\0b", "csrf": csrf_of(person)}  # type: ignore[arg-type]
        assert person.post(f"/s/{SITE}/log", data=page).status_code in {303, 400}


def test_killing_the_dashboard_does_not_disturb_the_watch(tmp_path):
    """It is killed while it answers and the watch writes: every slot is done, nothing is lost."""
    path, clock, hours = tmp_path / "t.db", Moving(), 24
    argv = [str(TRIMTAB), "serve", "--store", str(path), "--bind", "127.0.0.1:0"]
    answered, ended, probe = threading.Event(), threading.Event(), SimulatedProbe(clock)
    with (
        Store.open(path) as store,
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        link = process.stdout.readline().split()[1]
        asking = threading.Thread(target=asks_until, args=(ended, link, answered))

        def meanwhile() -> None:
            run = len(probe.started)
            if run == hours // 4:
                asking.start()
                assert answered.wait(200)
            if run == hours // 2:
                process.kill()
                process.wait(60)

        probe.meanwhile = meanwhile
        until = MONDAY + timedelta(hours=hours)
        watch = a_watch(a_site(), store, clock, probe=probe, until=until)
        try:
            with pytest.raises(Ended):
                watch.run()
        finally:
            process.kill()
            ended.set()
        asking.join(200)
        assert process.wait(60) == -signal.SIGKILL
        slots = store.slots("scratch")
        assert len(slots) >= hours - 1
        assert {slot.state.value for slot in slots} == {"done"}
        assert len(store.runs(site="scratch")) == len(slots)
        assert store.check(contents=True).problems == ()


def asks_until(ended: threading.Event, link: str, answered: threading.Event) -> None:
    """Ask for pages until the server is gone; say when it has answered some."""
    root, count = link.partition("/enter")[0], 0
    with suppress(httpx.TransportError), httpx.Client(timeout=60, trust_env=False) as client:
        client.get(link)
        while not ended.is_set():
            client.get(f"{root}/s/scratch/overview")
            count += 1
            if count == 3:
                answered.set()
