"""The snapshots of one site as explaining asks for them: frames of the times that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from trimtab.explain.context import Telemetry
from trimtab.explain.incidents.integrity import BadChecksums
from trimtab.model.telemetry import TELEMETRY_UNITS

if TYPE_CHECKING:
    from trimtab.record.store import Store

_SETTINGS_AT_MOST: Final = 12
"""Settings change seldom: of so many snapshots of a stretch they are read."""
_DAY: Final = timedelta(days=1)
_CHECKSUMS: Final = ("checksum_errors_total",)


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
        return [at for at in self._times if since <= at <= until]

    def frames(self, times: Sequence[datetime]) -> Telemetry:
        """Return the snapshots of these times; of some of them the settings as well."""
        step = max(1, -(-len(times) // _SETTINGS_AT_MOST))
        some = {*times[::step], *times[-1:]}
        readings, settings = self.store.telemetry_frames(
            self.site, times, names=TELEMETRY_UNITS.keys(), settings_at=some
        )
        return Telemetry(readings, settings)

    def bad_checksums(self, since: datetime, until: datetime) -> tuple[BadChecksums, ...]:
        """Return by how much counters of bad checksums grew, and when.

        They only count up: a snapshot a day shows that there were any, and those of that day when.
        """
        times = self.times(since, until)
        daily = [
            at
            for place, at in enumerate(times)
            if place in (0, len(times) - 1) or at.date() != times[place - 1].date()
        ]
        grew = self._growth(daily)
        if not grew:
            return ()
        near = {at.date() for one in grew for at in (one.at, one.at - _DAY)}
        return self._growth([at for at in times if at.date() in near or at == times[0]])

    def _growth(self, times: Sequence[datetime]) -> tuple[BadChecksums, ...]:
        readings, _ = self.store.telemetry_frames(
            self.site, times, names=_CHECKSUMS, settings_at=()
        )
        numbers = readings.select("target", "at", "number").drop_nulls()
        counted = numbers.group_by("target", "at").sum().sort("at")
        found = []
        for (target,), own in counted.group_by("target", maintain_order=True):
            for (_, before), (at, after) in pairwise(own.select("at", "number").rows()):
                # After a restart the counter begins anew, and all that it shows came since.
                growth = after - before if after >= before else after
                if growth > 0:
                    found.append(BadChecksums(at, str(target), int(growth)))
        return tuple(found)
