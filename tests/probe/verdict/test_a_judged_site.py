"""A simulated site, kept in a store, judged and explained through the commands."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import installed, trimtab
from tests.support.documents import misfits
from tests.support.kept_world import keep_world
from tests.worlds.of_clients import client_setting
from tests.worlds.steady import START, Befalls, steady_world

from trimtab.store.store import Store

pytestmark = pytest.mark.cli
CHANGED = START + timedelta(days=11.1)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with two weeks of a small site whose checksums were turned on."""
    change = Befalls(partial(client_setting, told="both"), 11.1, depth=0.17)
    world = steady_world(11, 16, change, share=0.5)
    return keep_world(world, tmp_path_factory.mktemp("judged") / "t.db")


STARTED: set[object] = set()
"""Commands that were run as they are installed, as the first of each is."""


@cache
def asked(kept: Path, *arguments: object) -> dict[str, Any]:
    """Return the document of a command, which fits its schema; the same words are run once."""
    run = trimtab if arguments[0] in STARTED else installed
    STARTED.add(arguments[0])
    ended = run(*arguments, "--json", store=kept)
    assert ended.code == 0, ended.stderr
    assert misfits(ended.document, str(arguments[0])) == []
    return ended.document


def series_of(document: dict[str, Any], probe: str, metric: str) -> dict[str, Any]:
    (one,) = [one for one in document["series"] if (one["probe"], one["metric"]) == (probe, metric)]
    return one


def step_of(document: dict[str, Any]) -> dict[str, Any]:
    (step,) = [one for one in document["incidents"] if one["shape"] == "step"]
    return step


def refused(kept: Path, *arguments: object) -> str:
    """Return what a command that is used wrongly says."""
    ended = trimtab(*arguments, store=kept)
    assert ended.code == 2
    return ended.stderr


def test_the_change_is_found_when_it_was(kept: Path) -> None:
    document = asked(kept, "judge", "world")
    hourly = series_of(document, "hourly", "write_bandwidth")
    (verdict,) = hourly["verdicts"]
    assert verdict["scope"] == "history"
    (change,) = [one for one in hourly["change_points"] if one["status"] == "confirmed"]
    assert abs(datetime.fromisoformat(change["at"]) - CHANGED) <= timedelta(hours=6)
    assert change["detected_at"] > change["at"]
    low, high = change["effect_interval"]
    assert low < change["effect"] < high < 1
    assert change["effect"] == pytest.approx(0.83, abs=0.04)
    assert (hourly["runs"], len(hourly["days"])) == (16 * 24 - 1, 16)
    assert {tails["metric"] for tails in document["tails"]} == {"write_bandwidth", "read_bandwidth"}


def test_a_stretch_a_probe_or_a_metric_narrow_it(kept: Path) -> None:
    until = (CHANGED - timedelta(hours=6)).isoformat()
    document = asked(kept, "judge", "world", "--until", until)
    assert series_of(document, "hourly", "write_bandwidth")["change_points"] == []
    assert document["to"] < until
    since = (CHANGED + timedelta(days=1)).isoformat()
    assert asked(kept, "judge", "world", "--since", since)["from"] >= since
    document = asked(kept, "judge", "world", "--probe", "hourly", "--metric", "read_bandwidth")
    found = [(one["probe"], one["metric"]) for one in document["series"]]
    assert found == [("hourly", "read_bandwidth")]
    for words in (("--since", "2127-01-01"), ("--probe", "nosuch", "--metric", "score")):
        assert "no matching series" in refused(kept, "judge", "world", *words)
    refused(kept, "judge", "world", "--less-is-better")


def test_what_goes_on_is_told_though_it_began_long_before(kept: Path) -> None:
    step, since = step_of(asked(kept, "incidents", "world")), CHANGED + timedelta(days=2)
    document = asked(kept, "incidents", "world", "--since", since.isoformat())
    assert step in document["incidents"]
    ends = [one["until"] for one in document["incidents"]]
    assert all(end is None or datetime.fromisoformat(end) >= since for end in ends)
    late = asked(kept, "incidents", "world", "--since", "2127-01-01")
    assert {one["state"] for one in late["incidents"]} <= {"open"}


def test_the_page_stands_alone(kept: Path, tmp_path: Path) -> None:
    page = tmp_path / "judge.html"
    ended = trimtab("judge", "world", "--probe", "hourly", "--out", page, store=kept)
    assert ended.code == 0, ended.stderr
    html = page.read_text()
    assert html.count("<svg") >= 4
    assert "<script" not in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "confirmed" in html


def test_a_missed_verdict_can_end_with_ten(kept: Path) -> None:
    narrowed = ("--probe", "hourly", "--cov-goal", "0.1%")
    ended = trimtab("judge", "world", *narrowed, "--fail-on", "missed", "--json", store=kept)
    assert ended.code == 10
    verdicts = [verdict for one in ended.document["series"] for verdict in one["verdicts"]]
    assert "missed" in {verdict["status"] for verdict in verdicts}


PARTS = ("causes", "cleared", "not_assessed", "standing")


def test_the_incident_is_explained_and_kept(kept: Path) -> None:
    document = asked(kept, "incidents", "world")
    step = step_of(document)
    assert (step["state"], step["unexplained"]) == ("open", False)
    cause = step["causes"][0]
    assert cause["id"] == "configuration-change"
    assert cause["confidence"] > 0.5
    assert any("hourly" in name for name in (*step["moved_with"], step["probe"]))
    assert "log" in {piece["route"] for piece in cause["evidence"]}
    assert len({cause["id"] for name in PARTS for cause in step[name]}) >= 15
    ids = [one["id"] for one in document["incidents"]]
    with Store.open(kept) as store:
        assert {one.id for one in store.incidents("world")} == set(ids)
        assert store.judged("world") is not None
    again = trimtab("incidents", "world", "--json", store=kept).document
    assert [one["id"] for one in again["incidents"]] == ids


def test_status_tells_of_it(kept: Path) -> None:
    asked(kept, "incidents", "world")
    document = asked(kept, "status", "world")
    assert [one["cause"] for one in document["incidents"] if one["state"] == "open"] != [None]
    assert [one["newer_runs"] for one in document["judged"]] == [0]
    slow = {one["metric"]: one for one in document["slowest"]}["write_bandwidth"]
    values = [value for _, value in slow["slowest"]]
    assert (slow["targets"], values) == (8, sorted(values))
    assert "incident" in trimtab("status", "world", store=kept).stdout


def test_one_moment_is_told_whole(kept: Path) -> None:
    at = (CHANGED + timedelta(days=1)).isoformat()
    document = asked(kept, "explain", "world", "--at", at)
    step = step_of(document)
    causes = [cause for name in PARTS for cause in document["moment"][name]]
    looked_for = [piece for cause in causes for piece in cause["evidence"]]
    assert {piece["found"] for piece in looked_for} >= {"against", "neutral"}
    for piece in looked_for:
        assert (piece["reason"] is None) == (piece["found"] != "not_available")
    printed = f"{datetime.fromisoformat(step['at']):%Y-%m-%d %H:%M} +0000"
    again = asked(kept, "explain", "world", "--at", printed)
    assert step["id"] in [one["id"] for one in again["incidents"]]
    assert "the record goes from" in refused(kept, "explain", "world", "--at", "2020-01-01")


def test_a_moment_is_no_incident(kept: Path) -> None:
    quiet = (START + timedelta(days=8)).isoformat()
    text = trimtab("explain", "world", "--at", quiet, store=kept).stdout
    assert "the moment: " in text
    assert "unexplained" not in text
    last = datetime.fromisoformat(asked(kept, "judge", "world")["to"])
    document = asked(kept, "explain", "world", "--at", (last + timedelta(hours=5)).isoformat())
    assert document["moment"]["at"] < document["moment"]["until"]
    assert document["moment"]["runs"] > 0
    assert "open" in [one["state"] for one in document["incidents"]]


def test_what_moves_with_performance_is_no_cause(kept: Path) -> None:
    document = asked(kept, "correlate", "world", "--probe", "hourly")
    assert {one["metric"] for one in document["series"]} == {"write_bandwidth", "read_bandwidth"}
    names = {one["name"] for one in document["series"][0]["correlations"]}
    assert {"fullness (all targets)", "server_cpu_fraction (mean)"} <= names
    text = trimtab("correlate", "world", "--probe", "hourly", store=kept)
    assert "Correlation is not cause" in text.stdout


def test_a_site_without_runs_is_told(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        store.ensure_site("empty")
    for name in ("judge", "correlate"):
        refused(tmp_path / "t.db", name, "empty")
    ended = trimtab("incidents", "empty", store=tmp_path / "t.db")
    assert ended.code == 0, ended.stderr
    assert "Incidents in the record: none" in ended.stdout
    assert "no matching series is stored for empty" in ended.stderr
