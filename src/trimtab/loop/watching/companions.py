"""The observers of a watch that its site file asks for: alerts, and metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.loop.sites import driver_module
from trimtab.loop.watching.observers import Observer
from trimtab.model.driver import DRIVERS
from trimtab.model.site import Site

if TYPE_CHECKING:
    from trimtab.record.store import Store


def observers_of(
    site: Site,
    store: Store,
    *,
    log: logging.Logger,
    clock: Callable[[], datetime],
) -> tuple[Observer, ...]:
    """Return what looks on while a site is watched; nothing is imported for what it has not."""
    from trimtab.loop.alerting.alerting import Alerting

    # In simulated time an hour passes in moments: deliveries are made in between.
    alerting = Alerting(
        site, store, log=log, clock=clock, threads=not DRIVERS[site.driver].simulated
    )
    observers: list[Observer] = [alerting] if alerting.couriers else []
    if site.metrics.listen is not None or site.metrics.textfile is not None:
        from trimtab.loop.exporting.collecting import Collector
        from trimtab.loop.exporting.exporter import Exporter

        name = driver_module(site).lustre_name(site) if DRIVERS[site.driver].named else None
        collector = Collector(
            site, store, clock=clock, file_system=name, receivers=alerting.standing
        )
        observers.append(Exporter(site, collector, log=log))
    return tuple(observers)
