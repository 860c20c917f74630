"""A result that is stored under two ids counts once; what only looks alike is another one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.store.values import NOON, a_run, keep

from trimtab.base.event import new_identifier
from trimtab.base.run import Run, RunStatus, Sample, comparability_key
from trimtab.probe.up_to_date import bring_up_to_date
from trimtab.site.place import Place
from trimtab.store.kept import ImportedRun
from trimtab.store.store import Store

SITE = "scratch"


def again(run: Run, **changes: object) -> Run:
    """Return a run under another id."""
    fields = {"id": new_identifier(run.at or NOON), **changes}
    return replace(run, **fields)  # type: ignore[arg-type]


def moved_down(run: Run, lines: int = 7) -> Run:
    """Return the run as it is read from a log in which so many lines stand before it."""
    samples = tuple(replace(one, line=(one.line or 0) + lines) for one in run.samples)
    return again(run, samples=samples)


def points(store: Store, run: Run) -> list[float]:
    return [point.value for point in store.history(SITE, comparability_key(run))]


def test_a_result_under_two_ids_is_one_point_and_one_run(store: Store) -> None:
    run, other = a_run(), a_run(1)
    keep(store, run, other, again(run), moved_down(run))
    assert points(store, run) == [2.05e9, 2.05e9]
    assert [each.id for each, _ in store.runs_between(SITE)] == [run.id, other.id]
    assert store.unjudged(SITE)["stored-twice"] == 2
    assert {each.first for each in store.repeated(SITE)} == {run.id}
    # Every row stays.
    assert len(store.runs(site=SITE)) == 4
    assert store.repeated("another") == store.repeated(SITE, since=NOON + timedelta(1)) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": (Sample("write_bandwidth", 2e9, 0), Sample("write_bandwidth", 2.2e9, 1))},
        {"until": NOON + timedelta(minutes=5)},
        {"status": RunStatus.PARTIAL},
        {"probe": "other"},
        {"at": NOON + timedelta(seconds=1)},
    ],
)
def test_whatever_differs_is_another_run(store: Store, changes: dict[str, object]) -> None:
    run = a_run()
    keep(store, run, again(run, **changes))
    assert len(list(store.runs_between(SITE))) == 2
    assert "stored-twice" not in store.unjudged(SITE)


def test_failed_runs_are_counted_once_too(store: Store) -> None:
    ended = a_run(values=(), status=RunStatus.UNFINISHED, until=NOON + timedelta(hours=1))
    failed = a_run(1, values=(), status=RunStatus.FAILED, problem="No space left on device")
    keep(store, ended, again(ended), failed, again(failed), a_run(2))
    assert points(store, ended) == [0.0, 2.05e9]
    assert len(store.left_out(SITE, comparability_key(failed))) == 1
    assert len(list(store.runs_between(SITE))) == 3


def imported(run: Run, key: str) -> ImportedRun:
    return ImportedRun(run, (), key)


def test_results_of_one_file_are_as_many_as_it_has(store: Store) -> None:
    """Three runs a night with one stamp, two of which print the same or did not finish."""
    night = a_run()
    lost = a_run(24, values=(), status=RunStatus.UNFINISHED)
    store.add_imports(
        [imported(night, "file")]
        + [imported(again(night), f"file#{n}") for n in (1, 2)]
        + [imported(again(lost), f"file#{n}") for n in (3, 4)]
    )
    assert len(points(store, night)) == 5
    # The same file from elsewhere.
    store.add_imports([imported(again(night), "copy"), imported(again(lost), "copy#1")])
    assert len(points(store, night)) == 5
    # An unfinished run with another problem, without an end, is another one.
    store.add_imports([imported(again(lost, problem="killed"), "third")])
    assert len(points(store, night)) == 6


def test_a_survey_under_two_ids_is_one_survey(store: Store) -> None:
    samples = tuple(Sample("write_bandwidth", 1e9 + n, 0, f"OST{n:04x}", line=n) for n in range(3))
    first = a_run(probe="survey", samples=samples)
    keep(store, first, again(first), moved_down(first), a_run(1, probe="survey", samples=samples))
    frame = store.survey_frame(SITE)
    assert frame["run"].unique(maintain_order=True).to_list()[0] == first.id
    assert frame["run"].n_unique() == 2
    assert frame.height == 6


def sound_months(lost: datetime, copies: int) -> list[Run]:
    """Return runs of ten weeks, one of which did not finish, each stored so often."""
    chance = np.random.default_rng(5)
    runs = []
    for hour in range(0, 70 * 24, 4):
        at = NOON + timedelta(hours=hour)
        value = 2e9 * float(1 + 0.03 * chance.standard_normal())
        run = a_run(hour, values=(value,), until=at + timedelta(minutes=9))
        if at == lost:
            run = replace(run, status=RunStatus.UNFINISHED, samples=())
        runs += [run, *(again(run) for _ in range(copies - 1))]
    return runs


@pytest.mark.calibration
def test_a_lone_unfinished_run_is_no_incident_however_often_it_is_stored(tmp_path: Path) -> None:
    lost = NOON + timedelta(hours=1000)
    now = NOON + timedelta(days=70)
    with Store.open(tmp_path / "t.db") as store:
        store.add_runs(sound_months(lost, copies=2))
        search, _ = bring_up_to_date(store, Place(SITE, None), now=now)
    assert search.explained.explanations == ()
