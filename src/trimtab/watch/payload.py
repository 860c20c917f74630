"""Messages to receivers: which waiting alerts go into one, and its text as mail, chat or JSON.

Names of targets, runs and causes are untrusted: control characters are shown as escapes, a mail
header is one line, and Slack's markup characters are escaped.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, Final

from trimtab.base.error import visible
from trimtab.base.finding import Alert, Phase, Severity
from trimtab.base.site_policy import Window

HOUR: Final = timedelta(hours=1)
DIGEST_FROM: Final = 4
"""From this many waiting alerts on, send a digest, so that a returning receiver is not flooded."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message to one receiver.

    Attributes
    ----------
    key
        Idempotency key: the same alerts have the same key, so a receiver can drop duplicates.
    alerts
        Oldest first; several make a digest.
    """

    key: str
    alerts: tuple[Alert, ...]

    @property
    def severity(self) -> Severity:
        """The most severe of its alerts."""
        return min((alert.severity for alert in self.alerts), key=lambda severity: severity.rank)


def is_quiet(at: datetime, quiet: Window | None, timezone: str) -> bool:
    """Return whether a time is within a site's quiet hours."""
    return quiet is not None and quiet.holds_at(at, timezone)


def parcels(
    waiting: Sequence[Alert],
    sent_at: Sequence[datetime],
    now: datetime,
    *,
    per_hour: int,
    quiet: Window | None = None,
    timezone: str = "UTC",
    late: Collection[str] = (),
) -> list[Parcel]:
    """Return the messages to send now, critical ones first; omitted alerts keep waiting.

    Each critical alert is sent at once and alone. Others wait for the end of quiet hours and for
    the rate limit; alerts that had to wait, or many at once, become one digest.

    Parameters
    ----------
    waiting
        Oldest first.
    sent_at
        Times of the last messages to this receiver.
    late
        Ids of those that a window or silence held back until now: one message for all, at once if
        one of them is critical.
    """
    urgent = [alert for alert in waiting if alert.severity is Severity.CRITICAL]
    made = [_parcel([alert]) for alert in urgent if alert.id not in late]
    if any(alert.id in late for alert in urgent):
        made.append(_parcel([alert for alert in waiting if alert.id in late]))
    sent = {alert.id for parcel in made for alert in parcel.alerts}
    others = [alert for alert in waiting if alert.id not in sent]
    room = per_hour - len(made) - sum(now - at < HOUR for at in sent_at)
    if not others or room <= 0 or is_quiet(now, quiet, timezone):
        return made
    held = any(alert.id in late or is_quiet(alert.at, quiet, timezone) for alert in others)
    if len(others) > 1 and (held or len(others) >= DIGEST_FROM or len(others) > room):
        return [*made, _parcel(others)]
    return [*made, *(_parcel([alert]) for alert in others)]


def _parcel(alerts: Sequence[Alert]) -> Parcel:
    if len(alerts) == 1:
        return Parcel(alerts[0].id, tuple(alerts))
    digest = hashlib.sha256("\0".join(alert.id for alert in alerts).encode())
    return Parcel(digest.hexdigest()[:32], tuple(alerts))


SUBJECT_MAX: Final = 180
SLACK_SECTION_MAX: Final = 2900
"""A section takes 3000 characters (docs.slack.dev), including escapes."""
SLACK_ALERTS_MAX: Final = 3
"""Alert sections per message: Slack rejects messages above about 13 000 characters."""
_NEVER: Final = "0001-01-01T00:00:00Z"
"""Alertmanager's end time of an alert that is still firing."""
SIGNATURE: Final = "Trimtab-Signature"
IDEMPOTENCY_KEY: Final = "Idempotency-Key"


def title_of(parcel: Parcel) -> str:
    """Return the first line of a message: the alert's title, or the contents of a digest."""
    if len(parcel.alerts) == 1:
        return visible(parcel.alerts[0].title)
    phases = [phase.value for phase in Phase for alert in parcel.alerts if alert.phase is phase]
    counts = ", ".join(f"{phases.count(phase)} {phase}" for phase in dict.fromkeys(phases))
    site = visible(parcel.alerts[0].site)
    return f"{len(parcel.alerts)} waiting alerts of {site} ({counts}); next: trimtab status {site}"


def text_of(parcel: Parcel, runbook: str | None) -> str:
    """Return a message as plain text; the first line says what, how much, since when and why."""
    lines = [title_of(parcel), ""]
    several = len(parcel.alerts) > 1
    for alert in parcel.alerts:
        if several:
            lines += [
                "",
                f"{alert.at:%Y-%m-%d %H:%M} UTC  {alert.severity.value}, {alert.phase.value}",
            ]
            lines.append(f"  {visible(alert.title)}")
        lines += [f"  {visible(line)}" if several else visible(line) for line in alert.lines]
        lines.append(("  " if several else "") + f"Runbook: {link(alert, runbook)}")
    return "\n".join(lines) + "\n"


def link(alert: Alert, runbook: str | None) -> str:
    """Return the link to an alert's section of the runbook."""
    base = runbook if runbook and "://" in runbook else "docs/runbook.md"
    return f"{base}#{alert.name}"


def mail(
    parcel: Parcel, *, sender: str, to: tuple[str, ...], runbook: str | None, domain: str
) -> EmailMessage:
    """Return a mail; its Message-ID is the same for the same alerts."""
    site = visible(parcel.alerts[0].site)
    message = EmailMessage(policy=SMTP)
    message["From"] = Address(addr_spec=_whole(sender, domain))
    message["To"] = tuple(Address(addr_spec=_whole(address, domain)) for address in to)
    subject = f"[trimtab {site}] {parcel.severity.value}: {title_of(parcel)}"
    message["Subject"] = _one_line(subject)[:SUBJECT_MAX]
    message["Date"] = parcel.alerts[-1].at
    message["Message-ID"] = f"<{parcel.key}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses automatic replies
    message["X-Trimtab-Alert"] = parcel.alerts[0].name
    message.set_content(_encodable(text_of(parcel, runbook)))
    return message


def _whole(address: str, domain: str) -> str:
    return address if "@" in address else f"{address}@{domain}"


def _one_line(text: str) -> str:
    return _encodable(" ".join(text.split()))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def slack(parcel: Parcel, runbook: str | None) -> dict[str, Any]:
    """Return a message for Slack and services that accept its format."""
    title = _slack_text(f"[{parcel.severity.value}] {title_of(parcel)}")
    blocks = [_section(f"*{title}*")]
    shown = parcel.alerts[:SLACK_ALERTS_MAX]
    for alert in shown:
        lines = [visible(line) for line in alert.lines]
        lines = [visible(alert.title), *lines] if len(parcel.alerts) > 1 else lines
        lines.append(f"Runbook: {link(alert, runbook)}")
        blocks.append(_section(_slack_text("\n".join(lines))))
    if more := len(parcel.alerts) - len(shown):
        site = visible(shown[0].site)
        blocks.append(_section(_slack_text(f"and {more} more: trimtab alerts {site}")))
    return {"text": title, "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _slack_text(text: str) -> str:
    """Return text with Slack's links, mentions and style marks escaped."""
    # The invisible word joiner keeps names such as a_b and ~x~ from changing the style.
    escapes = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    escapes |= {mark: f"\u2060{mark}\u2060" for mark in "*_~`"}
    parts, length = [], 0
    for character in text:
        escaped = escapes.get(character, character)
        length += len(escaped)
        if length > SLACK_SECTION_MAX:
            return "".join(parts) + "..."
        parts.append(escaped)
    return "".join(parts)


def webhook(parcel: Parcel, runbook: str | None) -> dict[str, Any]:
    """Return a message as Alertmanager sends it to its webhooks, version 4."""
    entries = [_entry(alert, runbook) for alert in parcel.alerts]
    resolved = all(entry["status"] == "resolved" for entry in entries)
    return {
        "version": "4",
        "groupKey": f'{{}}:{{site="{visible(parcel.alerts[0].site)}"}}',
        "truncatedAlerts": 0,
        "status": "resolved" if resolved else "firing",
        "receiver": "trimtab",
        "groupLabels": {"site": visible(parcel.alerts[0].site)},
        "commonLabels": _common([entry["labels"] for entry in entries]),
        "commonAnnotations": _common([entry["annotations"] for entry in entries]),
        "externalURL": "",
        "alerts": entries,
    }


def _entry(alert: Alert, runbook: str | None) -> dict[str, Any]:
    closed = alert.phase is Phase.CLOSED
    since = alert.since or alert.at
    fingerprint = hashlib.sha256(f"{alert.site}\0{alert.subject}".encode("utf-8", "replace"))
    return {
        "status": "resolved" if closed else "firing",
        "labels": labels(alert),
        "annotations": _annotations(alert, runbook),
        "startsAt": since.isoformat(),
        "endsAt": alert.at.isoformat() if closed else _NEVER,
        "generatorURL": "",
        "fingerprint": fingerprint.hexdigest()[:16],
    }


def labels(alert: Alert, *, maintenance: bool = False) -> dict[str, str]:
    """Return the labels that identify an alert to Alertmanager; none changes on a restart.

    Parameters
    ----------
    maintenance
        Whether it falls into a maintenance, by which Alertmanager can silence it.
    """
    more = {"maintenance": "true"} if maintenance else {}
    return more | {
        "alertname": alert.name,
        "severity": alert.severity.value,
        "site": visible(alert.site),
        "subject": visible(alert.subject),
    }


def _annotations(alert: Alert, runbook: str | None) -> dict[str, str]:
    return {
        "summary": visible(alert.title),
        "description": "\n".join(map(visible, alert.lines)),
        "runbook_url": link(alert, runbook),
        "phase": alert.phase.value,
    }


def posted(
    alert: Alert, ends_at: datetime, runbook: str | None, *, maintenance: bool = False
) -> dict[str, Any]:
    """Return an entry of the list that ``POST /api/v2/alerts`` of Alertmanager takes.

    Parameters
    ----------
    ends_at
        When the alert ends unless it is sent again before, or when it ended.
    maintenance
        As for `labels`.
    """
    page = link(alert, runbook)
    return {
        "labels": labels(alert, maintenance=maintenance),
        "annotations": _annotations(alert, runbook),
        "startsAt": min(alert.since or alert.at, ends_at).isoformat(),
        "endsAt": ends_at.isoformat(),
        "generatorURL": page if "://" in page else "",
    }


def _common(tables: list[dict[str, str]]) -> dict[str, str]:
    first, *others = tables
    return {
        name: text for name, text in first.items() if all(table[name] == text for table in others)
    }


def generic(parcel: Parcel, runbook: str | None) -> dict[str, Any]:
    """Return a message of `webhook`, with an idempotency key, and each alert's id."""
    document = webhook(parcel, runbook)
    for entry, alert in zip(document["alerts"], parcel.alerts, strict=True):
        entry |= {"id": alert.id, "phase": alert.phase.value, "at": alert.at.isoformat()}
    return {**document, "idempotencyKey": parcel.key}


def encoded(document: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bytes:
    """Return the body of a message: ASCII JSON."""
    return json.dumps(document).encode("ascii")


def signature(body: bytes, secret: bytes, at_s: int) -> str:
    """Return what `SIGNATURE` holds: the time, and HMAC-SHA256 over time, full stop and body.

    Examples
    --------
    >>> signature(b"{}", b"key", 0)[:13]
    't=0,v1=731435'
    """
    mac = hmac.new(secret, f"{at_s}.".encode() + body, hashlib.sha256)
    return f"t={at_s},v1={mac.hexdigest()}"
