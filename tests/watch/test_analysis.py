"""What the watch makes of months: suspects with confirming probes, bad checksums, incidents."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.memory_driver import MemoryDriver
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

from trimtab.base.error import Message
from trimtab.base.event import identifier_of
from trimtab.base.incident import Explanation, Incident, IncidentState, Shape
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.series import ChangeStatus
from trimtab.base.site import SiteProbe
from trimtab.base.snapshot import HostSnapshot, Reading, Snapshot
from trimtab.judge import variability
from trimtab.probe.probe import ProbeOutcome, RunContext
from trimtab.probe.verdict.site_status import status_of
from trimtab.store import keeping
from trimtab.store.kept import KeptIncident
from trimtab.store.store import Store
from trimtab.watch import incident_watch
from trimtab.watch.alert.incident_alert import new_among

pytestmark = pytest.mark.calibration  # weeks of a watch, or of a world, are simulated

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


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "t.db")


def with_history(store: Store, probe: SteppingProbe) -> None:
    """Keep hourly runs of the days before Monday."""
    for hour in range(24 * DAYS_BEFORE):
        at = MONDAY - timedelta(hours=hour + 1)
        store.add_run(probe.run(at, identifier_of(at, "before")))


def watched(
    store: Store, probe: SimulatedProbe, clock: Moving, hours: float, **changes: Any
) -> Lines:
    """Watch for so many hours; return what was logged."""
    log, lines = a_log()
    confirm = changes.pop("confirm", 0)
    site = a_site(replace(HOURLY, confirm=confirm), snapshots=changes.pop("snapshots", None))
    watch = a_watch(
        site, store, clock, until=MONDAY + hours * HOUR, probe=probe, log=log, **changes
    )
    with pytest.raises(Ended):
        watch.run()
    return lines


def told(lines: Lines, message: str) -> list[logging.LogRecord]:
    return [one for one in lines.records if one.getMessage() == message]


def test_a_drop_is_suspected_within_hours_confirmed_by_further_probes_and_explained(
    store: Store,
) -> None:
    clock = Moving()
    probe = SteppingProbe(clock, MONDAY + 2 * HOUR)
    with_history(store, probe)

    lines = watched(store, probe, clock, 14, confirm=2)

    assert not [one for one in lines.records if one.levelno >= logging.ERROR], lines.text()
    suspects = told(lines, "performance may have changed")
    assert len(suspects) == 1, lines.text()
    fields = suspects[0].fields  # type: ignore[attr-defined]
    assert fields["metric"] == "write_bandwidth"
    since = datetime.fromisoformat(fields["since"])
    assert abs(since - (MONDAY + 2 * HOUR)) <= 3 * HOUR
    slots = [one.due_at for one in store.slots("scratch", item="probe:hourly")]
    between = [at for at in slots if at.minute != 0]
    assert len(between) == 2
    assert between[1] - between[0] >= timedelta(minutes=14)
    assert between[0] - max(at for at in slots if at < between[0]) <= timedelta(minutes=30)
    incidents = told(lines, "an incident")
    assert incidents, lines.text()
    (kept,) = store.incidents("scratch", states=["open"])
    assert kept.effect == pytest.approx(0.75, abs=0.05)
    assert store.judged("scratch") is not None


def test_a_watch_that_was_killed_is_not_followed_by_a_second_suspect(store: Store) -> None:
    clock = Moving()
    probe = SteppingProbe(clock, MONDAY + 2 * HOUR)
    with_history(store, probe)
    suspects, confirmed = [], 0
    for hour in range(3, 15):  # each killed after its slot; a drop is suspected within hours
        lines = watched(store, probe, clock, hour + 0.1, confirm=1)
        suspects += told(lines, "performance may have changed")
        confirmed += len(told(lines, "confirming probes follow"))
    assert len(suspects) == 1
    assert confirmed == 1


def test_without_confirm_no_further_probe_is_run(store: Store) -> None:
    clock = Moving()
    probe = SteppingProbe(clock, MONDAY + 2 * HOUR)
    with_history(store, probe)
    lines = watched(store, probe, clock, 14)
    assert told(lines, "performance may have changed")
    assert all(one.due_at.minute == 0 for one in store.slots("scratch", item="probe:hourly"))


def test_memory_is_given_back_after_each_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, given_back, trimmed = Moving(), list[datetime](), list[datetime]()
    monkeypatch.setattr(incident_watch, "give_back_memory", lambda: given_back.append(clock()))
    monkeypatch.setattr(incident_watch, "trim_memory", lambda: trimmed.append(clock()))
    probe = SteppingProbe(clock, MONDAY + 1000 * HOUR)
    with_history(store, probe)

    def broken(*arguments: Any, **more: Any) -> None:
        raise RuntimeError("of one look")

    watched(store, probe, clock, 2)
    monkeypatch.setattr("trimtab.probe.verdict.incident_search.incidents_of", broken)
    watched(store, probe, clock, 27)
    assert len({at.date() for at in given_back}) == 2
    assert len(trimmed) >= 27  # what a slot freed, too


def test_a_steady_site_is_looked_at_once_a_day_and_nothing_is_told(store: Store) -> None:
    clock = Moving()
    probe = SteppingProbe(clock, MONDAY + 1000 * HOUR)
    with_history(store, probe)
    lines = watched(store, probe, clock, 26)
    assert not told(lines, "performance may have changed"), lines.text()
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


def test_bad_checksums_are_told_at_once(store: Store) -> None:
    clock = Moving()
    probe = SteppingProbe(clock, MONDAY + 1000 * HOUR)
    with_history(store, probe)
    driver = CountingDriver(clock, MONDAY + 3 * HOUR)
    lines = watched(store, probe, clock, 6, snapshots="every 1h at :30", driver=driver)
    assert told(lines, "transfers with a bad checksum: data may be at risk"), lines.text()
    (alarm,) = told(lines, "transfers with a bad checksum: data may be at risk")
    assert alarm.levelno == logging.CRITICAL
    assert alarm.fields["where"] == "oss01"  # type: ignore[attr-defined]
    assert alarm.fields["count"] == 2  # type: ignore[attr-defined]
    assert [one.shape for one in store.incidents("scratch")] == ["integrity"]


def explained(identifier: str, hours: float, **told: Any) -> Explanation:
    incident = Incident(
        id=identifier,
        site="scratch",
        key=None,
        shape=told.get("shape", Shape.STEP),
        state=told.get("state", IncidentState.OPEN),
        certainty=ChangeStatus.SUSPECT,
        at=MONDAY + hours * HOUR,
        until=None,
        detected_at=MONDAY + hours * HOUR,
        effect=0.8,
        effect_interval=None,
        runs=3,
        unfinished=0,
        summary="slower",
    )
    return Explanation(
        incident=incident,
        causes=(),
        cleared=(),
        not_assessed=(),
        standing=(),
        unexplained=True,
        deciding=Message("undecided", ""),
    )


def kept_as(one: Explanation) -> KeptIncident:
    incident = one.incident
    return KeptIncident(
        incident.id,
        incident.site,
        incident.at,
        None,
        incident.detected_at,
        incident.shape.value,
        incident.state.value,
        incident.certainty.value,
        incident.effect,
        incident.summary,
        {},
    )


def test_an_incident_that_is_placed_anew_is_not_told_anew() -> None:
    before = [kept_as(explained("a", 0)), kept_as(explained("gone", 500))]
    moved, second, far = explained("b", 5), explained("c", 6), explained("d", 40)
    over = explained("e", 3, state=IncidentState.ENDED)
    damaged = explained("f", 0, shape=Shape.INTEGRITY)
    found = [moved, second, far, over, damaged]
    assert [one.incident.id for one in new_among(found, before)] == ["c", "d", "f"]
    assert [one.incident.id for one in new_among([explained("a", 0), moved], before)] == ["b"]


def test_an_error_of_looking_never_ends_the_watch(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Callable[[], None]:
        raise KeyError("bug")

    monkeypatch.setattr("trimtab.watch.incident_watch.suspect_of", fails)
    clock = Moving()
    probe = SteppingProbe(clock, MONDAY)
    lines = watched(store, probe, clock, 3)
    assert len(store.slots("scratch", item="probe:hourly")) >= 2
    assert told(lines, "what a slot brought was not looked at"), lines.text()


@pytest.mark.parametrize(("apart_s", "is_new"), [(0.0, True), (3600.0, False)])
def test_verdicts_are_kept_after_a_run_and_not_more_often_than_that_of_this_hosts_time(
    store: Store, monkeypatch: pytest.MonkeyPatch, apart_s: float, is_new: bool
) -> None:
    monkeypatch.setattr(keeping, "_FEW_RUNS", 0)
    monkeypatch.setattr(incident_watch, "UP_TO_DATE_S", apart_s)
    clock = Moving()
    probe = SteppingProbe(clock, MONDAY + 1000 * HOUR)
    with_history(store, probe)
    watched(store, probe, clock, 4)
    monkeypatch.setattr(variability, "judge_history", lambda *a, **k: 1 / 0)
    with contextlib.nullcontext() if is_new else pytest.raises(ZeroDivisionError):
        (series,) = status_of(store, "scratch").series
        assert series.runs == 24 * DAYS_BEFORE + len(probe.started)


def test_of_a_short_record_nothing_is_worked_out_before_somebody_asks(store: Store) -> None:
    clock = Moving()
    probe = SteppingProbe(clock, MONDAY + 1000 * HOUR)
    with_history(store, probe)
    watched(store, probe, clock, 3)
    assert store.drop_derived() == 0
