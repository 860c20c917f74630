"""The standing of a site, for the first line of every screen, page and alert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Message, TrimtabError
from trimtab.base.incident import GOING_ON, Explanation, series_of_incident
from trimtab.base.maintenance_window import inside
from trimtab.base.site import Site
from trimtab.base.text import key_label
from trimtab.explain.status import IncidentStatus, SiteStanding
from trimtab.explain.trouble import site_state
from trimtab.probe.inventory import inventory_at
from trimtab.probe.maintenance import changed_since
from trimtab.probe.scheduled_purge import purging_of
from trimtab.probe.site_status import incident_status, slow_targets, status_of
from trimtab.probe.space_history import full_when_of
from trimtab.site.lookup import clock_of, site_named, where_of
from trimtab.site.place import Place
from trimtab.store.kept import keeping, value_of

if TYPE_CHECKING:
    from trimtab.base.series import SiteJudgement
    from trimtab.base.snapshot import Snapshot
    from trimtab.explain.status import Status
    from trimtab.store.kept_period import Sums
    from trimtab.store.store import Store


def standing_of(
    store: Store,
    place: Place,
    *,
    snapshot: Snapshot | None = None,
    judgement: SiteJudgement | None = None,
    explanations: Sequence[Explanation] | None = None,
    until: datetime | None = None,
) -> SiteStanding:
    """Return the standing of a site, from its store and the arguments.

    It is not stored: the readings of 300 targets are megabytes (`whole_standing` has none).

    Parameters
    ----------
    snapshot
        Snapshot just taken; ``None``: the last stored one.
    judgement
        Judgement of all its series; ``None`` leaves them out (`with_series` adds a status's).
    explanations
        Explanations of incidents just searched for; ``None``: those of the last search.
    until
        Later records are ignored.
    """
    name = place.name
    slow = slow_targets(store, name, until=until)
    stored = snapshot is None
    seen = store.latest_snapshot(name, until) if snapshot is None else snapshot
    state = None
    if seen is not None:
        state = site_state(
            name, seen, place.limits, stored=stored, slow=slow,
            inventory=inventory_at(store, name, until),
            full_when=full_when_of(store, name, place.limits, seen.at),
        )  # fmt: skip
    if explanations is None:
        known = map(incident_status, store.incidents(name))
        searched = store.judged(name) is not None
    else:
        known, searched = map(_as_kept, explanations), True
    # An incident that ended before its series regained its level is not over for users.
    incidents = tuple(
        each for each in known if each.state in GOING_ON or each.level_now is not None
    )
    series = () if judgement is None else judgement.series
    verdicts = None if judgement is None else tuple(entry.verdict for entry in series)
    where = None if place.site is None else where_of(place.site)
    now = until or (None if seen is None else seen.at)
    return SiteStanding(
        name, state, incidents, slow, series, verdicts,
        purging=purging_of(store, name, now, until=until), searched=searched, where=where,
        after=() if until else changed_since(store, place),
    )  # fmt: skip


_INTEGRITY: Final = frozenset({"bad-checksums", "file-system-errors"})
"""Troubles that suggest wrong data: while they last, nothing is changed."""


def integrity(site: Site, snapshot: Snapshot) -> tuple[Message, ...]:
    """Return the troubles that suggest wrong data."""
    state = site_state(site.name, snapshot, site.limits)
    named = [(host.name, host.troubles) for host in state.hosts]
    named += [(target.name, target.troubles) for target in state.targets]
    return tuple(
        Message(trouble.id, f"{name}: {trouble.text}")
        for name, troubles in named
        for trouble in troubles
        if trouble.id in _INTEGRITY
    )


def with_series(standing: SiteStanding, status: Status) -> SiteStanding:
    """Return a standing with the verdicts and suspects of its site from a status."""
    series = [entry for entry in status.series if entry.site == standing.site]
    suspects = sum(entry.suspect is not None for entry in series)
    verdicts = tuple(entry.verdict for entry in series)
    return replace(standing, verdicts=verdicts, suspects=suspects)


def standings_of(
    store: Store, status: Status, site: Site | None = None
) -> tuple[SiteStanding, ...]:
    """Return the standing of each site of a status; ``site``: the file of the one that was named.

    It has the troubles of each target, not its readings.
    """
    places = [
        Place(name, site if site is not None and site.name == name else file_of(name))
        for name in status.sites
    ]
    return tuple(with_series(_brief_standing(store, place), status) for place in places)


def file_of(name: str) -> Site | None:
    """Return the site whose file has a name, ``None`` if no such file can be read."""
    try:
        return site_named(name)
    except TrimtabError:
        return None


def whole_standing(
    store: Store, place: Place, *, explanations: Sequence[Explanation] | None = None
) -> SiteStanding:
    """Return the standing of a site with its series; ``explanations`` as for `standing_of`.

    It has the troubles of each target, not its readings.
    """
    status = status_of(
        store,
        place.name,
        goal=place.limits.cov,
        window_s=place.limits.window_s,
        timezone=place.timezone,
    )
    if explanations is None:
        return with_series(_brief_standing(store, place), status)
    standing = standing_of(store, place, explanations=explanations)
    return with_series(at_present(store, place, standing), status)


def _brief_standing(store: Store, place: Place) -> SiteStanding:
    where = None if place.site is None else where_of(place.site)

    def rests_on(sums: Sums) -> object:
        rows = (sums.runs, sums.slots, sums.tables)
        return [sorted(of.items()) for of in rows], place.limits, where

    def make() -> SiteStanding:
        standing = standing_of(store, place)
        state = None if standing.state is None else standing.state.without_readings()
        return replace(standing, state=state)

    with keeping(store, place.name) as look:
        return at_present(store, place, look.remembered("standing", SiteStanding, rests_on, make))


def at_present(store: Store, place: Place, standing: SiteStanding) -> SiteStanding:
    """Return a standing with the maintenance that goes on by the site's clock.

    That begins and ends with the clock and not with the record: what is stored does not have it.
    """
    now = clock_of(place.site)()
    return replace(standing, maintenance=inside(store.windows(place.name, since=now), now))


def _as_kept(explanation: Explanation) -> IncidentStatus:
    incident, key = explanation.incident, explanation.incident.key
    named = explanation.likeliest
    return value_of(
        IncidentStatus,
        incident,
        cause=None if named is None else explanation.chain_text,
        confidence=None if named is None else named.confidence,
        probe=None if key is None else key.probe,
        metric=None if key is None else key.metric,
        series=series_of_incident(incident),
        name="" if key is None else key_label(key),
    )
