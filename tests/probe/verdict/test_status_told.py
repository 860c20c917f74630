"""What `trimtab status` says of series that share a probe, of sweeps, and of bad windows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.command import trimtab

from trimtab.answers.page import plain
from trimtab.base.event import identifier_of
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.probe.verdict.site_status import status_of
from trimtab.store.store import Store

pytestmark = pytest.mark.cli

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


def test_a_reason_of_many_series_counts_them(kept: Path) -> None:
    """Six series of hourly and two of nightly have one run each, and one reason."""
    text = " ".join(trimtab("status", "--all", store=kept, COLUMNS="400").stdout.split())
    assert "8 series:" in text


@pytest.mark.parametrize("window", ["99999999d", "101y", "36601d", "0s", "0"])
def test_a_window_that_cannot_be_is_refused(kept: Path, window: str) -> None:
    ended = trimtab("status", "--window", window, store=kept)
    assert ended.code == 2
    assert "--window" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_window_of_a_century_is_taken(kept: Path) -> None:
    assert trimtab("status", "--window", "36600d", store=kept).code == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (190.0, "190"), (12345.6, "12,346"), (1.234, "1.23"), (0.000123, "0.000123")],
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert plain(value) == text
