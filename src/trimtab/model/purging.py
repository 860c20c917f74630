"""Purges in a site's record: plans made on schedule, and problems with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PlanSlot:
    """A time at which a purge plan was due, and the outcome.

    Attributes
    ----------
    state
        ``done``, ``failed`` or ``missed``.
    detail
        Why it failed or was missed; for a completed one: why no plan was needed.
    """

    at: datetime
    state: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class PurgeTrouble:
    """Why a scheduled purge does not free the space it should.

    Attributes
    ----------
    id
        ``purge-failed``, ``purge-overdue`` or ``purge-plan-failed``.
    at
        Time of the run or plan; if overdue, of the last run.
    """

    id: str
    at: datetime
    text: str
