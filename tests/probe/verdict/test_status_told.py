"""The status of a site: series, sweeps, slow targets, what probing costs, and rejected runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.explain.incidents.test_slow_targets import slow_from, surveys
from tests.support.codes import raises
from tests.support.command import trimtab
from tests.support.memory_driver import MemoryDriver, MemoryTarget
from tests.support.narrow import present
from tests.support.small_site import SITE, SmallSite
from tests.support.watched import a_site

from trimtab.answers.page import plain
from trimtab.base.error import UsageError
from trimtab.base.event import identifier_of, new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.explain.headline import headline, site_troubles
from trimtab.probe.site_judgement import JudgeTerms, judge_site
from trimtab.probe.site_look import keep, look, recall
from trimtab.probe.site_standing import standing_of
from trimtab.probe.site_status import cost_of, slow_targets, status_of
from trimtab.probe.up_to_date import bring_up_to_date
from trimtab.site.place import Place
from trimtab.store.kept import ImportedRun
from trimtab.store.store import Store

START = datetime(2026, 3, 2, tzinfo=UTC)


def run_of(number: int, probe: str, **asked: object) -> Run:
    parameters: dict[str, object] = {"spec": {"tasks": 4, **asked}}
    if probe.startswith("sweep-"):
        parameters["sweep"] = {"name": probe[6:], "levels": dict(asked), "round": 0}
    samples = (Sample("write_bandwidth", 1e9, 0), Sample("read_bandwidth", 2e9, 0))
    at = START + number * timedelta(hours=1)
    name, status = identifier_of(at, probe, str(asked)), RunStatus.OK
    return Run(name, "tiny", probe, "fio", status, at, parameters=parameters, samples=samples)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    sizes = (65536, 2**20, 2**24)
    with Store.open(tmp_path / "t.db") as store:
        store.add_runs(
            [
                *(run_of(n, "hourly", transfer_size_bytes=size) for n, size in enumerate(sizes)),
                *(run_of(10 + n, "sweep-try", nodes=n) for n in range(1, 8)),
                run_of(30, "nightly"),
            ]
        )
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


def test_a_probe_that_is_only_named_like_a_sweep_is_shown(store: Store) -> None:
    store.add_run(replace(run_of(0, "sweep-x"), parameters={}))
    found = status_of(store)
    assert ([one.probe for one in found.series], found.sweeps) == (["sweep-x", "sweep-x"], ())


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


def keep_run(store: Store, at: datetime, *, import_key: str | None = None, **cost: object) -> None:
    parameters: dict[str, object] = {"spec": {}}
    if cost:
        parameters["cost"] = cost
    run = Run(new_identifier(at), "s", "p", "builtin", RunStatus.OK, at, parameters=parameters)
    if import_key is None:
        store.add_run(run)
    else:
        store.add_imports([ImportedRun(run, (), import_key)])


def test_a_week_is_summed_and_set_against_the_capacity(store: Store) -> None:
    amounts = {"bytes_written": 10 * GIB, "bytes_read": 5 * GIB, "capacity_bytes": 1000 * GIB}
    for hours in range(0, 9 * 24, 24):
        keep_run(store, NOW - timedelta(hours=hours), node_hours=2.0, **amounts)
    cost = cost_of(store, "s", NOW)
    assert cost.runs == 8  # both ends of the week are within
    assert (cost.bytes_written, cost.bytes_read, cost.node_hours) == (80 * GIB, 40 * GIB, 16.0)
    assert cost.drive_writes_per_day == pytest.approx(80 / 7 / 1000)
    assert cost.to - cost.from_ == timedelta(days=7)


def test_a_single_run_is_a_days_worth_and_no_more(store: Store) -> None:
    keep_run(store, NOW, bytes_written=10 * GIB, capacity_bytes=100 * GIB)
    assert cost_of(store, "s", NOW).drive_writes_per_day == pytest.approx(0.1)


def test_what_is_not_told_is_not_made_up(store: Store) -> None:
    keep_run(store, NOW, bytes_written=10 * GIB)
    keep_run(store, NOW - timedelta(hours=1))
    cost = cost_of(store, "s", NOW)
    assert (cost.runs, cost.node_hours, cost.drive_writes_per_day) == (1, None, None)
    assert cost.reason


def test_what_others_ran_is_not_our_cost(store: Store) -> None:
    keep_run(store, NOW, import_key="abc", bytes_written=10 * GIB)
    assert cost_of(store, "s", NOW).runs == 0


def test_a_site_whose_runs_all_failed_says_so_and_why(store: Store) -> None:
    for hour, problem in enumerate(["no space left", "no space left", "killed"]):
        at = START + timedelta(hours=hour)
        run = Run(new_identifier(at), "s", "p", "ior", RunStatus.FAILED, at, problem=problem)
        store.add_run(run)
    (rejected,) = status_of(store).rejected
    assert (rejected.probe, rejected.runs, rejected.reason) == ("p", 3, "no space left (2 of 3)")
    with raises(UsageError, "runs-rejected", "no space left (2 of 3)") as failure:
        judge_site(store, Place("s", None))
    # It has no incident that anybody can see: that is an answer, not an error.
    search, _ = bring_up_to_date(store, Place("s", None), now=START + timedelta(days=1))
    assert (search.explained.explanations, search.explained.judged_until) == ((), None)
    assert search.why_none == failure.value.message


def driver() -> MemoryDriver:
    return MemoryDriver(MemoryTarget("OST0003"), MemoryTarget("OST0004"))


@pytest.mark.system
def test_a_slow_target_is_in_trouble(tmp_path: Path) -> None:
    path = SmallSite(surveys=surveys(60, slow_from("OST0003", 20, 0.3))).keep(tmp_path / "t.db")
    site = a_site(name=SITE)
    state = present(look(site, driver(), str(path)).state)
    slow = {
        target.name: [trouble for trouble in target.troubles if trouble.id == "slow"]
        for target in state.targets
    }
    assert slow["OST0004"] == []
    (trouble,) = slow["OST0003"]
    assert "slow since 2026-01-25: 3" in trouble.text
    with Store.open(path) as store:
        kept = present(keep(site, driver(), store)[1].state)
        later = present(recall(site, store, kept.snapshot.at).state)
    for seen in (kept, later):
        assert [trouble.id for trouble in seen.targets[0].troubles].count("slow") == 1


@pytest.mark.system
def test_targets_are_shown_without_a_store_and_beside_a_broken_one(tmp_path: Path) -> None:
    site = a_site(name=SITE)
    state = present(look(site, driver(), str(tmp_path / "none.db")).state)
    assert (len(state.targets), state.hosts) == (2, ())
    assert not (tmp_path / "none.db").exists()
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"not a database" * 1000)
    state = present(look(site, driver(), str(broken)).state)
    assert len(state.targets) == 2
    (unread,) = state.hosts
    assert unread.troubles[0].id == "surveys-unread"


@pytest.mark.system
def test_a_mistyped_probe_is_no_question_about_targets(tmp_path: Path) -> None:
    slow = surveys(60, slow_from("OST0003", 20, 0.3))
    series = {"write_bandwidth": np.full(48, 1e9)}
    with Store.open(SmallSite(series=series, surveys=slow).keep(tmp_path / "t.db")) as store:
        assert judge_site(store, Place(SITE, None)).judgement.tails
        with raises(UsageError, "no-series") as refused:
            judge_site(store, Place(SITE, None), JudgeTerms(probe="hurly"))
    assert refused.value.hint == "did you mean 'hourly'?"


def test_a_target_at_99_per_cent_of_the_others_is_in_no_headline(tmp_path: Path) -> None:
    """It is the slowest of every survey, a straggler, and its own page has no trouble."""

    def rate(day: int, name: str, metric: str) -> float:
        return 0.985 if name == "OST0003" else 1.0

    path = SmallSite(surveys=surveys(40, rate, scatter=0.004)).keep(tmp_path / "t.db")
    with Store.open(path) as store:
        place = Place(SITE, None)
        judged = judge_site(store, place).judgement
        standing = standing_of(store, place, judgement=judged)
    assert {each.target for tails in judged.tails for each in tails.stragglers} == {"OST0003"}
    assert site_troubles(standing) == ()
    assert "OST0003" not in headline(standing)


def test_a_bad_fortnight_is_the_loss_now(tmp_path: Path) -> None:
    """Over all 28 surveys its median is 95 % and more; over the last ones 30 %."""
    path = SmallSite(surveys=surveys(28, slow_from("OST0003", 15, 0.3))).keep(tmp_path / "t.db")
    with Store.open(path) as store:
        judged = judge_site(store, Place(SITE, None)).judgement
        (slow,) = slow_targets(store, SITE)
    assert 0.25 < slow.share < 0.35
    of_target = [each for tails in judged.tails for each in tails.stragglers]
    assert all(0.25 < each.relative < 0.35 for each in of_target if each.target == "OST0003")
