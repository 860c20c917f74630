"""``trimtab twin run``: what it writes, what it refuses, and that it is the same every time."""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.support.codes import raises
from tests.support.command import TRIMTAB, trimtab
from tests.support.narrow import present
from tests.support.small_twin import START, small_scenario

from trimtab.base.error import Interrupted, RefusedError, UsageError
from trimtab.base.run import RunStatus
from trimtab.site.lookup import reach_of
from trimtab.site.path_access import THIS_HOST
from trimtab.site.site_file import load_site
from trimtab.store.store import Store
from trimtab.twin.life import Diary, Life
from trimtab.twin.scenario import Fault, ProbeLoad, Scenario, ScenarioChange
from trimtab.twin.scenario_fact import TwinRun
from trimtab.twin.scenario_file import to_toml
from trimtab.twin.twin_run import TwinRequest, run_twin

MIB = 2.0**20
DAY_S = 86400.0
PROBES = (
    ProbeLoad(
        "hourly", "ior", "every 1h", nodes=2, tasks_per_node=2, bytes_written=128 * MIB,
        timeout_s=600.0,
    ),
    ProbeLoad("survey", "obdfilter-survey", "daily at 20:00", timeout_s=3600.0),
)  # fmt: skip


def scenario_file(directory: Path, **changes: Any) -> Path:
    path = directory / "small.toml"
    path.write_text(to_toml(small_scenario(**{"probes": PROBES, **changes})))
    return path


def kept(directory: Path, name: str = "small.db") -> dict[str, Any]:
    """All that a store holds, with what was printed and with the truth beside it."""
    with Store.open(f"sqlite:///{directory / name}") as store:
        runs = [store.run(one.id, outputs=True) for one in store.runs(limit=10_000)]
        state: dict[str, Any] = {
            "sites": [(one.name, one.timezone) for one in store.sites()],
            "runs": [
                (one.id, one.probe, one.status, one.at, one.until, one.samples, one.problem)
                for one in runs
            ],
            "outputs": [
                output.stdout.replace(os.fsencode(directory), b"DIR")
                for one in runs
                for output in one.outputs
            ],
            "snapshots": list(store.snapshots("small")),
            "events": list(store.events(site="small")),
            "history": [store.history(one.site, one.comparability) for one in store.series()],
        }
        assert store.check(contents=True).problems == ()
    truth = (directory / name).with_suffix(".truth.parquet")
    state["truth"] = pl.read_parquet(truth).to_dicts()
    state["causes"] = truth.with_suffix("").with_suffix(".truth.jsonl").read_text()
    return state


def quietly(scenario: Scenario, directory: Path, **terms: Any) -> TwinRun:
    """Return what a run of the twin, made in this process, answers."""
    return run_twin(TwinRequest(scenario, directory, **terms), progress=lambda text, part: None)


def simulated(directory: Path, days: float = 2.0, seed: int = 0, **changes: Any) -> Path:
    """Return the site file of a simulated stretch."""
    scenario = small_scenario(**{"probes": PROBES, "seed": seed, **changes})
    return quietly(scenario, directory, until_s=days * DAY_S).site_file


def causes_of(directory: Path, *, emerged: bool) -> list[dict[str, Any]]:
    """Return what the truth beside a store names, of what was put in or of what emerged."""
    lines = map(json.loads, (directory / "small.truth.jsonl").read_text().splitlines())
    return [line for line in lines if line["emerged"] == emerged]


@pytest.mark.cli
def test_a_command_writes_all_that_it_says(tmp_path: Path) -> None:
    directory = tmp_path / "life"
    words = ("twin", "run", scenario_file(tmp_path), "--until", "2d", "--directory", directory)
    ended = trimtab(*words, "--json", store=tmp_path / "other.db")
    assert ended.code == 0, ended.stderr
    document = ended.document
    end = START + timedelta(days=2)
    assert document["scenario"] == "small"
    assert [datetime.fromisoformat(document[key]) for key in ("start", "end")] == [START, end]
    assert document["runs"] == {"ok": 48}
    assert [document[key] for key in ("surveys", "snapshots", "events")] == [2, 48, 0]
    assert not (tmp_path / "other.db").exists()
    assert {one.name for one in directory.iterdir()} == {
        "small.db", "small.toml", "scenario.toml", "life.jsonl", "raw", "small.truth.parquet",
        "small.truth.jsonl",
    }  # fmt: skip
    state = kept(directory)
    assert (len(state["runs"]), len(state["snapshots"]), len(state["truth"])) == (50, 48, 48 * 4)
    loaded = load_site(document["site_file"])
    assert (loaded.warnings, loaded.site.driver) == ((), "twin")
    assert Diary(directory).time() == end
    again = trimtab(*words, store=tmp_path / "other.db")
    assert again.code == 4
    assert "already" in again.stderr
    assert "--directory" in again.stderr
    assert kept(directory) == state


@pytest.mark.cli
def test_people_are_told_in_words_and_the_end_is_held(tmp_path: Path) -> None:
    directory = tmp_path / "life"
    words = ("twin", "run", scenario_file(tmp_path), "--directory", directory, "--until")
    beyond = trimtab(*words, "31d", store=tmp_path)
    assert beyond.code == 2
    assert "31 days" in beyond.stderr
    assert "length" in beyond.stderr
    assert not directory.exists()
    assert trimtab(*words, "0s", store=tmp_path).code == 2
    told = trimtab(*words, "1d", store=tmp_path)
    assert told.code == 0
    assert str(directory / "small.toml") in told.stdout.replace("\n", "")


@pytest.mark.cli
def test_a_directory_that_cannot_be_made_is_said_before_anything_is_simulated(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    where = tmp_path / "file" / "life"
    ended = trimtab("twin", "run", scenario_file(tmp_path), "--directory", where, store=tmp_path)
    assert ended.code == 5
    assert "cannot be created" in ended.stderr
    assert "simulating" not in ended.stderr


@pytest.mark.system
def test_another_store_holds_it_and_not_twice(tmp_path: Path) -> None:
    scenario, store = small_scenario(probes=PROBES), f"sqlite:///{tmp_path / 'elsewhere.db'}"
    found = quietly(scenario, tmp_path / "one", store_url=store, until_s=DAY_S)
    assert not (tmp_path / "one" / "small.db").exists()
    assert load_site(found.site_file).site.store.url == store
    assert found.truth[0] == tmp_path / "elsewhere.truth.parquet"
    before = kept(tmp_path, "elsewhere.db")
    with raises(RefusedError, "site-exists") as refused:
        quietly(scenario, tmp_path / "two", store_url=store, until_s=DAY_S)
    assert "--store" in str(refused.value.hint)
    assert kept(tmp_path, "elsewhere.db") == before
    assert not (tmp_path / "two" / "life.jsonl").exists()


@pytest.mark.system
def test_the_same_scenario_is_kept_bit_for_bit_and_another_seed_is_not(tmp_path: Path) -> None:
    faults = (
        Fault(START + timedelta(hours=5), "silent-ost", START + timedelta(hours=9), osts=(2,)),
        Fault(START + timedelta(hours=20), "name-service", START + timedelta(hours=30)),
    )
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        simulated(tmp_path / name, seed=seed, faults=faults)
    one, two, three = (kept(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two
    for part in ("runs", "truth", "snapshots"):
        assert one[part] != three[part], part
    statuses = {status for _, probe, status, *_ in one["runs"] if probe == "hourly"}
    assert {RunStatus.OK, RunStatus.UNFINISHED, RunStatus.NOT_STARTED} <= statuses


@pytest.mark.system
def test_a_shorter_stretch_is_the_beginning_of_a_longer_one(tmp_path: Path) -> None:
    simulated(tmp_path / "short", 1.0)
    simulated(tmp_path / "long", 2.0)
    short, long = kept(tmp_path / "short"), kept(tmp_path / "long")
    assert (len(short["truth"]), short["truth"]) == (24 * 4, long["truth"][: 24 * 4])
    assert set(short["runs"]) < set(long["runs"])


@pytest.mark.system
@pytest.mark.parametrize("after", [1, 7, 30])
def test_an_interruption_keeps_what_was_simulated_and_life_goes_on(
    tmp_path: Path, after: int
) -> None:
    told: list[float] = []

    def progress(text: str, part: float) -> None:
        told.append(part)
        if len(told) == after:
            os.kill(os.getpid(), signal.SIGINT)

    scenario, directory = small_scenario(probes=PROBES), tmp_path / "cut"
    with pytest.raises(Interrupted):
        run_twin(TwinRequest(scenario, directory, until_s=2 * DAY_S), progress=progress)
    assert len(told) == after
    now = START + timedelta(hours=after)
    assert Diary(directory).time() == now
    simulated(tmp_path / "whole", 2.0)
    cut, whole = kept(directory), kept(tmp_path / "whole")
    assert sorted(cut["runs"]) == sorted(one for one in whole["runs"] if one[3] <= now)
    assert cut["truth"] == whole["truth"][: after * 4]
    site = load_site(directory / "small.toml").site
    assert Life.open(directory, str(site.scenario)).now == now
    reach = reach_of(site)
    assert reach is not THIS_HOST
    assert reach.clock() == now


@pytest.mark.cli
def test_a_command_that_is_stopped_ends_as_stopped(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, length_s=3000 * DAY_S)
    directory = tmp_path / "life"
    process = subprocess.Popen(
        [str(TRIMTAB), "twin", "run", str(file), "--directory", str(directory)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60.0
        while not (directory / "life.jsonl").exists() and time.monotonic() < deadline:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, said
    at = present(Diary(directory).time())
    assert START <= at < START + timedelta(days=3000)
    with Store.open(f"sqlite:///{directory / 'small.db'}") as store:
        times = [one.at for one in store.runs(probe="hourly", limit=100_000)]
    assert len(times) == round((at - START) / timedelta(hours=1))
    assert all(one is not None and one <= at for one in times)


@pytest.mark.cli
def test_one_that_was_killed_is_not_taken_for_whole(tmp_path: Path) -> None:
    site_file = simulated(tmp_path / "life", 1.0)
    Diary(tmp_path / "life").announce()  # as it stands until the end
    ended = trimtab("targets", site_file, store=tmp_path / "other.db")
    assert ended.code == 4
    assert "killed" in ended.stderr
    with pytest.raises(RefusedError, match="already"):
        quietly(small_scenario(), tmp_path / "life")
    shutil.rmtree(tmp_path / "life")
    simulated(tmp_path / "life", 1.0)


@pytest.mark.system
def test_snapshots_are_as_far_apart_as_asked_for(tmp_path: Path) -> None:
    found = quietly(small_scenario(), tmp_path, until_s=2 * DAY_S, snapshot_every_s=6 * 3600.0)
    with Store.open(f"sqlite:///{tmp_path / 'small.db'}") as store:
        times = sorted(one.at for one in store.snapshots("small"))
    assert found.snapshots == len(times) == 8
    assert {b - a for a, b in pairwise(times)} == {timedelta(hours=6)}


@pytest.mark.system
def test_a_name_that_no_site_may_have_is_known_before_anything_is_simulated(tmp_path: Path) -> None:
    wanted = TwinRequest(small_scenario(name="No Site!"), tmp_path, until_s=DAY_S)
    with pytest.raises(UsageError):
        run_twin(wanted, progress=lambda text, part: pytest.fail("it began"))


@pytest.mark.system
def test_the_truth_names_what_was_put_in(tmp_path: Path) -> None:
    fault = Fault(START + timedelta(hours=5), "silent-ost", START + timedelta(hours=9), osts=(2,))
    simulated(tmp_path, 1.0, faults=(fault,))
    (cause,) = causes_of(tmp_path, emerged=False)
    assert (cause["cause"], cause["at"]) == ("target-silent", fault.at.isoformat())
    assert cause["targets"] == ["OST0002"]


@pytest.mark.system
def test_a_closed_book_has_no_line_of_what_is_scripted(tmp_path: Path) -> None:
    moved = Fault(START + timedelta(hours=20), "failover", START + timedelta(hours=26), (1,))
    scenario = small_scenario(
        probes=PROBES,
        faults=(moved,),
        changes=(ScenarioChange(START + timedelta(hours=10), {"clients.checksums": True}),),
        trim=replace(small_scenario().trim, every_s=DAY_S),
    )
    states = {}
    for closed in (False, True):
        directory = tmp_path / str(closed)
        quietly(scenario, directory, until_s=2 * DAY_S, closed_book=closed)
        states[closed] = kept(directory)
    kinds = {closed: {event.kind.value for event in states[closed]["events"]} for closed in states}
    assert kinds[False] - kinds[True] == {"config-change", "failover"}
    assert "trim" in kinds[True]
    # The truth has all of it, and nothing that was measured differs.
    assert states[True]["causes"] == states[False]["causes"]
    for name in ("outputs", "truth"):
        assert states[True][name] == states[False][name]


@pytest.mark.system
def test_the_truth_has_what_emerges_beside_what_is_scripted(tmp_path: Path) -> None:
    users = replace(small_scenario().users, fullness=0.74, daily_writes_bytes=4 * 2.0**30)
    gating = replace(small_scenario().gating, enabled=True, limit=0.60, reopen=0.55)
    simulated(tmp_path, days=2, users=users, gating=gating)
    emerged = causes_of(tmp_path, emerged=True)
    assert {"targets-over-limit", "few-targets-open"} <= {line["cause"] for line in emerged}
    over = next(line for line in emerged if line["cause"] == "targets-over-limit")
    assert over["targets"][0].startswith("OST")
    assert datetime.fromisoformat(over["at"]) >= START


@pytest.mark.system
@pytest.mark.parametrize(("classes", "targets"), [(None, 4), (2, 2)])
def test_osts_of_one_column_are_not_surveyed_as_targets_of_their_own(
    tmp_path: Path, classes: int | None, targets: int
) -> None:
    resolution = replace(small_scenario().resolution, classes=classes)
    simulated(tmp_path, days=1.5, resolution=resolution)
    with Store.open(f"sqlite:///{tmp_path / 'small.db'}") as store:
        frame = store.survey_frame("small")
    assert frame["target"].n_unique() == targets
