"""Brings a site up to date: series judged, incidents explained, how it stands, all kept.

Whoever asks for one of them works out what is missing of it (`trimtab.loop.keeping`); here all of
it is worked out at once, by whoever has time: the watch, or somebody who dropped what was kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.errors import UsageError
from trimtab.loop.event_log import Place
from trimtab.loop.explaining.incidents import Explained, incidents_of, keep_incidents
from trimtab.loop.site_judgement import NOTHING_TO_JUDGE, Progress, judge_site
from trimtab.loop.sites import clock_of
from trimtab.loop.standing import file_of, whole_standing
from trimtab.report.documents.kept import RebuiltSite

if TYPE_CHECKING:
    from trimtab.model.standing import SiteStanding
    from trimtab.record.store import Store


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What is said of a site.

    Attributes
    ----------
    why_none
        Why no run can be judged yet; ``None``: some can.
    unkept
        Why the incidents could not be kept; ``None``: they are.
    """

    explained: Explained
    standing: SiteStanding
    why_none: str | None = None
    unkept: str | None = None


def bring_up_to_date(
    store: Store,
    place: Place,
    *,
    now: datetime,
    since: str | None = None,
    until: str | None = None,
    progress: Progress = lambda text, fraction: None,
) -> Verdicts:
    """Return what is said of a site, worked out as far as it is not kept, and kept.

    Parameters
    ----------
    since, until
        As `incidents_of` has them; with one of them the incidents of the whole record are kept as
        they were.

    Raises
    ------
    UsageError
        Nothing is kept of the site.
    """
    why_none = None
    try:
        explained = incidents_of(store, place, now=now, since=since, until=until, progress=progress)
    except UsageError as error:
        if error.code not in NOTHING_TO_JUDGE:
            raise
        explained = Explained(place.name, str(store.location), now, None, ())
        why_none = error.message
    is_whole = since is None and until is None and why_none is None
    unkept = keep_incidents(store, explained) if is_whole else None
    # A standing shows incidents as they are kept.
    as_kept = why_none is not None or (is_whole and unkept is None)
    standing = whole_standing(
        store, place, explanations=None if as_kept else explained.explanations
    )
    return Verdicts(explained, standing, why_none, unkept)


def bring_verdicts_up_to_date(store: Store, place: Place) -> None:
    """Have what is said of a site but its incidents kept, for whoever asks next.

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
    """Drop what is kept of sites, bring each up to date from nothing, and yield what that gave.

    Parameters
    ----------
    places
        ``None``: all of the store.
    """
    if places is None:
        places = [Place(site.name, file_of(site.name)) for site in store.sites()]
    for place in places:
        dropped = store.drop_derived(place.name)
        now = clock_of(place.site)()
        verdicts = bring_up_to_date(store, place, now=now, progress=progress)
        counts = len(verdicts.standing.verdicts or ()), len(verdicts.explained.explanations)
        yield RebuiltSite(place.name, dropped, *counts, verdicts.why_none)
