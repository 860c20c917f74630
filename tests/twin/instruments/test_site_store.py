"""A store of a simulated site: what was put in is kept as a real site's, judged and explained."""

import json
from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from tests.support.command import trimtab
from tests.support.narrow import present
from tests.twin.instruments.states import DAILY, HOURLY, START, changed, scenario_of, state_of

from trimtab.base.event import EventKind
from trimtab.base.failure import Failure
from trimtab.base.run import RunStatus
from trimtab.explain.causes import TABLE
from trimtab.probe.incident_question import run_fact
from trimtab.site.site_file import parse_site
from trimtab.store.store import Store
from trimtab.twin.load_command import no_name_service, no_space
from trimtab.twin.scenario import Fault, ScenarioChange
from trimtab.twin.simulated_reading import SettingState
from trimtab.twin.simulated_site import site_of, site_text
from trimtab.twin.simulation.fault import EventLog
from trimtab.twin.site_writer import SiteWriter
from trimtab.twin.truth import CAUSE_OF, CAUSES, TrueCause, cause_of

HOUR = timedelta(hours=1)
STEP_HOUR = 200


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "toy.db") as opened:
        yield opened


def test_a_run_is_kept_with_what_it_printed(store):
    with SiteWriter(store, scenario_of()) as writer:
        writer.ior(START, HOURLY, write_s=10.0, read_s=8.0)
    (kept,) = store.runs()
    run = store.run(kept.id, outputs=True)
    assert (run.status, run.probe, run.kind, run.at) == (RunStatus.OK, "hourly", "ior", START)
    assert run.until == START + timedelta(seconds=18)
    moved = 4e12 - 4e12 % (32 * 2**20)
    assert run.believed("write_bandwidth") == [pytest.approx(moved / 10.0, abs=2**19)]
    assert run.believed("read_bandwidth") == [pytest.approx(moved / 8.0, abs=2**19)]
    (output,) = run.outputs
    # By the clock of the machine, which is not UTC.
    assert b"Began               : Fri Jun 30 17:00:00 2023" in output.stdout
    fact = present(run_fact(run, "x"))
    assert (fact.nodes, fact.tasks, len(fact.hosts)) == (4, 32, 4)
    # What it ran on counts, not what it asked for.
    parameters = {**run.parameters, "job": {"nodes": ["nid1", "nid2"]}}
    assert present(run_fact(replace(run, parameters=parameters), "x")).nodes == 2
    assert fact.bytes_written == fact.bytes_read == moved


def test_a_fact_says_where_a_run_ran_and_why_it_failed(store):
    with SiteWriter(store, scenario_of()) as writer:
        writer.ior(START, HOURLY, write_s=10.0, read_s=8.0)
        writer.ior_run(START + HOUR, HOURLY, no_space("/toy"))
        writer.ior_run(START + 2 * HOUR, HOURLY, no_name_service())
    runs = sorted(store.runs(), key=lambda run: run.at)
    failures = [present(run_fact(run, "x")).failure for run in runs]
    assert failures == [None, Failure.NO_SPACE, Failure.NAMES]
    first = runs[0]
    job = {"nodes": ["nid1"], "options": {"partition": "gpu", "exclusive": "true"}}
    launcher = {"name": "slurm", "version": "24.05"}
    parameters = {**first.parameters, "job": job, "launcher": launcher, "program": "/opt/ior"}
    place = present(run_fact(replace(first, parameters=parameters, tool_version="4.0"), "x")).place
    assert place == {
        "partition": "gpu", "exclusive": "true", "launcher": "slurm", "launcher version": "24.05",
        "program": "/opt/ior", "tool version": "4.0",
    }  # fmt: skip
    # A damaged parameter is no place, and what went well did not fail, whatever it warned of.
    odd = replace(first, parameters={"job": 7, "launcher": []}, tool_version=None)
    assert present(run_fact(odd, "x")).place == {}
    noisy = replace(first, problem="warning: No space left on device")
    assert present(run_fact(noisy, "x")).failure is None


def test_all_ends_of_a_run_are_told_apart(store):
    never = float("inf")
    with SiteWriter(store, scenario_of()) as writer:
        writer.ior(START, HOURLY, write_s=never, read_s=8.0)
        writer.ior(START + HOUR, HOURLY, write_s=10.0, read_s=never)
        writer.ior(START + 2 * HOUR, HOURLY, write_s=1000.0, read_s=801.0)
        writer.ior_run(START + 3 * HOUR, HOURLY, no_name_service())
        writer.ior_run(START + 4 * HOUR, HOURLY, no_space("/toy"))
        writer.ior(START + 5 * HOUR, HOURLY, write_s=10.0, read_s=8.0)
    runs = {run.at: run for run in store.runs()}
    statuses = [runs[START + place * HOUR].status for place in range(6)]
    early, unfinished = (RunStatus.NOT_STARTED, RunStatus.FAILED), RunStatus.UNFINISHED
    assert statuses == [*(unfinished,) * 3, *early, RunStatus.OK]
    assert all(run.problem for run in list(runs.values()) if run.status is not RunStatus.OK)
    (series,) = store.series("toy")
    assert series.runs == 6
    points = store.history("toy", series.comparability, metric="write_bandwidth")
    assert [point.value for point in points[:3]] == [0, 0, 0]
    assert len(points) == 4


def test_a_survey_is_kept_with_each_target_once(store):
    rates = {"write": np.linspace(14e9, 16e9, 8), "read": np.linspace(38e9, 42e9, 8)}
    rates["write"][5] = np.nan
    with SiteWriter(store, scenario_of()) as writer:
        writer.survey(START, DAILY, rates)
    own = store.survey_frame("toy").filter(pl.col("metric") == "write_bandwidth").sort("target")
    assert own["target"].to_list() == [f"OST000{n}" for n in range(8) if n != 5]
    expected = rates["write"][np.isfinite(rates["write"])]
    assert own["value"].to_numpy() == pytest.approx(expected, rel=1e-6)
    (run,) = store.runs()
    assert run.status is RunStatus.PARTIAL
    assert "OST0005" in (run.problem or "")


@pytest.mark.parametrize("nothing", [np.nan, 0.0])
def test_a_survey_that_nothing_answered_failed(store, nothing):
    rates = {name: np.full(8, nothing) for name in ("write", "read")}
    with SiteWriter(store, scenario_of()) as writer:
        writer.survey(START, DAILY, rates)
    (run,) = store.runs()
    assert (run.status, store.survey_frame("toy").height) == (RunStatus.FAILED, 0)


def test_the_same_input_gives_the_same_rows(tmp_path):
    contents = []
    for name in ("a.db", "b.db"):
        with Store.open(tmp_path / name) as store:
            with SiteWriter(store, scenario_of()) as writer:
                for place in range(3):
                    writer.ior(START + place * HOUR, HOURLY, write_s=10.0, read_s=8.0)
                log = EventLog("toy")
                log.add(EventKind.TRIM, START, "trimmed", osts=[0])
                writer.event(log.events[0])
                writer.snapshot(state_of())
            runs = [replace(run, samples=()) for run in store.runs()]
            contents.append((runs, store.events(), store.snapshots("toy")))
    assert contents[0] == contents[1]


def test_snapshots_and_added_capacity(store):
    later = START + HOUR
    with SiteWriter(store, scenario_of()) as writer:
        writer.snapshot(state_of(8))
        writer.snapshot(state_of(10, at=later, hours=1))
    assert store.snapshot_times("toy") == (START, later)
    assert [len(one.targets) for one in store.snapshots("toy")] == [14, 12]


def test_the_truth_lies_beside(store, tmp_path):
    with SiteWriter(store, scenario_of()) as writer:
        assert writer.truth is not None
        writer.truth.epoch(START, {"fullness": np.array([0.5, 0.6]), "wa": np.array([1.5, 2.0])})
        writer.truth.epoch(START + HOUR, {"fullness": np.array([0.7]), "wa": np.array([1.75])})
        writer.truth.cause(TrueCause("failover", START, START + HOUR, ("OST0001",), "oss0001"))
    table = pl.read_parquet(tmp_path / "toy.truth.parquet")
    assert table["at"].to_list() == [START, START, START + HOUR]
    assert (table["column"].to_list(), table["wa"].to_list()) == ([0, 1, 0], [1.5, 2.0, 1.75])
    (line,) = (tmp_path / "toy.truth.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "cause": "failover",
        "at": START.isoformat(),
        "until": (START + HOUR).isoformat(),
        "targets": ["OST0001"],
        "detail": "oss0001",
        "emerged": False,
    }


def test_causes_are_those_that_are_looked_for():
    known = {cause.id for cause in TABLE}
    assert known >= CAUSES
    assert set(CAUSE_OF.values()) <= CAUSES
    with pytest.raises(ValueError, match="bad-luck"):
        TrueCause("bad-luck", START)
    change = cause_of(ScenarioChange(START, {"clients.checksums": True}))
    assert (change.cause, change.detail) == ("configuration-change", "clients.checksums = True")
    fault = cause_of(Fault(START, "silent-ost", osts=(3,)), ("OST0003",))
    assert (fault.cause, fault.targets) == ("target-silent", ("OST0003",))


def test_its_site_file_reads_back():
    scenario = scenario_of()
    text = site_text(scenario, "toy.toml", "/x/toy", "sqlite:////x/toy.db")
    site = parse_site(text, "toy.toml").site
    expected = site_of(scenario, "toy.toml", "/x/toy", "sqlite:////x/toy.db")
    assert replace(site, source=None) == expected
    assert (site.driver, site.scenario, site.hardware.drives) == ("twin", "toy.toml", 96)
    assert site.servers.home["OST0005"] == "oss0002"
    grown = site_of(scenario_of(10), "toy.toml", "/x/toy", "sqlite:////x/toy.db")
    assert (grown.hardware.osts, grown.hardware.drives, len(grown.servers.home)) == (10, 120, 14)
    (probe,) = site.probes
    assert (probe.nodes, probe.tasks_per_node, probe.timeout_s) == (4, 8, 1800.0)


_SURVEYED = {"write": 15e9, "read": 40e9}


def fortnight(path) -> None:
    """Put in a fortnight: writes 20 % down for good at `STEP_HOUR`, when checksums came."""
    rng = np.random.Generator(np.random.PCG64(5))
    with Store.open(path) as store, SiteWriter(store, scenario_of()) as writer:
        for hour in range(336):
            at, after = START + hour * HOUR, hour >= STEP_HOUR
            slow = 1.25 if after else 1.0
            write_s, read_s = 20.0 * slow * rng.normal(1, 0.02), 15.0 * rng.normal(1, 0.02)
            writer.ior(at + timedelta(minutes=5), HOURLY, write_s=write_s, read_s=read_s)
            if hour % 24 == 21:
                rates = {name: rng.normal(1, 0.02, 8) * rate for name, rate in _SURVEYED.items()}
                writer.survey(at, DAILY, rates)
            if hour % 3 == 0:
                state = state_of(8, at=at, hours=hour, settings=SettingState(checksums=after))
                recent = np.full(8, (at - timedelta(hours=hour % 24)).timestamp())
                writer.snapshot(changed(state, last_trim_s=recent))
        changed_at = START + STEP_HOUR * HOUR
        log = EventLog("toy")
        log.add(EventKind.CONFIG_CHANGE, changed_at, "checksums on for all clients")
        writer.event(log.events[0])


@pytest.mark.cli
def test_a_fortnight_is_judged_and_explained(tmp_path):
    path = tmp_path / "toy.db"
    fortnight(path)

    def document(*words: str):
        ended = trimtab(*words, "--json", store=path)
        assert ended.code == 0, ended.stderr
        return ended.document

    status = document("status", "toy")
    assert {one["metric"] for one in status["series"]} == {"write_bandwidth", "read_bandwidth"}
    judged = document("judge", "toy")
    (write,) = [one for one in judged["series"] if one["metric"] == "write_bandwidth"]
    confirmed = [one for one in write["change_points"] if one["status"] == "confirmed"]
    step_at = (START + STEP_HOUR * HOUR).isoformat()[:13]
    assert [one["at"][:13] for one in confirmed] == [step_at]
    assert confirmed[0]["effect"] == pytest.approx(0.8, abs=0.02)
    incidents = document("incidents", "toy")["incidents"]
    (incident,) = [one for one in incidents if one["at"][:13] == step_at]
    assert incident["causes"][0]["id"] == "configuration-change"
    assert {one["found"] for one in incident["causes"][0]["evidence"][:2]} == {"for"}
    assert "hourly read_bandwidth" in incident["unmoved"]
    explained = document("explain", "toy", "--at", confirmed[0]["at"])["incidents"]
    assert [one["causes"][0]["id"] for one in explained] == ["configuration-change"]
