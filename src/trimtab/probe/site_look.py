"""Reads the targets of a site: as they are now, or as a stored snapshot shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.base.error import ToolError, TrimtabError, UsageError, shell_text, site_word
from trimtab.base.filesystem import DRIVERS, driver_of_mount
from trimtab.base.finding import Finding, Missing, Severity
from trimtab.base.interruption import shielded
from trimtab.base.site import Site
from trimtab.base.toml_problem import did_you_mean
from trimtab.explain.headline import site_troubles
from trimtab.explain.status import HostState, SiteStanding, SiteState, TargetState, Trouble
from trimtab.explain.trouble import site_state
from trimtab.probe.site_standing import at_present, standing_of
from trimtab.site.lookup import (
    know_site,
    nothing_kept,
    open_driver,
    open_store,
    site_of_path,
    site_with_path,
    where_of,
)
from trimtab.site.place import Place

if TYPE_CHECKING:
    from trimtab.base.filesystem import PathDescription
    from trimtab.base.snapshot import Snapshot
    from trimtab.reach.driver_protocol import Clock, Driver
    from trimtab.store.store import Store


def look(site: Site, driver: Driver, store_url: str | None = None) -> SiteStanding:
    """Return every target as it is now, and other problems of the site; nothing is stored.

    Parameters
    ----------
    store_url
        The store with the incidents and the surveys that show which targets are slow. If it cannot
        be read, the targets are shown without them, with a note.
    """
    snapshot = driver.snapshot(driver.clock())
    state = site_state(site.name, snapshot, site.limits)
    try:
        if nothing_kept(store_url) is not None:
            return SiteStanding(site.name, state, where=where_of(site))
        with open_store(store_url) as store:
            place = Place(site.name, site)
            return at_present(store, place, standing_of(store, place, snapshot=snapshot))
    except TrimtabError as error:
        text = f"slow targets and incidents are not known: {error.message}"
        unread = HostState("store", "store", (Trouble("surveys-unread", Severity.INFO, text),))
        state = replace(state, hosts=(*state.hosts, unread))
        return SiteStanding(site.name, state, where=where_of(site))


def recall(site: Site, store: Store, at: datetime) -> SiteStanding:
    """Return every target as in the last snapshot stored up to ``at``.

    Raises
    ------
    UsageError
        There is no such snapshot.
    """
    standing = standing_of(store, Place(site.name, site), until=at)
    if standing.state is None:
        raise UsageError(
            f"no snapshot of {site.name} is stored from {at.isoformat()} or earlier",
            code="no-snapshot",
            hint=f"store one: trimtab snapshot {shell_text([where_of(site)])}",
        )
    return replace(standing, incidents=(), searched=None)  # present ones may be newer


def keep(site: Site, driver: Driver, store: Store) -> tuple[str, SiteStanding]:
    """Take a snapshot, store it, and return its id and contents."""
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
        ``None``: its targets could not be read.
    missing
        What could not be read.
    """

    site: Site | None = None
    snapshot: Snapshot | None = None
    missing: tuple[Missing, ...] = ()

    def troubles(self, store: Store, name: str) -> tuple[Finding, ...]:
        """Return the troubles of the site, the same list as in every other command.

        Findings examine the one target of a local file system more closely.
        """
        standing = standing_of(store, Place(name, self.site), snapshot=self.snapshot)
        return site_troubles(standing if self.snapshot else replace(standing, state=None))


def site_beneath(
    description: PathDescription, path: str, known: Site | None, clock: Clock
) -> SiteView:
    """Return the parallel file system of a path, with its targets.

    Parameters
    ----------
    path
        As the user typed it.
    known
        The named site; ``None``: look it up among the site files.
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
    """Raise if nothing answered: an empty table must not look like success to a script.

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
