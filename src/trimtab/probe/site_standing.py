"""How a site stands, for the first line of every screen, page and alert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Message, TrimtabError
from trimtab.base.event import EventKind
from trimtab.base.incident import GOING_ON, Explanation, series_of_incident
from trimtab.base.schedule import PURGE_PLAN
from trimtab.base.site import Site
from trimtab.base.text import key_label
from trimtab.explain.status import IncidentStatus, PlanSlot, PurgeTrouble, SiteStanding
from trimtab.explain.trouble import REMEMBERED, purge_troubles, site_state
from trimtab.probe.site_status import incident_status, slow_targets, status_of
from trimtab.site.lookup import site_named, where_of
from trimtab.site.place import Place
from trimtab.store.kept import keeping, value_of
from trimtab.store.slot import SlotState

if TYPE_CHECKING:
    from trimtab.base.series import SiteJudgement
    from trimtab.base.snapshot import Snapshot
    from trimtab.explain.status import Status
    from trimtab.store.kept import Sums
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
    """Return how a site stands, as far as its store and what was just looked at tell.

    Nothing of it is kept: the readings of 300 targets are megabytes (`whole_standing` has none).

    Parameters
    ----------
    snapshot
        Just taken; ``None``: the last stored one.
    judgement
        Of all its series; ``None``: they are not asked for (`with_series` adds what a status has).
    explanations
        Of incidents just searched for; ``None``: those of the last search.
    until
        What came later is not looked at.
    """
    name = place.name
    slow = slow_targets(store, name, until=until)
    stored = snapshot is None
    seen = store.latest_snapshot(name, until) if snapshot is None else snapshot
    state = None if seen is None else site_state(name, seen, place.limits, stored=stored, slow=slow)
    if explanations is None:
        known = map(incident_status, store.incidents(name))
        searched = store.judged(name) is not None
    else:
        known, searched = map(_as_kept, explanations), True
    # One that ended while its series did not get back to its level is not over for anybody.
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
    )  # fmt: skip


def purging_of(
    store: Store, site: str, now: datetime | None, *, until: datetime | None = None
) -> tuple[PurgeTrouble, ...]:
    """Return what is wrong with the scheduled purge of a site, as its store knows it.

    Parameters
    ----------
    now
        As late as is known: of the last snapshot. ``None``: there is none.
    until
        What came later is not looked at.
    """
    since = None if now is None else now - REMEMBERED
    kinds = (EventKind.PURGE, EventKind.PURGE_FAILED)
    events = store.events(site=site, since=since, until=until, kinds=kinds)
    slots = store.slots(site, since=since, until=until, item=PURGE_PLAN)
    plans = [
        PlanSlot(slot.due_at, slot.state.value, slot.detail)
        for slot in slots
        if slot.state in (SlotState.DONE, SlotState.FAILED, SlotState.MISSED)
    ]
    return purge_troubles(events, plans, now)


_INTEGRITY: Final = frozenset({"bad-checksums", "file-system-errors"})
"""Troubles that say that data may be wrong: while they last, nothing is changed."""


def integrity(site: Site, snapshot: Snapshot) -> tuple[Message, ...]:
    """Return what says that data may be wrong."""
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
    """Return a standing with the verdicts and suspects that a status has of its site."""
    series = [entry for entry in status.series if entry.site == standing.site]
    suspects = sum(entry.suspect is not None for entry in series)
    verdicts = tuple(entry.verdict for entry in series)
    return replace(standing, verdicts=verdicts, suspects=suspects)


def standings_of(
    store: Store, status: Status, site: Site | None = None
) -> tuple[SiteStanding, ...]:
    """Return how each site of a status stands; ``site``: the file of the one that was named.

    Of each target its troubles are known, not its readings.
    """
    places = [
        Place(name, site if site is not None and site.name == name else file_of(name))
        for name in status.sites
    ]
    return tuple(with_series(_brief_standing(store, place), status) for place in places)


def file_of(name: str) -> Site | None:
    """Return the site whose file has a name, ``None`` where there is none that can be read."""
    try:
        return site_named(name)
    except TrimtabError:
        return None


def whole_standing(
    store: Store, place: Place, *, explanations: Sequence[Explanation] | None = None
) -> SiteStanding:
    """Return how a site stands with its series; ``explanations`` as `standing_of` has them.

    Of each target its troubles are known, not its readings.
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
    return with_series(standing_of(store, place, explanations=explanations), status)


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
        return look.remembered("standing", SiteStanding, rests_on, make)


def _as_kept(explanation: Explanation) -> IncidentStatus:
    incident, key = explanation.incident, explanation.incident.key
    named = explanation.likeliest
    return value_of(
        IncidentStatus,
        incident,
        cause=None if named is None else named.title,
        confidence=None if named is None else named.confidence,
        probe=None if key is None else key.probe,
        metric=None if key is None else key.metric,
        series=series_of_incident(incident),
        name="" if key is None else key_label(key),
    )
