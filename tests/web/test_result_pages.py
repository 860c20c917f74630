"""Ladder, sweeps, purge and twin, from what commands left; plans approved by their hash."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.purge.notice.making import Book, clock, open_directory
from tests.purge.plan.making import KEY, Row, draft, file_system, make
from tests.show.pages import horizon_answer_of, swept_policies
from tests.store.test_results import kept_horizon, kept_whatif
from tests.support.documents import misfits
from tests.support.narrow import present
from tests.support.small_site import SITE, SmallSite, hour
from tests.web.conftest import HOSTILE, csrf_behind_proxy, csrf_of, through_proxy
from tests.web.test_pages import Inline

from trimtab.base.encode import to_json
from trimtab.base.event import EventKind, identifier_of
from trimtab.base.inventory import ServerInventory
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.site import Site
from trimtab.base.site_policy import Policies, PurgePlanPolicy
from trimtab.explain.inventory_difference import inventory_of
from trimtab.probe.sweep import stored_sweep
from trimtab.purge import owner
from trimtab.purge.horizon.horizon_answer import HorizonResult
from trimtab.purge.plan import site_plan as purge_plans
from trimtab.purge.plan.notice import publish
from trimtab.purge.plan.plan_directory import LoadedPlan
from trimtab.purge.purge_policy import Notices
from trimtab.site.place import Place, add_event
from trimtab.store.kept import KeptResult, add_result
from trimtab.store.location import PurgePlace, prepared
from trimtab.store.store import Store
from trimtab.twin.whatif.page import whatif_answers
from trimtab.twin.whatif.whatif_sweep import WhatIfDocument, WhatIfResult
from trimtab.web.api_result import sweep_of
from trimtab.web.desk import Desk

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
MADE_AT = NOW - timedelta(days=1)
ADA, BOB = 20_001, 20_002
ROOT = f"/s/{SITE}"
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="plans are root's")


def sweep_runs() -> Iterator[Run]:
    """Yield the runs of two sweeps: sizes and nodes in two rounds, one level never differing."""

    def run(name: str, at: datetime, levels: dict, number: int, rate: float, asked: str) -> Run:
        sweep: Any = {"name": name, "levels": levels, "round": number, "asked": asked}
        return Run(
            id=identifier_of(at, f"sweep-{name}"), site=SITE, probe=f"sweep-{name}", kind="ior",
            status=RunStatus.OK, at=at, until=at + timedelta(minutes=4),
            parameters={"spec": {"name": "hourly", **levels}, "sweep": sweep},
            samples=(Sample("write_bandwidth", rate, 0),),
        )  # fmt: skip

    rates = {("64KiB", 1): 1e9, ("64KiB", 4): 2e9, ("1MiB", 1): 3e9, ("1MiB", 4): 8e9}
    for number in range(2):
        for place, ((size, nodes), rate) in enumerate(rates.items()):
            levels = {"transfer_size": size, "nodes": nodes, "direct": True}
            at = hour(1000 + 10 * number + place)
            yield run("sizes", at, levels, number, rate * (1 + 0.01 * number), "now")
    before = {"transfer_size": "64KiB", "nodes": 1, "direct": True}
    yield run("sizes", hour(900), before, 0, 5e12, "before")
    yield run(HOSTILE, hour(990), {HOSTILE: HOSTILE}, 0, 1e9, "now")


@pytest.fixture(scope="module")
def lists() -> Iterator[Path]:
    yield from open_directory()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, lists: Path) -> Iterator[Desk]:
    home = tmp_path_factory.mktemp("results")
    with Store.open(SmallSite().keep(home / "t.db")) as store:
        store.add_runs(list(sweep_runs()))
        plans = home / "plans"
        plans.mkdir(mode=0o700)
        add_result(store, SITE, kept_horizon(horizon_answer_of(0.7), f"/{SITE}"), NOW)
        add_result(store, SITE, kept_whatif(), NOW)
        store.add_result(KeptResult("half", SITE, "what-if", MADE_AT, {}))
        policies = Policies(purge=PurgePlanPolicy(directory=str(plans)))
        site = Site(SITE, "lustre", f"/{SITE}", policies=policies)
        place = PurgePlace(home / "purge")
        prepared(place)
        place.key.write_bytes(b"trimtab-purge-key-1 " + KEY.secret.hex().encode() + b"\n")
        place.key.chmod(0o600)
        desk = Desk(store, (SITE, Place(SITE, site)), purges=place)
        desk.now = lambda name: NOW  # type: ignore[method-assign]
        yield desk


@pytest.fixture(scope="module")
def plan(desk: Desk, lists: Path) -> LoadedPlan:
    """A plan that is published to three users, and waits."""
    directory = present(desk.place(SITE).site).policies.purge.directory
    rows = [
        Row(b"ada/first", ADA, size_bytes=123_456),
        Row(f"ada/{HOSTILE}".encode(), ADA),
        Row(b"bob/secret", BOB),
    ]
    made = draft(MADE_AT, file_system=file_system(name=SITE, root=f"/{SITE}"))
    loaded = make(Path(str(directory), "2026-11-22T1200Z.plan"), rows, made)
    notices, accounts = Notices(directory=str(lists)), Book(ada=ADA, bob=BOB)
    at = clock(NOW - timedelta(hours=2))
    return publish(loaded, KEY, notices, accounts=accounts, clock=at).loaded


@pytest.fixture(scope="module")
def admin(desk: Desk) -> TestClient:
    return through_proxy(desk, "root")


@pytest.fixture
def ada(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A viewer who is a user of the file system."""
    monkeypatch.setattr(owner, "number_of", lambda kind, name: {"ada": ADA}.get(name))
    return through_proxy(desk, "ada")


def test_no_page_has_code_or_style_inside(admin, desk, plan):
    for path in (
        "ladder", "ladder?per=ost", "sweeps", "sweeps?name=sizes", "purge", "inventory",
        f"purge?result={desk.results(SITE, HorizonResult).held[0].id}", "twin",
        f"twin?result={desk.results(SITE, WhatIfResult).held[0].id}",
    ):  # fmt: skip
        page = admin.get(f"{ROOT}/{path}")
        assert page.status_code == 200, (path, page.text[-500:])
        parser = Inline()
        parser.feed(page.text)
        assert parser.seen == [], path
        assert "<h1>" in page.text


@pytest.mark.parametrize("page", ["twin", "purge"])
def test_only_results_of_the_kind_are_named(admin, desk, page):
    kept = desk.results(SITE, HorizonResult) if page == "twin" else desk.results(SITE, WhatIfResult)
    assert admin.get(f"{ROOT}/{page}?result={kept.held[0].id}").status_code == 404
    assert admin.get(f"{ROOT}/sweeps?name=none").status_code == 404


@pytest.mark.parametrize("kind", ["horizons", "whatif"])
def test_results_of_a_site_that_is_not_served_are_not_told(admin, desk, kind):
    desk.store.ensure_site("elsewhere")
    add_result(desk.store, "elsewhere", kept_horizon(horizon_answer_of(0.7)), NOW)
    add_result(desk.store, "elsewhere", kept_whatif(), NOW)
    assert admin.get(f"/api/v1/sites/elsewhere/{kind}").status_code == 404
    assert admin.get(f"/api/v1/sites/{SITE}/{kind}").status_code == 200


def test_a_result_of_another_version_is_told(admin):
    assert "1 result of another version" in admin.get(f"{ROOT}/twin").text
    assert "of another version" not in admin.get(f"{ROOT}/purge").text


# Ladder and sweeps


def test_a_sweep_is_read_from_its_runs(desk):
    stored = stored_sweep(desk.store, SITE, "sizes")
    assert stored.fixed == {"direct": True}
    assert stored.varying == {"transfer_size", "nodes"}
    assert (stored.points, len(stored.measured), stored.left_out) == (4, 8, 1)


def test_a_sweep_shows_the_best_and_no_run_of_another_probe(admin, desk):
    page = admin.get(f"{ROOT}/sweeps?name=sizes").text
    _, analysis = sweep_of(desk, SITE, "sizes")
    (best,) = analysis.best
    assert best.best == {"transfer_size": "1MiB", "nodes": 4}
    assert "best with transfer_size 1MiB, nodes 4, 8.04 GB/s" in page
    assert "TB/s" not in page
    assert "1 runs of the same settings" in page
    by_size = admin.get(f"{ROOT}/sweeps?name=sizes&workload=transfer_size").text
    assert "Write bandwidth with transfer_size 64KiB: best with " in by_size
    assert admin.get(f"{ROOT}/sweeps?name=sizes&workload=direct").status_code == 400
    hostile = admin.get(f"{ROOT}/sweeps", params={"name": HOSTILE})
    assert hostile.status_code == 200
    assert HOSTILE not in hostile.text


def test_ladder_and_sweeps_have_documents(admin):
    api = f"/api/v1/sites/{SITE}"
    assert misfits(admin.get(f"{api}/ladder?per=server").json(), "ladder") == []
    sweeps = admin.get(f"{api}/status").json()["sweeps"]
    assert {entry["name"] for entry in sweeps} == {"sizes", HOSTILE}
    sweep = admin.get(f"{api}/sweeps/sizes").json()
    assert misfits(sweep, "sweep") == []
    assert sweep["best"][0]["best"] == {"transfer_size": "1MiB", "nodes": 4}
    assert len(sweep["points"]) == 8
    assert admin.get(f"{api}/sweeps/none").status_code == 404


# Purge


def owners_of(page: str) -> set[str]:
    return set(re.findall(r'scope="row"[^>]*>(\d{5})<', page))


def test_an_admin_sees_every_owner_and_a_viewer_only_themselves(admin, ada, plan):
    page = admin.get(f"{ROOT}/purge").text
    assert "Deleting what is unused for" in page
    everybody = owners_of(page)
    assert len(everybody) == 30
    assert "<summary>30 rows: user, files, would go, of what may" in page
    own = ada.get(f"{ROOT}/purge").text
    assert owners_of(own) <= {str(ADA), "ada"}
    assert all(other not in own for other in everybody - {str(ADA)})
    assert "Your files" in own
    documents = [
        who.get(f"/api/v1/sites/{SITE}/horizons").json()["horizons"][0] for who in (admin, ada)
    ]
    assert len(documents[0]["users"]) == 30
    assert [user["owner"] for user in documents[1]["users"]] == [ADA]
    assert documents[0]["needed"] == documents[1]["needed"]


def test_a_viewer_whom_the_host_does_not_know_sees_nobody(ada, desk):
    page = through_proxy(desk, "nobody-known").get(f"{ROOT}/purge").text
    assert owners_of(page) == set()
    assert "Unknown user on this host" in page


def test_people_see_their_own_list_and_no_other(ada, desk, plan):
    page = ada.get(f"{ROOT}/purge").text
    assert f"/{SITE}/ada/first" in page
    assert "121 KiB" in page
    assert "bob/secret" not in page
    assert HOSTILE not in page
    bob = through_proxy(desk, "bob").get(f"{ROOT}/purge").text
    assert f"/{SITE}/bob/secret" in bob
    assert "ada/first" not in bob
    assert "ada/first" not in through_proxy(desk, "root").get(f"{ROOT}/purge").text
    assert "No further file" in ada.get(f"{ROOT}/purge?offset=50").text


def test_only_an_admin_approves_and_only_this_hash(admin, ada, desk, plan):
    path, before = f"{ROOT}/purge/approve", desk.store.events(site=SITE)
    page = admin.get(f"{ROOT}/purge").text
    assert "waits for approval" in page
    assert plan.sha256 in page
    assert "Approve plan" not in ada.get(f"{ROOT}/purge").text
    for user in ("ada", "olga"):
        client = through_proxy(desk, user)
        answer = client.post(path, data={"csrf": csrf_behind_proxy(client), "sha256": plan.sha256})
        assert (answer.status_code, "role-too-low" in answer.text) == (403, True)
    for sha256 in ("", "0" * 64, plan.sha256[:-1], plan.sha256.upper()):
        data = {"csrf": csrf_of(admin, "purge"), "sha256": sha256}
        assert admin.post(path, data=data).status_code == 404
    assert admin.post(path, data={"sha256": plan.sha256}).status_code == 403
    # An entry that somebody writes is no approval, whatever its words.
    words = f"approved purge plan {plan.plan.id} sha256 {plan.sha256}"
    add_event(
        desk.store, Place(SITE, None), kind="note", detail=words, now=NOW, source="dashboard: olga"
    )
    assert "waits for approval" in admin.get(f"{ROOT}/purge").text
    assert len(desk.store.events(site=SITE)) == len(before) + 1


def test_an_approval_is_an_entry_with_the_hash_and_arms_nothing(admin, desk, plan):
    data = {"csrf": csrf_of(admin, "purge"), "sha256": plan.sha256}
    assert admin.post(f"{ROOT}/purge/approve", data=data).status_code == 303
    event = desk.store.events(site=SITE)[-1]
    assert (event.kind, event.source) == (EventKind.NOTE, "dashboard approval: root")
    words = f"approved purge plan {plan.plan.id} sha256 {plan.sha256} until "
    assert event.detail.startswith(words)
    assert " signature " in event.detail
    assert "approved, not armed" in admin.get(f"{ROOT}/purge").text
    assert not list(desk.purges.journals.iterdir())
    again = admin.post(f"{ROOT}/purge/approve", data=data)
    assert (again.status_code, "plan-approved" in again.text) == (403, True)
    plans = f"/api/v1/sites/{SITE}/plans"
    (listed,) = admin.get(plans).json()["plans"]
    assert (listed["state"], listed["sha256"]) == ("approved, not armed", plan.sha256)
    headers = {"X-CSRF-Token": data["csrf"]}
    second = admin.post(f"{plans}/approve", json={"sha256": plan.sha256}, headers=headers)
    assert second.status_code == 403


def test_a_plan_that_is_over_cannot_be_approved(admin, desk, plan, monkeypatch):
    monkeypatch.setattr(desk, "now", lambda name: plan.plan.expires_at)
    client = through_proxy(desk, "eva")
    data = {"csrf": csrf_behind_proxy(client), "sha256": plan.sha256}
    answer = client.post(f"{ROOT}/purge/approve", data=data)
    assert (answer.status_code, "plan-not-waiting" in answer.text) == (403, True)


def test_a_plan_that_was_changed_is_not_shown(admin, desk, plan):
    file = plan.directory / "plan.json"
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"notice_s"', b'"notice_s" '))
    try:
        desk.forget("plans", SITE)
        page = admin.get(f"{ROOT}/purge").text
        assert plan.sha256 not in page
        assert "not shown" in page
    finally:
        file.write_bytes(whole)
        desk.forget("plans", SITE)


def test_journals_that_cannot_be_read_are_told_wherever_they_are_shown(desk, monkeypatch):
    def refused(directory: Path) -> tuple[Path, ...]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(purge_plans, "journals", refused)
    place = desk.place(SITE)
    anew = Desk(desk.store, (SITE, place), purges=desk.purges)
    client = through_proxy(anew, "root")
    for page in ("overview", "purge"):
        text = client.get(f"{ROOT}/{page}").text
        assert "journals cannot be read: Permission denied" in text, page
    purge = client.get(f"/api/v1/sites/{SITE}/overview").json()["purge"]
    assert (purge["plans"], purge["reason_code"]) == (0, "journals-unreadable")


# Twin


def test_the_twin_shows_the_best_policy_and_says_that_it_is_simulation(admin):
    page = admin.get(f"{ROOT}/twin").text
    answer, *_ = whatif_answers(swept_policies()[1])
    assert answer in page
    assert "All of it is simulation" in page
    assert "eth-euler" in page
    document = admin.get(f"/api/v1/sites/{SITE}/whatif").json()["results"][0]
    written = json.loads(to_json(WhatIfDocument(*swept_policies())))
    assert document["combinations"] == written["combinations"]


@pytest.fixture
def twin_page(desk: Desk, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Return what opens the page of the twin, for a site that is simulated by a scenario."""
    with Store.open(SmallSite().keep(tmp_path / "t.db")) as store:

        def page(scenario: str) -> str:
            site = replace(present(desk.place(SITE).site), driver="twin", scenario=scenario)
            served = desks.setdefault(scenario, Desk(store, (SITE, Place(SITE, site))))
            answer = through_proxy(served, "root").get(f"{ROOT}/twin")
            assert answer.status_code == 200
            return answer.text

        desks: dict[str, Desk] = {}
        yield page


def test_a_site_of_the_twin_shows_its_scenario(twin_page):
    page = twin_page("template")
    assert "Nothing was asked of the twin yet" in page
    assert "A small system: 8 OSTs of 12 drives on 4 servers" in page
    assert "Everything that the pages of this site show is simulated" in page


def test_a_scenario_that_was_changed_is_shown_as_it_is_now(twin_page, tmp_path):
    path = tmp_path / "mine.toml"
    for text, shown in (
        ('[scenario]\nname = "mine"\nextends = "template"\ntitle = "First"\n', "First. "),
        ('[scenario]\nname = "mine"\nextends = "template"\ntitle = "Second"\n', "Second. "),
        ("title = 3\n", "mine.toml"),
    ):
        path.write_text(text)
        page = twin_page(str(path))
        assert shown in page
        assert ("is simulated" in page) == (shown != "mine.toml")


def test_an_inventory_has_a_page_and_a_document(admin, desk):
    at = NOW - timedelta(hours=1)

    def keep(release: str, hours: int) -> None:
        values = {"kernel/release": release}
        readings = [ServerInventory("oss1", "oss", values), ServerInventory("oss2", "oss", values)]
        odd = ServerInventory("oss3", "oss", {"kernel/release": "5.14<script>"})
        moment = at + timedelta(hours=hours)
        add_result(desk.store, SITE, inventory_of([*readings, odd], moment), moment)

    assert "holds no inventory" in admin.get(f"{ROOT}/inventory").text
    keep("6.1", 0)
    keep("6.2", 1)
    page = admin.get(f"{ROOT}/inventory").text
    assert "oss3: kernel/release 5.14&lt;script&gt; (others 6.2)" in page
    assert "6.1 -&gt; 6.2" in page
    document = admin.get(f"/api/v1/sites/{SITE}/inventory?since={at:%Y-%m-%dT%H:%M:%SZ}").json()
    assert misfits(document, "inventory") == []
    assert [change["servers"] for change in document["changes"]] == ["oss[1-2]"]
    assert admin.get(f"/api/v1/sites/{SITE}/inventory?until=2020-01-01").status_code == 400
