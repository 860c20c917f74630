"""Findings, what is wrong on a site now, and alerts, one message per phase of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal


class Severity(StrEnum):
    """Severity of a finding, worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst: sorts findings."""
        return list(Severity).index(self)


Tone = Literal["critical", "warning", "info", "unclear", "healthy"]
"""Colour of a badge or an answer; it always accompanies a word."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A value that a finding is based on.

    Attributes
    ----------
    value
        In base SI; ``None`` if not available.
    unit
        Unit of the value; ``None`` for states and names.
    what
        What the value describes.
    source
        File or command from which it was read.
    """

    value: float | int | str | bool | None
    unit: str | None
    what: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy: prose, and the exact command as an argument list if there is one.

    The command is complete: it needs no shell and no standard input.
    """

    prose: str
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One misconfiguration or bad state, with a remedy.

    Attributes
    ----------
    id
        A stable word: ``fullness-over-limit`` ...
    severity
        How urgent it is.
    title
        One line: what is wrong, with its figure.
    target
        Name of the target; ``None``: the whole file system.
    seen
        The value on which the finding is based.
    source
        The file or command from which ``seen`` was read.
    why
        Why it matters, with the document or kernel source.
    fix
        What to do.
    confidence
        Probability, 0 to 1, that this matters here.
    evidence
        Further values: one row per device or criterion.

    Raises
    ------
    ValueError
        The confidence is not between 0 and 1.
    """

    id: str
    severity: Severity
    title: str
    target: str | None
    seen: Seen
    source: str | None
    why: str
    fix: Fix
    confidence: float
    evidence: tuple[Seen, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"{self.id}: confidence {self.confidence} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that could not be read, and the reason."""

    what: str
    reason: str


class Phase(StrEnum):
    """Event in the life of the subject of an alert."""

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
    SILENCED = "silenced"
    """A person wants to hear nothing of an alert until a time; recorded and not sent."""


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
