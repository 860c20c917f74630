"""Upkeep beside the watch's slots: patience with the store, removal of old records, observers.

Calls to the store are retried, and the position of an item is recovered. Observers are alerts and
metrics; no error of theirs ends the watch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from operator import methodcaller
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from trimtab.base.error import TrimtabError, UnreadableError, panics_as_errors
from trimtab.base.filesystem import DRIVERS
from trimtab.base.interruption import shielded
from trimtab.base.schedule import parse_schedule
from trimtab.base.site import Site
from trimtab.store.slot import Slot, SlotState
from trimtab.watch.agenda import Begin, Item, Position, WatchAgenda, Work, decide, position
from trimtab.watch.service import fields

if TYPE_CHECKING:
    from trimtab.base.snapshot import Snapshot
    from trimtab.reach.driver_protocol import Driver
    from trimtab.store.store import Store


_T = TypeVar("_T")

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0


class StorePatience:
    """Makes calls to the store, and repeats them if it does not answer.

    Parameters
    ----------
    outage
        Called with start and end of an outage of the store, once it answers again.
    """

    def __init__(
        self,
        log: logging.Logger,
        clock: Callable[[], datetime],
        rest: Callable[[float], None],
        outage: Callable[[datetime, datetime], None],
    ) -> None:
        self._log, self._clock, self._rest, self._outage = log, clock, rest, outage

    def keep(self, activity: str, call: Callable[[], _T], *, attempts: int | None = None) -> _T:
        """Return what the call returns; waits twice as long after each failure, at most a minute.

        Signals do not interrupt the call itself, only the waiting.

        Parameters
        ----------
        attempts
            Number of attempts; ``None``: without end, for data that must not be lost.

        Raises
        ------
        UnreadableError
            The last attempt failed.
        """
        wait_s, since = FIRST_WAIT_S, None
        for attempt in count(1):
            try:
                with shielded():
                    result = call()
            except UnreadableError as error:
                if attempt == attempts:
                    raise
                since = since or self._clock()
                self._log.error(
                    "the store cannot be used",
                    extra=fields(doing=activity, problem=error.message, again_in_s=wait_s),
                )
                self._rest(wait_s)
                wait_s = min(LONGEST_WAIT_S, wait_s * 2)
            else:
                if since is not None:
                    self._outage(since, self._clock())
                return result
        raise AssertionError("counting has no end")


_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Resumption:
    """Finds where an item left off.

    Attributes
    ----------
    site
        Name of the site.
    miss
        Records what was missed: a `Miss` or a `MissMany`.
    """

    site: str
    store: Store
    patience: StorePatience
    miss: Callable[[Work], object]

    def position(self, item: Item, now: datetime) -> Position:
        """Return how far an item has come according to the store; new items begin now."""
        begun, last = self._begun(item, now), self._last(item, now)
        if begun is not None and last is not None:
            if begun.detail == str(item.schedule):
                return position(item, last.due_at)
            self._settle(item, begun, last, now)
        slot = Slot(self.site, item.name, now, SlotState.BEGUN, detail=str(item.schedule))
        if not self._begin(slot):
            self._begin(replace(slot, due_at=now + _MICROSECOND))
        return position(item, now)

    def settle_before(self, item: Item, now: datetime) -> None:
        """Record what was missed before the latest slot: a later one hides it after a restart."""
        if self._begun(item, now) is None:
            return  # nothing watched it, so nothing was missed
        self._keep_missed(self.position(item, now), item.latest(item.until(now)))

    def _settle(self, item: Item, begun: Slot, last: Slot, now: datetime) -> None:
        """Record what was missed on the earlier schedule of an item."""
        try:
            before = replace(item, schedule=parse_schedule(begun.detail or ""))
        except TrimtabError:
            return  # from a version with more kinds of schedules
        self._keep_missed(position(before, last.due_at), now)

    def _keep_missed(self, place: Position, then: datetime) -> None:
        for work in decide(WatchAgenda(alive_since=then, positions=(place,)), then):
            if not isinstance(work, Begin):
                self.miss(work)

    def _begun(self, item: Item, now: datetime) -> Slot | None:
        return self.patience.keep(
            "reading slots",
            lambda: self.store.last_slot(self.site, item.name, until=now, state=SlotState.BEGUN),
        )

    def _last(self, item: Item, now: datetime) -> Slot | None:
        return self.patience.keep(
            "reading slots", lambda: self.store.last_slot(self.site, item.name, until=now)
        )

    def _begin(self, slot: Slot) -> bool:
        return self.patience.keep("beginning", lambda: self.store.finish_slot(slot))


PROVED_S: Final = 86400.0
"""How long the clocks must agree before anything is removed; also the interval of removals."""
APART_S: Final = 300.0
"""NTP slews by at most 500 ppm (ntp_adjtime(3)), 43 s a day: beyond this, a clock was set."""


class Retention:
    """Removes, once a day, records older than the site's retention.

    Records are removed by a clock that has proved itself. A clock that is set forward by a month
    makes a month of snapshots look as old as their retention. So the wall clock is compared with a
    monotonic one, and records are removed only once both have kept pace for a whole day: a jump,
    forward or back, begins the day anew, and so does every start of the watch, since nothing shows
    what happened to the clock before. That needs no stored state, and it errs by keeping too much.
    It cannot distinguish a clock that was set wrongly, and stays wrong for a day, from one that was
    set right at last.

    Parameters
    ----------
    elapsed_s
        Returns the seconds since some moment, by a monotonic clock.
    """

    def __init__(
        self, site: Site, store: Store, log: logging.Logger, elapsed_s: Callable[[], float]
    ) -> None:
        self._site, self._store, self._log, self._elapsed_s = site, store, log, elapsed_s
        self._agree_since: tuple[datetime, float] | None = None

    def prune(self, now: datetime) -> None:
        """Remove old records; called often, so that every jump of a clock is seen."""
        retention_s = self._site.store.retention_s
        if retention_s is None or not self._trusted(now, self._elapsed_s()):
            return
        before = now - timedelta(seconds=retention_s)
        try:
            with panics_as_errors():
                removed = self._store.prune(self._site.name, before, now=now)
        except TrimtabError as error:
            self._log.error("nothing was pruned", extra=fields(problem=error.message))
            return
        except Exception:  # noqa: BLE001 (logged; the watch goes on, and tries again in a day)
            self._log.exception("nothing was pruned")
            return
        counts = {name: getattr(removed, name) for name in ("snapshots", "outputs", "alerts")}
        self._log.info("pruned", extra=fields(**counts))

    def _trusted(self, now: datetime, now_s: float) -> bool:
        """Return whether both clocks have agreed for a day; then the next day begins."""
        agreed, self._agree_since = self._agree_since, (now, now_s)
        if agreed is None:
            return False
        passed_s = now_s - agreed[1]
        ahead_s = (now - agreed[0]).total_seconds() - passed_s
        if abs(ahead_s) > APART_S:
            self._log.warning(
                "the clock was set: nothing is pruned for a day", extra=fields(ahead_s=ahead_s)
            )
            return False
        if passed_s < PROVED_S:
            self._agree_since = agreed
            return False
        return True


INVENTORY_EVERY: Final = timedelta(days=1)


class DailyInventory:
    """Takes the inventory of a site with servers once a day, whichever process took the last."""

    def __init__(self, site: Site, store: Store, driver: Driver, log: logging.Logger) -> None:
        self._site, self._store, self._driver, self._log = site, store, driver, log
        self._next: datetime | None = None

    def take(self, now: datetime) -> None:
        """Take it if it is due; called often, between slots. No error in it ends the watch."""
        if not DRIVERS[self._site.driver].has_servers or (self._next and now < self._next):
            return
        from trimtab.probe.inventory import last_look, take

        self._next = now + INVENTORY_EVERY
        try:
            with panics_as_errors():
                last = last_look(self._store, self._site.name)
                if last is not None and now < last + INVENTORY_EVERY:
                    self._next = last + INVENTORY_EVERY
                    return
                taken = take(self._site, self._driver, self._store)
        except TrimtabError as error:
            self._log.warning("no inventory", extra=fields(problem=error.message))
        except Exception:  # noqa: BLE001 (logged; the watch goes on, and tries again in a day)
            self._log.exception("no inventory")
        else:
            changes = len(taken.changes)
            differences = len(taken.inventory.differences)
            extra = fields(differences=differences, changes=changes)
            self._log.info("took an inventory", extra=extra)


@dataclass(frozen=True, slots=True)
class Taking:
    """A snapshot that is being taken.

    It is taken in a thread of its own: a probe whose target is lost waits for minutes, and the
    alert of the loss must not wait with it.

    Attributes
    ----------
    due_at, started_at
        When its slot was due, and when it started.
    answer
        The snapshot once it is complete, or its error.
    """

    due_at: datetime
    started_at: datetime
    answer: Future[Snapshot]


def begin(driver: Driver, due_at: datetime, clock: Callable[[], datetime]) -> Taking:
    """Begin to take a snapshot and return at once; nothing else may use the driver meanwhile."""
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
        """Read the record after a slot has ended."""

    def idle(self, now: datetime) -> object:
        """Continue with remaining work; called at least once a minute."""

    def close(self) -> object:
        """End; the watch ends too."""


class Observers:
    """Several observers; an error of one is logged, and the others are still called."""

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
    """Return the observers of a watch; code for those it does not have is not imported."""
    from trimtab.watch.alerting import Alerting
    from trimtab.watch.maintenance_calendar import MaintenanceCalendar

    # In simulated time an hour passes in moments: deliveries are made in between.
    alerting = Alerting(
        site, store, log=log, clock=clock, threads=not DRIVERS[site.driver].simulated
    )
    observers: list[Observer] = [MaintenanceCalendar(site, store, log=log, clock=clock)]
    observers += [alerting] if alerting.couriers else []
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
