"""How a site and its targets stand, for the first line of every screen, page and alert.

Targets are as they are now, or as a stored snapshot shows them; `keep` stores one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Message, ToolError, TrimtabError, UsageError
from trimtab.base.event import EventKind
from trimtab.base.filesystem import DRIVERS, driver_of_mount
from trimtab.base.finding import Finding, Missing, Severity
from trimtab.base.incident import GOING_ON, Explanation
from trimtab.base.schedule import PURGE_PLAN
from trimtab.base.site import Site
from trimtab.base.toml_problem import did_you_mean
from trimtab.base.visible import shell_text, site_word
from trimtab.explain.headline import site_troubles
from trimtab.explain.status import (
    HostState,
    IncidentStatus,
    PlanSlot,
    PurgeTrouble,
    SiteStanding,
    SiteState,
    TargetState,
    Trouble,
)
from trimtab.explain.trouble import REMEMBERED, purge_troubles, site_state
from trimtab.probe.verdict.site_status import incident_status, slow_targets, status_of
from trimtab.reach.interruption import shielded
from trimtab.site.lookup import (
    know_site,
    nothing_kept,
    open_driver,
    open_store,
    site_named,
    site_of_path,
    site_with_path,
    where_of,
)
from trimtab.site.place import Place
from trimtab.store.keeping import keeping
from trimtab.store.kept import value_of
from trimtab.store.slot import SlotState

if TYPE_CHECKING:
    from trimtab.base.filesystem import PathDescription
    from trimtab.base.series import SiteJudgement
    from trimtab.base.snapshot import Snapshot
    from trimtab.explain.status import Status
    from trimtab.reach.driver_protocol import Clock, Driver
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
    limits = place.limits
    status = status_of(store, place.name, goal=limits.cov, window_s=limits.window_s)
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
    incident = explanation.incident
    named = explanation.likeliest
    return value_of(
        IncidentStatus,
        incident,
        cause=None if named is None else named.title,
        confidence=None if named is None else named.confidence,
        probe=None if incident.key is None else incident.key.probe,
        metric=None if incident.key is None else incident.key.metric,
    )


def look(site: Site, driver: Driver, store_url: str | None = None) -> SiteStanding:
    """Return every target as it is now, and what else is wrong with the site; nothing is kept.

    Parameters
    ----------
    store_url
        The store whose surveys show which targets are slow, and which has the incidents. Where it
        cannot be read the targets are shown without, and that it could not.
    """
    snapshot = driver.snapshot(driver.clock())
    state = site_state(site.name, snapshot, site.limits)
    try:
        if nothing_kept(store_url) is not None:
            return SiteStanding(site.name, state, where=where_of(site))
        with open_store(store_url) as store:
            return standing_of(store, Place(site.name, site), snapshot=snapshot)
    except TrimtabError as error:
        text = f"slow targets and incidents are not known: {error.message}"
        unread = HostState("store", "store", (Trouble("surveys-unread", Severity.INFO, text),))
        state = replace(state, hosts=(*state.hosts, unread))
        return SiteStanding(site.name, state, where=where_of(site))


def recall(site: Site, store: Store, at: datetime) -> SiteStanding:
    """Return every target as the last snapshot that was kept not after ``at`` has it.

    Raises
    ------
    UsageError
        None was kept by then.
    """
    standing = standing_of(store, Place(site.name, site), until=at)
    if standing.state is None:
        raise UsageError(
            f"no snapshot of {site.name} is stored from {at.isoformat()} or earlier",
            code="no-snapshot",
            hint=f"store one: trimtab snapshot {shell_text([where_of(site)])}",
        )
    return replace(standing, incidents=(), searched=None)  # what goes on now may not have then


def keep(site: Site, driver: Driver, store: Store) -> tuple[str, SiteStanding]:
    """Take a snapshot, keep it, and return its id and what it shows."""
    know_site(store, site)
    snapshot = driver.snapshot(driver.clock())
    with shielded():
        identifier = store.add_snapshot(site.name, snapshot)
    return identifier, standing_of(store, Place(site.name, site), until=snapshot.at)


@dataclass(frozen=True, slots=True)
class SiteView:
    """The parallel file system beneath a path, with its targets as they are now.

    Attributes
    ----------
    site
        ``None``: the path is of a local file system.
    snapshot
        ``None``: its targets could not be asked.
    missing
        What could not be seen.
    """

    site: Site | None = None
    snapshot: Snapshot | None = None
    missing: tuple[Missing, ...] = ()

    def troubles(self, store: Store, name: str) -> tuple[Finding, ...]:
        """Return what is wrong with the site: the list that every other command has, too.

        The one target of a local file system is looked at more closely by the findings.
        """
        standing = standing_of(store, Place(name, self.site), snapshot=self.snapshot)
        return site_troubles(standing if self.snapshot else replace(standing, state=None))


def site_beneath(
    description: PathDescription, path: str, known: Site | None, clock: Clock
) -> SiteView:
    """Return the parallel file system of a path, asked for its targets.

    Parameters
    ----------
    path
        As it was typed.
    known
        The site that was named; ``None``: looked up among the site files.
    """
    site, missing = known, []
    try:
        if site is None and driver_of_mount(description.kind).networked:
            site = site_with_path(description.real_path) or site_of_path(path)
        if site is None or not DRIVERS[site.driver].networked:
            return SiteView()
        snapshot = open_driver(site, clock=clock).snapshot(clock())
    except TrimtabError as error:
        return SiteView(site, None, (Missing("targets", error.message),))
    if DRIVERS[site.driver].has_servers and not site.servers.names:
        reason = (
            f"the state of {len(snapshot.targets)} targets is this client's view (lfs df): "
            "what only servers know, such as targets that an MDS closed, is not seen; "
            f"trimtab init {shell_text([site.path])} writes a site file that names them"
        )
        missing.append(Missing("servers", reason))
    if not snapshot.targets:
        problems = "; ".join(host.problem for host in snapshot.hosts if host.problem)
        missing.append(Missing("targets", problems or "no target is known"))
    return SiteView(site, snapshot, tuple(missing))


def chosen_of(state: SiteState, names: Sequence[str]) -> list[TargetState]:
    """Return the named targets of a site.

    Raises
    ------
    UsageError
        There is no such target.
    """
    known = {target.name: target for target in state.targets}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"known: {', '.join(list(known)[:12])}"
            raise UsageError(f"there is no target {name!r}", code="target-unknown", hint=hint)
    return [known[name] for name in names]


def refuse_silence(state: SiteState, *, reported: bool = False) -> None:
    """Raise where nothing answered: a table of nothing must not look like success to a script.

    Parameters
    ----------
    reported
        Whether the document that says so was printed already.

    Raises
    ------
    ToolError
        No machine of the site answered, or no target is known.
    """
    hosts = state.snapshot.hosts
    if state.targets and (not hosts or any(host.answered for host in hosts)):
        return
    hint = f"see why: trimtab site {site_word(state.site)} --validate"
    error = ToolError(f"nothing answered for {state.site}", code="no-answer", hint=hint)
    error.reported = reported
    raise error
