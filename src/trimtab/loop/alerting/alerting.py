"""The alerts of one watch: decides after each slot, and lets couriers deliver meanwhile.

An alert is first put into the ledger, as one that waits, then sent, then marked as delivered.
Killed before the ledger, the next process decides on it again. Killed between the receiver's answer
and the mark, which follows at once, it is sent again with the same idempotency key: the one case of
a message twice. While the store cannot be written, alerts wait in memory and are sent all the same.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.alert.decide import decide, watch_gone
from trimtab.errors import ToolError, TrimtabError
from trimtab.loop.alerting.courier import Courier
from trimtab.loop.alerting.observing import SnapshotViews, observe
from trimtab.loop.alerting.receivers import Receiver, receivers_of
from trimtab.loop.watching.log import configured, fields
from trimtab.model.alert import Alert, Delivery, DeliveryState, Phase
from trimtab.model.finding import Severity
from trimtab.model.site import Site
from trimtab.record.alerting import REMEMBERED
from trimtab.report.metrics import ReceiverNow

if TYPE_CHECKING:
    from trimtab.record.slots import Slot
    from trimtab.record.store import Store

READ_AGAIN: Final = timedelta(days=1)
"""So often the ledger is read anew: what was pruned from it need not be looked through."""
CLOSING_S: Final = 20.0
"""What is under way when the watch ends has so long; the rest waits in the ledger."""


class Alerting:
    """What a watch tells people.

    Parameters
    ----------
    clock
        The site's: quiet hours, rates and waits go by it.
    receivers
        ``None``: those of the site file.
    threads
        Whether each receiver has a thread of its own; without, deliveries hold up the caller.
    """

    def __init__(
        self,
        site: Site,
        store: Store,
        *,
        log: logging.Logger,
        clock: Callable[[], datetime],
        receivers: Iterable[Receiver] | None = None,
        threads: bool = True,
    ) -> None:
        self._site, self._store, self._log, self._clock = site, store, log, clock
        self._threads = threads
        receivers = receivers_of(site) if receivers is None else tuple(receivers)
        self.couriers = tuple(Courier(site, store, receiver, log, clock) for receiver in receivers)
        self._ledger: list[Alert] | None = None
        self._read_at = datetime.max.replace(tzinfo=UTC)
        self._unkept: list[Alert] = []
        self._running: dict[str, threading.Thread] = {}
        self._closing = threading.Event()
        self._views = SnapshotViews()

    def after_slot(self, slot: Slot | None = None) -> tuple[Alert, ...]:
        """Decide on the record as it is now; return the new alerts. Never waits for a receiver."""
        if not self.couriers:
            return ()
        now = self._clock()
        ledger = self._known(now)
        self._keep_unkept()
        observed = observe(self._site, self._store, now, self._views)
        return self._send(decide(observed, ledger, now))

    def watch_gone(self, slot: str, due_at: datetime) -> tuple[Alert, ...]:
        """Report that no process watches the site, once; the next watch reports its return."""
        if not self.couriers:
            return ()
        now = self._clock()
        alert = watch_gone(self._site.name, self._known(now), now, slot=slot, due_at=due_at)
        return self._send([] if alert is None else [alert])

    def idle(self, now: datetime) -> None:
        """Go on with what waits; to be called often, and cheap where nothing does."""
        if self.couriers:
            self._known(now)
            self.deliver()

    def deliver(self) -> None:
        """Let each courier that has something to try run, in a thread of its own."""
        now = self._clock()
        for courier in self.couriers:
            name = courier.receiver.name
            thread = self._running.get(name)
            if (thread is not None and thread.is_alive()) or not courier.is_due(now):
                continue
            if not self._threads:
                courier.run()
                continue
            # A daemon: a receiver that hangs must not keep the watch from ending.
            carry = partial(self._carry, courier)
            thread = threading.Thread(target=carry, name=f"alerts-{name}", daemon=True)
            self._running[name] = thread
            thread.start()

    def _carry(self, courier: Courier) -> None:
        """Go on until nothing waits, also while a slot takes hours."""
        while True:
            courier.run()
            wait_s = courier.wait_s()
            if wait_s is None or self._closing.wait(wait_s):
                return

    def close(self) -> None:
        """Give what is under way a little time; the rest waits for the next watch."""
        self._closing.set()
        for thread in self._running.values():
            thread.join(CLOSING_S / len(self._running))

    def standing(self) -> tuple[ReceiverNow, ...]:
        """Return how alerts stand with each receiver."""
        return tuple(
            ReceiverNow(courier.receiver.name, len(courier.waiting()), courier.failures)
            for courier in self.couriers
        )

    def _known(self, now: datetime) -> list[Alert]:
        """Return the ledger; read seldom, as only this watch writes it while it has the lease."""
        if self._ledger is None:
            stored = self._store.alerts(self._site.name, since=now - REMEMBERED)
            for courier in self.couriers:
                courier.remember(stored)
            self._ledger = list(stored)
            self._read_at = now
        elif not self._unkept and not self._read_at <= now < self._read_at + READ_AGAIN:
            # What waits is delivered whether or not the store can be read.
            with contextlib.suppress(TrimtabError):
                self._ledger = list(self._store.alerts(self._site.name, since=now - REMEMBERED))
                self._read_at = now
        return self._ledger

    def _send(self, alerts: Iterable[Alert]) -> tuple[Alert, ...]:
        """Put new alerts into the ledger, and begin to deliver what waits."""
        addressed = tuple(map(self._addressed, alerts))
        for alert in addressed:
            self._put(alert)
        self._known(self._clock()).extend(addressed)
        self.deliver()
        return addressed

    def _addressed(self, alert: Alert) -> Alert:
        """Return an alert with those who are to get it."""
        least = Severity(self._site.alerts.least)
        if alert.phase is Phase.NOTED or alert.severity.rank > least.rank:
            return alert
        names = (courier.receiver.name for courier in self.couriers)
        waiting = (Delivery(name, DeliveryState.WAITING, alert.at) for name in names)
        return replace(alert, deliveries=tuple(waiting))

    def _put(self, alert: Alert) -> None:
        if not self._keep(alert):
            self._unkept.append(alert)
        for courier in self.couriers if alert.deliveries else ():
            courier.add(alert)
        if alert.deliveries:
            level = logging.CRITICAL if alert.severity is Severity.CRITICAL else logging.WARNING
            extra = fields(id=alert.id, name=alert.name, phase=alert.phase.value, title=alert.title)
            self._log.log(level, "alert", extra=extra)

    def _keep(self, alert: Alert) -> bool:
        try:
            self._store.add_alert(alert)
        except TrimtabError as error:
            extra = fields(id=alert.id, problem=error.message)
            self._log.error("an alert was not kept in the ledger", extra=extra)
            return False
        return True

    def _keep_unkept(self) -> None:
        """Keep what could not be kept before, in its order."""
        while self._unkept and self._keep(self._unkept[0]):
            del self._unkept[0]


def alert_if_gone(where: str, store_url: str | None) -> None:
    """Alert and raise if no process watches a site and a slot is overdue.

    Raises
    ------
    ToolError
        No process watches it: `code` is ``watch-gone``.
    """
    from trimtab.loop.sites import clock_of
    from trimtab.loop.stores import open_store
    from trimtab.loop.watching.upcoming import overdue, watched_site

    site = watched_site(where).site
    clock = clock_of(site)
    with open_store(store_url, site) as store:
        late = overdue(site, store, clock())
        if not late:
            return
        item, due_at = min(late.items(), key=lambda entry: entry[1])
        slot = item.replace(":", " ")
        log = configured(level="error", clock=clock, site=site.name)
        alerting = Alerting(site, store, log=log, clock=clock, threads=False)
        alerting.watch_gone(slot, due_at)
        raise ToolError(
            f"no process watches {site.name}: the {slot} of {due_at:%Y-%m-%d %H:%M} UTC was not "
            "started",
            code="watch-gone",
            hint=f"systemctl status trimtab-watch@{site.name}; it resumes where it stopped",
        )
