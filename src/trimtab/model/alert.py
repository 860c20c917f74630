"""An alert: what people are told of a site, once for each phase of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.finding import Severity


class Phase(StrEnum):
    """What happened to the subject of an alert."""

    OPENED = "opened"
    WORSENED = "worsened"
    EXPLAINED = "explained"
    """Its cause was found."""
    CLOSED = "closed"
    REOPENED = "reopened"
    """What was reported as over goes on: later runs took its end back."""
    NOTED = "noted"
    """Kept in the ledger and sent to nobody."""
    TEST = "test"


class DeliveryState(StrEnum):
    """How far an alert has come on its way to one receiver."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DROPPED = "dropped"
    """Given up: refused for good, too old, or pushed out by too many others."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An alert on its way to one receiver.

    Attributes
    ----------
    receiver
        ``mail``, or the name of a webhook.
    at
        Of the state, aware UTC.
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
        The same for the same phase of the same subject, and so the idempotency key.
    subject
        What it is about, for as long as that lasts: ``incident:ID``, ``target-lost``.
    name
        Its section of the runbook: ``incident``, ``target-lost`` ...
    at
        When it was decided, aware UTC.
    since
        When the problem began; ``None`` where that is not known.
    title
        The first line: what, how much, since when, likely cause, what to do.
    lines
        More, a line each.
    facts
        What people know after it: decisions rest on it.
    deliveries
        By receiver; empty where nobody is to be told.
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
