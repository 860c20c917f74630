"""Charts over time show incidents and the log book, within their own stretch, as text."""

from __future__ import annotations

import json

import pytest
from tests.support.small_site import SITE, hour
from tests.web.conftest import HOSTILE

from trimtab.answers.page_web_overview import spark_points
from trimtab.base.event import Event, EventKind
from trimtab.show.chart import Chart, data, layered, milliseconds, render_svg, time_axis, value_axis
from trimtab.store.kept import KeptIncident
from trimtab.web.marks import KEYS, ROUTINE, ChartMarks, marked, marks_of, survey_layers
from trimtab.web.template import in_words


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
