"""Receivers of alerts: a mail server and webhooks, with secrets read when they are needed.

A receiver's answer is trusted no further than necessary: a redirect, or a page in place of an
answer, is no delivery. No error contains a secret.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from trimtab.base.code_version import __version__
from trimtab.base.encode import shape
from trimtab.base.error import Message, Undelivered, UsageError, visible
from trimtab.base.event import new_identifier
from trimtab.base.finding import Alert, Phase, Severity
from trimtab.base.site import Site
from trimtab.base.site_policy import MailAlerts, Webhook
from trimtab.reach.mail import Mailer, secret_of
from trimtab.watch import payload
from trimtab.watch.alert_table import TEST
from trimtab.watch.payload import Parcel

TIMEOUT_S: Final = 10.0
"""Timeout of a connection, and of each answer within it."""
_ANSWER_MAX: Final = 64 * 1024
_REFUSED_FOR_GOOD: Final = frozenset({400, 413, 415, 422})
"""The message is at fault: a repetition would be refused too (RFC 9110, 15.5)."""
_SHOWN: Final = 120
_HINT: Final = 'add [alerts.mail] with to = ["ops@example.org"], or a [webhook.NAME]'

_READERS: Final[dict[str, Callable[[Parcel, str | None], dict[str, Any]]]] = {
    "generic": payload.generic,
    "slack": payload.slack,
    "webhook": payload.webhook,
}
ALERTMANAGER_PATH: Final = "/api/v2/alerts"
HOLD: Final = timedelta(hours=1)
"""Time that an alert stays open in Alertmanager after it was last sent: longer than a restart of
the watch or of its host, and than the time between two calls of ``trimtab watch --check``."""
TEST_HOLD: Final = timedelta(minutes=5)


class Receiver(ABC):
    """Where alerts go.

    Attributes
    ----------
    name
        ``mail``, or the name of the webhook.
    """

    name: str

    @abstractmethod
    def deliver(self, parcel: Parcel, now: datetime) -> str | None:
        """Hand over one message, and return a note about the delivery.

        Raises
        ------
        Undelivered
            It was not accepted, or it is unknown whether it was.
        """

    def remember(self, delivered: Iterable[Alert]) -> None:  # noqa: B027 (most keep nothing)
        """Restore the alerts given to this receiver, also by earlier processes, oldest first."""

    in_maintenance: Callable[[Alert, datetime], object] | None = None
    """Whether an alert falls into a maintenance at a moment; set by who delivers."""
    labels_maintenance = False
    """Whether it gets alerts of a maintenance at once, with a label by which it silences them."""

    @property
    def repeats(self) -> bool:
        """Whether it forgets alerts that are not repeated; then call `repeat` every minute."""
        return False

    def repeat(self, now: datetime) -> None:  # noqa: B027 (called where `repeats` is true)
        """Send the open alerts again.

        Raises
        ------
        Undelivered
            As for `deliver`.
        """


def receivers_of(site: Site) -> tuple[Receiver, ...]:
    """Return every receiver of a site file."""
    runbook = site.alerts.runbook
    mail: tuple[Receiver, ...] = ()
    if site.alerts.mail.to:
        mail = (MailReceiver(site.alerts.mail, runbook),)
    return (*mail, *(_over_http(webhook, runbook) for webhook in site.webhooks))


def try_receivers(site: Site, now: datetime) -> Iterator[ReceiverRow]:
    """Send a test message to each receiver, one after another: ``trimtab alerts test``.

    Raises
    ------
    UsageError
        The site file names no receiver.
    """
    receivers = receivers_of(site)
    if not receivers:
        raise UsageError(
            f"no receiver of alerts is set up for {site.name}",
            code="receiver-missing",
            hint=_HINT,
        )
    identifier = new_identifier(now)
    alert = Alert(
        identifier,
        site.name,
        TEST,
        TEST,
        Phase.TEST,
        Severity.INFO,
        now,
        now,
        f"test of the alerts of {site.name}: there is no problem, and nothing to do",
        (f"Earlier alerts: trimtab alerts {site.name}",),
    )
    for receiver in receivers:
        try:
            receiver.deliver(Parcel(identifier, (alert,)), now)
        except Undelivered as error:
            yield ReceiverRow(receiver.name, False, Message(error.code, error.message))
        else:
            yield ReceiverRow(receiver.name, True)


def _over_http(webhook: Webhook, runbook: str | None) -> Receiver:
    is_alertmanager = webhook.kind == "alertmanager-api"
    return (AlertmanagerReceiver if is_alertmanager else WebhookReceiver)(webhook, runbook)


class MailReceiver(Receiver):
    """Sends mail."""

    name = "mail"

    def __init__(self, settings: MailAlerts, runbook: str | None) -> None:
        self._settings, self._runbook = settings, runbook

    def deliver(self, parcel: Parcel, now: datetime) -> str | None:
        """Hand a mail to the server, which may refuse some of its recipients."""
        settings, domain = self._settings, _domain()
        message = payload.mail(
            parcel,
            sender=settings.sender or f"trimtab@{domain}",
            to=settings.to,
            runbook=self._runbook,
            domain=domain,
        )
        recipients = [address.addr_spec for address in message["To"].addresses]
        with Mailer(settings, timeout_s=TIMEOUT_S) as mailer:
            refused = mailer.deliver(message, *recipients)
        return f"the mail server refused {', '.join(map(visible, refused))}" if refused else None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following it would turn a POST into a GET of another page."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class WebhookReceiver(Receiver):
    """Sends JSON by POST."""

    def __init__(self, settings: Webhook, runbook: str | None) -> None:
        self.name = settings.name
        self._settings, self._runbook = settings, runbook

    def deliver(self, parcel: Parcel, now: datetime) -> str | None:
        """Post a message; an answer of 2xx that is no web page is a delivery."""
        document = _READERS[self._settings.kind](parcel, self._runbook)
        self._post(document, now, {payload.IDEMPOTENCY_KEY: parcel.key})

    def _post(
        self,
        document: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        now: datetime,
        more: Mapping[str, str],
        path: str = "",
    ) -> None:
        settings, body = self._settings, payload.encoded(document)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"trimtab/{__version__}",
            **more,
        }
        if settings.secret is not None:
            key = secret_of(settings.secret).encode()
            headers[payload.SIGNATURE] = payload.signature(body, key, int(now.timestamp()))
        url = settings.url
        if url.partition(":")[0] in ("file", "env"):
            url = secret_of(url)
            if not url.startswith(("https://", "http://")):
                raise Undelivered(
                    "the secret for the address contains none", code="secret-unreadable"
                )
        if path and not url.endswith(path):
            url = url.rstrip("/") + path
        request = urllib.request.Request(url, body, headers, method="POST")
        with _failures("it"):
            context = _trusted(settings.ca_file)
            opener = urllib.request.build_opener(
                _NoRedirect, urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                try:
                    text = answer.read(_ANSWER_MAX)
                except (http.client.IncompleteRead, OSError):
                    text = b""  # the status arrived: a repetition would be a duplicate
        _check(settings.kind, text)


class AlertmanagerReceiver(WebhookReceiver):
    """Alertmanager itself, by its API.

    It ends an alert that is not repeated, and knows none after a restart. So open alerts are
    repeated, each time with an end that is `HOLD` away; closed ones are sent with their end.

    A label says that a maintenance is going on, for its own silences. Labels identify an alert: at
    begin and end of a window the alert with the other ones is not repeated any more, and ends.
    """

    labels_maintenance = True

    def __init__(self, settings: Webhook, runbook: str | None) -> None:
        super().__init__(settings, runbook)
        self._firing: dict[str, Alert] = {}

    def remember(self, delivered: Iterable[Alert]) -> None:
        """See `Receiver.remember`."""
        for alert in delivered:
            self._firing = _with(self._firing, alert)

    @property
    def repeats(self) -> bool:
        """See `Receiver.repeats`."""
        return bool(self._firing)

    def deliver(self, parcel: Parcel, now: datetime) -> str | None:
        """Post each subject as it is after these alerts."""
        latest = {alert.subject: alert for alert in parcel.alerts}
        entries = [
            entry
            for alert in latest.values()
            for entry in self._entries(alert, self._firing.get(alert.subject), now)
        ]
        self._post(entries, now, {}, ALERTMANAGER_PATH)
        self.remember(parcel.alerts)
        return None

    def repeat(self, now: datetime) -> None:
        """See `Receiver.repeat`."""
        firing = self._firing.values()
        entries = [self._posted(alert, now + HOLD, now) for alert in firing]
        self._post(entries, now, {}, ALERTMANAGER_PATH)

    def _entries(
        self, alert: Alert, before: Alert | None, now: datetime
    ) -> Iterator[dict[str, Any]]:
        """Yield the entries to post for an alert; a new severity is a new alert to Alertmanager."""
        if alert.phase is Phase.CLOSED:
            known = alert if before is None else replace(alert, severity=before.severity)
            yield self._posted(known, alert.at, now)
            return
        if before is not None and before.severity is not alert.severity:
            yield self._posted(before, now, now)
        hold = TEST_HOLD if alert.phase is Phase.TEST else HOLD
        yield self._posted(alert, now + hold, now)

    def _posted(self, alert: Alert, ends_at: datetime, now: datetime) -> dict[str, Any]:
        inside = self.in_maintenance is not None and bool(self.in_maintenance(alert, now))
        return payload.posted(alert, ends_at, self._runbook, maintenance=inside)


def _with(firing: dict[str, Alert], alert: Alert) -> dict[str, Alert]:
    """Return the open alerts by subject, after one more alert."""
    if alert.phase in (Phase.TEST, Phase.NOTED):
        return firing
    others = {subject: other for subject, other in firing.items() if subject != alert.subject}
    return others if alert.phase is Phase.CLOSED else {**others, alert.subject: alert}


def _check(kind: str, text: bytes) -> None:
    """Raise if an answer did not come from a receiver, or its text contradicts its status."""
    shown = visible(text[:_SHOWN].decode("utf-8", "replace"))
    if text.lstrip()[:1] == b"<":
        raise Undelivered(
            f"a web page came in place of an answer: {shown}", code="receiver-answer-unexpected"
        )
    if kind != "slack" or text.strip() in (b"", b"ok"):
        return
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or False in (document.get("ok"), document.get("success")):
        raise Undelivered(f"it answered {shown}", code="receiver-answer-unexpected")


@contextmanager
def _failures(place: str) -> Iterator[None]:
    """Turn every failure of a delivery into `Undelivered`, without repeating an address."""
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            raise _of_status(error) from None
    except http.client.HTTPException as error:
        raise Undelivered(
            f"the connection to {place} ended early: {type(error).__name__}",
            code="receiver-answer-unexpected",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        text = getattr(reason, "strerror", None) or type(reason).__name__
        raise Undelivered(
            f"{place} cannot be reached: {visible(str(text))}", code="receiver-unreachable"
        ) from None


def _of_status(error: urllib.error.HTTPError) -> Undelivered:
    after = error.headers.get("Retry-After", "") if error.headers else ""
    return Undelivered(
        f"it answered {error.code}",
        code="receiver-refused",
        for_good=error.code in _REFUSED_FOR_GOOD,
        retry_after_s=float(after) if after.isascii() and after.isdigit() else None,
    )


def _trusted(ca_file: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)


def _domain() -> str:
    name = socket.getfqdn()
    return name if name.isascii() and all(c.isalnum() or c in "-." for c in name) else "localhost"


# Output of `trimtab alerts`


@dataclass(frozen=True, slots=True)
class AlertsDocument:
    """``trimtab alerts SITE --json``: the ledger, oldest first, and what waits."""

    store: str
    site: str
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class ReceiverRow:
    """One receiver that was tested.

    Attributes
    ----------
    delivered
        Whether it accepted the test message.
    """

    receiver: str
    delivered: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AlertsTestDocument:
    """``trimtab alerts test SITE --json``: each receiver, and whether it accepted the message."""

    site: str
    receivers: tuple[ReceiverRow, ...]


shape(Alert, omit=["site", "facts"])
