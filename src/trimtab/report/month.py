"""Everything known about one month of a site."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from trimtab.model.action import Action
from trimtab.model.incident import Explanation
from trimtab.model.series import SiteJudgement
from trimtab.model.standing import SiteStanding
from trimtab.model.status import ProbeCost
from trimtab.purge.report import PurgeReport


@dataclass(frozen=True, slots=True)
class SpaceAt:
    """The fullness of a site at one time.

    Attributes
    ----------
    fullest
        Name and fullness of the fullest target.
    """

    at: datetime
    used_bytes: float
    available_bytes: float
    fullest: tuple[str, float]

    @property
    def fullness(self) -> float:
        """Used / (used + available)."""
        return self.used_bytes / (self.used_bytes + self.available_bytes)


@dataclass(frozen=True, slots=True)
class Month:
    """Everything known about one month of a site.

    Attributes
    ----------
    first, last
        Its days, in ``timezone``.
    complete
        Whether the month was over when the report was made.
    space
        One time per day, oldest first.
    standing
        State of the site at its end.
    purges
        ``None`` if the journals could not be read; ``purge_reason`` says why.
    """

    site: str
    first: date
    last: date
    timezone: str
    complete: bool
    judgement: SiteJudgement
    standing: SiteStanding
    incidents: tuple[Explanation, ...]
    space: tuple[SpaceAt, ...]
    purges: PurgeReport | None
    purge_reason: str
    cost: ProbeCost | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class MonthDocument:
    """``trimtab report SITE --json``: location and beginning of a month's report.

    Attributes
    ----------
    month
        As ``2026-10``.
    report
        The file that was written.
    answer, details
        The sentences at the beginning of the report.
    """

    store: str
    site: str
    month: str
    report: str
    answer: str
    details: tuple[str, ...]
