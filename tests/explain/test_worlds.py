"""Simulated records of sites: told alike from a store, from memory and after import, without the
future, and their committed scores.

An explanation uses nothing after the incident's end, and is the same whenever it is asked for.
What may come later is what confirms it: two days of the log book, and the days after it where there
are too few before to compare with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripts.score_worlds import FIRST_SEED, play
from scripts.worlds_page import PAGE, RESULTS, made_page
from scripts.worlds_scores import BINS, scores
from tests.explain.incidents.test_levels import holds, worse
from tests.explain.worlds import WorldSource, incidents_of, known_of
from tests.support.counts import repetitions
from tests.support.kept_world import keep_world
from tests.worlds import of_storage
from tests.worlds.draft import Draft
from tests.worlds.families import VARIANTS
from tests.worlds.generate import make_plan, make_world
from tests.worlds.site import Site
from tests.worlds.steady import START, Befalls, steady_world
from tests.worlds.world import CAUSES, Run, World

from trimtab.base.event import EventKind
from trimtab.base.incident import Evidence, Explanation, IncidentState
from trimtab.base.site_hardware import Hardware
from trimtab.explain.causes import TABLE
from trimtab.explain.site_explanation import Known, explain_incidents, explain_moment
from trimtab.probe.import_result import ImportTerms
from trimtab.probe.importer import import_files
from trimtab.probe.incident_search import incidents_of as kept_incidents
from trimtab.probe.site_judgement import judge_site
from trimtab.site.place import Place
from trimtab.store.store import Store
from trimtab.twin.probe_output import ior_result
from trimtab.twin.simulated_ior import parse_command, print_ior

pytestmark = pytest.mark.calibration

SHORT_DAYS = 60
CONFIRMS = timedelta(days=2)
SETTLED_SOON = timedelta(days=4)
"""After its end: by then what ended it is confirmed, and the incident itself is what it will be."""
SETTLED = timedelta(days=8)
"""After its end: by then it is what it will be, and the week that it is compared with is over."""
OF_A_FAMILY = 24
"""Seeds of each family that short records are looked for among."""


@cache
def short_worlds() -> tuple[tuple[str, int], ...]:
    """Return family and seed of short records, those with the fewest values first."""
    keys = [(family, seed) for family in VARIANTS for seed in range(OF_A_FAMILY)]
    sites = {key: make_plan(*key).site for key in keys}
    short = [key for key in keys if sites[key].hours <= 24 * SHORT_DAYS]
    return tuple(sorted(short, key=lambda key: _values(sites[key])))


def _values(site: Site) -> float:
    """Return of how many targets there are snapshots; of a site without any, very many."""
    every_h = site.snapshot_every_h
    return site.hours * site.osts / every_h if every_h else math.inf


# Told alike: from a store, from memory, after import.  Invariants of what is kept.

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
    return list(kept_incidents(store, place, now=world.end, until=text).explanations)


def from_memory(world: World) -> list[Explanation]:
    """Return the same of its plain values; of the site file a store knows nothing."""
    known = replace(known_of(world), hardware=Hardware(), home={})
    return list(explain_incidents(incidents_of(world, known), known, WorldSource(world)))


@pytest.mark.parametrize("count", repetitions(gate=1, soak=60))
def test_a_world_is_told_alike_from_a_store(count: int, tmp_path: Path) -> None:
    for family, seed in short_worlds()[:count]:
        world = make_world(family, seed)
        path = keep_world(world, tmp_path / f"{family}-{seed}.db")
        with Store.open(path) as store:
            assert told(from_store(store, world)) == told(from_memory(world)), (family, seed)


def check_changes(store: Store, world: World) -> None:
    """A confirmed change for the worse is in an incident that lasts as long as it does."""
    judged = judge_site(store, Place(world.site["name"], None))
    incidents = [explanation.incident for explanation in from_store(store, world)]
    for judgement in judged.judgement.series:
        for change, back in worse(judgement):
            assert any(holds(incident, change, back) for incident in incidents), (
                world.family, world.seed, judgement.key.metric, str(change.reason), change.at, back,
                [incident.summary for incident in incidents],
            )  # fmt: skip


def check_no_future(store: Store, world: World) -> None:
    """An explanation uses nothing after its incident, and is the same on every later day."""
    whole = from_store(store, world)
    for share in (0.5, 0.75):
        until = world.begin + share * (world.end - world.begin)
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


@pytest.mark.parametrize("count", repetitions(gate=1, soak=40))
def test_invariants_hold_of_worlds_in_a_store(count: int) -> None:
    @settings(max_examples=count, suppress_health_check=[HealthCheck.too_slow])
    @given(which=st.sampled_from(short_worlds()))
    def check(which: tuple[str, int]) -> None:
        world = make_world(*which)
        with (
            TemporaryDirectory() as folder,
            Store.open(keep_world(world, Path(folder) / "t.db")) as store,
        ):
            check_changes(store, world)
            check_no_future(store, world)

    check()


LEFT_OUT = {"workload-mismatch", "cached-read", "launch-failure"}
"""What an output of IOR does not show, or what leaves none."""
TIME_LIMIT = "slurmstepd: error: *** JOB {job} ON nid001 CANCELLED AT {at} DUE TO TIME LIMIT ***\n"


def printed(run: Mapping[str, Any], asked: float) -> bytes:
    """Return what IOR prints of a run that was asked for so many bytes.

    Of one that was cut off the batch system says so; it moved a part of them.
    """
    block = round(asked / run["tasks"] / 2**20)
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


def importable() -> Iterator[World]:
    """Yield short records of which outputs of IOR show all, each output stored once."""
    for family, seed in short_worlds():
        world = make_world(family, seed)
        times = [run["at"] for run in world.runs if run["probe"] == "ior"]
        is_whole = not {fault.mechanism for fault in world.truth} & LEFT_OUT
        if is_whole and len({*times}) == len(times):
            yield world


@pytest.mark.parametrize("count", repetitions(gate=1, soak=30))
def test_runs_of_a_world_are_told_alike_after_import(count: int, tmp_path: Path) -> None:
    for world in islice(importable(), count):
        runs: list[Run] = [
            {**run, "hosts": []}
            for run in world.runs
            if run["probe"] == "ior" and run["status"] in ("ok", "unfinished")
        ]
        folder = tmp_path / world.site["name"]
        folder.mkdir()
        asked = max(run["bytes_written"] or 0.0 for run in runs)
        for run in runs:
            (folder / f"{run['id']}.out").write_bytes(printed(run, asked))
        alone = replace(world, runs=runs, surveys=[], events=[], snapshots=())
        expected = from_memory(alone)
        with Store.open(folder.with_suffix(".db")) as store:
            terms = ImportTerms(site=world.site["name"], probe="ior", timezone="UTC")
            files = list(import_files([str(folder)], terms, store))
            assert all("time limit" in file.reason for file in files if file.reason)
            assert shown(from_store(store, world)) == shown(expected), (world.family, world.seed)


# What is told on every later day.

SILENT = partial(of_storage.silent, how="hangs")
FAILOVER, LOAD = of_storage.failover, of_storage.load


def causes_of(explanation: Explanation) -> dict[str, float]:
    return {cause.cause: round(cause.confidence, 2) for cause in explanation.causes}


def evidence_of(explanation: Explanation) -> list[Evidence]:
    every = (*explanation.causes, *explanation.cleared, *explanation.not_assessed)
    return [piece for cause in every for piece in cause.evidence]


DAYS = 24
BEGINS = 9.4


@cache
def world_with(fault: Callable[[Draft], object], hours: float, seed: int) -> World:
    """Return a site that trims every night, with one fault."""
    return steady_world(seed, DAYS, Befalls(fault, BEGINS, hours, 0.5))


@pytest.mark.parametrize(("fault", "hours"), [(SILENT, 20), (FAILOVER, 14), (LOAD, 20)])
def test_an_incident_is_explained_alike_on_every_later_day(
    fault: Callable[[Draft], object], hours: float
) -> None:
    explained: dict[tuple[datetime, datetime], list[Explanation]] = {}
    world = world_with(fault, hours, 5)
    days = (15, DAYS)
    with TemporaryDirectory() as folder:
        path = keep_world(world, Path(folder) / "t.db")
        with Store.open(path) as store:
            for day in days:
                until = START + timedelta(days=day)
                for explanation in from_store(store, world, until):
                    incident = explanation.incident
                    if incident.until is not None and incident.until <= until - SETTLED_SOON:
                        times = (incident.at, incident.until)
                        explained.setdefault(times, []).append(explanation)
    assert any(len(alike) == len(days) for alike in explained.values())
    for (_, end), alike in explained.items():
        for explanation in alike:
            assert explanation.incident.state is IncidentState.ENDED
            assert causes_of(explanation) == pytest.approx(causes_of(alike[0]), abs=0.03)
            for piece in evidence_of(explanation):
                assert piece.at is None or piece.at <= end + CONFIRMS, piece


def known_until(known: Known, end: datetime) -> Known:
    """Return what was known of a site at a time."""
    past = pl.col("at") <= end
    return replace(
        known,
        now=end,
        series={key: frame.filter(past) for key, frame in known.series.items()},
        surveys=known.surveys.filter(past),
        runs=tuple(run for run in known.runs if run.at <= end),
        events=tuple(event for event in known.events if event.at <= end),
    )


@pytest.mark.parametrize("trims_go_on", [True, False])
@pytest.mark.parametrize("every_h", [1, 4, 30])
def test_an_hour_is_explained_alike_on_every_later_day(every_h: int, trims_go_on: bool) -> None:
    world = world_with(SILENT, 20, 6)
    thinned = replace(world, snapshots=list(world.snapshots)[::every_h])
    known, source = known_of(thinned), WorldSource(thinned)
    at = START + timedelta(days=BEGINS, hours=6)
    if not trims_go_on:
        last = at - timedelta(hours=2)
        logged = tuple(e for e in known.events if e.kind is not EventKind.TRIM or e.at <= last)
        known = replace(known, events=logged)
    answers: list[Any] = []
    for later in (3, 7, 12):
        past = known_until(known, at + timedelta(days=later))
        answer = explain_moment(at, past, source, standing=())
        answers.append((causes_of(answer), [str(piece.what) for piece in evidence_of(answer)]))
        assert not [p for p in evidence_of(answer) if p.at and p.at > at + CONFIRMS]
    assert answers[0] == answers[1] == answers[2]


# Scores: every cause can be put in, a world is played, and what is committed fits together.

PROMISED: Final[Mapping[str, Mapping[tuple[str, str], tuple[float, float]]]] = {
    "before": {},
    "after": {
        ("first", "knowable"): (0.9, 1.0),
        ("once", "found"): (0.9, 1.0),
        ("found", "noticed"): (0.9, 1.0),
        ("named_wrongly", "named"): (0.0, 0.02),
        ("unknown_left", "unknown"): (0.95, 1.0),
        ("false", "months"): (0.0, 0.15),
    },
}
"""Of a section of the committed scores: part and whole, and between which shares it has to lie."""


def test_every_cause_can_be_put_in() -> None:
    assert {*CAUSES} == {cause.id for cause in TABLE}


def test_a_world_is_played_and_scored() -> None:
    row = scores([play("nodes", 5).scored()])["families"]["nodes"]
    assert [row[name] for name in ("worlds", "faults", "noticed", "found")] == [1] * 4
    assert row["months"] > 0.8


def sections() -> Mapping[str, dict[str, Any]]:
    return json.loads(RESULTS.read_text())


@pytest.mark.parametrize("name", sections())
def test_the_committed_scores_fit_together(name: str) -> None:
    """They are of every variant of every family, and of seeds that nothing was fitted on."""
    section = sections()[name]
    assert section["first_seed"] >= FIRST_SEED, "they were fitted on"
    rows, whole = section["families"], section["all"]
    quiet = {f"quiet, {variant.name}" for variant in VARIANTS["quiet"]}
    assert {*rows} == {*VARIANTS} - {"quiet"} | quiet
    for family in {*VARIANTS} - {"quiet"}:
        assert rows[family]["worlds"] == section["each"] * len(VARIANTS[family])
    for count in ("worlds", "faults", "noticed", "found", "knowable", "first", "named", "false"):
        assert whole[count] == sum(row[count] for row in rows.values()), count
    for row in rows.values():
        assert row["once"] <= row["found"] <= row["noticed"] <= row["faults"]
        # Neither: a fault without a trace, told with another one in the same hours.
        assert row["found"] >= row["knowable"] + row["unknown"]
        assert max(row["first"], row["simple"], row["silent"]) <= row["knowable"]
        assert row["unknown_left"] <= row["unknown"]
        assert row["named_wrongly"] <= row["named"]
    assert [row["from"] for row in section["calibration"]] == [*BINS[:-1]]
    assert all(row["true"] <= row["n"] for row in section["calibration"])


@pytest.mark.parametrize("name", sections())
def test_the_committed_scores_hold_what_is_promised(name: str) -> None:
    whole = sections()[name]["all"]
    for (part, of), (least, most) in PROMISED.get(name, {}).items():
        assert least <= whole[part] / whole[of] <= most, (part, of)


def test_the_page_shows_the_committed_scores_and_every_cause() -> None:
    page = PAGE.read_text()
    assert made_page(page) == page
