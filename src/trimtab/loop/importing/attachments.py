"""What a file tells beside its results: snapshots of each run's moment, and events."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.measure.measurement import Happening, Measurement
from trimtab.model.event import Event
from trimtab.model.identifier import identifier_of
from trimtab.model.telemetry import Snapshot
from trimtab.record.store import Store


@dataclass(slots=True)
class Beside:
    """Collects what stands beside the results of a batch, and keeps it.

    Their ids follow from what they are of, so that importing again adds nothing.
    """

    snapshots: dict[str, tuple[str, Snapshot]] = field(default_factory=dict)
    events: dict[str, Event] = field(default_factory=dict)

    def add(self, measurement: Measurement, site: str) -> None:
        """Take what a result brings with it, under the site that it is kept under."""
        seen = measurement.snapshot
        if seen is not None:
            identifier = identifier_of(seen.at, site, measurement.identity or measurement.kind)
            self.snapshots[identifier] = (site, seen)
        for one in measurement.happenings:
            event = _event(one, site, measurement.kind)
            self.events[event.id] = event

    def keep(self, store: Store) -> None:
        """Keep it, and be empty again. It comes before its runs: a run is the sign that it did."""
        store.add_snapshots(
            [(site, identifier, seen) for identifier, (site, seen) in self.snapshots.items()]
        )
        for event in self.events.values():
            there = store.events(site=event.site, since=event.at, until=event.at)
            if event.id not in {one.id for one in there}:
                store.add_event(event)
        self.snapshots.clear()
        self.events.clear()


def _event(happening: Happening, site: str, kind: str) -> Event:
    return Event(
        id=identifier_of(happening.at, site, happening.kind.value, happening.source),
        site=site,
        kind=happening.kind,
        at=happening.at,
        until=happening.until,
        detail=happening.detail,
        source=f"{kind}: {happening.source}",
    )
