"""The alerts of one watch: decides after each slot, and lets couriers deliver meanwhile.

An alert is first put into the ledger as waiting, then sent, then marked as delivered. If the watch
is killed before the ledger, the next process decides on it again. If it is killed between the
receiver's answer and the mark, which follows at once, the alert is sent again with the same
idempotency key: the only case of a duplicate. While the store cannot be written, alerts wait in
memory and are still sent.

A courier carries alerts to one receiver at its own pace: backoff, rate, quiet hours. Alerts that
wait are in the ledger, as deliveries in the state ``waiting``; a courier also holds them in memory,
so that they are sent while the store cannot be read or written.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.base.error import ToolError, TrimtabError, Undelivered, panics_as_errors
from trimtab.base.finding import Alert, Delivery, DeliveryState, Phase, Severity
from trimtab.base.site import Site
from trimtab.store.ledger import REMEMBERED
from trimtab.watch.alert_decision import decide, watch_gone
from trimtab.watch.alert_table import SnapshotViews, observe
from trimtab.watch.metrics import ReceiverNow
from trimtab.watch.payload import HOUR, Parcel, parcels
from trimtab.watch.receiver import Receiver, receivers_of
from trimtab.watch.service import configured, fields
from trimtab.watch.silence import Held, held_since, over_unheard

if TYPE_CHECKING:
    from trimtab.store.slot import Slot
    from trimtab.store.store import Store


FIRST_WAIT_S: Final = 30.0
LONGEST_WAIT_S: Final = 3600.0
"""Maximum between two attempts: a receiver that was down for a night has its alerts within that."""
LOOK_AGAIN_S: Final = 60.0
"""How often to check whether quiet hours, a rate limit or a wait are over."""
REPEAT: Final = timedelta(minutes=1)
"""How often open alerts are repeated to a receiver that forgets."""
_LOOK_SOON_S: Final = 10.0
"""Interval while only that is left to do: a new alert must not wait for it."""
KEPT: Final = timedelta(days=7)
"""Alerts that could not be delivered for so long are dropped; `trimtab alerts` still lists them."""
MOST: Final = 500
"""Maximum of waiting alerts; beyond it, the oldest that are not critical are dropped."""
_HELD_AGAIN: Final = timedelta(seconds=30)
"""How often windows and silences are read, which other processes write."""
ATTEMPTS: Final = 3
"""Attempts for a message that its receiver says it will never take."""


@dataclass(slots=True)
class Holding:
    """Reads what holds alerts of a site back; while the store cannot be read, as it was."""

    site: str
    store: Store
    _known: Held = field(default_factory=Held)
    _read_at: datetime | None = None

    def at(self, now: datetime) -> Held:
        """Return the windows and silences of the last weeks."""
        if self._read_at is None or not timedelta() <= now - self._read_at < _HELD_AGAIN:
            with contextlib.suppress(TrimtabError):
                self._known, self._read_at = held_since(self.store, self.site, now), now
        return self._known

    def in_maintenance(self, alert: Alert, moment: datetime) -> bool:
        """Return whether an alert falls into a window."""
        return self.at(moment).in_maintenance(alert, moment) is not None


@dataclass(slots=True)
class Courier:
    """Takes alerts to one receiver.

    Attributes
    ----------
    failures
        Attempts since the last delivery.
    not_before
        The next attempt.
    """

    site: Site
    store: Store
    receiver: Receiver
    log: logging.Logger
    clock: Callable[[], datetime]
    failures: int = 0
    not_before: datetime | None = None
    problem: str | None = None
    _waiting: dict[str, Alert] = field(default_factory=dict)
    _unmarked: dict[str, Delivery] = field(default_factory=dict)
    _sent_at: list[datetime] = field(default_factory=list)
    _refusals: dict[str, int] = field(default_factory=dict)
    _repeated_at: datetime | None = None
    _repeat_problem: str | None = None
    holding: Holding = field(init=False)

    def __post_init__(self) -> None:
        """Tell the receiver what is in maintenance."""
        self.holding = Holding(self.site.name, self.store)
        self.receiver.in_maintenance = self.holding.in_maintenance

    def remember(self, alerts: tuple[Alert, ...]) -> None:
        """Take this receiver's deliveries from the ledger, waiting and delivered."""
        delivered = []
        for alert in sorted(alerts, key=lambda alert: alert.at):
            for delivery in alert.deliveries:
                if delivery.receiver != self.receiver.name:
                    continue
                if delivery.state is DeliveryState.WAITING:
                    self.add(alert)
                elif delivery.state is DeliveryState.DELIVERED:
                    delivered.append(alert)
                    self._sent_at.append(delivery.at)
        self.receiver.remember(delivered)

    def add(self, alert: Alert) -> None:
        """Let an alert wait for the receiver."""
        self._waiting[alert.id] = alert

    def waiting(self) -> list[Alert]:
        """Return the alerts that wait, the oldest first."""
        # Copied into a list: the watch may add one meanwhile.
        return sorted(list(self._waiting.values()), key=lambda alert: (alert.at, alert.id))

    def is_due(self, now: datetime) -> bool:
        """Return whether a delivery should be tried now."""
        if self._is_to_repeat(now):
            return True
        if self.not_before is not None and now < self.not_before:
            return False
        return bool(self._unmarked or self._parcels(now))

    def run(self) -> None:
        """Deliver what can be delivered now; returns at the first failure."""
        now = self.clock()
        if self._is_to_repeat(now):
            self._repeat(now)
        for alert, delivery in list(self._unmarked.items()):
            self._mark(alert, delivery)
        self._drop_unheard(now)
        self._drop_old(now)
        if self.not_before is not None and now < self.not_before:
            return
        for parcel in self._parcels(now):
            if not self._deliver(parcel):
                return

    def wait_s(self) -> float | None:
        """Return when to try again, in seconds; ``None`` if nothing waits."""
        if not self._waiting:
            return _LOOK_SOON_S if self.receiver.repeats else None
        if self.not_before is None:
            return LOOK_AGAIN_S
        left_s = (self.not_before - self.clock()).total_seconds()
        return min(max(left_s, 1.0), LOOK_AGAIN_S)

    def _is_to_repeat(self, now: datetime) -> bool:
        if not self.receiver.repeats:
            return False
        at = self._repeated_at
        return at is None or not timedelta() <= now - at < REPEAT

    def _repeat(self, now: datetime) -> None:
        """Repeat open alerts; a failure is logged once, and delays no new alert."""
        self._repeated_at, problem = now, None
        try:
            with panics_as_errors():
                self.receiver.repeat(now)
        except Undelivered as error:
            problem = error.message
        except Exception as error:  # as for a delivery
            self.log.exception(
                "alerts were not repeated", extra=fields(receiver=self.receiver.name)
            )
            problem = type(error).__name__
        if problem is not None and problem != self._repeat_problem:
            extra = fields(receiver=self.receiver.name, problem=problem)
            self.log.warning("alerts were not repeated", extra=extra)
        self._repeat_problem = problem

    def _parcels(self, now: datetime) -> list[Parcel]:
        self._sent_at = [at for at in self._sent_at if now - at < HOUR]
        waiting = self.waiting()
        if not waiting:
            return []
        alerts, held, windows = self.site.alerts, self.holding.at(now), self._leaves_windows
        free = [each for each in waiting if held.why(each, now, windows=windows) is None]
        return parcels(
            free,
            self._sent_at,
            now,
            per_hour=alerts.per_hour,
            quiet=alerts.quiet,
            timezone=self.site.timezone,
            late={each.id for each in free if held.why(each, each.at, windows=windows)},
        )

    @property
    def _leaves_windows(self) -> bool:
        """Whether alerts wait for the end of a window here, and not at the receiver."""
        return not self.receiver.labels_maintenance

    def _deliver(self, parcel: Parcel) -> bool:
        try:
            with panics_as_errors():
                note = self.receiver.deliver(parcel, self.clock())
        except Undelivered as error:
            return self._failed(parcel, error)
        except Exception as error:  # a bug of one message must not silence the others
            self.log.exception("an alert could not be sent", extra=self._of(parcel))
            return self._failed(parcel, Undelivered(type(error).__name__, code="alert-failed"))
        now = self.clock()
        self.failures, self.not_before, self.problem = 0, None, None
        self._sent_at.append(now)
        for alert in parcel.alerts:
            self._end(alert, DeliveryState.DELIVERED, now, note)
        level = logging.INFO if note is None else logging.WARNING
        self.log.log(level, "alert delivered", extra=self._of(parcel, note=note))
        return True

    def _failed(self, parcel: Parcel, error: Undelivered) -> bool:
        now = self.clock()
        self.problem = error.message
        refusals = self._refusals.get(parcel.key, 0) + 1
        if error.for_good and refusals >= ATTEMPTS:
            self._refusals.pop(parcel.key, None)
            for alert in parcel.alerts:
                self._end(alert, DeliveryState.DROPPED, now, error.message)
            extra = self._of(parcel, problem=error.message, code=error.code)
            self.log.error("alert dropped: its receiver refuses it", extra=extra)
            return True
        if error.for_good:
            self._refusals[parcel.key] = refusals
        wait_s = min(FIRST_WAIT_S * 2 ** min(self.failures, 10), LONGEST_WAIT_S)
        if error.retry_after_s is not None:
            wait_s = max(wait_s, min(error.retry_after_s, LONGEST_WAIT_S))
        self.failures += 1
        self.not_before = now + timedelta(seconds=wait_s)
        extra = self._of(parcel, problem=error.message, code=error.code, again_in_s=wait_s)
        self.log.warning("alert not delivered", extra=extra)
        return False

    def _drop_unheard(self, now: datetime) -> None:
        """Drop what came and went while it was held back; `trimtab alerts` lists it."""
        waiting = self.waiting()
        held = self.holding.at(now) if waiting else Held()
        unheard = over_unheard(waiting, held, windows=self._leaves_windows)
        for alert in waiting:
            if alert.id in unheard:
                self._end(alert, DeliveryState.DROPPED, now, f"over: {unheard[alert.id]}")

    def _drop_old(self, now: datetime) -> None:
        waiting = self.waiting()
        held = self.holding.at(now) if waiting else Held()
        windows = self._leaves_windows
        waiting = [each for each in waiting if held.why(each, now, windows=windows) is None]
        for alert in waiting:
            if now - held.end(alert) > KEPT:
                self._end(alert, DeliveryState.DROPPED, now, self.problem or "too old")
        waiting = [alert for alert in waiting if alert.id in self._waiting]
        droppable = [alert for alert in waiting if alert.severity is not Severity.CRITICAL]
        for alert in droppable[: max(0, len(waiting) - MOST)]:
            self._end(alert, DeliveryState.DROPPED, now, "too many alerts waited")

    def _end(self, alert: Alert, state: DeliveryState, now: datetime, detail: str | None) -> None:
        """Record in the ledger that an alert no longer waits, then drop it."""
        self._mark(alert.id, Delivery(self.receiver.name, state, now, detail))
        self._waiting.pop(alert.id, None)

    def _mark(self, alert: str, delivery: Delivery) -> None:
        """Record in the ledger how a delivery ended; a failed write is retried with the next."""
        known = alert in self._unmarked
        self._unmarked[alert] = delivery
        try:
            if self.store.put_delivery(alert, delivery):
                del self._unmarked[alert]
        except TrimtabError as error:
            if not known:
                extra = fields(id=alert, problem=error.message)
                self.log.warning("the delivery of an alert was not kept", extra=extra)

    def _of(self, parcel: Parcel, **more: object) -> dict[str, dict[str, object]]:
        names = ", ".join(dict.fromkeys(alert.name for alert in parcel.alerts))
        known = {name: value for name, value in more.items() if value is not None}
        return fields(
            receiver=self.receiver.name,
            id=parcel.key,
            alerts=len(parcel.alerts),
            name=names,
            **known,
        )


READ_AGAIN: Final = timedelta(days=1)
"""How often the ledger is read anew, without the rows that were pruned meanwhile."""
CLOSING_S: Final = 20.0
"""Time left for deliveries under way when the watch ends; the rest waits in the ledger."""


class Alerting:
    """Sends the alerts of a watch.

    Parameters
    ----------
    clock
        The site's clock, for quiet hours, rates and waits.
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
        """Continue with waiting alerts; called often, and cheap if none waits."""
        if self.couriers:
            self._known(now)
            self.deliver()

    def deliver(self) -> None:
        """Run each courier that has a delivery to try, in its own thread."""
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
        """Continue until nothing waits, even while a slot takes hours."""
        while True:
            courier.run()
            wait_s = courier.wait_s()
            if wait_s is None or self._closing.wait(wait_s):
                return

    def close(self) -> None:
        """Leave deliveries under way a little time; the rest waits for the next watch."""
        self._closing.set()
        for thread in self._running.values():
            thread.join(CLOSING_S / len(self._running))

    def standing(self) -> tuple[ReceiverNow, ...]:
        """Return the state of deliveries to each receiver."""
        return tuple(
            ReceiverNow(courier.receiver.name, len(courier.waiting()), courier.failures)
            for courier in self.couriers
        )

    def _known(self, now: datetime) -> list[Alert]:
        """Return the ledger; rarely read, as only this watch writes it while it has the lease."""
        if self._ledger is None:
            stored = self._store.alerts(self._site.name, since=now - REMEMBERED)
            for courier in self.couriers:
                courier.remember(stored)
            self._ledger = list(stored)
            self._read_at = now
        elif not self._unkept and not self._read_at <= now < self._read_at + READ_AGAIN:
            # Waiting alerts are delivered whether or not the store can be read.
            with contextlib.suppress(TrimtabError):
                self._ledger = list(self._store.alerts(self._site.name, since=now - REMEMBERED))
                self._read_at = now
        return self._ledger

    def _send(self, alerts: Iterable[Alert]) -> tuple[Alert, ...]:
        """Put new alerts into the ledger, and begin to deliver waiting ones."""
        addressed = tuple(map(self._addressed, alerts))
        for alert in addressed:
            self._put(alert)
        self._known(self._clock()).extend(addressed)
        self.deliver()
        return addressed

    def _addressed(self, alert: Alert) -> Alert:
        """Return an alert with its receivers."""
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
        """Store the alerts that could not be stored before, in order."""
        while self._unkept and self._keep(self._unkept[0]):
            del self._unkept[0]


def alert_if_gone(where: str, store_url: str | None) -> None:
    """Alert and raise if no process watches a site and a slot is overdue.

    Raises
    ------
    ToolError
        No process watches it: `code` is ``watch-gone``.
    """
    from trimtab.site.lookup import clock_of, open_store
    from trimtab.watch.watch_state import overdue, watched_site

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
