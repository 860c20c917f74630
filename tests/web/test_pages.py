"""Every page answers and stays text; charts over time show incidents and the log book."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from html.parser import HTMLParser
from importlib import resources
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from tests.support.narrow import present
from tests.support.small_site import SITE, hour
from tests.web.conftest import HOSTILE

from trimtab.answers.page_web_overview import spark_points
from trimtab.base.error import UnreadableError
from trimtab.base.event import Event, EventKind
from trimtab.base.maintenance_window import MaintenanceWindow, event_of
from trimtab.show.chart import Chart, data, layered, milliseconds, render_svg, time_axis, value_axis
from trimtab.store.kept import KeptIncident
from trimtab.watch.silence import new_silence, row_of
from trimtab.web.page_dashboard_chart import (
    KEYS,
    ROUTINE,
    ChartMarks,
    marked,
    marks_of,
    survey_layers,
)
from trimtab.web.template import in_words

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
    static = resources.files("trimtab.web") / "static"
    digest = sha256((static / "htmx.min.js").read_bytes()).hexdigest()
    assert digest in (static / "VENDORED.md").read_text()


def test_a_store_that_cannot_be_read_gives_a_clear_page_and_recovers(client, desk, monkeypatch):
    locked = UnreadableError("the store is locked by another process", code="store-locked")
    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "sums", Mock(side_effect=locked))
        page = client.get(f"/s/{SITE}/overview")
        assert (page.status_code, "store-locked" in page.text) == (503, True)
        answer = client.get(f"/api/v1/sites/{SITE}/series").json()
        assert answer["error"]["code"] == "store-locked"
    assert client.get(f"/s/{SITE}/overview").status_code == 200


def test_a_defect_shows_nothing_of_the_inside(desk, client, monkeypatch):
    monkeypatch.setattr(desk, "sites", Mock(side_effect=RuntimeError("password=hunter2")))
    page = TestClient(client.app, client.base_url, raise_server_exceptions=False,
                      cookies=client.cookies).get("/s/x/overview")  # fmt: skip
    assert page.status_code == 500
    assert "hunter2" not in page.text
    assert page.headers["content-security-policy"]


def test_every_stretch_of_a_series_has_one_unit(client):
    """Runs of a stretch replace those of the chart: another unit would move them."""
    text = client.get(f"/s/{SITE}/series").text
    chart = present(re.search(r'data-chart="([^"]+)" data-zoom="([^"]+)"', text))
    whole = client.get(chart[1]).json()["layer"][0]
    part = client.get(chart[2], params={"since": "2026-01-11T00:00:00Z"}).json()["layer"][0]
    assert part["encoding"]["y"] == whole["encoding"]["y"]
    values = {run["run"]: run["value"] for run in whole["data"]["values"]}
    assert 0 < len(part["data"]["values"]) < len(values)
    assert all(values[run["run"]] == run["value"] for run in part["data"]["values"])


def event(number: int, kind: EventKind = EventKind.CONFIG_CHANGE, words: str = "x") -> Event:
    return Event(f"{kind.value}-{number}", SITE, kind, hour(number), words, "person")


def incident(begin: int, end: int | None, words: str = "slow") -> KeptIncident:
    until = None if end is None else hour(end)
    return KeptIncident(
        f"i{begin}", SITE, hour(begin), until, hour(begin), "level", "open", "confirmed", 0.7,
        words, {},
    )  # fmt: skip


def chart(begin: int = 0, end: int = 100) -> Chart:
    rows = [{"at": milliseconds(hour(n)), "value": float(n)} for n in range(begin, end + 1)]
    x, y = time_axis(rows), value_axis("value", "GB/s", 100.0)
    return Chart("c", "t", "c", layered([data(rows).mark_point().encode(x=x, y=y)]))


def added(made: Chart) -> list[list[dict]]:
    values = [layer["data"]["values"] for layer in made.specification["layer"] if "data" in layer]
    return [rows for rows in values if "what" in rows[0]]


def test_what_lies_within_the_stretch_is_marked_and_what_lasts_is_cut_to_it():
    marks = marks_of(
        [event(-5), event(40), event(170)],
        [incident(-10, 20), incident(60, None), incident(-90, -50), incident(140, 150)],
    )
    spans, points = added(marked(chart(), marks))
    at = lambda number: milliseconds(hour(number))  # noqa: E731
    assert [(each["at"], each["to"]) for each in spans] == [(at(0), at(20)), (at(60), at(100))]
    assert [each["at"] for each in points] == [at(40)]


def test_the_runs_stay_the_first_layer_and_only_what_is_marked_has_a_key():
    plain = chart()
    made = marked(plain, marks_of([event(4)], []))
    assert made.specification["layer"][0] == plain.specification["layer"][0]
    assert made.legend == (KEYS[1],)
    assert marked(plain, marks_of([event(4)], []), with_keys=False).legend == ()
    for nothing in (ChartMarks(), marks_of([event(400)], []), marks_of([event(-400)], [])):
        assert marked(plain, nothing) is plain


def test_a_chart_that_is_not_over_time_stays_as_it_is():
    rows = [{"value": 1.0, "count": 3}]
    y = value_axis("count", "n", 3.0)
    histogram = Chart("h", "t", "c", layered([data(rows).mark_bar().encode(x="value:Q", y=y)]))
    assert marked(histogram, marks_of([event(4)], [incident(1, 5)])) is histogram


def test_a_map_marks_the_surveys_during_an_incident_and_the_next_after_an_entry():
    surveys = {name: milliseconds(hour(24 * day)) for day, name in enumerate("abcd")}
    marks = marks_of(
        [event(-1), event(0), event(25), event(73)], [incident(20, 50), incident(70, None)]
    )
    spans, points = (layer["data"]["values"] for layer in survey_layers(marks, {}, surveys))
    assert [each["at"] for each in spans] == ["b", "c", "d"]
    assert [each["at"] for each in points] == ["a", "c"]
    assert [*survey_layers(ChartMarks(), {}, surveys)] == []
    assert [*survey_layers(marks, {}, {})] == []


@pytest.mark.parametrize("kind", sorted(ROUTINE))
def test_what_recurs_is_not_marked(kind):
    assert marks_of([event(1, kind)], []).events == ()


def test_where_events_are_many_the_notes_give_way():
    notes = [event(number, EventKind.NOTE) for number in range(100, 400)]
    marks = marks_of([event(1), event(2), *notes], [])
    assert len(marks.events) == 60
    assert {milliseconds(hour(1)), milliseconds(hour(2))} <= {at for at, _ in marks.events}


def test_hostile_words_stay_text():
    marks = marks_of([event(5, words=HOSTILE)], [incident(7, 9, HOSTILE)])
    svg = render_svg(marked(chart(), marks).specification, name="c", label="x")
    assert "<script>" not in svg
    assert "<img" not in svg
    assert "&lt;script&gt;" in svg


def test_every_chart_of_runs_is_marked(client, desk):
    """The small site has an incident that goes on, and a note."""
    for page in ("overview", "series", "targets", "target/OST0000"):
        text = client.get(f"/s/{SITE}/{page}").text
        assert "entry of the log book" in text, page
    assert "incident, along the upper edge" in client.get(f"/s/{SITE}/series").text
    (entry,) = desk.listed(SITE)
    specification = client.get(f"/s/{SITE}/chart/{entry.id}").json()
    words = json.dumps(specification["layer"][1:])
    assert '"note: ' in words


def test_the_overview_begins_with_the_last_value_and_its_line(client):
    text = client.get(f"/s/{SITE}/overview").text
    begin, end = text.index('class="currents"'), text.index("</ul>")
    assert "MB/s</strong>" in text[begin:end] or "GB/s</strong>" in text[begin:end]
    assert text[begin:end].count("<polyline") == 1


def test_lines_of_nothing_one_and_zeros_are_drawn():
    assert spark_points([]) == ""
    assert spark_points([3.0]) == "0,0"
    assert spark_points([0.0, 0.0]) == "0,28 100,28"


def test_metrics_are_named_in_words_and_other_words_stay():
    assert in_words("hourly write_bandwidth 18 % lower") == "hourly write bandwidth 18 % lower"
    other = "xwrite_bandwidth my_write_bandwidth_x"
    assert in_words(other) == other


HOUR_LONG = timedelta(hours=1)


def test_what_holds_alerts_back_is_on_the_overview_and_windows_are_bands(client, desk):
    """The last test: the window stays in the store of the others."""
    now = desk.now(SITE)
    long_ago = MaintenanceWindow("0-w", SITE, hour(10), hour(14), "x<b>", "person")
    window = replace(long_ago, id="1-w", at=now - HOUR_LONG, until=now + HOUR_LONG, why="disk <b>")
    desk.store.add_events([event_of(long_ago), event_of(window)])
    until = now + HOUR_LONG
    silence = new_silence(SITE, "target-lost", now=now, until=until, who="ann", why="ordered")
    desk.store.add_alert(row_of(silence))
    text = client.get(f"/s/{SITE}/overview").text
    assert "in maintenance until" in text
    assert "disk &lt;b&gt; (all; person)" in text
    assert "target-lost silenced until" in text
    (entry,) = desk.listed(SITE)
    bands = [
        row
        for layer in client.get(f"/s/{SITE}/chart/{entry.id}").json()["layer"]
        for row in layer.get("data", {}).get("values", [])
        if row.get("what") == "x<b>"
    ]
    assert [(row["at"], row["to"]) for row in bands] == [
        (milliseconds(hour(10)), milliseconds(hour(14)))
    ]
