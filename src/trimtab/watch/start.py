"""Start the watch of a site: open what it needs, run it until it ends, return what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.base.run import Run
from trimtab.explain.status import SiteStanding
from trimtab.probe.site_probe import runner_of
from trimtab.probe.site_standing import whole_standing
from trimtab.reach.worker_process import frames_for_months
from trimtab.site.lookup import open_acting_driver, open_driver, open_store, reach_of
from trimtab.site.place import Place
from trimtab.store.slot import Slot
from trimtab.watch.incident_watch import look_elsewhere
from trimtab.watch.service import configured, from_environment
from trimtab.watch.upkeep import observers_of
from trimtab.watch.watch import Watch
from trimtab.watch.watch_state import scheduled_site, watched_site


@dataclass(frozen=True, slots=True)
class Watched:
    """Work that a watch did before it ended.

    Attributes
    ----------
    runs
        The runs of its slots, by id.
    standing
        Standing of the site; ``None``: the watch ran until it was ended.
    """

    site: str
    store: str
    slots: tuple[Slot, ...]
    runs: Mapping[str, Run]
    standing: SiteStanding | None


def watched(
    where: str, store_url: str | None, *, once: bool, log_form: str | None, log_level: str
) -> Watched:
    """Watch a site until interrupted, or ``once``, and return the work done.

    Raises
    ------
    UsageError
        There is no such site, or nothing is scheduled for it.
    RefusedError
        Another process watches it.
    Interrupted
        As for `Watch.run`.
    """
    frames_for_months()  # this process may run for months, with one thread
    loaded = watched_site(where) if once else scheduled_site(where)
    site = loaded.site
    reach = reach_of(site)
    log = configured(form=log_form, level=log_level, clock=reach.clock, site=site.name)
    for warning in loaded.warnings:
        log.warning(warning)
    with open_store(store_url, site, create=True) as store:
        runner = runner_of(site, store, reach)
        watch = Watch(
            site,
            store,
            open_driver(site, clock=reach.clock),
            runner,
            clock=reach.clock,
            sleep=reach.sleep,
            elapsed_s=reach.elapsed_s,
            open_acting=open_acting_driver,
            log=log,
            notify=from_environment(),
        )
        observers = observers_of(site, store, log=log, clock=reach.clock)
        watch.observe(observers, looks=None if once else look_elsewhere)
        slots = watch.run(once=once)
        runs = {slot.run: store.run(slot.run) for slot in slots if slot.run is not None}
        standing = whole_standing(store, Place(site.name, site)) if once else None
        return Watched(site.name, str(store.location), slots, runs, standing)
