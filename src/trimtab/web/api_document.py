"""Documents of the API: those of ``--json`` by their names, and lists of commands' results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.answers.action_ledger import ActionsDocument
from trimtab.answers.site_overview import Overview
from trimtab.base.encode import FailureDocument, shape
from trimtab.base.error import Message
from trimtab.base.event import Event
from trimtab.base.incident import IncidentsDocument
from trimtab.base.inventory import InventoryDocument
from trimtab.base.series import JudgeDocument
from trimtab.explain.status import SiteState, StatusDocument
from trimtab.judge.comparison_result import CompareResult
from trimtab.judge.efficiency_ladder import Ladder
from trimtab.judge.sweep_result import SweepDocument
from trimtab.probe.page_maintenance import MaintenanceDocument
from trimtab.purge.fullness import Freed, Usage
from trimtab.purge.horizon.horizon_answer import HorizonAnswer
from trimtab.store.kept import KeptSite
from trimtab.store.page import EventsDocument, RunsDocument
from trimtab.twin.whatif.whatif_sweep import Swept
from trimtab.watch.silence import SilencesDocument


@dataclass(frozen=True, slots=True)
class SitesPage:
    """Sites that are served."""

    sites: tuple[KeptSite, ...]


@dataclass(frozen=True, slots=True)
class HorizonEntry:
    """A stored horizon."""

    id: str
    at: datetime
    root: str
    usage: Usage
    totals: Freed
    answer: HorizonAnswer


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
    """A stored sweep of the twin; all of it is simulation."""

    id: str
    at: datetime
    scenario: str
    seed: int
    swept: Swept


@dataclass(frozen=True, slots=True)
class WhatIfsPage:
    """Questions put to the twin, the newest first."""

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

DOCUMENTS: Final[Mapping[str, type]] = {
    "acting.ActionsDocument": ActionsDocument,
    "compare.CompareResult": CompareResult,
    "documents.HorizonsPage": HorizonsPage,
    "documents.PlansPage": PlansPage,
    "documents.SitesPage": SitesPage,
    "documents.WhatIfsPage": WhatIfsPage,
    "inventory.InventoryDocument": InventoryDocument,
    "judged.IncidentsDocument": IncidentsDocument,
    "judged.JudgeDocument": JudgeDocument,
    "judged.SweepDocument": SweepDocument,
    "kept.EventsDocument": EventsDocument,
    "kept.RunsDocument": RunsDocument,
    "kept.StatusDocument": StatusDocument,
    "ladder.Ladder": Ladder,
    "maintenance.MaintenanceDocument": MaintenanceDocument,
    "maintenance.SilencesDocument": SilencesDocument,
    "measured.FailureDocument": FailureDocument,
    "overview.Overview": Overview,
    "target.SiteState": SiteState,
}
"""Every document of the API by the name of its schema there, which other programs know."""
