"""What looks on while a site is watched: alerts, metrics. Nothing of it can end the watch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import methodcaller
from typing import TYPE_CHECKING, Protocol

from trimtab.errors import panics_as_errors
from trimtab.loop.watching.log import fields
from trimtab.model.driver import DRIVERS
from trimtab.model.site import Site
from trimtab.record.slots import Slot

if TYPE_CHECKING:
    from trimtab.record.store import Store


class Observer(Protocol):
    """Called by the watch after each slot, while it waits, and at its end."""

    def after_slot(self, slot: Slot) -> object:
        """Look at the record after a slot has ended."""

    def idle(self, now: datetime) -> object:
        """Go on with what was left; called once a minute or more often."""

    def close(self) -> object:
        """End; the watch ends too."""


class Observers:
    """Several observers; an error of one is logged, and the others are called all the same."""

    def __init__(self, observers: Sequence[Observer], log: logging.Logger) -> None:
        self._observers, self.log = tuple(observers), log

    def after_slot(self, slot: Slot) -> None:
        """See `Observer.after_slot`."""
        self._each(methodcaller("after_slot", slot))

    def idle(self, now: datetime) -> None:
        """See `Observer.idle`."""
        self._each(methodcaller("idle", now))

    def close(self) -> None:
        """See `Observer.close`."""
        self._each(methodcaller("close"))

    def _each(self, call: Callable[[Observer], object]) -> None:
        for observer in self._observers:
            try:
                with panics_as_errors():
                    call(observer)
            except Exception:
                extra = fields(observer=type(observer).__name__)
                self.log.exception("alerts or metrics were not brought up to date", extra=extra)


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

        name = None
        if DRIVERS[site.driver].named:
            from trimtab.drivers.lustre.placement import lustre_name

            name = lustre_name(site)
        collector = Collector(
            site, store, clock=clock, file_system=name, receivers=alerting.standing
        )
        observers.append(Exporter(site, collector, log=log))
    return tuple(observers)
