"""Who holds the space of a site, compared with what was kept a month ago.

Names are those of this host, looked up for the answer alone: only numbers are kept.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.error import ToolError, code_of, visible
from trimtab.base.holder import HolderKind, Holders, HoldersDocument, Holding
from trimtab.base.snapshot import NotAvailable
from trimtab.purge.owner import group_name, user_name
from trimtab.store.kept import add_result, results_of

if TYPE_CHECKING:
    from trimtab.base.site import Site
    from trimtab.store.store import Store

KEPT_EVERY: Final = timedelta(days=7)
"""A year of a large site is then some megabytes, and a month ago is a week off at most."""
MONTH: Final = timedelta(days=30)
_OLDEST: Final = timedelta(days=45)


def holders_of(site: Site, read: Holders | NotAvailable, store: Store) -> HoldersDocument:
    """Return who holds the space of a site by what its driver read, and keep it once a week.

    Raises
    ------
    ToolError
        The driver has no accounts, or no server reported any.
    """
    if isinstance(read, NotAvailable):
        code = code_of(read.reason) or "holders-not-available"
        raise ToolError(f"who holds {site.name} is unknown: {read.reason}", code=code)
    if not read.holdings:
        why = "; ".join(read.problems[:3]) or "nothing is stored"
        raise ToolError(f"no holder of {site.name} is known: {why}", code="no-holders")
    newest = results_of(store, site.name, Holders, limit=1).held
    month = results_of(store, site.name, Holders, until=read.at - MONTH, limit=1).held
    before = month[0].value if month and month[0].at >= read.at - _OLDEST else None
    store.ensure_site(site.name, driver=site.driver, path=site.path)
    # Kept, an incomplete answer would look like deleted files.
    if read.whole and (not newest or newest[0].at <= read.at - KEPT_EVERY):
        add_result(store, site.name, read, read.at)
    had = {} if before is None else {(each.kind, each.id): each.bytes for each in before.holdings}
    holdings = tuple(
        replace(each, name=_name_of(each), before_bytes=had.get((each.kind, each.id)))
        for each in read.holdings
    )
    snapshot = store.latest_snapshot(site.name)
    full = {
        seen.target.name: fullness
        for seen in (() if snapshot is None else snapshot.targets)
        if seen.target.kind == "ost" and (fullness := seen.fullness()) is not None
    }
    fullest = max(full, key=full.__getitem__, default=None)
    return HoldersDocument(
        site.name,
        str(store.location),
        replace(read, holdings=holdings),
        None if before is None else before.at,
        fullest,
        None if fullest is None else full[fullest],
    )


def _name_of(holding: Holding) -> str:
    find = {HolderKind.USER: user_name, HolderKind.GROUP: group_name}.get(holding.kind)
    return visible((find(holding.id) if find is not None else None) or "")
