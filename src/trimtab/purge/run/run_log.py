"""Results of purge runs in the log book of their site."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from trimtab.base.error import Interrupted, TrimtabError, visible
from trimtab.base.event import JOURNAL, EventKind, utc_now
from trimtab.base.units import format_bytes, plural
from trimtab.purge.plan.plan_directory import PLAN_FILE
from trimtab.purge.run.run_account import shortfall, waits
from trimtab.purge.run.run_plan import PurgeRunDocument, RunOptions, run_plan
from trimtab.purge.run.situation import RunProgress
from trimtab.site.lookup import open_store, site_file, site_with_path, where_of
from trimtab.site.place import add_event
from trimtab.store.chain import RUN_RUNNING
from trimtab.store.location import PurgePlace

_DETAIL_MAXIMUM: Final = 1000


def run_logged(
    directory: Path,
    options: RunOptions,
    *,
    store_url: str | None,
    place: PurgePlace,
    version: str,
    progress: Callable[[RunProgress], None] | None = None,
) -> PurgeRunDocument:
    """Carry a plan out as `run_plan`, and write the result into the site's log book.

    The site is the one that the options name, else the one site file of this host that has the
    root. A dry run gets no entry. The run's journal has everything in any case, so a problem with
    the log book is a note of the run and not raised.
    """
    began = utc_now()
    try:
        options = replace(options, maintenance=_maintenance(directory, options.site, store_url))
        ran = run_plan(directory, options, place=place, version=version, progress=progress)
    except (TrimtabError, Interrupted) as error:
        entries = [(EventKind.PURGE_FAILED, f"it ended with an error: {error.message}")]
        if options.apply and error.code != RUN_RUNNING:
            _log(options.site or _site_of(_root_in(directory)), store_url, entries, began=began)
        raise
    if not options.apply:
        return ran
    where = options.site or _site_of(ran.loaded.plan.file_system.root)
    trouble = _log(where, store_url, _entries(ran), began=began)
    return ran if trouble is None else replace(ran, notes=(*ran.notes, trouble))


def _entries(ran: PurgeRunDocument) -> list[tuple[EventKind, str]]:
    """Return the log-book entries of a run.

    A run that found nothing to delete gets an entry too: only so can its absence be noticed. A run
    that was refused because its time has not come gets none.
    """
    result, by = ran.result, f"by plan {ran.loaded.plan.id}"
    failure, entries = shortfall(result), []
    if result.files or failure is None:
        files, freed = plural(result.files, "file", ","), format_bytes(result.freed_bytes)
        entries.append((EventKind.PURGE, f"{files}, {freed} freed, {by}"))
    if failure is not None:
        entries.append((EventKind.PURGE_FAILED, f"{failure}, {by}"))
    return [] if waits(result) else entries


def _maintenance(directory: Path, named: str | None, store_url: str | None) -> str | None:
    """Return the maintenance of a plan's site; ``None``: none, or there is no log book to read."""
    with suppress(TrimtabError):
        loaded = site_file(named or _site_of(_root_in(directory)))
        site = None if loaded is None else loaded.site
        if site is None or site.policies.in_maintenance:
            return None
        now = utc_now()
        with open_store(store_url, site) as store:
            for window in store.windows(site.name, since=now):
                if window.holds(now):
                    return f"{visible(site.name)} is in maintenance: {visible(window.why)}"
    return None


def _site_of(root: str | None) -> str | None:
    site = None if root is None else site_with_path(root, drivers=("local", "lustre"))
    return None if site is None else where_of(site)


def _root_in(directory: Path) -> str | None:
    """Return the root of a plan that may be damaged; it only decides which log book is written."""
    try:
        return str(json.loads((directory / PLAN_FILE).read_bytes())["file_system"]["root"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _log(
    where: str | None,
    store_url: str | None,
    entries: list[tuple[EventKind, str]],
    *,
    began: datetime,
) -> str | None:
    if where is None or not entries:
        return None
    ended = utc_now()
    try:
        site = site_file(where)
        with open_store(store_url, site.site if site else None, create=True) as store:
            for kind, detail in entries:
                add_event(
                    store,
                    where,
                    kind=kind.value,
                    detail=visible(detail)[:_DETAIL_MAXIMUM],
                    now=ended,
                    at=began.isoformat(),
                    until=ended.isoformat(),
                    source=JOURNAL,
                )
    except TrimtabError as error:
        return f"the run is in its journal, but not in the site's log book: {error.message}"
    return None
