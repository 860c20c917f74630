"""Reads a site's metrics from the store; a part is read again when a slot changed it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.action import Action, ActionKind, last_trims
from trimtab.base.code_version import __version__
from trimtab.base.event import Event, EventKind
from trimtab.base.incident import GOING_ON
from trimtab.base.maintenance_window import inside
from trimtab.base.schedule import POLICIES, PROBE_PREFIX, PURGE_PLAN, SNAPSHOT
from trimtab.base.site import Site
from trimtab.probe.inventory import inventory_at
from trimtab.probe.space_history import FullWhenOf, full_when_of
from trimtab.site.place import Place
from trimtab.store.kept import Series
from trimtab.store.location import purge_place
from trimtab.store.slot import Slot, SlotState
from trimtab.watch.metrics import ReceiverNow, SeriesNow, SiteNow
from trimtab.watch.silence import held_since

if TYPE_CHECKING:
    from trimtab.base.snapshot import Snapshot
    from trimtab.store.store import Store


_LONGEST: Final = timedelta(days=60)
"""The longest window of a verdict, for rare runs (`judge.variability.WINDOW_LONGEST_S`)."""
TRIMS: Final = timedelta(days=60)
"""How far back the ledger is searched: older trims are in the log book, or reported."""


class Collector:
    """Reads a site's store for its metrics.

    Parameters
    ----------
    file_system
        See `SiteNow`.
    receivers
        Returns the state of deliveries to each receiver.
    """

    def __init__(
        self,
        site: Site,
        store: Store,
        *,
        clock: Callable[[], datetime],
        file_system: str | None = None,
        receivers: Callable[[], tuple[ReceiverNow, ...]] = tuple,
    ) -> None:
        self._site, self._store, self._clock = site, store, clock
        self._file_system, self._receivers = file_system, receivers
        self._series: tuple[SeriesNow, ...] | None = None
        self._full_when: tuple[datetime, FullWhenOf] | None = None
        probes = (PROBE_PREFIX + probe.name for probe in site.probes)
        self._items = (SNAPSHOT, POLICIES, PURGE_PLAN, *probes)

    def collect(self, item: str | None = None) -> SiteNow:
        """Return everything that is known now.

        Parameters
        ----------
        item
            Item of the slot that ended: a snapshot leaves the series unchanged. ``None``: any.
        """
        started_s, site, store = time.monotonic(), self._site, self._store
        if self._series is None or item != SNAPSHOT:
            self._series = tuple(self._series_now())
        judged, snapshot = store.judged(site.name), store.latest_snapshot(site.name)
        at = self._clock()
        held = held_since(store, site.name, at)
        now = SiteNow(
            site=site,
            version=__version__,
            file_system=self._file_system,
            at=at,
            in_maintenance=inside(held.windows, at) is not None,
            silenced=len(held.silent_at(at)),
            series=self._series,
            runs=_of(store.run_counts(site.name), {probe.name for probe in site.probes}),
            snapshot=snapshot,
            full_when=self._forecasts(snapshot),
            trimmed={} if snapshot is None else last_trims(snapshot, *self._trims()),
            causes=tuple(self._causes()),
            judged_at=None if judged is None else judged.at,
            actions=store.action_counts(site.name),
            plans=self._plans(),
            receivers=self._receivers(),
            slots=_of(store.slot_counts(site.name), self._items),
            last_slots=tuple(self._last_slots()),
            servers_differing=self._servers_differing(),
            store_bytes=_size(store.location.path),
        )
        return replace(now, refreshed_s=time.monotonic() - started_s)

    def _servers_differing(self) -> int | None:
        inventory = inventory_at(self._store, self._site.name)
        return None if inventory is None else len(inventory.differing)

    def _series_now(self) -> Iterator[SeriesNow]:
        """Yield the newest series of each probe of the site file, and each metric of it."""
        newest: dict[tuple[str, str], Series] = {}
        names = {probe.name for probe in self._site.probes}
        for series in self._store.series(self._site.name):
            known = newest.get((series.probe, series.kind))
            if series.probe not in names or series.last_at is None:
                continue
            if known is None or known.last_at is None or series.last_at > known.last_at:
                newest[series.probe, series.kind] = series
        from trimtab.probe.site_status import judged_metrics

        limits = self._site.limits
        for (probe, kind), series in newest.items():
            assert series.last_at is not None
            since = series.last_at - max(_LONGEST, timedelta(seconds=limits.window_s))
            points = self._store.history(self._site.name, series.comparability, since=since)
            judged = judged_metrics(
                points,
                probe,
                goal=limits.cov,
                window_s=limits.window_s,
                timezone=self._site.timezone,
            )
            for of_metric, verdict, _ in judged:
                last = of_metric[-1]
                yield SeriesNow(probe, kind, verdict, last.at, last.value)

    def _forecasts(self, snapshot: Snapshot | None) -> FullWhenOf:
        """Return target to its forecasts; they are read again for a new snapshot."""
        if snapshot is None:
            return {}
        if self._full_when is None or self._full_when[0] != snapshot.at:
            site = self._site
            made = full_when_of(self._store, site.name, site.limits, snapshot.at)
            self._full_when = snapshot.at, made
        return self._full_when[1]

    def _trims(self) -> tuple[tuple[Action, ...], tuple[Event, ...]]:
        """Return the trims of the ledger and those of the log book."""
        name, since = self._site.name, self._clock() - TRIMS
        actions = self._store.actions(name, since=since, kinds=[ActionKind.TRIM])
        return actions, self._store.events(site=name, kinds=[EventKind.TRIM])

    def _causes(self) -> Iterator[str]:
        for stored in self._store.incidents(self._site.name, states=GOING_ON):
            named = stored.likeliest
            yield "unexplained" if named.get("title") is None else str(named.get("id"))

    def _plans(self) -> dict[str, int]:
        """Return policy to its plans that wait; without those that this process cannot read."""
        if self._site.policies.purge.directory is None:
            return {}
        from trimtab.purge.plan.site_plan import plans_waiting, site_plans

        place, now = Place(self._site.name, self._site), self._clock()
        waiting = plans_waiting(place, *site_plans(place, purge_place(), (), now), now)
        return {} if waiting is None else {"purge": waiting}

    def _last_slots(self) -> Iterator[Slot]:
        for item in self._items:
            slot = self._store.last_slot(self._site.name, item, state=SlotState.DONE)
            if slot is not None and slot.started_at is not None:
                yield slot


def _of(
    counts: Mapping[tuple[str, str], int], names: Collection[str]
) -> dict[tuple[str, str], int]:
    """Leave out probes that are not in the site file: checks and sweeps have many names."""
    begun = SlotState.BEGUN.value
    return {
        (name, state): count
        for (name, state), count in counts.items()
        if name in names and state != begun
    }


def _size(path: Path | None) -> int | None:
    """Return the bytes of SQLite's file with its log; unknown for a database server."""
    if path is None:
        return None
    total = 0
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total
