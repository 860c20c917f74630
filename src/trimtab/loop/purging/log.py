"""A run of a purge in the site's log book: what changed fullness, and maybe performance."""

from __future__ import annotations

from datetime import datetime

from trimtab.errors import TrimtabError
from trimtab.loop.event_log import add_event
from trimtab.loop.sites import site_file, with_store
from trimtab.loop.stores import open_store
from trimtab.model.event import EventKind
from trimtab.purge.plan.load import LoadedPlan
from trimtab.purge.run.result import RunResult
from trimtab.units import format_bytes, plural

SOURCE = "journal"


def log_purge(
    where: str,
    store_url: str | None,
    loaded: LoadedPlan,
    result: RunResult,
    *,
    began: datetime,
    ended: datetime,
) -> str | None:
    """Write what a run deleted into the log book of a site; return why that could not be done.

    A run that deleted nothing is no event. One that did stands in its journal whatever becomes of
    the log book, so a trouble here is told and not raised.
    """
    if not result.apply or not result.files:
        return None
    freed = format_bytes(result.freed_bytes)
    detail = f"{plural(result.files, 'file', ',')}, {freed} freed, by plan {loaded.plan.id}"
    try:
        site = site_file(where)
        with open_store(with_store(site and site.site, store_url), create=True) as store:
            add_event(
                store,
                where,
                kind=EventKind.PURGE.value,
                detail=detail,
                now=ended,
                at=began.isoformat(),
                until=ended.isoformat(),
                source=SOURCE,
            )
    except TrimtabError as error:
        return f"the run stands in its journal and not in the site's log book: {error.message}"
    return None
