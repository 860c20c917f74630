"""Watch a site: probes and snapshots on schedule, each stored and judged, for as long as it runs.

What is due is decided by pure functions (`trimtab.watch.agenda`), done by
`trimtab.watch.slot_work`, and stored so that the process may end at any moment: the next one
continues where this one stopped, and nothing is done twice or lost.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.act.observing import in_maintenance
from trimtab.base.error import Interrupted, RefusedError, TrimtabError, panics_as_errors
from trimtab.base.filesystem import DRIVERS
from trimtab.base.interruption import interruptible, shielded
from trimtab.base.schedule import POLICIES, PURGE_PLAN, SNAPSHOT
from trimtab.base.site import Site
from trimtab.probe.probe import ProbeRunner
from trimtab.reach.driver_protocol import Clock, Driver
from trimtab.store.slot import LEASE_S, Slot, is_gone, lease_end, process_text, this_process
from trimtab.watch.agenda import (
    Begin,
    Miss,
    Position,
    WatchAgenda,
    Work,
    advanced,
    decide,
    items,
    next_item,
    occupied,
    something_else_due,
)
from trimtab.watch.incident_watch import IncidentLook, IncidentWatch
from trimtab.watch.service import NAME, Notifier, fields
from trimtab.watch.slot_work import AN_ERROR_ENDED_IT, ENDED_WHILE_IT_RAN, SlotWork
from trimtab.watch.upkeep import (
    DailyInventory,
    Observer,
    Observers,
    Resumption,
    Retention,
    StorePatience,
    Taking,
    begin,
)

if TYPE_CHECKING:
    from trimtab.store.store import Store

REST_MAX_S: Final = 60.0
"""The longest sleep: a clock that is set forward is noticed within a minute."""
RECOVER_AGAIN_S: Final = 3600.0
"""How often to look for slots that an error left half done: one that stays is logged hourly."""
ONCE_POLL_S: Final = 1.0
SETTLE_POLL_S: Final = 1.0
BACKWARDS: Final = timedelta(seconds=1)
"""A clock that goes back by less is being slewed."""


class Watch:
    """The watch of one site.

    Parameters
    ----------
    probe
        Runs the probes: `trimtab.probe.site_probe.SiteProbeRunner`, or a substitute.
    clock
        Returns the time now, aware UTC.
    sleep
        Waits for that many seconds.
    elapsed_s
        Returns the seconds since some moment, by a monotonic clock.
    open_acting
        Opens the driver with the right to change the file system: `open_acting_driver`.
    notify
        Receives the state of the watch: `trimtab.watch.service.from_environment`.
    holder, gone
        Name of this process, and whether another one is known to have ended.

    Raises
    ------
    UsageError
        A schedule of the site is invalid.
    """

    def __init__(
        self,
        site: Site,
        store: Store,
        driver: Driver,
        probe: ProbeRunner,
        *,
        clock: Clock,
        sleep: Callable[[float], None],
        elapsed_s: Callable[[], float],
        open_acting: Callable[..., Driver],
        log: logging.Logger | None = None,
        notify: Notifier | None = None,
        holder: str | None = None,
        gone: Callable[[str], bool] = is_gone,
    ) -> None:
        self.site, self.store = site, store
        self._clock, self._sleep, self._gone = clock, sleep, gone
        self._elapsed_s = elapsed_s
        self.log = log or logging.getLogger(NAME)
        self._notify = notify or Notifier()
        self._holder = holder or this_process()
        self._items = items(site)
        self._patience = StorePatience(self.log, clock, self._pause, self._outage)
        surroundings = clock, self.log, self._notify, self._patience, self._holder, self._alive
        self._work = SlotWork(site, store, driver, probe, *surroundings)
        if not DRIVERS[site.driver].simulated:  # its time passes only while the watch waits
            self._work.beside, self._work.settle = self._beside, self._settle
        self._work.arm(open_acting, self._wait)
        self._resumption = Resumption(site.name, store, self._patience, self._do)
        self._retention = Retention(site, store, self.log, elapsed_s)
        self._inventory = DailyInventory(site, store, driver, self.log)
        self._incident_watch = IncidentWatch(site, store, self.log, clock)
        self._observers = Observers((), self.log)
        self._taking: Taking | None = None
        self._taken: list[Slot] = []
        self._agenda: WatchAgenda | None = None
        self._lease_until: datetime | None = None
        self._latest: datetime | None = None
        self._recovered_s = 0.0
        self._announced: tuple[datetime, str] | None = None

    def observe(self, observers: Sequence[Observer], *, looks: IncidentLook | None = None) -> None:
        """Set the observers: called after each slot, while the watch waits, and at its end.

        Parameters
        ----------
        looks
            Searches for incidents; ``None``: this process does.
        """
        if looks is not None:
            self._incident_watch.looks = looks
        self._observers = Observers(observers, self.log)

    def run(self, *, once: bool = False) -> tuple[Slot, ...]:
        """Watch until interrupted, or with ``once`` do what is not yet done; return the slots.

        Raises
        ------
        RefusedError
            Another process watches the site.
        Interrupted
            By SIGINT, SIGTERM or SIGHUP. Work under way is cleaned up and can be resumed.
        """
        with interruptible():
            try:
                if once:
                    done = self._once(self._clock())
                else:
                    self._forever()
                    done = ()
            except (Interrupted, TrimtabError) as error:
                self._notify.stopping()
                if self._work.planning is not None:
                    self._work.planning.stop()
                self.log.info("the watch ends", extra=fields(reason=error.message))
                self._release()
                raise
            finally:
                self._observers.close()
            self._release()
            return done

    def step(self, now: datetime) -> tuple[Slot, ...]:
        """Do all that is due, and return the slots that ended; the first time, set up as well.

        Raises
        ------
        RefusedError
            Another process watches the site.
        """
        self._prepare(now)
        if ended := self._recover_again(now):
            now = self._clock()
        agenda = self._known()
        while work := decide(agenda, now):
            for task in work:
                if (slot := self._do(task)) is not None:
                    ended.append(slot)
                    self._look_at(slot)
                # A failed slot is not retried: within its grace it would fail again and again.
                agenda = self._agenda = advanced(self._known(), task)
            now = self._clock()
        ended += self._confirm(now)
        if planned := self._guarded(self._work.planned):
            ended.append(planned)
        self._retention.prune(self._clock())
        self._inventory.take(self._clock())
        return tuple(ended)

    def _forever(self) -> None:
        while True:
            self.step(self._clock())
            self._rest()

    def _once(self, now: datetime) -> tuple[Slot, ...]:
        """Take a snapshot and run every probe whose latest slot has not ended."""
        self._take_lease(now)
        ended = self._recover(now)
        for item in self._items:
            self._resumption.settle_before(item, now)
        if taken := self._guarded(partial(self._work.snapshot, SNAPSHOT, now)):
            ended.append(taken)
            self._look_at(taken)
        for item in self._items:
            if item.name == SNAPSHOT:
                continue
            if slot := self._guarded(partial(self._begin(item.name), item.name, item.until(now))):
                ended.append(slot)
                self._look_at(slot)
        while self._work.is_planning:
            if planned := self._guarded(self._work.planned):
                ended.append(planned)
            else:
                self._wait(ONCE_POLL_S)
        self._inventory.take(self._clock())
        return tuple(ended)

    # Setting up

    def _prepare(self, now: datetime) -> None:
        if self._agenda is None:
            self._take_lease(now)
            self._notify.ready()  # resuming the work of an earlier watch may be a whole probe
            self._recover(now)
            self._agenda = WatchAgenda(alive_since=now, positions=self._positions(now))
            self.log.info("watching", extra=fields(site=self.site.name, holder=self._holder))
        elif self._latest is not None and now < self._latest - BACKWARDS:
            by_s = (self._latest - now).total_seconds()
            self.log.warning("the clock went back", extra=fields(by_s=by_s))
            self._agenda = replace(self._agenda, positions=self._positions(now))
        self._latest = now
        self._renew_lease(now)

    def _positions(self, now: datetime) -> tuple[Position, ...]:
        return tuple(self._resumption.position(item, now) for item in self._items)

    def _known(self) -> WatchAgenda:
        assert self._agenda is not None
        return self._agenda

    def _recover(self, now: datetime) -> list[Slot]:
        """Close the unfinished work of an earlier watch, or resume it if there is time."""
        self._recovered_s = self._elapsed_s()
        by_name = {item.name: item for item in self._items}
        ended = []
        store, name = self.store, self.site.name
        for slot in self._patience.keep("reading slots", lambda: store.open_slots(name)):
            item = by_name.get(slot.item)
            if slot.item == PURGE_PLAN and self._work.is_planning:
                continue
            in_time = item is not None and self._clock() <= item.latest(slot.due_at)
            if closed := self._guarded(partial(self._take_up, slot, again=in_time)):
                ended.append(closed)
        return ended

    def _recover_again(self, now: datetime) -> list[Slot]:
        """Repeat the recovery of the start: an error may have left a slot half done.

        Between two slots none is under way, so a slot that is started and not ended is half done.
        """
        if self._elapsed_s() - self._recovered_s < RECOVER_AGAIN_S:
            return []
        ended = self._recover(now)
        if ended and self._agenda is not None:
            reason = "an unfinished slot was resumed"
            self._agenda = occupied(self._agenda, reason, now, self._clock())
        return ended

    def _take_up(self, slot: Slot, *, again: bool) -> Slot | None:
        reason = AN_ERROR_ENDED_IT if slot.holder == self._holder else ENDED_WHILE_IT_RAN
        if slot.run is not None:
            return self._work.go_on(slot, reason)
        if again or (slot.item == PURGE_PLAN and self._work.planning is not None):
            return self._begin(slot.item)(slot.item, slot.due_at)
        return self._work.give_up(slot, reason)

    # Doing

    def _do(self, work: Work) -> Slot | None:
        if isinstance(work, Miss):
            return self._guarded(partial(self._work.miss, work.item, work.due_at, work.reason))
        if not isinstance(work, Begin):
            return self._guarded(partial(self._work.miss_many, work))
        since = self._clock()
        slot = self._guarded(partial(self._begin(work.item), work.item, work.due_at))
        until, item_text = self._clock(), work.item.replace(":", " ")
        if self._agenda is not None:
            reason = f"the {item_text} of {work.due_at:%H:%M} was still running"
            self._agenda = occupied(self._agenda, reason, since, until)
        if slot is None:
            self._lease_until = None  # another process may have the lease by now: check
        self._renew_lease(until)
        while self._taken:
            self._look_at(self._taken.pop(0))
        return slot

    def _beside(self) -> None:
        """Begin the snapshot that comes due while a probe runs, or store it once it is complete."""
        if self._agenda is None:
            return
        if self._taking is not None:
            if self._taking.answer.done():
                self._keep_taken(self._taking)
            return
        snapshots = tuple(each for each in self._agenda.positions if each.item.name == SNAPSHOT)
        for work in decide(replace(self._agenda, positions=snapshots), self._clock()):
            if isinstance(work, Begin):
                self._taking = begin(self._work.driver, work.due_at, self._clock)
            else:
                self._do(work)
                self._agenda = advanced(self._known(), work)

    def _keep_taken(self, taking: Taking) -> None:
        """Store a snapshot that was taken beside a probe; its alerts do not wait either."""
        self._taking = None
        slot = self._guarded(partial(self._work.snapshot, SNAPSHOT, taking.due_at, taking))
        self._agenda = advanced(self._known(), Begin(SNAPSHOT, taking.due_at))
        if slot is not None:
            self._taken.append(slot)
            self._observers.after_slot(slot)

    def _settle(self) -> None:
        """Wait for the snapshot that is being taken beside a probe that has ended."""
        while (taking := self._taking) is not None:
            with contextlib.suppress(TimeoutError):
                taking.answer.exception(SETTLE_POLL_S)
            if taking.answer.done():
                self._keep_taken(taking)
            self._alive()

    def _begin(self, item: str) -> Callable[[str, datetime], Slot | None]:
        if item == SNAPSHOT:
            return self._work.snapshot
        if item == PURGE_PLAN:
            return self._work.purge_plan
        if item == POLICIES:
            return partial(self._work.policies, gives_way=self._gives_way)
        return self._work.probe

    def _gives_way(self, seconds: float) -> bool:
        """Return whether a snapshot, a probe or a maintenance is due within so many seconds."""
        agenda, until = self._agenda, self._clock() + timedelta(seconds=seconds)
        if agenda is not None and something_else_due(agenda, POLICIES, until):
            return True
        return "" in in_maintenance(self.site, self.store, until)

    def _guarded(self, call: Callable[[], Slot | None]) -> Slot | None:
        """Do a slot; an error of one slot never ends the watch."""
        try:
            with panics_as_errors():
                return call()
        except RefusedError:
            raise  # another process watches by now
        except Exception:
            self.log.exception("a slot failed")
            return None

    def _outage(self, since: datetime, until: datetime) -> None:
        if self._agenda is not None:
            self._agenda = occupied(self._agenda, "the store could not be used", since, until)

    def _look_at(self, slot: Slot, *, confirming: bool = False) -> None:
        """Examine the result of a slot; no error in this ever ends the watch."""
        try:
            with panics_as_errors():
                self._incident_watch.after(slot, confirming=confirming)
        except Exception:
            extra = fields(at=slot.due_at)
            self.log.exception("the result of a slot was not examined", extra=extra)
        self._observers.after_slot(slot)

    def _confirm(self, now: datetime) -> list[Slot]:
        """Run the probes that are due to confirm a suspect."""
        ended = []
        for confirming in self._incident_watch.due(now):
            slot = self._do(confirming)
            if slot is not None:
                ended.append(slot)
                self._look_at(slot, confirming=True)
        return ended

    # Waiting

    def _rest(self) -> None:
        """Sleep until the next start, or less: for a sign of life, the clock and the lease."""
        self._observers.idle(self._clock())
        planned, now = next_item(self._known()), self._clock()
        confirming = self._incident_watch.next_due()
        if confirming is not None and (planned is None or confirming < planned[0]):
            planned = confirming, "a confirming probe"
        left_s = REST_MAX_S if planned is None else (planned[0] - now).total_seconds()
        if planned is not None:
            at, item = planned[0].isoformat(timespec="seconds"), planned[1]
            self._notify.status(f"next: {item} at {at}")
            if planned != self._announced:
                self._announced = planned
                self.log.info("next", extra=fields(item=item, at=at))
        self._notify.alive()
        if left_s > 0:
            longest_s = min(REST_MAX_S, self._notify.alive_every_s or REST_MAX_S)
            self._sleep(min(left_s, longest_s))

    def _wait(self, seconds: float) -> None:
        """Sleep within a slot: with signs of life."""
        left_s = seconds
        while left_s > 0:
            self._alive()
            self._sleep(min(left_s, REST_MAX_S))
            left_s -= REST_MAX_S

    def _pause(self, seconds: float) -> None:
        self._notify.status("waiting for the store")
        self._notify.alive()
        self._sleep(seconds)

    # The lease

    def _take_lease(self, now: datetime) -> None:
        site, until = self.site, lease_end(now)
        known = partial(self.store.ensure_site, site.name, driver=site.driver, path=site.path)
        self._patience.keep("naming the site", known)
        lease = {"now": now, "until": until, "gone": self._gone}
        take = partial(self.store.take_lease, site.name, self._holder, **lease)
        current = self._patience.keep("taking the lease", take)
        if current is not None:
            raise RefusedError(
                f"{site.name} is already watched by {process_text(current.holder)} since "
                f"{current.taken_at.isoformat(timespec='seconds')}",
                code="already-watched",
                hint=f"trimtab watch {site.source or site.name} --status shows what it does; "
                f"stop it there first: systemctl stop trimtab-watch@{site.name}, or kill; if its "
                f"host is gone, its lease expires {current.until.isoformat(timespec='seconds')}",
            )
        self._lease_until = until

    def _alive(self) -> None:
        """Give a sign of life while a slot takes long, and keep the lease if possible.

        Otherwise the slot ends first: its results are refused if another process has taken the
        lease.
        """
        self._notify.alive()
        now = self._clock()
        if self._lease_is_fresh(now):
            return
        until = lease_end(now)
        try:
            with shielded():
                if self.store.renew_lease(self.site.name, self._holder, until):
                    self._lease_until = until
        except TrimtabError as error:
            self.log.warning("the lease was not renewed", extra=fields(problem=error.message))

    def _lease_is_fresh(self, now: datetime) -> bool:
        half = timedelta(seconds=LEASE_S / 2)
        return self._lease_until is not None and half < self._lease_until - now <= 2 * half

    def _renew_lease(self, now: datetime) -> None:
        """Renew the lease when half of it is over."""
        if self._lease_is_fresh(now):
            return
        until = lease_end(now)
        store, name = self.store, self.site.name
        if not self._patience.keep(
            "renewing the lease", lambda: store.renew_lease(name, self._holder, until)
        ):
            self._lease_until = None
            raise RefusedError(
                f"{name} is now watched by another process",
                code="lease-lost",
                hint="this watch was delayed for longer than its lease",
            )
        self._lease_until = until

    def _release(self) -> None:
        if self._lease_until is None:
            return
        try:
            self.store.release_lease(self.site.name, self._holder)
        except TrimtabError as error:
            self.log.warning("the lease was not released", extra=fields(problem=error.message))
