"""Alerts at Alertmanager itself: they begin, go on, change and end there as they do here."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.mailbox import Hook, answer, web_server
from tests.support.monitoring import alert_manager, eventually
from tests.support.watched import Moving, a_log, a_site
from tests.watch.alert.parcels_of import NOON, alert, parcel

from trimtab.base.alert import Alert, Phase
from trimtab.base.finding import Severity
from trimtab.base.notification import Alerts, Webhook
from trimtab.store.store import Store
from trimtab.watch.alert import alerting as module
from trimtab.watch.alert.alerting import REPEAT, Alerting
from trimtab.watch.alert.receiver import HOLD, AlertmanagerReceiver, Receiver, receivers_of

pytestmark = pytest.mark.system


def receiver_at(url: str) -> Receiver:
    settings = Webhook("monitoring", url, "alertmanager-api")
    runbook = Alerts(runbook="https://wiki.example.org/runbook")
    (receiver,) = receivers_of(a_site(webhooks=(settings,), alerts=runbook))
    assert isinstance(receiver, AlertmanagerReceiver)
    return receiver


def a_life(now: datetime) -> tuple[Alert, Alert, Alert]:
    """Return what is sent of one problem: it opens, becomes worse, and is over."""
    opened = alert(1, at=now, since=now - timedelta(hours=1))
    worse = replace(opened, id="2" * 32, phase=Phase.WORSENED, severity=Severity.CRITICAL)
    return opened, worse, replace(opened, id="3" * 32, phase=Phase.CLOSED)


@pytest.mark.skipif(
    shutil.which("prometheus-alertmanager") is None, reason="Alertmanager is not installed"
)
def test_alertmanager_itself_knows_what_goes_on_and_what_is_over(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    opened, worse, closed = a_life(now)
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with web_server() as web:
        with alert_manager(tmp_path / "first", web.url) as (manager, port):
            receiver = receiver_at(f"http://127.0.0.1:{port}/")
            receiver.deliver(parcel(opened), now)
            (active,) = manager.get("/api/v2/alerts")
            labels = {"alertname": "incident", "site": "scratch", "subject": "incident:1"}
            assert active["labels"] == {**labels, "severity": "warning"}
            assert active["annotations"]["summary"] == opened.title
            assert active["generatorURL"] == "https://wiki.example.org/runbook#incident"
            assert opened.since is not None
            assert abs(datetime.fromisoformat(active["startsAt"]) - opened.since) < HOLD / 1000
            assert abs(datetime.fromisoformat(active["endsAt"]) - (now + HOLD)) < HOLD / 1000
            receiver.deliver(parcel(worse), now)
            (active,) = manager.get("/api/v2/alerts")  # of another severity there is one alert
            assert active["labels"] == {**labels, "severity": "critical"}
        # Alertmanager starts again and knows nothing; so does the watch, but for its ledger.
        with alert_manager(tmp_path / "second", web.url) as (manager, port):
            assert manager.get("/api/v2/alerts") == []
            receiver = receiver_at(f"http://127.0.0.1:{port}/api/v2/alerts")
            receiver.remember((opened, worse))
            receiver.repeat(now)
            (again,) = manager.get("/api/v2/alerts")
            assert again["fingerprint"] == active["fingerprint"]
            assert again["startsAt"] == active["startsAt"]
            sent = lambda: [document["status"] for document in web.documents]  # noqa: E731
            eventually(lambda: "firing" in sent()[-1:])
            receiver.deliver(parcel(closed), datetime.now(UTC))
            assert manager.get("/api/v2/alerts") == []
            assert not receiver.repeats
            eventually(lambda: sent()[-1] == "resolved")


class Watch:
    """A watch whose record asks for alerts, and an Alertmanager that keeps what it was posted."""

    def __init__(self, directory: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.wanted = Moving(NOON), list[Alert]()
        webhook = Webhook("monitoring", url, "alertmanager-api")
        self.site = a_site(webhooks=(webhook,), alerts=Alerts(quiet=None))
        self.store = Store.open(directory / "t.db")
        self.log, self.lines = a_log()

        def decide(observed: object, sent: list[Alert], now: datetime) -> list[Alert]:
            known = {one.id for one in sent}
            return [replace(one, at=now) for one in self.wanted if one.id not in known]

        monkeypatch.setattr(module, "decide", decide)
        self.alerting = self.started()

    def started(self) -> Alerting:
        return Alerting(self.site, self.store, log=self.log, clock=self.clock, threads=False)

    def after(self, time: timedelta) -> None:
        self.clock.at += time
        self.alerting.idle(self.clock())


def test_what_goes_on_is_repeated_every_minute_also_after_a_restart_and_what_is_over_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, worse, closed = a_life(NOON)
    with web_server() as web:
        watch = Watch(tmp_path, web.url, monkeypatch)
        watch.wanted = [opened]
        watch.alerting.after_slot()
        watch.after(timedelta())
        count = len(web.bodies)
        watch.after(REPEAT / 2)
        assert len(web.bodies) == count
        watch.after(REPEAT)
        assert len(web.bodies) == count + 1
        watch.alerting = watch.started()
        watch.after(timedelta())
        entries = posts(web)
        assert all(post[0]["labels"] == entries[0][0]["labels"] for post in entries)
        assert entries[-1][0]["endsAt"] == (watch.clock() + HOLD).isoformat()
        watch.wanted = [opened, worse]
        watch.alerting.after_slot()
        severities = [entry["labels"]["severity"] for entry in posts(web)[-1]]
        assert severities == ["warning", "critical"]
        watch.wanted = [opened, worse, closed]
        watch.alerting.after_slot()
        (ended,) = posts(web)[-1]
        assert ended["labels"]["severity"] == "critical"  # what fires there, not how it ended
        assert ended["endsAt"] == watch.clock().isoformat()
        count = len(web.bodies)
        watch.after(10 * REPEAT)
        watch.alerting = watch.started()
        watch.after(10 * REPEAT)
        assert len(web.bodies) == count
        watch.store.close()


def posts(web: Hook) -> list[list[dict[str, Any]]]:
    """Return the lists that were posted."""
    return [json.loads(body) for body in web.bodies]


def test_an_alertmanager_that_is_down_delays_no_new_alert_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_server() as web:
        watch = Watch(tmp_path, web.url, monkeypatch)
        watch.wanted = [alert(1)]
        watch.alerting.after_slot()
        web.behave = lambda request, body: answer(request, 503)
        for _ in range(5):
            watch.after(REPEAT)
        web.behave = lambda request, body: answer(request)
        watch.wanted = [alert(1), alert(2)]
        watch.alerting.after_slot()
        assert posts(web)[-1][0]["labels"]["subject"] == "incident:2"
        assert watch.lines.text().count("alerts were not repeated") == 1
        watch.store.close()
