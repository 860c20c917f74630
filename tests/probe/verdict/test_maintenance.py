"""A maintenance: what runs inside a window say is what a record without them says: nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.counts import repetitions, seeded
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.base.error import UsageError
from trimtab.base.event import identifier_of
from trimtab.base.maintenance_window import LONGEST, MaintenanceWindow, ending_of, event_of
from trimtab.probe.incident_search import incidents_of
from trimtab.probe.maintenance import add_window, end_window, window_of, write_planned
from trimtab.probe.site_judgement import judge_site
from trimtab.site.place import Place
from trimtab.store.store import Store

pytestmark = pytest.mark.system
HOURS = 24 * 12
PLACE = Place(SITE, None)


def window(begin: float, end: float, *targets: str, source: str = "person") -> MaintenanceWindow:
    id_ = identifier_of(hour(begin), f"{end}")
    return MaintenanceWindow(id_, SITE, hour(begin), hour(end), "firmware", source, targets)


def said(store: Store) -> list[Any]:
    """Return what judging and the search for incidents say, without their notes."""
    explained = incidents_of(store, PLACE, now=hour(HOURS))
    judged = judge_site(store, PLACE).judgement
    incidents = [
        (incident.at, incident.until, incident.shape, incident.state, incident.effect)
        for incident in (each.incident for each in explained.explanations)
    ]
    return [incidents, explained.lone_runs, judged.series, judged.tails]


@pytest.mark.parametrize("worlds", repetitions(gate=4, soak=200))
def test_a_record_with_a_window_says_what_it_says_without_the_runs_inside(tmp_path, worlds):
    """So nothing inside opens an incident, and a step is found as fast as without."""
    random = seeded("maintenance")
    opened = 0
    for number in range(worlds):
        values = np.random.default_rng(number).normal(1e9, 2e7, HOURS)
        begin = random.randrange(48, HOURS - 60)
        end = begin + random.randrange(1, 30)
        fault = random.choice(["down", "slow", "none"])
        values[begin:end] *= {"down": np.nan, "slow": 0.3, "none": 1.0}[fault]
        step = random.choice([begin, (begin + end) // 2, end, HOURS])
        values[max(step, begin) :] *= 0.8
        planned = window(begin - 0.5 * random.random(), end - 0.5 * random.random())
        site = SmallSite({"write_bandwidth": values}, events=[event_of(planned)])
        other = [run for run in site._runs() if run.at and not planned.overlaps(run.at, run.until)]
        with (
            Store.open(site.keep(tmp_path / f"{number}.db")) as store,
            Store.open(tmp_path / f"{number}-without.db") as without,
        ):
            without.ensure_site(SITE, driver="lustre", identity=f"lustre:{SITE}", path=f"/{SITE}")
            without.add_runs(other)
            answer = said(store)
            assert answer == said(without)
        begun = [at for at, *_ in answer[0]]
        assert not any(planned.holds(at) for at in begun), (number, fault)
        opened += bool(begun)
    assert opened


def test_the_runs_inside_are_kept_and_counted(tmp_path):
    values = np.full(HOURS, 1e9)
    values[100:110] = np.nan
    site = SmallSite({"write_bandwidth": values}, events=[event_of(window(100, 110))])
    with Store.open(site.keep(tmp_path / "t.db")) as store:
        judged = judge_site(store, PLACE).judgement
        assert "10 in a maintenance" in str(judged.notes[0])
        assert judged.series[0].overall.n == HOURS - 10
        assert len(store.runs(site=SITE)) == HOURS
        inside, before = store.runs(site=SITE)[::-1][105], store.runs(site=SITE)[::-1][99]
        assert window_of(store, inside) is not None
        assert window_of(store, before) is None


def test_a_window_of_some_targets_leaves_what_surveys_say_of_others(tmp_path):
    of = {f"OST{number:04}": 2e8 for number in range(4)}
    surveys = [(hour(24 * day), {"write_bandwidth": of}) for day in range(6)]
    site = SmallSite(surveys=surveys, events=[event_of(window(47, 50, "OST0001"))])
    with Store.open(site.keep(tmp_path / "t.db")) as store:
        frame = store.survey_frame(SITE)
        counts = dict(frame.group_by("target").len().iter_rows())
        assert counts == {"OST0000": 6, "OST0001": 5, "OST0002": 6, "OST0003": 6}
        # A survey that is inside a window with any of its targets is not the last one of all.
        store.add_event(event_of(window(24 * 5 - 1, 24 * 5 + 1, "OST0001")))
        assert store.last_survey(SITE)[0][0] == hour(24 * 4)


def test_a_window_is_ended_early_and_cancelled(tmp_path):
    values = {"write_bandwidth": np.full(HOURS, 1e9)}
    with Store.open(SmallSite(values).keep(tmp_path / "t.db")) as store:
        added = add_window(
            store, PLACE, why="x", at=hour(10).isoformat(), until=hour(30).isoformat(),
            now=hour(9), source="person",
        )  # fmt: skip
        count = lambda: judge_site(store, PLACE).judgement.series[0].overall.n  # noqa: E731
        assert count() == HOURS - 20
        end_window(store, PLACE, added.id[:18], at=hour(15), source="person")
        assert count() == HOURS - 5
        with pytest.raises(UsageError, match="it was over"):
            end_window(store, PLACE, added.id, at=hour(15), source="person")
        end_window(store, PLACE, added.id, at=hour(0), source="person")
        assert count() == HOURS
        for wrong, match in (("", "all windows"), ("zz", "0 windows")):
            with pytest.raises(UsageError, match=match):
                end_window(store, PLACE, wrong, at=hour(1), source="person")


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"why": " "}, "reason"),
        ({"why": "x" * 3000}, "reason"),
        ({"until": "2026-01-04"}, "it ends at"),
        ({"until": "2027-01-05"}, "days"),
        ({"until": "tomorrow"}, "not a time"),
        ({"targets": "OST12"}, "OST12"),
    ],
)
def test_a_window_that_says_nothing_is_refused(tmp_path, fields, match):
    with Store.open(tmp_path / "t.db") as store:
        terms: dict[str, Any] = {"why": "firmware", "until": "2026-01-06", **fields}
        with pytest.raises(UsageError, match=match):
            add_window(store, PLACE, now=hour(1), source="person", **terms)
        assert store.windows(SITE) == ()


def test_planned_windows_are_written_a_day_ahead_once_and_cancelled_where_they_are_no_more(
    tmp_path,
):
    with Store.open(tmp_path / "t.db") as store:
        near, far = window(20, 22, source="site-file"), window(30, 32, source="site-file")
        person = window(21, 23)
        store.add_event(event_of(person))

        def write(*planned: MaintenanceWindow) -> list[str]:
            write_planned(store, SITE, planned, sources=["site-file"], now=hour(1))
            return [each.id for each in store.windows(SITE) if each.end > each.at]

        assert write(near, far) == [near.id, person.id]
        assert write(near, far) == [near.id, person.id]
        assert len(store.events(made=True)) == 2
        assert write(far) == [person.id]


def test_what_is_no_window_in_a_log_book_is_none(tmp_path):
    """A row that another program wrote: without an end, of years, or the end of nothing."""
    from dataclasses import replace

    with Store.open(tmp_path / "t.db") as store:
        event = event_of(window(1, 2))
        long = replace(event, id=identifier_of(hour(2), "long"), until=hour(1) + 3 * LONGEST)
        store.add_events([replace(event, until=None), long])
        store.add_event(ending_of(window(50, 51), hour(50) + timedelta(minutes=1), "person"))
        assert [each.until - each.at for each in store.windows(SITE)] == [LONGEST]
