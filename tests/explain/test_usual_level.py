"""The usual level of a series, and its name among others of the same probe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.explain.contexts import hours, plain_incident
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.base.incident import Shape
from trimtab.base.run import Run
from trimtab.base.series import SeriesKey
from trimtab.explain.context import SURVEYS
from trimtab.explain.site_explanation import Known, speeds_at
from trimtab.probe.verdict.incident_search import explain_at, incidents_of
from trimtab.probe.verdict.site_judgement import judge_site
from trimtab.show.text import key_label
from trimtab.site.place import Place
from trimtab.store.store import Store

WRITES, READS = (
    SeriesKey(SITE, "hourly", "ior", metric, "B/s")
    for metric in ("write_bandwidth", "read_bandwidth")
)
BEGIN = 50


def usual_at(*incidents: dict[str, Any]) -> dict[str, tuple[float | None, object]]:
    """Return the usual level of writes, lowered from an hour on, and of reads, and its end."""
    frames = {
        key: pl.DataFrame(
            {
                "at": [hours(number) for number in range(300)],
                "value": [lowered if number >= BEGIN else 1e9 for number in range(300)],
                "unfinished": [False] * 300,
            }
        )
        for key, lowered in ((WRITES, 7e8), (READS, 1e9))
    }
    known = Known(SITE, hours(0), hours(299), frames, pl.DataFrame(schema=SURVEYS))
    lasting = [plain_incident(**{"until": None, "shape": Shape.STEP, **more}) for more in incidents]
    speeds = speeds_at(hours(250), known, lasting)
    return {speed.key.metric: (speed.usual, speed.usual_until) for speed in speeds}


def test_figures_that_are_never_credible_take_no_usual_level_away() -> None:
    lowered = {"key": WRITES, "at": hours(BEGIN)}
    alone = usual_at(lowered)
    assert alone["write_bandwidth"] == (1e9, hours(BEGIN))
    assert usual_at(lowered, {"key": None, "at": hours(0)}) == alone


@pytest.mark.parametrize("shape", [Shape.INTEGRITY, Shape.UNSTEADY, Shape.PERIODIC])
def test_what_leaves_the_level_as_it_was_takes_it_away_from_nothing(shape: Shape) -> None:
    assert usual_at({"key": READS, "shape": shape, "at": hours(0)}) == usual_at()


def test_an_incident_ends_the_usual_level_of_what_moved_with_it_and_of_nothing_else() -> None:
    assert usual_at({"key": WRITES, "at": hours(1)})["read_bandwidth"] == (1e9, hours(249))
    both = {"key": WRITES, "at": hours(40), "moved_with": ("hourly read_bandwidth",)}
    assert {until for _, until in usual_at(both).values()} == {hours(40)}


@dataclass
class TwoSizes(SmallSite):
    """A site whose probe runs with 512 tasks, and with 4,096 half an hour later."""

    def _runs(self) -> Iterable[Run]:
        for run in super()._runs():
            for tasks, minutes in ((512, 0), (4096, 30)):
                assert run.at is not None
                at = run.at + timedelta(minutes=minutes)
                spec = {"tasks": tasks, "transfer_size_bytes": 2**20}
                identifier = f"{run.id[:-4]}{tasks:04d}"
                yield replace(run, id=identifier, at=at, until=at, parameters={"spec": spec})


def test_series_of_one_probe_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    values = 1e9 * (1 + 0.02 * np.random.default_rng(1).standard_normal(100))
    values[60:] *= 0.7
    path = TwoSizes({"write_bandwidth": values}).keep(tmp_path / "t.db")
    names = {f"hourly write bandwidth (tasks {tasks})" for tasks in ("512", "4,096")}
    place = Place(SITE, None)
    with Store.open(path) as store:
        judged = judge_site(store, place).judgement.series
        assert {key_label(series.key) for series in judged} == names
        speeds = explain_at(store, place, hour(90).isoformat()).speeds
        assert {key_label(speed.key) for speed in speeds} == names
        (explanation,) = incidents_of(store, place, now=hour(100)).explanations
    key, moved = explanation.incident.key, explanation.incident.moved_with
    assert key is not None
    assert {key.apart, *moved} in (
        {"tasks 512", "hourly write_bandwidth (tasks 4,096)"},
        {"tasks 4,096", "hourly write_bandwidth (tasks 512)"},
    ), "each moved, and neither hides the other"
