"""Every page answers, and whatever people and files are called, it stays text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import HOSTILE, SITE

from trimtab.base.error import UnreadableError

PAGES = ("overview", "series", "targets", "incidents", "actions", "settings")


class Inline(HTMLParser):
    """Collects what the policy of the pages would block: code and style inside a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, object]] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.seen += [(tag, name) for name in values if name.startswith("on") or name == "style"]
        if tag in {"style", "img", "iframe", "object", "base"}:
            self.seen.append((tag, None))
        if tag == "script" and not (values.get("src") or "").startswith("/static/"):
            self.seen.append((tag, values.get("src")))
        for name in ("href", "src", "action"):
            if not re.match(r"/(?!/)|#|$", values.get(name) or ""):
                self.seen.append((tag, values[name]))


def every_page(client):
    yield from (f"/s/{SITE}/{name}" for name in PAGES)
    yield f"/s/{SITE}/incident/incident-1"
    yield f"/s/{SITE}/target/{quote(HOSTILE, safe='')}"
    runs = client.get(f"/s/{SITE}/series").text
    yield re.findall(rf'href="(/s/{SITE}/runs/[^"]+)"', runs)[0]
    yield f"/s/{SITE}/targets?find={quote(HOSTILE)}"
    yield f"/s/{SITE}/series?before={quote(HOSTILE)}&after={quote(HOSTILE)}"
    yield f"/s/{quote(HOSTILE + '/../../etc', safe='')}/overview"
    yield "/"
    yield "/s/" + quote(HOSTILE, safe="") + "/overview"


def test_no_name_becomes_markup(client):
    for path in every_page(client):
        page = client.get(path)
        assert page.status_code in {200, 404}, (path, page.text[-600:])
        parser = Inline()
        parser.feed(page.text)
        assert parser.seen == [], path


def test_hostile_names_are_shown_as_they_are(client):
    for path in (f"/s/{SITE}/targets", f"/s/{SITE}/actions", f"/s/{SITE}/incident/incident-1"):
        assert "&lt;script&gt;alert(1)" in client.get(path).text, path


def test_links_lead_to_pages_that_are_there(client):
    for name in PAGES:
        text = client.get(f"/s/{SITE}/{name}").text
        links = set(re.findall(r'(?:href|src|data-chart)="(/[^"#]*)', text))
        for link in sorted(links)[:40]:
            answer = client.get(link.replace("&amp;", "&"))
            assert answer.status_code in {200, 303}, (name, link, answer.text[-500:])


@pytest.mark.parametrize("name", ["..%2fserver.py", "../server.py", "%2e%2e/settings.py", "x.css"])
def test_only_the_files_of_the_pages_are_served(client, name):
    answer = client.get(f"/static/{name}")
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_a_run_of_another_site_is_not_shown(client, desk):
    (run,) = desk.store.runs(site=SITE, limit=1)
    other = quote(HOSTILE + "/../../etc", safe="")
    assert client.get(f"/s/{other}/runs/{run.id}").status_code == 404
    assert client.get(f"/s/{SITE}/runs/{run.id}").status_code == 200


def test_the_vendored_file_is_the_one_that_is_named():
    import hashlib
    from importlib import resources

    static = resources.files("trimtab.web") / "static"
    digest = hashlib.sha256((static / "htmx.min.js").read_bytes()).hexdigest()
    assert digest in (static / "VENDORED.md").read_text()


def test_a_store_that_cannot_be_read_gives_a_clear_page_and_recovers(client, desk, monkeypatch):
    def locked(site):
        raise UnreadableError("the store is locked by another process", code="store-locked")

    whole = desk.store.sums
    monkeypatch.setattr(desk.store, "sums", locked)
    page = client.get(f"/s/{SITE}/overview")
    assert page.status_code == 503
    assert "store-locked" in page.text
    assert client.get(f"/api/v1/sites/{SITE}/series").json()["error"]["code"] == "store-locked"
    monkeypatch.setattr(desk.store, "sums", whole)
    assert client.get(f"/s/{SITE}/overview").status_code == 200


def test_a_defect_shows_nothing_of_the_inside(desk, client, monkeypatch):
    def broken(site):
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(desk, "sites", broken)
    page = TestClient(client.app, client.base_url, raise_server_exceptions=False,
                      cookies=client.cookies).get("/s/x/overview")  # fmt: skip
    assert page.status_code == 500
    assert "hunter2" not in page.text
    assert page.headers["content-security-policy"]


def test_every_stretch_of_a_series_has_one_unit(client):
    """Runs of a stretch replace those of the chart: another unit would move them."""
    chart = re.search(
        r'data-chart="([^"]+)" data-zoom="([^"]+)"', client.get(f"/s/{SITE}/series").text
    )
    assert chart is not None
    whole = client.get(chart[1]).json()["layer"][0]
    part = client.get(chart[2], params={"since": "2026-01-11T00:00:00Z"}).json()["layer"][0]
    assert part["encoding"]["y"] == whole["encoding"]["y"]
    values = {run["run"]: run["value"] for run in whole["data"]["values"]}
    assert 0 < len(part["data"]["values"]) < len(values)
    assert all(values[run["run"]] == run["value"] for run in part["data"]["values"])
