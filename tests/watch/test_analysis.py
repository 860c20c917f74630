"""What the watch makes of months: suspects with confirming probes, bad checksums, incidents."""

from __future__ import annotations

import contextlib
import logging
import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.memory_driver import MemoryDriver
from tests.support.small_site import SITE
from tests.support.small_site import hour as hour_of
from tests.support.watched import (
    HOURLY,
    MONDAY,
    Ended,
    Lines,
    Moving,
    SimulatedProbe,
    a_log,
    a_site,
    a_watch,
)
from tests.web.conftest import keep_small_site

from trimtab.base.error import Message, UsageError
from trimtab.base.event import identifier_of
from trimtab.base.incident import Explanation, Incident, IncidentState, Shape
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.series import ChangeStatus
from trimtab.base.site import SiteProbe
from trimtab.base.snapshot import HostSnapshot, Reading, Snapshot
from trimtab.judge import variability
from trimtab.probe.probe import ProbeOutcome, RunContext
from trimtab.probe.site_status import status_of
from trimtab.site.place import Place
from trimtab.store import kept as keeping
from trimtab.store.kept import KeptIncident
from trimtab.store.store import Store
from trimtab.watch import incident_watch
from trimtab.watch.incident_alert import new_among
from trimtab.watch.incident_watch import look, look_elsewhere

weeks = pytest.mark.calibration
"""Weeks of a watch, or of a world, are simulated."""

CHANGED = "performance may have changed"
DAYS_BEFORE = 12
HOUR = timedelta(hours=1)


class SteppingProbe(SimulatedProbe):
    """Gives a steady level with noise of 3 %, and from a time on a lower one."""

    def __init__(self, clock: Moving, falls_at: datetime, to: float = 0.75) -> None:
        super().__init__(clock)
        self.falls_at, self.to = falls_at, to

    def run(self, at: datetime, identifier: str) -> Run:
        chance = random.Random(at.isoformat())
        level = 2e9 * (self.to if at >= self.falls_at else 1.0)
        return Run(
            id=identifier,
            site="scratch",
            probe="hourly",
            kind="fio",
            status=RunStatus.OK,
            at=at,
            until=at + timedelta(seconds=90),
            parameters={"spec": {"tasks": 4, "name": "hourly"}},
            samples=(Sample("write_bandwidth", level * chance.gauss(1, 0.03), 0),),
        )

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        self.started.append(context.run_id)
        self.clock.at += timedelta(seconds=self.takes_s)
        return ProbeOutcome(self.run(context.at, context.run_id))


def falling(store: Store, after_hours: float = 1000) -> SteppingProbe:
    """Return a probe whose level falls after so many hours, with the days before Monday kept."""
    probe = SteppingProbe(Moving(), MONDAY + after_hours * HOUR)
    for hour in range(24 * DAYS_BEFORE):
        at = MONDAY - timedelta(hours=hour + 1)
        store.add_run(probe.run(at, identifier_of(at, "before")))
    return probe


def watched(store: Store, probe: SimulatedProbe, hours: float, **changes: Any) -> Lines:
    """Watch for so many hours; return what was logged."""
    log, lines = a_log()
    confirm = changes.pop("confirm", 0)
    site = a_site(replace(HOURLY, confirm=confirm), snapshots=changes.pop("snapshots", None))
    more: dict[str, Any] = {"until": MONDAY + hours * HOUR, "probe": probe, "log": log} | changes
    with pytest.raises(Ended):
        a_watch(site, store, probe.clock, **more).run()
    return lines


def told(lines: Lines, message: str) -> list[logging.LogRecord]:
    return [one for one in lines.records if one.getMessage() == message]


@weeks
def test_a_drop_is_suspected_within_hours_confirmed_by_further_probes_and_explained(
    store: Store,
) -> None:
    lines = watched(store, falling(store, 2), 14, confirm=2)
    assert not [one for one in lines.records if one.levelno >= logging.ERROR], lines.text()
    (suspect,) = told(lines, CHANGED)
    fields = suspect.fields  # type: ignore[attr-defined]
    assert fields["metric"] == "write_bandwidth"
    since = datetime.fromisoformat(fields["since"])
    assert abs(since - (MONDAY + 2 * HOUR)) <= 3 * HOUR
    slots = [one.due_at for one in store.slots("scratch", item="probe:hourly")]
    first, second = (at for at in slots if at.minute != 0)
    assert second - first >= timedelta(minutes=14)
    assert first - max(at for at in slots if at < first) <= timedelta(minutes=30)
    assert told(lines, "an incident"), lines.text()
    (kept,) = store.incidents("scratch", states=["open"])
    assert kept.effect == pytest.approx(0.75, abs=0.05)
    assert store.judged("scratch") is not None


@weeks
def test_a_watch_that_was_killed_is_not_followed_by_a_second_suspect(store: Store) -> None:
    probe = falling(store, 2)
    suspects = confirmed = 0
    for hour in range(3, 15):  # each killed after its slot; a drop is suspected within hours
        lines = watched(store, probe, hour + 0.1, confirm=1)
        suspects += len(told(lines, CHANGED))
        confirmed += len(told(lines, "confirming probes follow"))
    assert (suspects, confirmed) == (1, 1)


@weeks
def test_without_confirm_no_further_probe_is_run(store: Store) -> None:
    assert told(watched(store, falling(store, 2), 14), CHANGED)
    assert all(one.due_at.minute == 0 for one in store.slots("scratch", item="probe:hourly"))


@weeks
def test_memory_is_given_back_after_each_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe, given_back, trimmed = falling(store), list[datetime](), Mock()
    monkeypatch.setattr(
        incident_watch, "give_back_memory", lambda: given_back.append(probe.clock())
    )
    monkeypatch.setattr(incident_watch, "trim_memory", trimmed)
    watched(store, probe, 2)
    broken = Mock(side_effect=RuntimeError("of one look"))
    monkeypatch.setattr("trimtab.probe.incident_search.incidents_of", broken)
    watched(store, probe, 27)
    assert len({at.date() for at in given_back}) == 2
    assert trimmed.call_count >= 27  # what a slot freed, too


@weeks
def test_a_steady_site_is_looked_at_once_a_day_and_nothing_is_told(store: Store) -> None:
    lines = watched(store, falling(store), 26)
    assert not told(lines, CHANGED), lines.text()
    assert not told(lines, "an incident"), lines.text()
    judged = store.judged("scratch")
    assert judged is not None
    assert judged.at > MONDAY + 24 * HOUR


class CountingDriver(MemoryDriver):
    """Counts bad checksums on one server from a time on."""

    def __init__(self, clock: Moving, from_: datetime) -> None:
        super().__init__(clock=clock)
        self.from_ = from_

    def snapshot(self, at: datetime) -> Snapshot:
        taken = super().snapshot(at)
        count = 2 if at >= self.from_ else 0
        reading = Reading("checksum_errors_total", count, "dmesg")
        return replace(taken, hosts=(HostSnapshot("oss01", "server", readings=(reading,)),))


@weeks
def test_bad_checksums_are_told_at_once(store: Store) -> None:
    probe = falling(store)
    driver = CountingDriver(probe.clock, MONDAY + 3 * HOUR)
    lines = watched(store, probe, 6, snapshots="every 1h at :30", driver=driver)
    (alarm,) = told(lines, "transfers with a bad checksum: data may be at risk")
    assert alarm.levelno == logging.CRITICAL
    fields = alarm.fields  # type: ignore[attr-defined]
    assert (fields["where"], fields["count"]) == ("oss01", 2)
    assert [one.shape for one in store.incidents("scratch")] == ["integrity"]


def explained(identifier: str, hours: float, **told: Any) -> Explanation:
    at = MONDAY + hours * HOUR
    incident = Incident(
        id=identifier, site="scratch", key=None, shape=told.get("shape", Shape.STEP),
        state=told.get("state", IncidentState.OPEN), certainty=ChangeStatus.SUSPECT,
        at=at, until=None, detected_at=at, effect=0.8, effect_interval=None, runs=3,
        unfinished=0, summary="slower",
    )  # fmt: skip
    undecided = Message("undecided", "")
    nothing = dict.fromkeys(("causes", "cleared", "not_assessed", "standing"), ())
    return Explanation(incident=incident, **nothing, unexplained=True, deciding=undecided)


def kept_as(one: Explanation) -> KeptIncident:
    found = one.incident
    return KeptIncident(
        found.id, found.site, found.at, None, found.detected_at, found.shape.value,
        found.state.value, found.certainty.value, found.effect, found.summary, {},
    )  # fmt: skip


@weeks
def test_an_incident_that_is_placed_anew_is_not_told_anew() -> None:
    before = [kept_as(explained("a", 0)), kept_as(explained("gone", 500))]
    moved, second, far = explained("b", 5), explained("c", 6), explained("d", 40)
    over = explained("e", 3, state=IncidentState.ENDED)
    damaged = explained("f", 0, shape=Shape.INTEGRITY)
    found = [moved, second, far, over, damaged]
    assert [one.incident.id for one in new_among(found, before)] == ["c", "d", "f"]
    assert [one.incident.id for one in new_among([explained("a", 0), moved], before)] == ["b"]


@weeks
def test_an_error_of_looking_never_ends_the_watch(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident_watch, "suspect_of", Mock(side_effect=KeyError("bug")))
    lines = watched(store, SteppingProbe(Moving(), MONDAY), 3)
    assert len(store.slots("scratch", item="probe:hourly")) >= 2
    assert told(lines, "the result of a slot was not examined"), lines.text()


@weeks
@pytest.mark.parametrize(("apart_s", "is_new"), [(0.0, True), (3600.0, False)])
def test_verdicts_are_kept_after_a_run_and_not_more_often_than_that_of_this_hosts_time(
    store: Store, monkeypatch: pytest.MonkeyPatch, apart_s: float, is_new: bool
) -> None:
    monkeypatch.setattr(keeping, "_FEW_RUNS", 0)
    monkeypatch.setattr(incident_watch, "UP_TO_DATE_S", apart_s)
    probe = falling(store)
    watched(store, probe, 4)
    monkeypatch.setattr(variability, "judge_history", lambda *a, **k: 1 / 0)
    with contextlib.nullcontext() if is_new else pytest.raises(ZeroDivisionError):
        (series,) = status_of(store, "scratch").series
        assert series.runs == 24 * DAYS_BEFORE + len(probe.started)


@weeks
def test_of_a_short_record_nothing_is_worked_out_before_somebody_asks(store: Store) -> None:
    watched(store, falling(store), 3)
    assert store.drop_derived() == 0


PLACE = Place(SITE, None)


@pytest.mark.cli
def test_another_process_finds_and_keeps_the_same(tmp_path):
    answers = []
    for number, looks in enumerate((look, look_elsewhere)):
        with Store.open(keep_small_site(tmp_path / f"{number}.db")) as store:
            first = looks(store, PLACE, hour_of(200))
            kept = store.incidents(SITE)
            later = looks(store, PLACE, hour_of(201))
            answers.append((first.explanations, later.explanations, kept))
    assert answers[0] == answers[1]
    assert answers[0][0]


@pytest.mark.cli
def test_what_it_ends_with_is_said(tmp_path):
    with Store.open(tmp_path / "empty.db") as store, pytest.raises(UsageError):
        look_elsewhere(store, PLACE, hour_of(1), incidents=False)


@pytest.mark.cli
def test_a_site_without_runs_has_no_incidents(tmp_path):
    with Store.open(tmp_path / "empty.db") as store:
        assert look_elsewhere(store, PLACE, hour_of(1)).explanations == ()
