"""The API says what the library says, in pages and files, and hides no outlier."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from tests.support.command import trimtab
from tests.support.documents import misfits
from tests.web.conftest import HOSTILE, RUNS, SITE, hour, keep_small_site

from trimtab.answers import series_chart
from trimtab.base.encode import to_json
from trimtab.base.event import Event, EventKind
from trimtab.base.series import JudgeDocument
from trimtab.explain.page_web_incident import incidents
from trimtab.probe.site_judgement import judge_site
from trimtab.site.place import Place, add_event
from trimtab.store.store import Store
from trimtab.web import page_series, server
from trimtab.web.desk import Desk
from trimtab.web.page_series import Zone, around_events, days_above, frame_of_runs

API = f"/api/v1/sites/{SITE}"
READERS = {"csv": pl.read_csv, "parquet": pl.read_parquet, "arrow": pl.read_ipc}


@pytest.fixture(scope="module")
def series(desk: Desk) -> str:
    (entry,) = desk.listed(SITE)
    return entry.id


def test_a_series_is_judged_as_by_the_library(client, desk, series):
    document = client.get(f"{API}/series/{series}").json()
    judged = judge_site(desk.store, Place(SITE, None))
    expected = JudgeDocument(judged.judgement, judged.store)
    (of_api,), (of_library,) = document["series"], plain(expected)["series"]
    assert of_api == of_library
    assert of_api["change_points"]
    assert misfits(document, "judge") == []


def plain(document):
    return json.loads(to_json(document))


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("status", ("status", SITE)),
        ("series", ("judge", SITE)),
        ("targets", ("targets", SITE, "--at", "2030-01-01")),
        ("actions", ("actions", SITE)),
        ("events", ("event", "list", SITE)),
        ("maintenance", ("maintenance", SITE)),
        ("silences", ("silence", SITE)),
        ("events?since=2026-01-01T08:00Z", ("event", "list", SITE, "--since", "2026-01-01T08:00Z")),
        ("runs", ("runs", "--site", SITE)),
        ("runs?limit=3&probe=hourly", ("runs", "--site", SITE, "--top", 3, "--probe", "hourly")),
        ("ladder?per=ost", ("ladder", SITE, "--per", "ost")),
    ],
)
@pytest.mark.system  # the word that names a site may be a path: a child looks
def test_a_document_is_the_commands_byte_for_byte(client, desk, path, command):
    ended = trimtab(*command, "--json", store=desk.store.location.path)
    assert client.get(f"{API}/{path}").text == ended.stdout.strip()


@pytest.mark.system
def test_incidents_are_as_the_last_search_printed_them(tmp_path):
    path = keep_small_site(tmp_path / "t.db")
    printed = trimtab("incidents", SITE, "--json", store=path).document
    assert printed["incidents"]
    with Store.open(path) as store:
        of_api = incidents(Desk(store), SITE)
    not_kept = {"standing": None, "lone_runs": None}
    assert plain(of_api) == {**printed, **not_kept}
    assert misfits(plain(of_api), "incidents") == []


def test_a_list_comes_in_pages_that_join_to_the_whole(client):
    whole = client.get(f"{API}/targets")
    first = client.get(f"{API}/targets?limit=2")
    second = client.get(
        f"{API}/targets" + first.headers["link"].partition("<")[2].partition(">")[0]
    )
    parts = [page.json()["targets"] for page in (first, second)]
    assert [len(part) for part in parts] == [2, 1]
    assert first.json() | {"targets": [*parts[0], *parts[1]]} == whole.json()
    assert {page.headers["x-total-count"] for page in (whole, first, second)} == {"3"}
    assert "link" not in {**whole.headers, **second.headers}
    beyond = client.get(f"{API}/targets?offset=3")
    assert (beyond.json()["targets"], beyond.headers["x-total-count"]) == ([], "3")


def test_a_stretch_is_in_utc_unless_it_says_otherwise(client, series):
    def first_since(since):
        answer = client.get(f"{API}/series/{series}/runs.parquet", params={"since": since})
        return pl.read_parquet(io.BytesIO(answer.content))["at"][0]

    at = datetime(2026, 1, 6, 5, tzinfo=UTC)
    assert first_since("2026-01-06T05:00") == first_since("2026-01-06T05:00Z") == at
    assert first_since("2026-01-06T05:00+02:00") == at - timedelta(hours=2)


@pytest.mark.parametrize("form", READERS)
def test_every_run_is_in_the_files(client, desk, series, form):
    answer = client.get(f"{API}/series/{series}/runs.{form}")
    frame = READERS[form](io.BytesIO(answer.content))
    expected = frame_of_runs(desk.runs(SITE, series))
    assert frame.columns == ["at", "value", "unfinished", "run", "outlier"]
    for column in ("run", "value"):
        assert frame[column].to_list() == expected[column].to_list()
    assert answer.headers["content-disposition"].startswith("attachment")


@pytest.mark.system  # the word that names a site may be a path: a child looks
def test_a_comparison_is_the_librarys(client, series):
    sides = {"before": "2026-01-05..2026-01-09", "after": "2026-01-10T12:00..2026-01-14"}
    document = client.get(f"{API}/compare", params=sides).json()
    assert misfits(document, "compare") == []
    (effect,) = document["series"][0]["effects"]
    assert effect["ratio"] == pytest.approx(0.7, abs=0.05)
    assert client.get(f"{API}/compare?before=/etc/passwd&after=x").status_code == 400


def test_incidents_targets_events_and_the_overview(client):
    def asked(path):
        return client.get(f"{API}/{path}").json()

    (incident,) = asked("incidents?state=open")["incidents"]
    assert asked(f"incidents/{incident['id']}")["incidents"] == [incident]
    assert asked("incidents?state=ended")["incidents"] == []
    assert asked("targets")["targets"][0]["fullness"] == pytest.approx(0.6)
    times = [event["at"] for event in asked("events")["events"]]
    assert times == sorted(times)
    overview = asked("overview")
    assert overview["targets"][0]["trimmed_at"] == "2026-01-05T09:00:00Z"
    assert overview["last_run_at"] == "2026-01-14T23:00:00Z"
    assert overview["incidents"][0]["id"] == "incident-1"
    assert overview["answer"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/sites/other/overview", 404, "site-unknown"),
        ("/api/v1/sites/..%2f..%2fetc%2fpasswd/overview", 404, "site-unknown"),
        (f"{API}/series/nothing", 404, "series-unknown"),
        (f"{API}/series/x'%20OR%201=1--/runs.csv", 404, "series-unknown"),
        (f"{API}/incidents/none", 404, "incident-unknown"),
        (f"{API}/events?since=yesterday", 400, "time-malformed"),
        (f"{API}/events?limit=0", 422, "request-invalid"),
        (f"{API}/events?offset=-1", 422, "request-invalid"),
        ("/api/v1/nothing", 404, "page-unknown"),
    ],
)
def test_what_is_wrong_has_a_code(client, path, status, code):
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert misfits(answer.json(), "error") == []


def test_what_is_the_same_is_not_sent_again(client, series):
    first = client.get(f"{API}/series/{series}")
    again = client.get(f"{API}/series/{series}", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_description_holds_together(client):
    document = client.get("/api/openapi.json").json()
    schemas = document["components"]["schemas"]
    references = set(_references(document))
    assert {name.removeprefix("#/components/schemas/") for name in references} <= set(schemas)
    answer = document["paths"]["/api/v1/sites/{site}/series/{name}"]["get"]["responses"]["200"]
    name = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert name == "judged.JudgeDocument"
    assert "change_points" in schemas[f"{name}.SeriesJudgement"]["properties"]


def _references(node):
    if isinstance(node, dict) and isinstance(node.get("$ref"), str):
        yield node["$ref"]
    for value in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from _references(value)


@pytest.mark.parametrize("points", [8, 40, 400, 20_000])
def test_a_sample_hides_no_outlier(client, desk, series, points):
    frame = frame_of_runs(desk.runs(SITE, series))
    answer = client.get(f"{API}/series/{series}/runs.parquet?points={points}")
    sample = pl.read_parquet(io.BytesIO(answer.content))
    shown = set(sample["run"])
    outliers = frame.filter(page_series.outliers(frame))["run"].to_list()
    assert len(outliers) >= 5  # four slow ones, one unfinished
    assert shown.issuperset(outliers)
    assert sample.filter("outlier")["run"].to_list() == outliers
    assert len(shown) <= min(RUNS, points + len(outliers))


@pytest.mark.parametrize("seed", range(8))
def test_sampling_keeps_extremes_ends_and_order(seed):
    chance = np.random.default_rng(seed)
    count = int(chance.integers(1, 3000))
    values = chance.lognormal(0, chance.choice([0.1, 1.0]), count)
    unfinished = chance.random(count) < 0.01
    frame = pl.DataFrame(
        {
            "at": [hour(int(step)) for step in np.sort(chance.integers(0, 9000, count))],
            "value": [None if lost else v for v, lost in zip(values, unfinished, strict=True)],
            "unfinished": unfinished,
        }
    ).with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")), row=pl.int_range(pl.len()))
    sample = page_series.sampled(frame, 64)
    rows = set(sample["row"])
    finished = frame.filter(~pl.col("unfinished"))
    if finished.height:
        assert finished["value"].max() == sample["value"].max()
        assert finished["value"].min() == sample["value"].min()
    assert {0, count - 1} <= rows
    assert rows.issuperset(frame.filter(page_series.outliers(frame))["row"])
    assert sample["row"].is_sorted()


BEFORE, AFTER = "2026-01-05..2026-01-10", "2026-01-10..2026-01-15"


def test_two_stretches_are_compared_as_the_command_does(client):
    page = client.get(f"/s/{SITE}/series", params={"before": BEFORE, "after": AFTER}).text
    document = client.get(f"{API}/compare", params={"before": BEFORE, "after": AFTER}).json()
    (effect,) = document["series"][0]["effects"]
    assert -0.35 < effect["ratio"] - 1 < -0.25
    low, high = (f"{100 * (end - 1):+.1f}" for end in effect["ratio_interval"])
    words = f"{100 * (effect['ratio'] - 1):+.1f} % ({low} to {high} %, 95 % interval)"
    assert f"Worse: {words}" in page
    assert f">{effect['before']['n']}<" in page
    assert "Runs of both stretches" in page
    assert "Write bandwidth before and after" in page


def test_times_are_read_and_shown_in_the_zone_of_the_address(client, desk, series):
    rows = {"since": "2026-01-06 00:00", "until": "2026-01-06 02:00"}
    zoned = client.get(f"/s/{SITE}/series", params={**rows, "zone": "America/Los_Angeles"}).text
    assert "at (America/Los_Angeles)" in zoned
    for time in ("2026-01-06 00:00", "2026-01-06 01:00", "2026-01-06 02:00"):
        assert f">{time}<" in zoned
    assert ">2026-01-06 03:00<" not in zoned
    assert "since=2026-01-06T08%3A00%3A00Z" in zoned  # the chart's own address is UTC
    plain = client.get(f"/s/{SITE}/series", params=rows).text
    assert "at (UTC)" in plain
    offsets = {name: f"{time.replace(' ', 'T')}:00-08:00" for name, time in rows.items()}
    same = client.get(f"/s/{SITE}/series", params=offsets)
    assert ">2026-01-06 08:00<" in same.text
    for zone in ("Mars/Olympus", "../etc/passwd", HOSTILE, "x" * 61):
        wrong = client.get(f"/s/{SITE}/series", params={"zone": zone})
        assert wrong.status_code in {400, 422}
        assert HOSTILE not in wrong.text


def test_a_zone_moves_no_moment():
    zone = Zone("Europe/Zurich")
    assert zone.read("2026-07-01 12:00") == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert zone.show(datetime(2026, 7, 1, 10, tzinfo=UTC)) == "2026-07-01 12:00"
    assert zone.stretch("..2026-07-01T10:00:00Z") == (None, datetime(2026, 7, 1, 10, tzinfo=UTC))


def test_days_above_the_goal_have_their_incidents(desk, series):
    judgement = desk.series(SITE, series)
    goal = judgement.verdict.goal
    assert goal is not None
    days = days_above(judgement, "UTC", desk.incidents(SITE))
    assert [day.day for day, *_ in days] == sorted(
        (day.day for day in judgement.days if (day.cov or 0) > goal), reverse=True
    )
    assert days
    by_day = {f"{day.day}": [incident.id for incident in going] for day, _, _, going in days}
    assert set(map(tuple, by_day.values())) <= {(), ("incident-1",)}
    for day, begin, end, _ in days:
        assert (begin, end) == (f"{day.day}T00:00:00Z", _after(day.day))
    away = days_above(judgement, "America/Los_Angeles", ())
    assert away[0][1].endswith("T08:00:00Z")


def _after(day) -> str:
    return datetime.fromordinal(day.toordinal() + 1).strftime("%Y-%m-%dT00:00:00Z")


def test_stretches_around_a_change_of_the_log_book_are_offered(client, desk, series):
    judgement = desk.series(SITE, series)
    events = [
        Event("a", SITE, EventKind.CONFIG_CHANGE, hour(120), "checksums on", "person"),
        Event("b", SITE, EventKind.NOTE, hour(121), "a word", "person"),
        Event("c", SITE, EventKind.CONFIG_CHANGE, hour(-500), "before any run", "person"),
    ]
    ((event, before, after),) = around_events(events, judgement)
    assert event.detail == "checksums on"
    assert before == "2025-12-31T00:00:00Z..2026-01-10T00:00:00Z"
    assert after == "2026-01-10T00:00:00Z..2026-01-20T00:00:00Z"
    page = client.get(f"/s/{SITE}/series", params={"before": before, "after": after}).text
    assert "Worse: " in page


def test_the_figures_of_days_hold_what_was_judged(desk, series):
    judgement, frame = desk.series(SITE, series), frame_of_runs(desk.runs(SITE, series))
    chart = series_chart.days_cov_chart(judgement, "x")
    assert chart is not None
    rows = [row for layer in chart.specification["layer"] for row in layer["data"]["values"]]
    drawn = {round(row["cov"], 6) for row in rows}
    assert {round(100 * day.cov, 6) for day in judgement.days if day.cov is not None} <= drawn
    both = series_chart.runs_chart(frame[:120], frame[120:], judgement.key)
    assert both is not None
    layers = [layer["data"]["values"] for layer in both.specification["layer"]]
    assert sum(len(rows) for rows in layers[::3]) + sum(map(len, layers[1::3])) == RUNS
    assert layers[2][0]["mean"] > layers[5][0]["mean"]
    assert series_chart.runs_chart(frame[:0], frame, judgement.key) is None
    assert series_chart.spread_chart(frame, frame[:0], judgement.key, "z", title="t") is None


@pytest.mark.parametrize("form", READERS)
def test_every_series_comes_as_a_file(client, desk, series, form):
    judgement = desk.whole_series(SITE, series)

    def read(path: str) -> pl.DataFrame:
        answer = client.get(f"{API}/{path}.{form}")
        assert answer.status_code == 200, answer.text
        return READERS[form](io.BytesIO(answer.content))

    days = read(f"series/{series}/days")
    assert days["mean"].to_list() == pytest.approx([day.mean for day in judgement.days])
    windows = read(f"series/{series}/cov")
    assert windows.height == len(judgement.rolling)
    assert windows.columns == ["at", "n", "cov", "low", "high", "status"]
    assert read("surveys").height == 15
    readings = read("targets/OST0001/readings")
    assert dict(readings.select("name", "number").rows()) == {
        "available_bytes": 4e11, "used_bytes": 6e11
    }  # fmt: skip


def test_a_targets_surveys_and_what_a_run_printed_are_files(client, desk):
    surveys = pl.read_csv(io.BytesIO(client.get(f"{API}/surveys.csv").content))
    assert surveys.filter(target="OST0001")["value"].to_list() == [2e8] * 5
    assert client.get(f"{API}/targets/OST9999/readings.csv").status_code == 404
    (run,) = desk.store.runs(site=SITE, limit=1)
    assert client.get(f"{API}/runs/{run.id}/outputs/0").status_code == 404  # it kept none


def test_surveys_are_drawn_as_spread_of_all_targets(client):
    page = client.get(f"/s/{SITE}/targets").text
    assert "All targets in surveys" in page
    assert "Write bandwidth of single targets" in page


def test_a_page_is_told_of_a_change_and_of_nothing_else(desk):
    ticks = iter(range(10**6))
    alone = Desk(desk.store, elapsed_s=lambda: float(next(ticks)))
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 12:
            place = Place(SITE, None)
            add_event(desk.store, place, kind="note", detail="something", now=hour(400))

    async def told() -> list[str]:
        return [word async for word in server.changes(alone, SITE, sleep=sleep)]

    words = asyncio.run(told())
    states = [word for word in words if word.startswith("event: state\n")]
    assert len(states) == 2
    assert states[0] != states[1]
    assert set(words) - set(states) == {":\n\n"}
    assert sum(waited) == server.END_S


def test_a_page_that_follows_names_its_stream(client):
    assert client.get("/s/other/live").status_code == 404
    assert f'data-live="/s/{SITE}/live"' in client.get(f"/s/{SITE}/incidents").text
