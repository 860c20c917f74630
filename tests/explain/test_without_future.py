"""An explanation uses nothing after the incident's end, and is the same whenever it is asked for.

What may come later is what confirms it: two days of the log book, and the days after it where
there are too few before to compare with.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from tests.explain.worlds import WorldSource, known_of
from tests.incidents.generate import make_world
from tests.incidents.world import START, Cause, Incident, Spec, World
from tests.support.kept_world import keep_world

from trimtab.base.event import EventKind
from trimtab.base.incident import Evidence, Explanation, IncidentState
from trimtab.explain.site_explanation import Known, explain_moment
from trimtab.probe.verdict.incident_search import incidents_of
from trimtab.site.place import Place
from trimtab.store.store import Store

pytestmark = pytest.mark.calibration

DAYS = 24
BEGINS = 9.1
CONFIRMS = timedelta(days=2)
SETTLED = timedelta(days=4)
"""After its end: by then what ended it is confirmed, and the incident itself is what it will be."""


@cache
def world_of(cause: Cause, hours: float, seed: int, every_h: int = 1) -> World:
    """Return a site that trims every night, with one fault; snapshots every so many hours."""
    fault = Incident(cause, BEGINS, hours, 0.8)
    world = make_world(Spec(seed=seed, days=DAYS, osts=8, incidents=(fault,)))
    return replace(world, snapshots=world.snapshots[::every_h])


def causes_of(explanation: Explanation) -> dict[str, float]:
    return {cause.cause: round(cause.confidence, 2) for cause in explanation.causes}


def evidence_of(explanation: Explanation) -> list[Evidence]:
    every = (*explanation.causes, *explanation.cleared, *explanation.not_assessed)
    return [piece for cause in every for piece in cause.evidence]


@pytest.mark.parametrize(
    ("cause", "hours"), [("target-silent", 20), ("failover", 14), ("competing-load", 20)]
)
def test_an_incident_is_explained_alike_on_every_later_day(cause: Cause, hours: float) -> None:
    explained: dict[tuple[datetime, datetime], list[Explanation]] = {}
    days = (14, 18, DAYS)
    with TemporaryDirectory() as folder:
        path = keep_world(world_of(cause, hours, 5), Path(folder) / "t.db")
        with Store.open(path) as store:
            for day in days:
                until = START + timedelta(days=day)
                every = incidents_of(store, Place("world", None), now=until, until=str(until))
                for explanation in every.explanations:
                    incident = explanation.incident
                    if incident.until is not None and incident.until <= until - SETTLED:
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
    world = world_of("target-silent", 20, 6, every_h)
    known, source = known_of(world), WorldSource(world)
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
