"""Documents of the API that no command prints: pages of longer lists, and one glance at a site."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.message import Message
from trimtab.model.event import Event
from trimtab.model.incident import Explanation
from trimtab.model.overview import Overview, TargetOverview
from trimtab.model.status import SeriesStatus, SweepStatus
from trimtab.purge.horizon.answer import Answer
from trimtab.purge.horizon.curve import Freed
from trimtab.purge.horizon.usage import Usage
from trimtab.record.kept import KeptIncident, Site
from trimtab.report.documents import (  # noqa: F401 (declare types)
    acting,
    judged,
    kept,
    purged,
    simulated,
)
from trimtab.report.documents.encode import shape
from trimtab.whatif.sweep import Swept


@dataclass(frozen=True, slots=True)
class Paging:
    """Where a page of a list begins.

    Attributes
    ----------
    total
        Entries of the whole list.
    next_offset
        Of the next page; ``None``: this is the last.
    """

    total: int
    offset: int
    limit: int
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class SitesPage:
    """Sites that are served."""

    sites: tuple[Site, ...]


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """A site at one glance."""

    overview: Overview


@dataclass(frozen=True, slots=True)
class SeriesEntry:
    """One series of a site; ``id`` names it in the API."""

    id: str
    status: SeriesStatus


@dataclass(frozen=True, slots=True)
class SeriesPage:
    """The series of a site."""

    series: tuple[SeriesEntry, ...]


@dataclass(frozen=True, slots=True)
class RunPoint:
    """One run of a series.

    Attributes
    ----------
    value
        In the unit of the series; ``None``: it did not finish, and counts as 0.
    outlier
        Far from the median, or unfinished: never left out when points are.
    """

    at: datetime
    value: float | None
    unfinished: bool
    run: str
    outlier: bool


@dataclass(frozen=True, slots=True)
class RunsPage:
    """Runs of a series, by time.

    Attributes
    ----------
    of
        Runs in the stretch, before points were left out.
    """

    id: str
    metric: str
    unit: str
    of: int
    paging: Paging | None
    points: tuple[RunPoint, ...]


@dataclass(frozen=True, slots=True)
class IncidentsPage:
    """Incidents as they were last found, the newest first."""

    paging: Paging
    incidents: tuple[KeptIncident, ...]


@dataclass(frozen=True, slots=True)
class TargetsPage:
    """Targets of a stored snapshot, those in trouble first."""

    at: datetime | None
    paging: Paging
    targets: tuple[TargetOverview, ...]


@dataclass(frozen=True, slots=True)
class EventsPage:
    """Events of a site, the newest first."""

    paging: Paging
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """A reading of one target at one time."""

    at: datetime
    name: str
    value: float | None


@dataclass(frozen=True, slots=True)
class TargetLife:
    """One target: as the last snapshot has it, its readings over time, and what happened to it."""

    target: TargetOverview
    readings: tuple[ReadingRow, ...]
    surveys: tuple[ReadingRow, ...]
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class SweepsPage:
    """Sweeps with runs in the store."""

    sweeps: tuple[SweepStatus, ...]


@dataclass(frozen=True, slots=True)
class HorizonEntry:
    """A horizon that was kept."""

    id: str
    at: datetime
    root: str
    usage: Usage
    totals: Freed
    answer: Answer


@dataclass(frozen=True, slots=True)
class HorizonsPage:
    """The horizons of a site, the newest first."""

    horizons: tuple[HorizonEntry, ...]
    problems: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """A purge plan; ``approved`` holds the admins' entries of the log book for this very hash."""

    plan: str
    sha256: str
    state: str
    root: str
    before: datetime
    made_at: datetime
    published_at: datetime | None
    not_before: datetime | None
    expires_at: datetime
    files: int
    allocated_bytes: int
    users: int
    approved: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class PlansPage:
    """The purge plans of a site on this host, the newest first."""

    plans: tuple[PlanEntry, ...]
    problems: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class WhatIfEntry:
    """A sweep of the twin that was kept; all of it is simulation."""

    id: str
    at: datetime
    scenario: str
    seed: int
    swept: Swept


@dataclass(frozen=True, slots=True)
class WhatIfsPage:
    """What was asked of the twin, the newest first."""

    results: tuple[WhatIfEntry, ...]
    problems: tuple[Message, ...]


shape(HorizonEntry, inline={"answer": ()})
shape(
    WhatIfEntry,
    omit=["swept"],
    derive={
        "seeds": "swept.seeds",
        "until_s": "swept.until_s",
        "combinations": "swept.rows",
        "assumptions": "swept.assumptions",
    },
)
shape(OverviewPage, inline={"overview": ()})
shape(SeriesEntry, inline={"status": ()})
_ = Explanation  # its form is declared with the judged documents
