"""The status of a site: its series, sweeps and windows, what probing costs, and rejected runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.codes import raises
from tests.support.command import trimtab

from trimtab.answers.page import plain
from trimtab.base.error import UsageError
from trimtab.base.event import identifier_of, new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.probe.verdict.site_judgement import judge_site
from trimtab.probe.verdict.site_status import cost_of, status_of
from trimtab.probe.verdict.up_to_date import bring_up_to_date
from trimtab.site.place import Place
from trimtab.store.kept import ImportedRun
from trimtab.store.store import Store

START = datetime(2026, 3, 2, tzinfo=UTC)


def run_of(number: int, probe: str, **asked: object) -> Run:
    at = START + number * timedelta(hours=1)
    parameters: dict[str, object] = {"spec": {"tasks": 4, **asked}}
    if probe.startswith("sweep-"):
        parameters["sweep"] = {"name": probe[6:], "levels": dict(asked), "round": 0}
    return Run(
        identifier_of(at, probe, str(asked)),
        "tiny",
        probe,
        "fio",
        RunStatus.OK,
        at,
        parameters=parameters,
        samples=(Sample("write_bandwidth", 1e9, 0), Sample("read_bandwidth", 2e9, 0)),
    )


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    sizes = (65536, 2**20, 2**24)
    runs = [run_of(n, "hourly", transfer_size_bytes=size) for n, size in enumerate(sizes)]
    runs += [run_of(10 + n, "sweep-try", nodes=n) for n in range(1, 8)]
    runs += [run_of(30, "nightly")]
    with Store.open(tmp_path / "t.db") as store:
        for run in runs:
            store.add_run(run)
    return tmp_path / "t.db"


@pytest.mark.cli
def test_two_settings_of_one_probe_can_be_told_apart(kept: Path) -> None:
    with Store.open(kept) as store:
        found = status_of(store)
    hourly = [one for one in found.series if one.probe == "hourly"]
    assert {one.asked["transfer_size_bytes"] for one in hourly} == {65536, 2**20, 2**24}
    assert all(list(one.asked) == ["transfer_size_bytes"] for one in hourly)
    (nightly, _) = (one for one in found.series if one.probe == "nightly")
    assert nightly.asked == {}
    text = " ".join(trimtab("status", "--all", store=kept, COLUMNS="400").stdout.split())
    assert all(size in text for size in ("1.00 MiB", "64.0 KiB", "16.0 MiB"))
    document = json.loads(trimtab("status", "--json", store=kept).stdout)
    asked = [one["asked"] for one in document["series"] if one["probe"] == "hourly"]
    assert {"transfer_size_bytes": 65536} in asked


@pytest.mark.cli
def test_a_sweep_does_not_fill_the_status(kept: Path) -> None:
    with Store.open(kept) as store:
        found = status_of(store)
    (sweep,) = found.sweeps
    assert (sweep.name, sweep.settings, sweep.runs) == ("try", 7, 7)
    assert {one.probe for one in found.series} == {"hourly", "nightly"}
    text = " ".join(trimtab("status", store=kept).stdout.split())
    assert "sweep try of tiny: 7 runs of 7 settings (trimtab sweep SPEC.toml --no-run" in text


def test_a_probe_that_is_only_named_like_a_sweep_is_shown(tmp_path: Path) -> None:
    run = run_of(0, "sweep-x")
    with Store.open(tmp_path / "t.db") as store:
        store.add_run(replace(run, parameters={}))
        assert [one.probe for one in status_of(store).series] == ["sweep-x", "sweep-x"]
        assert status_of(store).sweeps == ()


@pytest.mark.cli
def test_a_reason_of_many_series_counts_them(kept: Path) -> None:
    """Six series of hourly and two of nightly have one run each, and one reason."""
    text = " ".join(trimtab("status", "--all", store=kept, COLUMNS="400").stdout.split())
    assert "8 series:" in text


@pytest.mark.cli
@pytest.mark.parametrize("window", ["99999999d", "101y", "36601d", "0s", "0"])
def test_a_window_that_cannot_be_is_refused(kept: Path, window: str) -> None:
    ended = trimtab("status", "--window", window, store=kept)
    assert ended.code == 2
    assert "--window" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.cli
def test_a_window_of_a_century_is_taken(kept: Path) -> None:
    assert trimtab("status", "--window", "36600d", store=kept).code == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (190.0, "190"), (12345.6, "12,346"), (1.234, "1.23"), (0.000123, "0.000123")],
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert plain(value) == text


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
GIB = 2**30


def keep(store: Store, at: datetime, *, import_key: str | None = None, **cost: object) -> None:
    parameters: dict[str, object] = {"spec": {}}
    if cost:
        parameters["cost"] = cost
    run = Run(new_identifier(at), "s", "p", "builtin", RunStatus.OK, at, parameters=parameters)
    if import_key is None:
        store.add_run(run)
    else:
        store.add_imports([ImportedRun(run, (), import_key)])


def test_a_week_is_summed_and_set_against_the_capacity(store: Store) -> None:
    for hours in range(0, 9 * 24, 24):
        keep(
            store,
            NOW - timedelta(hours=hours),
            bytes_written=10 * GIB,
            bytes_read=5 * GIB,
            node_hours=2.0,
            capacity_bytes=1000 * GIB,
        )
    cost = cost_of(store, "s", NOW)
    assert cost.runs == 8  # both ends of the week are within
    assert (cost.bytes_written, cost.bytes_read, cost.node_hours) == (80 * GIB, 40 * GIB, 16.0)
    assert cost.drive_writes_per_day == pytest.approx(80 / 7 / 1000)
    assert cost.to - cost.from_ == timedelta(days=7)


def test_a_single_run_is_a_days_worth_and_no_more(store: Store) -> None:
    keep(store, NOW, bytes_written=10 * GIB, capacity_bytes=100 * GIB)
    assert cost_of(store, "s", NOW).drive_writes_per_day == pytest.approx(0.1)


def test_what_is_not_told_is_not_made_up(store: Store) -> None:
    keep(store, NOW, bytes_written=10 * GIB)
    keep(store, NOW - timedelta(hours=1))
    cost = cost_of(store, "s", NOW)
    assert (cost.runs, cost.node_hours, cost.drive_writes_per_day) == (1, None, None)
    assert cost.reason


def test_what_others_ran_is_not_our_cost(store: Store) -> None:
    keep(store, NOW, import_key="abc", bytes_written=10 * GIB)
    assert cost_of(store, "s", NOW).runs == 0


def test_a_site_whose_runs_all_failed_says_so_and_why(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        for hour, problem in enumerate(["no space left", "no space left", "killed"]):
            at = START + timedelta(hours=hour)
            run = Run(new_identifier(at), "s", "p", "ior", RunStatus.FAILED, at, problem=problem)
            store.add_run(run)
        (rejected,) = status_of(store).rejected
        assert (rejected.probe, rejected.runs) == ("p", 3)
        assert rejected.reason == "no space left (2 of 3)"
        with raises(UsageError, "runs-rejected") as failure:
            judge_site(store, Place("s", None))
        assert "no space left (2 of 3)" in failure.value.message
        # It has no incident that anybody can see: that is an answer, not an error.
        search, _ = bring_up_to_date(store, Place("s", None), now=START + timedelta(days=1))
        assert (search.explained.explanations, search.explained.judged_until) == ((), None)
        assert search.why_none == failure.value.message
