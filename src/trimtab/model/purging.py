"""What a site's record knows of its purges: plans made on schedule, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PlanSlot:
    """A time at which the watch was to make a purge plan, decided since.

    Attributes
    ----------
    state
        ``done``, ``failed`` or ``missed``.
    detail
        Why it failed or was missed; of one that was done: why no plan was needed.
    """

    at: datetime
    state: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class PurgeTrouble:
    """Why a purge that is scheduled does not free what it should.

    Attributes
    ----------
    id
        ``purge-failed``, ``purge-overdue`` or ``purge-plan-failed``.
    at
        Of the run or plan; of one that is overdue, of the last run before.
    """

    id: str
    at: datetime
    text: str
