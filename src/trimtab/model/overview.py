"""A site at one glance: what the dashboard's first page shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.message import Message
from trimtab.model.action import Action
from trimtab.model.finding import Finding
from trimtab.model.status import IncidentStatus, JudgedStatus, SeriesStatus


@dataclass(frozen=True, slots=True)
class TargetOverview:
    """One target of the last stored snapshot.

    Attributes
    ----------
    fullness
        Used / (used + available); ``None`` if it was not read.
    severity
        Of its worst trouble: ``critical``, ``warning`` or ``info``; ``None`` without any.
    troubles
        Each as text, worst first.
    trimmed_at
        Last recorded trim; ``None``: none was recorded.
    """

    name: str
    kind: str
    server: str | None
    fullness: float | None
    severity: str | None
    troubles: tuple[str, ...]
    trimmed_at: datetime | None


@dataclass(frozen=True, slots=True)
class UpcomingOverview:
    """What the watch does next."""

    item: str
    next_at: datetime


@dataclass(frozen=True, slots=True)
class PurgeOverview:
    """The state of purges of one site.

    Attributes
    ----------
    last_at, last
        Last purge in the event log, and its text; ``None`` if there is none.
    plans
        Plans in this host's journals.
    rows_waiting
        Files in those plans that no run has reached.
    plans_waiting
        Plans published and neither armed nor over; ``None`` if that is unknown.
    reason
        Why the journals were not read.
    """

    last_at: datetime | None
    last: str | None
    plans: int
    rows_waiting: int
    plans_waiting: int | None
    reason: Message | None


@dataclass(frozen=True, slots=True)
class Overview:
    """A site at one glance.

    Attributes
    ----------
    at
        In the site's own time.
    answer
        The headline: the worst current problem.
    troubles
        Everything that is wrong now, worst first, each with its repair.
    last_run_at, snapshot_at
        The newest data; ``None`` if there is none.
    watched_by
        The process that watches the site; ``None``: none does.
    armed
        Policies that the watch applies by itself.
    done
        The last actions, newest first.
    """

    site: str
    at: datetime
    answer: str
    last_run_at: datetime | None
    snapshot_at: datetime | None
    watched_by: str | None
    series: tuple[SeriesStatus, ...]
    incidents: tuple[IncidentStatus, ...]
    judged: tuple[JudgedStatus, ...]
    targets: tuple[TargetOverview, ...]
    armed: tuple[str, ...]
    done: tuple[Action, ...]
    upcoming: tuple[UpcomingOverview, ...]
    purge: PurgeOverview
    troubles: tuple[Finding, ...] = ()
