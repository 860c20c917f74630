"""What runs beside the watch's slots: a snapshot in a thread of its own, and observers.

A probe whose target is lost waits for minutes; the alert of the loss must not wait with it, so the
snapshot is taken meanwhile. Observers are alerts and metrics. No error of theirs ends the watch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from operator import methodcaller
from typing import TYPE_CHECKING, Protocol

from trimtab.base.error import panics_as_errors
from trimtab.base.filesystem import DRIVERS
from trimtab.base.site import Site
from trimtab.store.slot import Slot
from trimtab.watch.log import fields

if TYPE_CHECKING:
    from trimtab.base.snapshot import Snapshot
    from trimtab.reach.driver_protocol import Driver
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class Taking:
    """A snapshot that is being taken.

    Attributes
    ----------
    due_at, started_at
        Of its slot.
    answer
        The snapshot once it is there, or what went wrong.
    """

    due_at: datetime
    started_at: datetime
    answer: Future[Snapshot]


def begin(driver: Driver, due_at: datetime, clock: Callable[[], datetime]) -> Taking:
    """Begin to take a snapshot and return at once; nobody else uses the driver meanwhile."""
    taking = Taking(due_at, clock(), Future())

    def take() -> None:
        try:
            taking.answer.set_result(driver.snapshot(clock()))
        except BaseException as error:  # noqa: BLE001 (raised where the answer is taken)
            taking.answer.set_exception(error)

    # A daemon: what hangs must not keep the watch from ending.
    threading.Thread(target=take, name="snapshot-beside", daemon=True).start()
    return taking


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
    from trimtab.watch.alert.alerting import Alerting

    # In simulated time an hour passes in moments: deliveries are made in between.
    alerting = Alerting(
        site, store, log=log, clock=clock, threads=not DRIVERS[site.driver].simulated
    )
    observers: list[Observer] = [alerting] if alerting.couriers else []
    if site.metrics.listen is not None or site.metrics.textfile is not None:
        from trimtab.watch.exporter import Exporter
        from trimtab.watch.site_metrics import Collector

        name = None
        if DRIVERS[site.driver].named:
            from trimtab.reach.lustre.lustre_client import lustre_name

            name = lustre_name(site)
        collector = Collector(
            site, store, clock=clock, file_system=name, receivers=alerting.standing
        )
        observers.append(Exporter(site, collector, log=log))
    return tuple(observers)
