"""Searches months of runs for the watch: suspects at once, incidents daily or on cause.

It only reads and reports. It cannot end the watch or hold up a probe for long: a month of one
series takes some hundredths of a second, a whole site seconds, and that once a day.

A search of all stored months runs in its own process: for seconds it takes more memory than the
watch itself, and an allocator that gave nearly all of it back still left the watch some MiB larger
after each incident.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from trimtab.base.error import UsageError
from trimtab.base.incident import Shape
from trimtab.base.run import RunStatus, comparability_key
from trimtab.base.schedule import PROBE_PREFIX, SNAPSHOT
from trimtab.base.series import ChangePoint
from trimtab.base.site import Site
from trimtab.base.verdict import HistoryPoint, by_metric
from trimtab.probe.site_status import HISTORY, suspect_of
from trimtab.reach.driver_protocol import Clock
from trimtab.reach.worker_process import frames_for_months, worker_pool
from trimtab.site.place import Place
from trimtab.store.kept import is_long
from trimtab.store.slot import Slot
from trimtab.watch.agenda import Begin
from trimtab.watch.incident_alert import new_among
from trimtab.watch.service import fields

if TYPE_CHECKING:
    from trimtab.base.incident import Explanation
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class IncidentLooked:
    """Result of a search for incidents.

    Attributes
    ----------
    unkept
        Why the incidents could not be stored; ``None`` if they are.
    """

    explanations: tuple[Explanation, ...]
    unkept: str | None


class IncidentLook(Protocol):
    """A search of a site: `look`, or the same in another process."""

    def __call__(
        self, store: Store, place: Place, now: datetime, *, incidents: bool = True
    ) -> IncidentLooked:
        """Return the incidents found; none if they were not searched for."""
        ...


def look(store: Store, place: Place, now: datetime, *, incidents: bool = True) -> IncidentLooked:
    """Bring the stored results of a site up to date.

    Parameters
    ----------
    incidents
        Whether to search for incidents as well.

    Raises
    ------
    UsageError
        Nothing is stored about the site, or, without incidents, no run can be judged yet.
    """
    from trimtab.probe.up_to_date import bring_up_to_date, bring_verdicts_up_to_date

    if not incidents:
        bring_verdicts_up_to_date(store, place)
        return IncidentLooked((), None)
    search, _ = bring_up_to_date(store, place, now=now)
    return IncidentLooked(search.explained.explanations, search.unkept)


def look_elsewhere(
    store: Store, place: Place, now: datetime, *, incidents: bool = True
) -> IncidentLooked:
    """Do the same in a process that ends with the answer.

    Raises
    ------
    UsageError
        As for `look`.
    ToolError
        The process was killed.
    """
    with worker_pool(1, hint="the next look is tomorrow, or at the next suspect") as pool:
        url = store.location.url
        return pool.submit(_looked, url, place, now, incidents).result()


def _looked(url: str, place: Place, now: datetime, incidents: bool) -> IncidentLooked:
    frames_for_months()  # one thread: the probes of the watch have the others
    from trimtab.site.lookup import open_store

    with open_store(url) as store:
        return look(store, place, now, incidents=incidents)


LOOK_AGAIN: Final = timedelta(days=1)
"""Interval of searches for incidents without a suspect; confirmation is daily."""
UP_TO_DATE_S: Final = 60.0
"""Minimum interval of bringing verdicts up to date."""
CONFIRM_APART: Final = timedelta(minutes=15)
"""Interval of probes that confirm a suspect: closer ones would only repeat one another."""
_TOLD_NOTHING: Final = (RunStatus.FAILED, RunStatus.NOT_STARTED, RunStatus.INVALID_WORKLOAD)


class IncidentWatch:
    """Examines the result of each slot against the earlier record.

    Parameters
    ----------
    clock
        Returns the time now, aware UTC.

    Attributes
    ----------
    looks
        Searches for incidents; by default in this process.
    """

    def __init__(self, site: Site, store: Store, log: logging.Logger, clock: Clock) -> None:
        self._site, self._store, self._log, self._clock = site, store, log, clock
        self.looks: IncidentLook = look
        self._suspected: set[tuple[str, str, datetime]] = set()
        self._recalled: set[tuple[str, str]] = set()
        self._looked_at: datetime | None = None
        self._up_to_date_s = float("-inf")
        self._snapshots_until: datetime | None = None
        self._waiting: list[Begin] = []

    def due(self, now: datetime) -> tuple[Begin, ...]:
        """Return the confirming probes that are due, once each."""
        ready = tuple(waiting for waiting in self._waiting if waiting.due_at <= now)
        self._waiting = [waiting for waiting in self._waiting if waiting not in ready]
        return ready

    def next_due(self) -> datetime | None:
        """Return when the next confirming probe is due."""
        return min((waiting.due_at for waiting in self._waiting), default=None)

    def after(self, slot: Slot, *, confirming: bool = False) -> None:
        """Examine the result of a slot: suspects, bad checksums, and now and then incidents.

        Parameters
        ----------
        confirming
            Whether the slot itself was to confirm a suspect: then it asks for no further probes.
        """
        try:
            self._after(slot, confirming=confirming)
        finally:
            trim_memory()

    def _after(self, slot: Slot, *, confirming: bool) -> None:
        alarming = False
        if slot.run is not None and slot.item.startswith(PROBE_PREFIX):
            alarming = self._suspects(slot, confirming=confirming)
        if slot.item == SNAPSHOT or slot.after is not None:
            alarming |= self._bad_checksums()
        now = self._clock()
        if alarming or now - self._last_look(now) >= LOOK_AGAIN:
            self._looked_at = now
            self._incidents(now)
        elif slot.run is not None:
            self._bring_up_to_date(now)

    def _bring_up_to_date(self, now: datetime) -> None:
        """Bring the stored verdicts of a long record up to date, so that no user waits for them.

        At most every `UP_TO_DATE_S` by this host's clock: the hours of a twin pass in seconds.
        """
        name, elapsed_s = self._site.name, time.monotonic()
        if elapsed_s - self._up_to_date_s < UP_TO_DATE_S or not is_long(self._store.sums(name)):
            return
        self._up_to_date_s = elapsed_s
        with contextlib.suppress(UsageError):  # no run can be judged
            self.looks(self._store, Place(name, self._site), now, incidents=False)

    def _last_look(self, now: datetime) -> datetime:
        """Return when incidents were last searched for, by this watch or before it.

        For a site never searched, return its first run. A search needs at least a day of runs.
        """
        if self._looked_at is None:
            judged = self._store.judged(self._site.name)
            if judged is not None:
                self._looked_at = judged.at
            else:
                firsts = [series.first_at for series in self._store.series(self._site.name)]
                return min((at for at in firsts if at is not None), default=now)
        return self._looked_at

    def _suspects(self, slot: Slot, *, confirming: bool) -> bool:
        """Report changes that this run makes suspect; return whether any is new."""
        new = list(self._changes(slot))
        for key, metric, change in new:
            self._suspected.add((key, metric, change.at))
            of_change = {"since": change.at.isoformat(), "effect": change.effect}
            extra = fields(item=slot.item, metric=metric, **of_change, why=change.reason)
            self._log.warning("performance may have changed", extra=extra)
        if new and not confirming:
            self._ask_again(slot, self._confirm_of(slot))
        return bool(new)

    def _changes(self, slot: Slot) -> Iterator[tuple[str, str, ChangePoint]]:
        """Yield the suspects that were not reported before."""
        run = self._store.run(slot.run or "")
        if run.at is None or run.status in _TOLD_NOTHING:
            return
        key = comparability_key(run)
        points = self._store.history(self._site.name, key, since=run.at - HISTORY)
        for metric, of_metric in by_metric(points):
            if (key, metric) not in self._recalled:
                self._recalled.add((key, metric))
                self._recall(slot, key, of_metric)
            known = {at for *series, at in self._suspected if series == [key, metric]}
            change = suspect_of(of_metric, known, timezone=self._site.timezone)
            if change is not None:
                yield key, metric, change

    def _recall(self, slot: Slot, key: str, points: Sequence[HistoryPoint]) -> None:
        """Resume a suspect of an earlier watch, and its confirming probes."""
        judged = self._store.judged(self._site.name)
        if judged is None or judged.until is None:
            return
        until = judged.until
        earlier = [point for point in points if point.at <= until]
        change = suspect_of(earlier, timezone=self._site.timezone)
        if change is not None:
            self._suspected.add((key, points[0].metric, change.at))
            runs_since = len(points) - len(earlier)
            if not self._waiting:
                self._ask_again(slot, self._confirm_of(slot) - runs_since)

    def _confirm_of(self, slot: Slot) -> int:
        name = slot.item.removeprefix(PROBE_PREFIX)
        return next((probe.confirm for probe in self._site.probes if probe.name == name), 0)

    def _ask_again(self, slot: Slot, runs: int) -> None:
        """Schedule further runs of a probe."""
        now = self._clock()
        for number in range(1, runs + 1):
            # Whole seconds: a slot's time is part of its id, and users read it.
            due_at = (now + number * CONFIRM_APART).replace(microsecond=0)
            self._waiting.append(Begin(slot.item, due_at))
        if runs > 0:
            self._log.info("confirming probes follow", extra=fields(item=slot.item, runs=runs))

    def _bad_checksums(self) -> bool:
        """Report at once transfers with a bad checksum since the previous snapshot."""
        from trimtab.probe.bad_checksums import bad_checksums

        since = self._snapshots_until or self._clock() - LOOK_AGAIN
        times = self._store.snapshot_times(self._site.name, since=since)
        if len(times) < 2:
            return False
        # Include the last snapshot examined: growth counts from there.
        self._snapshots_until = times[-1]
        bad = bad_checksums(self._store, self._site.name, times[0], times[-1])
        for transfer in bad:
            at = transfer.at.isoformat()
            extra = fields(where=transfer.where, count=transfer.count, at=at)
            self._log.critical("transfers with a bad checksum: data may be at risk", extra=extra)
        return bool(bad)

    def _incidents(self, now: datetime) -> None:
        """Search for incidents, and release the memory that a record of months took."""
        try:
            self._look_for_incidents(now)
        finally:
            give_back_memory()

    def _look_for_incidents(self, now: datetime) -> None:
        """Search for incidents, store them for `trimtab status`, and report new ones."""
        name = self._site.name
        before = self._store.incidents(name)
        if not self._store.series(name):
            return
        place = Place(name, self._site)
        try:
            looked = self.looks(self._store, place, now)
        except UsageError:  # no run says anything about the file system yet
            return
        if looked.unkept is not None:
            self._log.error("incidents were not kept", extra=fields(problem=looked.unkept))
        for explanation in new_among(looked.explanations, before):
            incident = explanation.incident
            level = logging.CRITICAL if incident.shape is Shape.INTEGRITY else logging.WARNING
            causes = [f"{cause.title} ({cause.confidence:.0%})" for cause in explanation.causes[:2]]
            text = "unexplained" if explanation.unexplained else "; ".join(causes)
            extra = fields(id=incident.id, summary=incident.summary, causes=text)
            self._log.log(level, "an incident", extra=extra)


def give_back_memory() -> None:
    """Release free memory: a process that lives for months must not keep its peaks."""
    gc.collect()
    trim_memory()


def trim_memory() -> None:
    """Let glibc's malloc release memory freed below the last block in use (malloc_trim(3))."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
