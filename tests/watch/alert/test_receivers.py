"""Alerts handed to real servers on loopback that behave, are down, slow, or lie; Alertmanager."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.mailbox import Hook, answer, break_off, close_early, mail_server, web_server
from tests.support.monitoring import alert_manager, eventually
from tests.support.watched import a_site
from tests.watch.alert.parcels_of import NOON, TITLE, alert, parcel
from tests.watch.alert.test_alerting import Place, decided

from trimtab.base.error import Undelivered
from trimtab.base.finding import Alert, Phase, Severity
from trimtab.base.site_policy import Alerts, MailAlerts, Webhook
from trimtab.store.store import Store
from trimtab.watch import receiver as receivers
from trimtab.watch.alerting import REPEAT, Alerting
from trimtab.watch.receiver import HOLD, AlertmanagerReceiver, MailReceiver, Receiver, receivers_of

pytestmark = pytest.mark.system

HOSTILE = "OST\r\nBcc: everybody@example.org\r\n\r\n<!channel> \x1b[2J \u202e *_b_* \udcff"


def mailer(port: int, **changes: object) -> MailReceiver:
    settings = {"to": ("ops@example.org",), "server": "127.0.0.1", "port": port}
    return MailReceiver(MailAlerts(**(settings | changes)), None)  # type: ignore[arg-type]


def hook(url: str, kind: str = "generic", **changes: object) -> receivers.Receiver:
    settings = Webhook("chat", url, kind, **changes)  # type: ignore[arg-type]
    (receiver,) = receivers.receivers_of(a_site(webhooks=(settings,)))
    return receiver


def failure(receiver: receivers.Receiver) -> Undelivered:
    with pytest.raises(Undelivered) as raised:
        receiver.deliver(parcel(), NOON)
    return raised.value


def test_a_mail_says_it_all_in_its_subject_and_first_line() -> None:
    with mail_server() as post:
        assert mailer(post.port, sender="trimtab@example.org").deliver(parcel(), NOON) is None
    (mail,) = post.mails
    assert mail["Subject"] == f"[trimtab scratch] warning: {TITLE}"
    assert mail["From"] == "trimtab@example.org"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].startswith(f"<{alert().id}@")
    body = mail.get_content().splitlines()
    assert body[0] == TITLE
    assert body[-1] == "Runbook: docs/runbook.md#incident"
    assert post.recipients == [["ops@example.org"]]


def test_names_from_outside_add_no_header_and_no_recipient() -> None:
    hostile = alert(title=HOSTILE, lines=(HOSTILE,), site=HOSTILE)
    with mail_server() as post:
        mailer(post.port).deliver(parcel(hostile), NOON)
    (mail,) = post.mails
    assert "Bcc" not in mail
    assert post.recipients == [["ops@example.org"]]
    text = mail["Subject"] + mail.get_content()
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_some_recipients_that_are_refused_are_a_note_and_all_a_failure() -> None:
    with mail_server() as post:
        post.refused = ("gone@example.org",)
        some = mailer(post.port, to=("ops@example.org", "gone@example.org"))
        assert some.deliver(parcel(), NOON) == "the mail server refused gone@example.org"
        assert failure(mailer(post.port, to=("gone@example.org",))).code == "receiver-refused"
    assert len(post.mails) == 1


def test_a_mail_that_was_taken_is_not_sent_again_because_of_the_farewell() -> None:
    with mail_server() as post:
        post.goodbye = "421 too busy to say goodbye"
        assert mailer(post.port).deliver(parcel(), NOON) is None
    assert len(post.mails) == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"greeting": "554 go away"}, "receiver-refused"),
        ({"greeting": ""}, "receiver-answer-unexpected"),
        ({"greeting": "<html>a proxy</html>"}, "receiver-answer-unexpected"),
        ({"after_data": "452 disk full"}, "receiver-refused"),
        ({"after_data": ""}, "receiver-answer-unexpected"),
    ],
)
def test_a_mail_server_that_does_not_take_it(changes: dict[str, str], code: str) -> None:
    with mail_server() as post:
        for name, value in changes.items():
            setattr(post, name, value)
        error = failure(mailer(post.port))
    assert error.code in {code, "receiver-refused"}
    assert post.mails == []


def test_a_receiver_that_is_down_or_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "TIMEOUT_S", 0.3)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        both = mailer(port), hook(f"http://127.0.0.1:{port}/")
        assert {failure(receiver).code for receiver in both} == {"receiver-unreachable"}
        listening.listen()
        began = time.monotonic()
        codes = [failure(receiver).code for receiver in both]
        assert codes == ["receiver-answer-unexpected", "receiver-unreachable"]
        assert time.monotonic() - began < 5


def test_a_generic_message_is_signed_and_has_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_KEY", "sesame")
    with web_server() as web:
        hook(web.url, secret="env:HOOK_KEY").deliver(parcel(), NOON)
    (body,), (headers,), (document,) = web.bodies, web.headers, web.documents
    assert headers["Idempotency-Key"] == document["idempotencyKey"] == alert().id
    at = int(NOON.timestamp())
    mac = hmac.new(b"sesame", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["Trimtab-Signature"] == f"t={at},v1={mac}"
    assert document["alerts"][0]["annotations"]["summary"] == TITLE


def test_a_webhook_message_has_the_fields_of_version_4() -> None:
    closed = alert(1, phase=Phase.CLOSED)
    with web_server() as web:
        hook(web.url, "webhook").deliver(parcel(alert(), closed), NOON)
    (document,) = web.documents
    assert set(document) == {
        "version", "groupKey", "truncatedAlerts", "status", "receiver", "groupLabels",
        "commonLabels", "commonAnnotations", "externalURL", "alerts",
    }  # fmt: skip
    assert (document["version"], document["status"]) == ("4", "firing")
    assert [entry["status"] for entry in document["alerts"]] == ["firing", "resolved"]
    assert document["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"
    assert document["commonLabels"]["alertname"] == "incident"


def test_a_slack_message_mentions_nobody_and_links_nothing() -> None:
    with web_server() as web:
        many = [alert(number, title=HOSTILE * 200, lines=(HOSTILE * 200,)) for number in range(9)]
        hook(web.url, "slack").deliver(parcel(*many), NOON)
    (document,) = web.documents
    texts = [document["text"], *(block["text"]["text"] for block in document["blocks"])]
    assert not any(character in text for text in texts for character in "<>\r\x1b\u202e")
    assert max(map(len, texts)) <= 3000
    assert sum(map(len, texts)) < 13_000


@pytest.mark.parametrize("kind", ["generic", "slack", "webhook", "alertmanager-api"])
@pytest.mark.parametrize(
    ("behave", "code", "for_good"),
    [
        (lambda request, body: answer(request, 500), "receiver-refused", False),
        (lambda request, body: answer(request, 400), "receiver-refused", True),
        (lambda request, body: answer(request, 302, Location="/login"), "receiver-refused", False),
        (
            lambda request, body: answer(request, 200, b"<html>log in</html>"),
            *("receiver-answer-unexpected", False),
        ),
        (close_early, "receiver-answer-unexpected", False),
    ],
)
def test_a_webhook_that_does_not_take_it(kind, behave, code, for_good) -> None:
    with web_server() as web:
        web.behave = behave
        error = failure(hook(web.url, kind))
    assert (error.code, error.for_good) == (code, for_good)
    assert b"a GET" not in web.bodies
    assert web.url not in error.message


def test_slack_that_says_no_politely_has_not_taken_it() -> None:
    for body in (b'{"ok": false}', b"invalid_payload", b"[]"):
        with web_server() as web:
            web.behave = lambda request, _, body=body: answer(request, 200, body)
            assert failure(hook(web.url, "slack")).code == "receiver-answer-unexpected"
    with web_server() as web:
        web.behave = lambda request, _: answer(request, 200, b'{"success":true}')
        assert hook(web.url, "slack").deliver(parcel(), NOON) is None


def test_an_answer_that_breaks_off_after_its_status_was_a_delivery() -> None:
    with web_server() as web:
        web.behave = break_off
        assert hook(web.url).deliver(parcel(), NOON) is None


def test_a_receiver_may_ask_for_time() -> None:
    with web_server() as web:
        web.behave = lambda request, _: answer(request, 429, Retry_After="120")
        assert failure(hook(web.url)).retry_after_s == 120


def test_the_address_of_a_chat_is_a_secret(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/services/T0/SECRET"
        (tmp_path / "url").write_text(url)
        (tmp_path / "url").chmod(0o400)
        assert "SECRET" not in failure(hook(f"file:{tmp_path}/url")).message


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


class Watch(Place):
    """A watch whose record asks for alerts, and an Alertmanager that keeps what it was posted."""

    def __init__(self, store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        webhook = Webhook("monitoring", url, "alertmanager-api")
        super().__init__(store, site=a_site(webhooks=(webhook,), alerts=Alerts(quiet=None)))
        self.monkeypatch = monkeypatch
        self.restart()

    def restart(self) -> None:
        self.running = Alerting(
            self.site, self.store, log=self.log, clock=self.clock, threads=False
        )

    def wants(self, *alerts: Alert) -> None:
        """Let a slot end after which these are asked for."""
        decided(self.monkeypatch, *alerts)
        self.running.after_slot()

    def passes(self, time: timedelta) -> None:
        self.after(time.total_seconds(), self.running)


def test_what_goes_on_is_repeated_every_minute_also_after_a_restart_and_what_is_over_is_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, worse, closed = a_life(NOON)
    with web_server() as web:
        watch = Watch(store, web.url, monkeypatch)
        watch.wants(opened)
        watch.passes(timedelta())
        count = len(web.bodies)
        watch.passes(REPEAT / 2)
        assert len(web.bodies) == count
        watch.passes(REPEAT)
        assert len(web.bodies) == count + 1
        watch.restart()
        watch.passes(timedelta())
        entries = posts(web)
        assert all(post[0]["labels"] == entries[0][0]["labels"] for post in entries)
        assert entries[-1][0]["endsAt"] == (watch.clock() + HOLD).isoformat()
        watch.wants(opened, worse)
        severities = [entry["labels"]["severity"] for entry in posts(web)[-1]]
        assert severities == ["warning", "critical"]
        watch.wants(opened, worse, closed)
        (ended,) = posts(web)[-1]
        assert ended["labels"]["severity"] == "critical"  # what fires there, not how it ended
        assert ended["endsAt"] == watch.clock().isoformat()
        count = len(web.bodies)
        watch.passes(10 * REPEAT)
        watch.restart()
        watch.passes(10 * REPEAT)
        assert len(web.bodies) == count


def posts(web: Hook) -> list[list[dict[str, Any]]]:
    """Return the lists that were posted."""
    return [json.loads(body) for body in web.bodies]


def test_an_alertmanager_that_is_down_delays_no_new_alert_and_is_logged_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_server() as web:
        watch = Watch(store, web.url, monkeypatch)
        watch.wants(alert(1))
        web.behave = lambda request, body: answer(request, 503)
        for _ in range(5):
            watch.passes(REPEAT)
        web.behave = lambda request, body: answer(request)
        watch.wants(alert(1), alert(2))
        assert posts(web)[-1][0]["labels"]["subject"] == "incident:2"
        assert watch.lines.text().count("alerts were not repeated") == 1
