"""The state of a site: the facts behind the first line of every screen, page and alert."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.purging import PurgeTrouble
from trimtab.model.series import SeriesJudgement
from trimtab.model.status import IncidentStatus, SlowTargetStatus
from trimtab.model.target import SiteState
from trimtab.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class SiteStanding:
    """The current knowledge about a site.

    Attributes
    ----------
    state
        Targets and machines, live or from the last stored snapshot; ``None`` if there is none.
    incidents
        Incidents that have not ended.
    slow
        Targets that surveys show to be slow.
    series
        Every series judged; empty if none was, as in a status.
    verdicts
        On the COV of each series over the last window; ``None``: not requested.
    suspects
        Number of series with a suspected change.
    purging
        What is wrong with the scheduled purge.
    searched
        Whether incidents were ever searched for; ``None``: a file, which has none.
    where
        How commands name the site; empty: by its name; ``None``: it has no site file.
    """

    site: str
    state: SiteState | None = None
    incidents: tuple[IncidentStatus, ...] = ()
    slow: tuple[SlowTargetStatus, ...] = ()
    series: tuple[SeriesJudgement, ...] = ()
    verdicts: tuple[Verdict, ...] | None = None
    suspects: int = 0
    purging: tuple[PurgeTrouble, ...] = ()
    searched: bool | None = None
    where: str | None = ""
