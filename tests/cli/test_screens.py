"""Whole screens as a person reads them, at three widths; ``--snapshot-update`` keeps the new ones.

Every result is made once and printed at each width. No line is wider than its terminal, no screen
longer than `SCREEN_LINES`. What differs between hosts and runs is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.show.test_document import AT, LONG, target
from tests.support.kept_world import keep_world
from tests.support.screens import Lines, Screen, in_utc, too_wide
from tests.worlds.of_clients import client_setting
from tests.worlds.steady import START, Befalls, steady_world

from trimtab.answers.page import (
    correlated_document,
    snapshot_document,
    status_document,
    target_document,
    targets_document,
)
from trimtab.answers.site_correlation import correlate_site
from trimtab.base.finding import Severity
from trimtab.base.snapshot import Snapshot
from trimtab.explain.command import print_hints
from trimtab.explain.hint import JobRequest, Mpi, advise
from trimtab.explain.page import incidents_document, moment_document
from trimtab.explain.status import SiteStanding, SiteState, Trouble
from trimtab.judge.page import judge_document
from trimtab.probe.compare import CompareRequest, compare_sides
from trimtab.probe.incident_search import explain_at, incidents_of, keep_incidents
from trimtab.probe.page_comparison import compare_document
from trimtab.probe.series_file import judge_file
from trimtab.probe.site_judgement import judge_site
from trimtab.probe.site_standing import standing_of, standings_of, with_series
from trimtab.probe.site_status import status_of
from trimtab.show.command_options import Extent
from trimtab.show.screen_document import SCREEN_LINES
from trimtab.site.command import events_document
from trimtab.site.place import Place
from trimtab.store.page import run_document, runs_document, show_run
from trimtab.store.store import Store

pytestmark = pytest.mark.cli

Screens = Mapping[str, Screen]
WIDTHS = (70, 100, 160)
CHANGED = START + timedelta(days=6.2)


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screens]:
    """Yield all screens of nine days of a small site, checksums turned on."""
    directory = tmp_path_factory.mktemp("screens")
    change = Befalls(partial(client_setting, told="both"), 6.1)
    world = steady_world(11, 9, change, osts=4, share=0.5)
    for run in world.runs:
        # The last bits differ from processor to processor, and intervals are seeded by the values.
        run["values"] = {metric: float(round(value)) for metric, value in run["values"].items()}
    path = keep_world(world, directory / "t.db")
    with in_utc() as patch, Store.open(path) as store:
        patch.chdir(directory)
        yield _screens(store, directory)


def _screens(store: Store, directory: Path) -> dict[str, Screen]:
    place = Place("world", None)
    explained = incidents_of(store, place, now=START + timedelta(days=9))
    keep_incidents(store, explained)
    known = explain_at(store, place, CHANGED.isoformat())
    runs = store.runs(limit=5)
    job = JobRequest(osts=4, nodes=32, tasks_per_node=8, mpi=Mpi.CRAY)
    targets = (target("OST0000", "oss1"), target("OST0003", "oss2", LONG))
    snapshot = Snapshot(AT, "lustre", True, tuple(state.seen for state in targets))
    throttled = Trouble("throttled", Severity.WARNING, "writeback throttling on nvme0n1 (2.00 ms)")
    alike = tuple(target(f"OST{n:04x}", f"oss{n}", (throttled,)) for n in range(40))
    site_state = SiteState("scratch", snapshot, targets)
    standing = SiteStanding("scratch", site_state)
    of_many = replace(standing, state=replace(site_state, targets=alike))
    known_status, judgement = status_of(store, "world"), judge_site(store, place).judgement
    of_judgement = standing_of(store, place, judgement=judgement)
    searched = standing_of(store, place, explanations=explained.explanations)
    days = "world@2026-03-02..2026-03-07", "world@2026-03-08..2026-03-11"
    compared = compare_sides(CompareRequest(*days, store_url=str(directory / "t.db")))
    _write_series(directory / "series.csv")
    moment = known.moment, known.explanations, known.lone_runs, known.speeds
    return {
        "status": status_document(known_status, standings_of(store, known_status)),
        "judge": judge_document(judgement, {}, None, of_judgement),
        "judge of a file": judge_document(judge_file("series.csv").judgement, {}),
        "incidents": incidents_document(
            explained.explanations, explained.standing, explained.lone_runs,
            with_series(searched, known_status),
        ),
        "explain": moment_document(*moment),
        "correlate": correlated_document(correlate_site(store, place)),
        "compare": compare_document(compared),
        "targets": targets_document(standing),
        "targets alike": targets_document(of_many),
        "targets TARGET": target_document(site_state, targets[1]),
        "snapshot": snapshot_document(runs[0].id, "STORE", standing),
        "runs": runs_document(runs, requested=5),
        "show": run_document(replace(show_run(store, runs[0].id), store="STORE")),
        "event list": events_document(store.events(site="world"), 30),
        "hints": partial(print_hints, job, advise(job), "DIRECTORY"),
    }  # fmt: skip


def _write_series(path: Path) -> None:
    rates = [100 + hour % 7 if hour < 60 else 80 + hour % 5 for hour in range(120)]
    lines = [
        f"{(START + timedelta(hours=hour)).isoformat()},{rate}" for hour, rate in enumerate(rates)
    ]
    path.write_text("\n".join(["time,write_bandwidth", *lines, ""]))


NAMES = (
    *("status", "judge", "judge of a file", "incidents", "explain", "correlate", "compare"),
    *("targets", "targets alike", "targets TARGET", "snapshot", "runs", "show", "event list"),
    "hints",
)
_INTERVAL = re.compile(r"(?<=\()[-+][0-9.]+(?= to)|[-+][0-9.]+(?= %\))")
"""Of resampled runs: the logarithm of numpy differs between processors in its last bit, and an
interval may be a step of the resampling wider by that."""
PASTED = {"show", "hints"}
"""Screens without a limit, with commands and paths to copy, which are never broken."""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_a_screen_fits_its_terminal(
    screens: Screens, on_screen: Lines, snapshot: SnapshotAssertion, name: str, width: int
) -> None:
    lines = on_screen(screens[name], width=width)
    if name not in PASTED:
        assert too_wide(lines, width) == []
        assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)
        assert len(lines) <= SCREEN_LINES
    shown = "\n".join(lines)
    assert (_INTERVAL.sub("END", shown) if name == "compare" else shown) == snapshot


@pytest.mark.parametrize("name", ["status", "judge", "incidents", "explain", "targets"])
def test_brief_is_the_first_line_and_all_has_everything(
    screens: Screens, on_screen: Lines, name: str
) -> None:
    show = partial(on_screen, screens[name], width=400)
    usual, brief = show(), show(extent=Extent(brief=True))
    everything = show(extent=Extent(everything=True))
    assert brief == usual[:1] == everything[:1]
    assert len(everything) >= len([line for line in usual if "--all" not in line])
    assert not any("--all" in line for line in everything)


def test_top_is_the_number_of_rows(screens: Screens, on_screen: Lines) -> None:
    lines = on_screen(screens["judge"], width=160, extent=Extent(top=2))
    (header,) = (at for at, line in enumerate(lines) if line.split()[:1] == ["series"])
    assert lines[header + 3].strip() == "... 3 more rows"


@pytest.mark.parametrize("name", ["incidents", "explain"])
def test_what_to_do_next_is_in_the_second_line_and_nowhere_else(
    screens: Screens, on_screen: Lines, name: str
) -> None:
    lines = on_screen(screens[name], width=400)
    assert lines[1].startswith("next: a change of configuration? On one client or target")
    assert sum("alternate the old and the new value" in line for line in lines) == 1
