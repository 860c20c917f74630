"""Stretches compared, days above the goal, zones, files of every series, changes told."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime

import polars as pl
import pytest
from tests.web.conftest import HOSTILE, RUNS, SITE, hour

from trimtab.base.event import Event, EventKind
from trimtab.judge import series_chart
from trimtab.site.place import Place, add_event
from trimtab.web import server
from trimtab.web.desk import Desk
from trimtab.web.series_parts import Zone, around_events, days_above, frame_of_runs

API = f"/api/v1/sites/{SITE}"
BEFORE, AFTER = "2026-01-05..2026-01-10", "2026-01-10..2026-01-15"


@pytest.fixture(scope="module")
def series(desk: Desk) -> str:
    judged = desk.judged(SITE)
    assert judged is not None
    (judgement,) = judged.judgement.series
    return judgement.key.id


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


READERS = {"csv": pl.read_csv, "parquet": pl.read_parquet, "arrow": pl.read_ipc}


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
