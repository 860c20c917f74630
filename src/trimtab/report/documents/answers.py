"""Documents of what a site's record says: its status, and the report of a month."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.model.finding import Finding
from trimtab.model.status import SeriesStatus, Status
from trimtab.report.documents import values  # noqa: F401 (declares runs)
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class StatusDocument:
    """``trimtab status --json``.

    Attributes
    ----------
    troubles
        What is wrong with each site now, worst first, each with its repair.
    """

    status: Status
    troubles: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)


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


shape(SeriesStatus, derive={"metric": "verdict.metric", "unit": "verdict.unit"})
shape(
    Status,
    omit=["last_runs"],
    derive={"runs": "last_runs"},
)
shape(StatusDocument, inline={"status": ()})
