"""Records of sites through a store and through import: told as from memory, and invariants.

The worlds of `tests.worlds` are brought to `trimtab incidents` as a site keeps them, and their
runs as files that somebody else made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.explain.incidents.test_every_change import holds, worse
from tests.explain.worlds import WorldSource, incidents_of, known_of
from tests.incidents.world import World as OtherWorld
from tests.support.counts import repetitions
from tests.support.kept_world import keep_world
from tests.worlds.record import Snapshots, World, make_world
from tests.worlds.site import draw_site

from trimtab.base.incident import Explanation, IncidentState
from trimtab.base.site_hardware import Hardware
from trimtab.explain.incidents.failed_run import BadChecksums
from trimtab.explain.site_explanation import explain_incidents
from trimtab.probe.imports.import_result import ImportTerms
from trimtab.probe.imports.importer import import_files
from trimtab.probe.verdict.incident_search import incidents_of as kept_incidents
from trimtab.probe.verdict.site_judgement import judge_site
from trimtab.site.place import Place
from trimtab.store.store import Store
from trimtab.twin.instrument.probe_output import ior_result
from trimtab.twin.instrument.simulated_ior import parse_command, print_ior

pytestmark = pytest.mark.calibration

SHORT_DAYS = 60
CONFIRMS = timedelta(days=2)
SETTLED = timedelta(days=8)
"""After its end: by then it is what it will be, and the week that it is compared with is over."""
SHORT = tuple(seed for seed in range(400) if draw_site(seed).hours <= 24 * SHORT_DAYS)

Told = tuple[str, datetime, datetime | None, tuple[tuple[str, float], ...]]


def told(explanations: Sequence[Explanation]) -> list[Told]:
    """Return what is told of each incident."""
    return sorted(
        (
            explanation.incident.shape.value,
            explanation.incident.at,
            explanation.incident.until,
            tuple((cause.cause, round(cause.confidence, 2)) for cause in explanation.causes),
        )
        for explanation in explanations
    )


def from_store(store: Store, world: World, until: datetime | None = None) -> list[Explanation]:
    """Return what `trimtab incidents` tells of a world that was kept."""
    place = Place(world.site["name"], None)
    text = None if until is None else until.isoformat()
    now = world.facts.at(world.facts.hours)
    return list(kept_incidents(store, place, now=now, until=text).explanations)


def from_memory(world: World) -> list[Explanation]:
    """Return the same of its plain values; of the site file a store knows nothing."""
    plain = cast("OtherWorld", world)
    known = replace(known_of(plain), hardware=Hardware(), home={})
    counted = world.snapshots.bad_checksums() if isinstance(world.snapshots, Snapshots) else ()
    incidents = incidents_of(plain, known, [BadChecksums(*row) for row in counted])
    return list(explain_incidents(incidents, known, WorldSource(plain)))


@pytest.mark.parametrize("count", repetitions(gate=2, soak=60))
def test_a_world_is_told_alike_from_a_store(count: int, tmp_path: Path) -> None:
    for seed in SHORT[:count]:
        world = make_world(seed)
        with Store.open(keep_world(cast("OtherWorld", world), tmp_path / f"{seed}.db")) as store:
            assert told(from_store(store, world)) == told(from_memory(world)), seed


def check_changes(store: Store, world: World) -> None:
    """A confirmed change for the worse is in an incident that lasts as long as it does."""
    judged = judge_site(store, Place(world.site["name"], None))
    incidents = [explanation.incident for explanation in from_store(store, world)]
    for judgement in judged.judgement.series:
        for change, back in worse(judgement):
            assert any(holds(incident, change, back) for incident in incidents), (
                world.facts.seed, judgement.key.metric, str(change.reason), change.at, back,
                [incident.summary for incident in incidents],
            )  # fmt: skip


def check_no_future(store: Store, world: World) -> None:
    """An explanation uses nothing after its incident, and is the same on every later day."""
    whole = from_store(store, world)
    site = world.facts
    for share in (0.5, 0.75):
        until = site.at(round(share * site.hours))
        past = {
            (each.incident.shape, each.incident.at, each.incident.until): each
            for each in from_store(store, world, until)
        }
        for explanation in whole:
            incident = explanation.incident
            if incident.until is None or incident.until > until - SETTLED:
                continue
            for piece in (piece for cause in explanation.causes for piece in cause.evidence):
                assert piece.at is None or piece.at <= incident.until + CONFIRMS, piece
            before = past.get((incident.shape, incident.at, incident.until))
            # What was found there is still found; its causes are as they were.
            if before is not None and incident.state is IncidentState.ENDED:
                then, now = (dict(told([each])[0][3]) for each in (before, explanation))
                assert then == pytest.approx(now, abs=0.03), incident.summary


@pytest.mark.parametrize("count", repetitions(gate=2, soak=40))
def test_invariants_hold_of_worlds_in_a_store(count: int) -> None:
    @settings(max_examples=count, suppress_health_check=[HealthCheck.too_slow])
    @given(seed=st.sampled_from(SHORT))
    def check(seed: int) -> None:
        world = make_world(seed)
        with (
            TemporaryDirectory() as folder,
            Store.open(keep_world(cast("OtherWorld", world), Path(folder) / "t.db")) as store,
        ):
            check_changes(store, world)
            check_no_future(store, world)

    check()


LEFT_OUT = {"workload-mismatch", "cached-read", "launch-failure"}
"""What an output of IOR does not show, or what leaves none."""
TIME_LIMIT = "slurmstepd: error: *** JOB {job} ON nid001 CANCELLED AT {at} DUE TO TIME LIMIT ***\n"


def printed(run: Mapping[str, Any]) -> bytes:
    """Return what IOR prints of a run; of one that was cut off with the batch system's word."""
    block = round((run["bytes_written"] or 2e11 * run["nodes"]) / run["tasks"] / 2**20)
    words = ("ior", "-w", "-r", "-C", "-F", "-e", "-t", "1m", "-b", f"{block}m", "-o", "/s/data")
    command = parse_command(words, tasks=run["tasks"], nodes=run["nodes"])
    seconds = {
        access: command.aggregate_bytes / run["values"].get(f"{access}_bandwidth", 1.0)
        for access in ("write", "read")
    }
    result = ior_result(
        command, run["at"], write_s=seconds["write"], read_s=seconds["read"],
        timeout_s=math.inf if run["values"] else 0.0,
    )  # fmt: skip
    text = print_ior(command, result)
    if not run["values"]:
        text += TIME_LIMIT.format(job=run["at"].timestamp(), at=run["at"].isoformat()).encode()
    return text


def shown(explanations: Sequence[Explanation]) -> list[tuple[Any, ...]]:
    """Return when each incident was and what it cost."""
    incidents = [explanation.incident for explanation in explanations]
    return [
        (each.shape, each.at, each.until, each.runs, each.unfinished,
         None if each.effect is None else round(each.effect, 2))
        for each in sorted(incidents, key=lambda incident: (incident.at, incident.shape))
    ]  # fmt: skip


@pytest.mark.parametrize("count", repetitions(gate=2, soak=30))
def test_runs_of_a_world_are_told_alike_after_import(count: int, tmp_path: Path) -> None:
    plain = [
        seed
        for seed in SHORT[: 4 * count]
        if not {fault.cause for fault in make_world(seed).truth} & LEFT_OUT
    ]
    for seed in plain[:count]:
        world = make_world(seed)
        runs = [
            run | {"hosts": []}
            for run in world.runs
            if run["probe"] == "main" and run["status"] in ("ok", "unfinished")
        ]
        folder = tmp_path / str(seed)
        folder.mkdir()
        for run in runs:
            (folder / f"{run['id']}.out").write_bytes(printed(run))
        alone = replace(world, runs=runs, surveys=[], events=[], snapshots=())
        expected = from_memory(alone)
        with Store.open(tmp_path / f"{seed}.db") as store:
            terms = ImportTerms(site=world.site["name"], probe="main", timezone="UTC")
            files = list(import_files([str(folder)], terms, store))
            assert all("time limit" in file.reason for file in files if file.reason)
            assert shown(from_store(store, world)) == shown(expected), seed
