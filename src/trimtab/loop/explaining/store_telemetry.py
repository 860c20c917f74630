"""The snapshots of one site as explaining asks for them: frames of the times that it names."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from trimtab.explain.context import Telemetry
from trimtab.explain.incidents.integrity import BadChecksums

if TYPE_CHECKING:
    from trimtab.record.store import Store

_CHECKSUMS: Final = ("checksum_errors_total",)
_FEW: Final = 4
"""Snapshots that are compared as they are: the watch asks after each slot, for the last ones."""


@dataclass(slots=True)
class StoreTelemetry:
    """Snapshots of one site as `trimtab.explain.site.TelemetrySource` asks for them."""

    store: Store
    site: str
    _times: tuple[datetime, ...] | None = field(default=None, init=False)

    def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
        """Return the times of the snapshots within a stretch."""
        if self._times is None:
            self._times = self.store.snapshot_times(self.site)
        return self._times[bisect_left(self._times, since) : bisect_right(self._times, until)]

    def frames(self, times: Sequence[datetime]) -> Telemetry:
        """Return the snapshots of these times."""
        readings, settings = self.store.telemetry_frames(self.site, times, categories=True)
        return Telemetry(readings, settings)

    def bad_checksums(self, since: datetime, until: datetime) -> tuple[BadChecksums, ...]:
        """Return by how much counters of bad checksums grew, and when.

        A snapshot a day shows whether the counts changed at all, and those of that day when.
        Counted are messages in a kernel's log: a count that goes down was set back by a boot, or
        old messages have fallen out of the log. Neither is a transfer that went wrong.
        """
        times = self.times(since, until)
        if len(times) <= _FEW and not self._counts_differ(since, until):
            return ()
        daily = [
            at
            for place, at in enumerate(times)
            if place in (0, len(times) - 1) or at.date() != times[place - 1].date()
        ]
        changed = [(before, change.at) for before, change in self._changes(daily)]
        near = {
            at
            for before, after in set(changed)
            for at in times[bisect_left(times, before) : bisect_right(times, after)]
        }
        return tuple(change for _, change in self._changes(sorted(near)) if change.count > 0)

    def _counts_differ(self, since: datetime, until: datetime) -> bool:
        """Return whether not all snapshots of a stretch have the same counts."""
        counts = []
        for snapshot in self.store.snapshots(self.site, since=since, until=until):
            places = [(seen.target.name, seen.readings) for seen in snapshot.targets]
            places += [(host.name, host.readings) for host in snapshot.hosts]
            counts.append(
                [
                    (name, reading.label, reading.value)
                    for name, readings in places
                    for reading in readings
                    if reading.name in _CHECKSUMS
                ]
            )
        return any(of_snapshot != counts[0] for of_snapshot in counts)

    def _changes(self, times: Sequence[datetime]) -> list[tuple[datetime, BadChecksums]]:
        """Return when a count was read before, and by how much it is another now."""
        readings, _ = self.store.telemetry_frames(
            self.site, times, names=_CHECKSUMS, settings_at=()
        )
        numbers = readings.select("target", "at", "number").drop_nulls()
        counted = numbers.group_by("target", "at").sum().sort("at")
        changes: list[tuple[datetime, BadChecksums]] = []
        for (target,), of_target in counted.group_by("target", maintain_order=True):
            for (earlier, before), (at, after) in pairwise(of_target.select("at", "number").rows()):
                if after != before:
                    changes.append((earlier, BadChecksums(at, str(target), int(after - before))))
        return changes
