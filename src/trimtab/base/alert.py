"""An alert: a message about a site, once per phase of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.base.finding import Severity


class Phase(StrEnum):
    """What happened to the subject of an alert."""

    OPENED = "opened"
    WORSENED = "worsened"
    EXPLAINED = "explained"
    """Its cause was found."""
    CLOSED = "closed"
    REOPENED = "reopened"
    """A problem reported as over continues: later runs withdrew its end."""
    NOTED = "noted"
    """Recorded in the ledger and not sent."""
    TEST = "test"


class DeliveryState(StrEnum):
    """Progress of an alert towards one receiver."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DROPPED = "dropped"
    """Given up: permanently rejected, too old, or displaced by too many others."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An alert and its delivery to one receiver.

    Attributes
    ----------
    receiver
        ``mail``, or the name of a webhook.
    at
        Time of the state, aware UTC.
    detail
        Why it was dropped.
    """

    receiver: str
    state: DeliveryState
    at: datetime
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: a row of the ledger.

    Attributes
    ----------
    id
        The same for the same phase of the same subject, so it serves as idempotency key.
    subject
        Stable name of the problem for its duration: ``incident:ID``, ``target-lost``.
    name
        Its section of the runbook: ``incident``, ``target-lost`` ...
    at
        Time of the decision, aware UTC.
    since
        When the problem began; ``None`` if unknown.
    title
        First line: what, how much, since when, likely cause, what to do.
    lines
        Further lines.
    facts
        What recipients know after it; later decisions use it.
    deliveries
        By receiver; empty if there is none.
    """

    id: str
    site: str
    subject: str
    name: str
    phase: Phase
    severity: Severity
    at: datetime
    since: datetime | None
    title: str
    lines: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    deliveries: tuple[Delivery, ...] = ()
