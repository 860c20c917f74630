"""A watch with alerts, while its own surroundings fail: the table at the end of docs/runbook.md."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support import loopback
from tests.support.memory_driver import MemoryDriver, MemoryTarget
from tests.support.watched import HOURLY, MONDAY, Ended, Moving, a_log, a_site, a_watch
from tests.watch.alert.parcels_of import alert
from tests.watch.alert.test_alerting import Chat, decided

from trimtab.base.finding import Phase
from trimtab.base.site import Site
from trimtab.base.site_policy import Alerts, parse_window
from trimtab.base.snapshot import HostSnapshot, Snapshot
from trimtab.store import database
from trimtab.store.slot import SlotState
from trimtab.store.store import Store
from trimtab.watch.alerting import Alerting

pytestmark = pytest.mark.system
HOUR, MIB = timedelta(hours=1), 2**20
OPENED, CLOSED = Phase.OPENED, Phase.CLOSED
needs_devices = loopback.needs_loop_devices("ext4")


class Server(MemoryDriver):
    """A server that can stop to answer, and its target."""

    def __init__(self, clock: Moving) -> None:
        self.target = MemoryTarget("OST0000")
        super().__init__(self.target, clock=clock)

    def snapshot(self, at: datetime) -> Snapshot:
        answers = self.target.answers
        host = HostSnapshot("oss1", "server", answers, None if answers else "no route to host")
        return replace(super().snapshot(at), hosts=(host,))


class Scene:
    """A site with a clock, a server and a receiver; ``events`` happen at their hours."""

    def __init__(self, **changes: Any) -> None:
        self.clock, self.chat = Moving(), Chat()
        self.driver = Server(self.clock)
        self.site: Site = a_site(HOURLY, snapshots="every 15m", **changes)
        self.log, self.lines = a_log()
        self.events: list[tuple[float, Callable[[], object]]] = []

    def sets(self, **readings: bool) -> Callable[[], object]:
        return lambda: self.driver.target.readings.update(readings)

    def answer(self, answers: bool) -> Callable[[], object]:
        return lambda: setattr(self.driver.target, "answers", answers)

    def alerting(self, store: Store) -> Alerting:
        return Alerting(
            self.site, store, log=self.log, clock=self.clock, receivers=(self.chat,), threads=False
        )

    def watch(self, store: Store, hours: float) -> None:
        """Watch until so many hours after Monday."""

        def sleep(seconds: float) -> None:
            while self.events and self.clock.at >= MONDAY + self.events[0][0] * HOUR:
                self.events.pop(0)[1]()
            if self.clock.at >= MONDAY + hours * HOUR:
                raise Ended
            self.clock.sleep(seconds)

        more = {"driver": self.driver, "log": self.log, "observers": (self.alerting(store),)}
        watch = a_watch(self.site, store, self.clock, sleep=sleep, **more)
        with pytest.raises(Ended):
            watch.run()

    @property
    def sent(self) -> list[tuple[str, Phase]]:
        return [(each.name, each.phase) for parcel in self.chat.parcels for each in parcel.alerts]


def fill(directory: Path) -> Path:
    """Leave no block free."""
    file = directory / "full"
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY)
    with suppress(OSError):
        while True:
            os.write(descriptor, bytes(4096))
    os.close(descriptor)
    return file


def hold(path: Path) -> sqlite3.Connection:
    """Lock a store, as a program that copies it does."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


@needs_devices
@pytest.mark.parametrize(
    ("fault", "words"), [("full", "no space left"), ("locked", "held by another process")]
)
def test_a_store_that_cannot_be_written_loses_no_slot_and_no_alert(
    fault: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.001)
    scene = Scene()
    undo: list[Callable[[], object]] = []
    with loopback.mounted(tmp_path, size_bytes=16 * MIB) as disk:
        file = disk.mount_point / "t.db"

        def begin() -> None:
            undo.append(fill(file.parent).unlink if fault == "full" else hold(file).close)

        def end() -> None:
            undo.pop()()

        scene.events = [(2.1, begin), (2.2, scene.sets(read_only=True))]
        scene.events += [(3.4, end), (5.1, scene.sets(read_only=False))]
        with Store.open(file) as store:
            scene.watch(store, 6.1)
            slots = store.slots("scratch")
            assert store.check(contents=True).problems == ()
    assert words in scene.lines.text()
    assert scene.sent == [("target-read-only", OPENED), ("target-read-only", CLOSED)]
    hourly = [slot.state for slot in slots if slot.item == "probe:hourly"]
    assert hourly == [SlotState.DONE] * 6
    snapshots = [slot.due_at for slot in slots if slot.item == "snapshot"]
    assert snapshots == [MONDAY + HOUR * quarter / 4 for quarter in range(1, 25)]
    reasons = Counter(slot.detail for slot in slots if slot.state is SlotState.MISSED)
    assert set(reasons) == {"the store could not be used"}


@needs_devices
def test_a_store_gone_read_only_is_waited_for_and_gone_on_with_once_it_is_repaired(
    tmp_path: Path,
) -> None:
    scene = Scene()
    with loopback.mounted(tmp_path, size_bytes=16 * MIB, options="errors=remount-ro") as disk:
        file = disk.mount_point / "t.db"
        error = Path("/sys/fs/ext4") / disk.device.name / "trigger_fs_error"
        scene.events = [(2.1, lambda: error.write_text("a fault"))]
        with Store.open(file) as store:
            scene.watch(store, 4.6)  # it waits, and ends when it is stopped
            assert [slot.due_at for slot in store.slots("scratch")][-1] <= MONDAY + 2.25 * HOUR
        device = str(disk.device.path)
        loopback.unmount_everywhere(disk.device, disk.mount_point)
        subprocess.run(["e2fsck", "-fy", device], check=False, capture_output=True)
        subprocess.run(["mount", device, disk.mount_point], check=True)
        scene.driver.target.readings["read_only"] = True
        with Store.open(file) as store:
            scene.watch(store, 6.1)
            assert store.check(contents=True).problems == ()
            slots = store.slots("scratch", item="probe:hourly")
    assert "the store cannot be used" in scene.lines.text()
    assert [slot.due_at for slot in slots] == [MONDAY + hour * HOUR for hour in range(1, 7)]
    states = [slot.state for slot in slots]
    assert states == [SlotState.DONE] * 2 + [SlotState.MISSED] * 2 + [SlotState.DONE] * 2
    assert scene.sent == [("target-read-only", OPENED)]


def test_a_clock_set_back_by_an_hour_sends_nothing_twice_and_loses_nothing(
    store: Store,
) -> None:
    scene = Scene()

    def back() -> None:
        scene.clock.at -= HOUR

    scene.events = [(2.1, scene.sets(read_only=True)), (4.05, back)]
    scene.events += [(4.06, scene.sets(read_only=False)), (5.6, scene.sets(read_only=True))]
    scene.watch(store, 7.1)
    slots = Counter((slot.item, slot.due_at) for slot in store.slots("scratch"))
    assert "the clock went back" in scene.lines.text()
    name = "target-read-only"
    assert scene.sent == [(name, OPENED), (name, CLOSED), (name, OPENED)]
    assert len(slots) == 7 + 28
    assert set(slots.values()) == {1}


def test_a_server_that_cannot_be_reached_is_an_alert_and_ends_no_other(store: Store) -> None:
    scene = Scene()
    scene.events = [(2.1, scene.sets(read_only=True)), (3.1, scene.answer(answers=False))]
    scene.events += [(5.1, scene.answer(answers=True)), (6.1, scene.sets(read_only=False))]
    scene.watch(store, 8.1)
    complete = [snapshot.complete for snapshot in store.snapshots("scratch")]
    assert complete.count(False) >= 8
    assert scene.sent == [
        ("target-read-only", OPENED),
        ("server-no-answer", OPENED),
        ("server-no-answer", CLOSED),
        ("target-read-only", CLOSED),
    ]


@pytest.mark.parametrize(
    ("evening", "quiet", "sent_at"),
    [
        # Clocks go forward: 02:00 CET is 03:00 CEST.
        (datetime(2026, 3, 28, 21, tzinfo=UTC), "20:00-07:00", datetime(2026, 3, 29, 5)),
        (datetime(2026, 3, 28, 21, tzinfo=UTC), "20:00-02:30", datetime(2026, 3, 29, 1)),
        # Clocks go back: 03:00 CEST is 02:00 CET.
        (datetime(2026, 10, 24, 21, tzinfo=UTC), "20:00-07:00", datetime(2026, 10, 25, 6)),
        (datetime(2026, 10, 24, 21, tzinfo=UTC), "20:00-02:30", datetime(2026, 10, 25, 0, 30)),
    ],
)
def test_quiet_hours_end_once_on_the_nights_when_clocks_change(
    evening: datetime, quiet: str, sent_at: datetime, store: Store, monkeypatch: Any
) -> None:
    scene = Scene(timezone="Europe/Berlin", alerts=Alerts(quiet=parse_window(quiet)))
    scene.clock.at = evening
    decided(monkeypatch, alert(1))
    alerting = scene.alerting(store)
    alerting.after_slot()
    for _ in range(6 * 12):
        scene.clock.at += HOUR / 6
        alerting.idle(scene.clock())
    assert scene.chat.attempts == [sent_at.replace(tzinfo=UTC)]
    assert scene.chat.ids == [alert(1).id]
