"""The targets of a site, now or at an earlier time, sorted by trouble; and keeping a snapshot."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.errors import ToolError, TrimtabError, UsageError
from trimtab.explain.troubles import site_state
from trimtab.launch.interruption import shielded
from trimtab.loop.sites import know_site, word_of
from trimtab.loop.status import slow_targets
from trimtab.loop.stores import nothing_kept, open_store
from trimtab.model.finding import Severity
from trimtab.model.site import Site
from trimtab.model.target import HostState, SiteState, Trouble
from trimtab.visible import site_word

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Driver
    from trimtab.record.store import Store


def look(site: Site, driver: Driver, store_url: str | None = None) -> SiteState:
    """Return every target as it is now; nothing is kept.

    Parameters
    ----------
    store_url
        The store whose surveys show which targets are slow. Where it cannot be read the targets
        are shown without, and that it could not.
    """
    snapshot = driver.snapshot(driver.clock())
    try:
        if nothing_kept(store_url) is not None:
            return site_state(site.name, snapshot, site.limits)
        with open_store(store_url) as store:
            slow = slow_targets(store, site.name)
    except TrimtabError as error:
        text = f"slow targets are not known: {error.message}"
        unread = HostState("store", "store", (Trouble("surveys-unread", Severity.INFO, text),))
        state = site_state(site.name, snapshot, site.limits)
        return replace(state, hosts=(*state.hosts, unread))
    return site_state(site.name, snapshot, site.limits, slow=slow)


def recall(site: Site, store: Store, at: datetime) -> SiteState:
    """Return every target as the last snapshot that was kept not after ``at`` has it.

    Raises
    ------
    UsageError
        None was kept by then.
    """
    snapshot = store.latest_snapshot(site.name, at)
    if snapshot is None:
        raise UsageError(
            f"no snapshot of {site.name} is stored from {at.isoformat()} or earlier",
            code="no-snapshot",
            hint=f"store one: trimtab snapshot {word_of(site)}",
        )
    slow = slow_targets(store, site.name, until=at)
    return site_state(site.name, snapshot, site.limits, stored=True, slow=slow)


def keep(site: Site, driver: Driver, store: Store) -> tuple[str, SiteState]:
    """Take a snapshot, keep it, and return its id and what it shows."""
    know_site(store, site)
    snapshot = driver.snapshot(driver.clock())
    with shielded():
        identifier = store.add_snapshot(site.name, snapshot)
    slow = slow_targets(store, site.name)
    return identifier, site_state(site.name, snapshot, site.limits, stored=True, slow=slow)


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
