"""Brings a site up to date: series judged, incidents explained, its standing collected, all stored.

Each of these is computed when it is first needed (`trimtab.store.kept`). Here they are computed
together, for the watch, ``trimtab incidents`` and ``trimtab store rebuild``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.base.error import UsageError
from trimtab.probe.incident_search import Explained, incidents_of, keep_incidents
from trimtab.probe.site_judgement import Progress, judge_site
from trimtab.probe.site_series import NOTHING_TO_JUDGE
from trimtab.probe.site_standing import file_of, whole_standing
from trimtab.site.lookup import clock_of
from trimtab.site.place import Place

if TYPE_CHECKING:
    from trimtab.explain.status import SiteStanding
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class IncidentSearch:
    """Result of a search for incidents.

    Attributes
    ----------
    why_none
        Why no run can be judged yet; ``None`` if some can.
    unkept
        Why the incidents could not be stored; ``None`` if they are.
    as_kept
        Whether the stored incidents are those that were found.
    """

    explained: Explained
    why_none: str | None = None
    unkept: str | None = None
    as_kept: bool = False


@dataclass(frozen=True, slots=True)
class RebuiltSite:
    """A site that was judged from scratch.

    Attributes
    ----------
    dropped
        Number of values stored before.
    reason
        Why none of its runs can be judged; ``None`` if some can.
    """

    site: str
    dropped: int
    series: int
    incidents: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class StoreRebuildDocument:
    """``trimtab store rebuild [SITE] --json``."""

    store: str
    sites: tuple[RebuiltSite, ...]


def bring_up_to_date(
    store: Store, place: Place, *, now: datetime, progress: Progress = lambda text, fraction: None
) -> tuple[IncidentSearch, SiteStanding]:
    """Return the judgement of a site; compute and store what the store lacks.

    Raises
    ------
    UsageError
        Nothing is stored about the site.
    """
    search = look_for_incidents(store, place, now=now, progress=progress)
    return search, standing_beside(store, place, search)


def look_for_incidents(
    store: Store,
    place: Place,
    *,
    now: datetime,
    since: str | None = None,
    until: str | None = None,
    progress: Progress = lambda text, fraction: None,
) -> IncidentSearch:
    """Return the incidents of a site; compute and store what the store lacks.

    Parameters
    ----------
    since, until
        As for `incidents_of`; with either, the stored incidents of the whole record are unchanged.

    Raises
    ------
    UsageError
        Nothing is stored about the site.
    """
    try:
        explained = incidents_of(store, place, now=now, since=since, until=until, progress=progress)
    except UsageError as error:
        if error.code not in NOTHING_TO_JUDGE:
            raise
        none = Explained(place.name, str(store.location), now, None, ())
        return IncidentSearch(none, error.message, as_kept=True)
    if since is not None or until is not None:
        return IncidentSearch(explained)
    unkept = keep_incidents(store, explained)
    return IncidentSearch(explained, unkept=unkept, as_kept=unkept is None)


def standing_beside(store: Store, place: Place, search: IncidentSearch) -> SiteStanding:
    """Return the standing of a site with its series and the incidents that were found."""
    explanations = None if search.as_kept else search.explained.explanations
    return whole_standing(store, place, explanations=explanations)


def bring_verdicts_up_to_date(store: Store, place: Place) -> None:
    """Bring the stored judgement of a site up to date, except its incidents.

    Raises
    ------
    UsageError
        No run can be judged yet.
    """
    judge_site(store, place)
    whole_standing(store, place)


def rebuilt(
    store: Store, places: Sequence[Place] | None = None, *, progress: Progress
) -> Iterator[RebuiltSite]:
    """Drop the stored results of sites, compute each afresh, and yield the outcome.

    Parameters
    ----------
    places
        ``None``: all sites of the store.
    """
    if places is None:
        places = [Place(site.name, file_of(site.name)) for site in store.sites()]
    for place in places:
        dropped = store.drop_derived(place.name)
        now = clock_of(place.site)()
        search, standing = bring_up_to_date(store, place, now=now, progress=progress)
        counts = len(standing.verdicts or ()), len(search.explained.explanations)
        yield RebuiltSite(place.name, dropped, *counts, search.why_none)
