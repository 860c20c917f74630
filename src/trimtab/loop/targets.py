"""The targets of a site, now or at an earlier time, sorted by trouble; and keeping a snapshot."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.errors import ToolError, UsageError
from trimtab.explain.troubles import site_state
from trimtab.launch.interruption import shielded
from trimtab.loop.sites import know_site
from trimtab.model.site import Site
from trimtab.model.target import SiteState

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Driver
    from trimtab.record.store import Store


def look(site: Site, driver: Driver) -> SiteState:
    """Return every target as it is now; nothing is kept."""
    return site_state(site.name, driver.snapshot(driver.clock()), site.limits)


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
            hint=f"store one: trimtab snapshot {site.name}",
        )
    return site_state(site.name, snapshot, site.limits, stored=True)


def keep(site: Site, driver: Driver, store: Store) -> tuple[str, SiteState]:
    """Take a snapshot, keep it, and return its id and what it shows."""
    know_site(store, site)
    snapshot = driver.snapshot(driver.clock())
    with shielded():
        identifier = store.add_snapshot(site.name, snapshot)
    return identifier, site_state(site.name, snapshot, site.limits, stored=True)


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
    hint = "see why: trimtab site SITE --validate"
    error = ToolError(f"nothing answered for {state.site}", code="no-answer", hint=hint)
    error.reported = reported
    raise error
