"""Carries alerts to one receiver, at its own pace: backoff, rate, quiet hours.

What waits is the ledger's: deliveries in the state ``waiting``. A courier has them in memory too,
so that alerts are sent while the store cannot be read or written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.alert.parcels import HOUR, Parcel, parcels
from trimtab.errors import TrimtabError, Undelivered, panics_as_errors
from trimtab.loop.alerting.receivers import Receiver
from trimtab.loop.watching.log import fields
from trimtab.model.alert import Alert, Delivery, DeliveryState
from trimtab.model.finding import Severity
from trimtab.model.site import Site

if TYPE_CHECKING:
    from trimtab.record.store import Store

FIRST_WAIT_S: Final = 30.0
LONGEST_WAIT_S: Final = 3600.0
"""Between two attempts at most: a receiver that was down for a night has its alerts within that."""
LOOK_AGAIN_S: Final = 60.0
"""So often is looked whether quiet hours, a rate or a wait are over."""
REPEAT: Final = timedelta(minutes=1)
"""So often a receiver that forgets is told again what goes on."""
_LOOK_SOON_S: Final = 10.0
"""While only that is left to do: a new alert must not wait for it."""
KEPT: Final = timedelta(days=7)
"""What could not be delivered for so long is dropped; `trimtab alerts` still lists it."""
MOST: Final = 500
"""Alerts that wait; of more the oldest that are not critical are dropped."""
ATTEMPTS: Final = 3
"""For a message that its receiver says it will never take."""


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

    def remember(self, alerts: tuple[Alert, ...]) -> None:
        """Take up what the ledger says of this receiver: what waits, and what it has."""
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
        # A list at once: the watch may add one meanwhile.
        return sorted(list(self._waiting.values()), key=lambda alert: (alert.at, alert.id))

    def is_due(self, now: datetime) -> bool:
        """Return whether there is something to try now."""
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
        self._drop_old(now)
        if self.not_before is not None and now < self.not_before:
            return
        for parcel in self._parcels(now):
            if not self._deliver(parcel):
                return

    def wait_s(self) -> float | None:
        """Return when to try again, in seconds; ``None``: nothing waits."""
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
        """Tell again what goes on; a failure is logged once, and delays no new alert."""
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
        alerts = self.site.alerts
        return parcels(
            self.waiting(),
            self._sent_at,
            now,
            per_hour=alerts.per_hour,
            quiet=alerts.quiet,
            timezone=self.site.timezone,
        )

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

    def _drop_old(self, now: datetime) -> None:
        for alert in self.waiting():
            if now - alert.at > KEPT:
                self._end(alert, DeliveryState.DROPPED, now, self.problem or "too old")
        waiting = self.waiting()
        droppable = [alert for alert in waiting if alert.severity is not Severity.CRITICAL]
        for alert in droppable[: max(0, len(waiting) - MOST)]:
            self._end(alert, DeliveryState.DROPPED, now, "too many alerts waited")

    def _end(self, alert: Alert, state: DeliveryState, now: datetime, detail: str | None) -> None:
        """Write into the ledger that an alert waits no longer, then let it go."""
        self._mark(alert.id, Delivery(self.receiver.name, state, now, detail))
        self._waiting.pop(alert.id, None)

    def _mark(self, alert: str, delivery: Delivery) -> None:
        """Write into the ledger how a delivery ended; what fails is tried again with the next."""
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
