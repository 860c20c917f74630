"""The API says what the library says, in pages, and hides no outlier."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from tests.support.command import trimtab
from tests.support.documents import misfits
from tests.web.conftest import RUNS, SITE, hour, keep_small_site

from trimtab.base.series import JudgeDocument
from trimtab.explain.page_web_incident import incidents
from trimtab.probe.verdict.site_judgement import judge_site
from trimtab.show.encode import to_json
from trimtab.site.place import Place
from trimtab.store.store import Store
from trimtab.web import series_parts
from trimtab.web.desk import Desk
from trimtab.web.series_parts import frame_of_runs

ROOT = f"/api/v1/sites/{SITE}"


@pytest.fixture
def series(client) -> str:
    (entry,) = client.get(f"{ROOT}/series").json()["series"]
    return entry["id"]


def test_a_series_is_judged_as_by_the_library(client, desk, series):
    document = client.get(f"{ROOT}/series/{series}").json()
    judged = judge_site(desk.store, Place(SITE, None))
    expected = JudgeDocument(judged.judgement, judged.store)
    (of_api,), (of_library,) = document["series"], _plain(expected)["series"]
    assert of_api == of_library
    assert of_api["change_points"]
    assert misfits(document, "judge") == []


def _plain(document):
    import json

    return json.loads(to_json(document))


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("status", ("status", SITE)),
        ("series", ("judge", SITE)),
        ("targets", ("targets", SITE, "--at", "2030-01-01")),
        ("actions", ("actions", SITE)),
        ("events", ("event", "list", SITE)),
        ("events?since=2026-01-01T08:00Z", ("event", "list", SITE, "--since", "2026-01-01T08:00Z")),
        ("runs", ("runs", "--site", SITE)),
        ("runs?limit=3&probe=hourly", ("runs", "--site", SITE, "--top", 3, "--probe", "hourly")),
        ("ladder?per=ost", ("ladder", SITE, "--per", "ost")),
    ],
)
@pytest.mark.system  # the word that names a site may be a path: a child looks
def test_a_document_is_the_commands_byte_for_byte(client, desk, path, command):
    ended = trimtab(*command, "--json", store=desk.store.location.path)
    assert client.get(f"{ROOT}/{path}").text == ended.stdout.strip()


@pytest.mark.system
def test_incidents_are_as_the_last_search_printed_them(tmp_path):
    path = keep_small_site(tmp_path / "t.db")
    printed = trimtab("incidents", SITE, "--json", store=path).document
    assert printed["incidents"]
    with Store.open(path) as store:
        of_api = incidents(Desk(store), SITE)
    not_kept = {"standing": None, "lone_runs": None}
    assert _plain(of_api) == {**printed, **not_kept}
    assert misfits(_plain(of_api), "incidents") == []


def test_a_list_comes_in_pages_that_join_to_the_whole(client):
    whole = client.get(f"{ROOT}/targets")
    first = client.get(f"{ROOT}/targets?limit=2")
    second = client.get(
        f"{ROOT}/targets" + first.headers["link"].partition("<")[2].partition(">")[0]
    )
    parts = [page.json()["targets"] for page in (first, second)]
    assert [len(part) for part in parts] == [2, 1]
    assert first.json() | {"targets": [*parts[0], *parts[1]]} == whole.json()
    assert {page.headers["x-total-count"] for page in (whole, first, second)} == {"3"}
    assert "link" not in {**whole.headers, **second.headers}
    beyond = client.get(f"{ROOT}/targets?offset=3")
    assert (beyond.json()["targets"], beyond.headers["x-total-count"]) == ([], "3")


def test_a_stretch_is_in_utc_unless_it_says_otherwise(client, series):
    def times(since):
        answer = client.get(f"{ROOT}/series/{series}/runs.parquet", params={"since": since})
        return pl.read_parquet(io.BytesIO(answer.content))["at"][0]

    at = datetime(2026, 1, 6, 5, tzinfo=UTC)
    assert times("2026-01-06T05:00") == times("2026-01-06T05:00Z") == at
    assert times("2026-01-06T05:00+02:00") == at - timedelta(hours=2)


@pytest.mark.parametrize(("form", "read"), [("csv", pl.read_csv), ("parquet", pl.read_parquet),
                                            ("arrow", pl.read_ipc)])  # fmt: skip
def test_every_run_is_in_the_files(client, desk, series, form, read):
    answer = client.get(f"{ROOT}/series/{series}/runs.{form}")
    frame = read(io.BytesIO(answer.content))
    expected = frame_of_runs(desk.runs(SITE, series))
    assert frame.columns == ["at", "value", "unfinished", "run", "outlier"]
    assert frame["run"].to_list() == expected["run"].to_list()
    assert frame["value"].to_list() == expected["value"].to_list()
    assert answer.headers["content-disposition"].startswith("attachment")


@pytest.mark.system  # the word that names a site may be a path: a child looks
def test_a_comparison_is_the_librarys(client, series):
    sides = {"before": "2026-01-05..2026-01-09", "after": "2026-01-10T12:00..2026-01-14"}
    document = client.get(f"{ROOT}/compare", params=sides).json()
    assert misfits(document, "compare") == []
    (effect,) = document["series"][0]["effects"]
    assert effect["ratio"] == pytest.approx(0.7, abs=0.05)
    assert client.get(f"{ROOT}/compare?before=/etc/passwd&after=x").status_code == 400


def test_incidents_targets_and_events(client):
    (incident,) = client.get(f"{ROOT}/incidents?state=open").json()["incidents"]
    assert client.get(f"{ROOT}/incidents/{incident['id']}").json()["incidents"] == [incident]
    assert client.get(f"{ROOT}/incidents?state=ended").json()["incidents"] == []
    assert client.get(f"{ROOT}/targets").json()["targets"][0]["fullness"] == pytest.approx(0.6)
    targets = client.get(f"{ROOT}/overview").json()["targets"]
    assert targets[0]["trimmed_at"] == "2026-01-05T09:00:00Z"
    events = client.get(f"{ROOT}/events").json()["events"]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


def test_the_overview_has_the_answer_and_the_age(client):
    overview = client.get(f"{ROOT}/overview").json()
    assert overview["last_run_at"] == "2026-01-14T23:00:00Z"
    assert overview["incidents"][0]["id"] == "incident-1"
    assert overview["answer"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/sites/other/overview", 404, "site-unknown"),
        ("/api/v1/sites/..%2f..%2fetc%2fpasswd/overview", 404, "site-unknown"),
        (f"{ROOT}/series/nothing", 404, "series-unknown"),
        (f"{ROOT}/series/x'%20OR%201=1--/runs.csv", 404, "series-unknown"),
        (f"{ROOT}/incidents/none", 404, "incident-unknown"),
        (f"{ROOT}/events?since=yesterday", 400, "time-malformed"),
        (f"{ROOT}/events?limit=0", 422, "request-invalid"),
        (f"{ROOT}/events?offset=-1", 422, "request-invalid"),
        ("/api/v1/nothing", 404, "page-unknown"),
    ],
)
def test_what_is_wrong_has_a_code(client, path, status, code):
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert misfits(answer.json(), "error") == []


def test_what_is_the_same_is_not_sent_again(client, series):
    first = client.get(f"{ROOT}/series/{series}")
    again = client.get(f"{ROOT}/series/{series}", headers={"If-None-Match": first.headers["etag"]})
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
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


@pytest.mark.parametrize("points", [8, 40, 400, 20_000])
def test_a_sample_hides_no_outlier(client, desk, series, points):
    frame = frame_of_runs(desk.runs(SITE, series))
    answer = client.get(f"{ROOT}/series/{series}/runs.parquet?points={points}")
    sample = pl.read_parquet(io.BytesIO(answer.content))
    shown = set(sample["run"])
    outliers = frame.filter(series_parts.outliers(frame))["run"].to_list()
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
    sample = series_parts.sampled(frame, 64)
    rows = set(sample["row"])
    finished = frame.filter(~pl.col("unfinished"))
    if finished.height:
        assert finished["value"].max() == sample["value"].max()
        assert finished["value"].min() == sample["value"].min()
    assert {0, count - 1} <= rows
    assert rows.issuperset(frame.filter(series_parts.outliers(frame))["row"])
    assert sample["row"].is_sorted()
