"""Observers of a watch, and snapshots that come due while a probe runs: taken beside it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.memory_driver import MemoryDriver
from tests.support.watched import (
    HOURLY,
    MONDAY,
    Ended,
    Moving,
    SimulatedProbe,
    a_log,
    a_site,
    a_watch,
)

from trimtab.base.error import ToolError
from trimtab.base.site import SiteProbe
from trimtab.base.site_policy import Alerts, MailAlerts, MetricsExport, Webhook
from trimtab.base.snapshot import Snapshot
from trimtab.probe.probe import ProbeOutcome, RunContext
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store
from trimtab.watch.alerting import Alerting
from trimtab.watch.exporter import Exporter
from trimtab.watch.maintenance_calendar import MaintenanceCalendar
from trimtab.watch.upkeep import observers_of

MINUTE = timedelta(minutes=1)


class Hanging(SimulatedProbe):
    """A probe that hangs for minutes, with signs of life; what is begun beside it is waited for."""

    watch: Any = None
    hangs_s = 1500.0

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        for _ in range(int(self.hangs_s / 30)):
            self.clock.at += timedelta(seconds=30)
            context.progress("write 1 of 1", 0.5)
            if self.watch._taking is not None:
                self.watch._taking.answer.exception(60)
        return super().__call__(probe, context)


class Told:
    """An observer that notes when it was told of which slot."""

    def __init__(self, clock: Moving) -> None:
        self.clock = clock
        self.slots: list[tuple[str, datetime, datetime]] = []

    def after_slot(self, slot: Slot) -> None:
        self.slots.append((slot.item, slot.due_at, self.clock.at))

    def idle(self, now: datetime) -> None: ...
    def close(self) -> None: ...


def _watched(store: Store, driver: MemoryDriver, clock: Moving) -> tuple[tuple[Slot, ...], Told]:
    probe, told = Hanging(clock), Told(clock)
    site = a_site(HOURLY, snapshots="every 5m")
    more = {"driver": driver, "probe": probe, "observers": (told,)}
    probe.watch = watch = a_watch(site, store, clock, until=MONDAY + 95 * MINUTE, **more)
    with pytest.raises(Ended):
        watch.run()
    return store.slots(site.name), told


def test_no_snapshot_waits_for_a_probe_that_hangs(store: Store) -> None:
    clock = Moving()
    slots, told = _watched(store, MemoryDriver(clock=clock), clock)
    snapshots = [slot for slot in slots if slot.item == "snapshot"]
    assert {slot.state for slot in snapshots} == {SlotState.DONE}
    assert len(snapshots) >= 18
    (probe,) = (slot for slot in slots if slot.item.startswith("probe:"))
    assert probe.state is SlotState.DONE
    assert probe.ended_at is not None
    beside = [at for item, due_at, at in told.slots if item == "snapshot" and due_at > probe.due_at]
    assert sum(at < probe.ended_at for at in beside) >= 5, "alerts are decided while it hangs"
    delays = [at - due_at for item, due_at, at in told.slots if item == "snapshot"]
    assert min(delays) <= timedelta(seconds=60)


def test_what_goes_wrong_beside_a_probe_is_of_that_snapshot_alone(store: Store) -> None:
    class Failing(MemoryDriver):
        def snapshot(self, at: datetime) -> Snapshot:
            if at.minute == 10 and at.hour == 1:
                raise ToolError("no server answers")
            return super().snapshot(at)

    clock = Moving()
    slots, _ = _watched(store, Failing(clock=clock), clock)
    failed = [slot for slot in slots if slot.state is SlotState.FAILED]
    assert [slot.detail for slot in failed] == ["no snapshot after it: no server answers"]
    assert all(slot.state is SlotState.DONE for slot in slots if slot not in failed)


def test_a_site_gets_the_observers_that_its_file_asks_for(store: Store, tmp_path: Path) -> None:
    mail = Alerts(mail=MailAlerts(to=("ops@example.org",)))
    hook = (Webhook("chat", "https://example.org/"),)
    textfile = MetricsExport(textfile=str(tmp_path / "t.prom"))
    for site, kinds in (
        (a_site(), []),
        (a_site(alerts=mail), [Alerting]),
        (a_site(webhooks=hook), [Alerting]),
        (a_site(metrics=textfile), [Exporter]),
        (a_site(webhooks=hook, metrics=textfile), [Alerting, Exporter]),
    ):
        observers = observers_of(site, store, log=a_log()[0], clock=Moving())
        assert [type(each) for each in observers] == [MaintenanceCalendar, *kinds]


def test_metrics_of_lustre_name_its_file_system_and_no_others_do(
    store: Store, tmp_path: Path
) -> None:
    metrics = MetricsExport(textfile=str(tmp_path / "t.prom"))
    for driver, name in (("lustre", "work"), ("local", None), ("twin", None)):
        site = a_site(driver=driver, file_system="work", metrics=metrics)
        *_, exporter = observers_of(site, store, log=a_log()[0], clock=Moving())
        assert isinstance(exporter, Exporter)
        assert exporter._collector.collect().file_system == name
