"""What pages are made of is kept in the store: right at once after a write, and made by one."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.show.pages import horizon_answer_of
from tests.store.test_results import kept_horizon, kept_whatif
from tests.support.small_site import SITE, SmallSite, hour
from tests.web.conftest import keep_small_site, signed_in

from trimtab.base.event import identifier_of
from trimtab.judge import variability
from trimtab.probe import site_judgement
from trimtab.show import chart
from trimtab.site.place import Place, add_event
from trimtab.store.kept import add_result
from trimtab.store.store import Store
from trimtab.web.desk import Desk

pytestmark = pytest.mark.cli
PAGES = (
    "overview", "series", "targets", "inventory", "ladder", "sweeps", "purge", "twin", "incidents",
    "actions", "settings",
)  # fmt: skip
DOCUMENTS = ("overview", "status", "series", "targets", "ladder", "incidents", "events")


@pytest.fixture(scope="module", params=[240, 1100], ids=["short", "long"])
def shown_once(request, tmp_path_factory):
    """Return a store that keeps what every page is made of."""
    path = tmp_path_factory.mktemp("shown") / "t.db"
    if request.param == 240:  # with surveys, an incident and hostile names
        keep_small_site(path)
    else:
        values = np.random.default_rng(3).normal(1e9, 2e7, request.param)
        SmallSite({"write_bandwidth": values, "read_bandwidth": values * 1.5}).keep(path)
    with Store.open(path) as opened:
        shown(client_of(opened))
    return path


@pytest.fixture
def store(shown_once, tmp_path):
    path = tmp_path / "t.db"
    path.write_bytes(shown_once.read_bytes())
    with Store.open(path) as opened:
        yield opened


def client_of(store: Store) -> TestClient:
    """Return a person's client of a server that has only just begun, whose clock stands still."""
    desk = Desk(store)
    desk.now = lambda name: hour(2000)  # type: ignore[method-assign]
    return signed_in(desk)


def without_csrf(text: str) -> str:
    """Return a page without what is of the person alone."""
    return "".join(line for line in text.splitlines() if "csrf" not in line)


def shown(client: TestClient) -> dict[str, str]:
    """Return every page and document, without what is of the person alone."""
    paths = {name: f"/s/{SITE}/{name}" for name in PAGES}
    paths |= {f"api {name}": f"/api/v1/sites/{SITE}/{name}" for name in DOCUMENTS}
    answers = {name: client.get(path) for name, path in paths.items()}
    for name, answer in answers.items():
        assert answer.status_code in {200, 404}, (name, answer.text[-300:])
    return {name: without_csrf(answer.text) for name, answer in answers.items()}


def log_an_event(store: Store) -> None:
    add_event(store, Place(SITE, None), kind="config-change", detail="new words", now=hour(1200))


def add_a_run(store: Store) -> None:
    last = next(run for run in store.runs(site=SITE, limit=50) if run.probe == "hourly")
    at = hour(1300)
    samples = tuple(replace(each, value=0.25 * (each.value or 0.0)) for each in last.samples)
    whole = replace(last, id=identifier_of(at, "late"), at=at, until=at, samples=samples)
    store.add_run(whole)


def take_a_snapshot(store: Store) -> None:
    last = store.latest_snapshot(SITE)
    if last is not None:
        store.add_snapshot(SITE, replace(last, at=hour(1400), targets=last.targets[:2]))


def keep_results(store: Store) -> None:
    add_result(store, SITE, kept_horizon(horizon_answer_of(0.7)), hour(1500))
    add_result(store, SITE, kept_whatif(), hour(1500))


def test_after_a_write_every_page_is_at_once_what_it_is_from_nothing(store):
    client = client_of(store)
    before = shown(client)
    assert shown(client) == before
    for change in (log_an_event, add_a_run, take_a_snapshot, keep_results):
        change(store)
        now = shown(client)
        store.drop_derived()
        assert now == shown(client_of(store)), change
        if change is not take_a_snapshot or store.latest_snapshot(SITE) is not None:
            assert now != before, change
        before = now


def test_a_server_that_has_just_begun_judges_and_draws_nothing_again(store, monkeypatch):
    whole = shown(client_of(store))
    for module, name in (
        (site_judgement, "judge_series"),
        (variability, "judge_history"),
        (chart, "render_svg"),
    ):
        monkeypatch.setattr(module, name, lambda *a, **k: 1 / 0)
    of_pages = {name: text for name, text in whole.items() if not name.startswith("api")}
    again = client_of(store)
    for name, text in of_pages.items():
        assert without_csrf(again.get(f"/s/{SITE}/{name}").text) == text
    store.drop_derived()
    with pytest.raises(ZeroDivisionError):
        again.get(f"/s/{SITE}/overview")


def test_one_makes_a_value_and_the_others_wait_for_it(store):
    desk, made, begin = Desk(store), [], threading.Barrier(6)

    def make() -> int:
        made.append(1)
        return 7

    def ask() -> None:
        begin.wait()
        assert desk.of_request().remembered(SITE, "number", int, make) == 7

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert made == [1]
    log_an_event(store)
    assert desk.remembered(SITE, "number", int, make, "snapshot") == 7
    assert desk.remembered(SITE, "number", int, make) == 7
    assert made == [1, 1, 1]  # of other rows, then of other tables


def test_a_store_that_was_copied_elsewhere_says_where_it_is(store, tmp_path):
    client_of(store).get(f"/api/v1/sites/{SITE}/series")
    copied = tmp_path / "elsewhere.db"
    with closing(sqlite3.connect(str(store.location.path))) as connection:
        connection.execute(f"VACUUM INTO '{copied}'")
    with Store.open(copied) as other:
        assert str(copied) in client_of(other).get(f"/api/v1/sites/{SITE}/series").text
