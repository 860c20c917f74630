"""Records in a few words, for tests of alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.watch.alert.parcels_of import NOON

from trimtab.base.finding import Alert, Severity
from trimtab.explain.status import Trouble
from trimtab.store.kept import KeptIncident
from trimtab.watch.alert_decision import decide
from trimtab.watch.alert_table import STATES, AlertView, PlaceView, SnapshotView

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SEVERITIES = {state.trouble: state.severity for state in STATES}


def incident(identifier: str = "a", **changes: Any) -> KeptIncident:
    """Return an incident that began at noon and took a fifth of the write bandwidth."""
    summary = "since 2026-11-16 12:00 UTC: hourly write_bandwidth 20 % lower"
    found = KeptIncident(
        identifier, "s", NOON, None, NOON, "step", "open", "confirmed", 0.8, summary, {}
    )
    return replace(found, **changes)


def caused_by(cause: str) -> dict[str, Any]:
    """Return the part of an incident that names a cause."""
    likeliest = {"id": cause, "title": "no trim", "confidence": 0.93}
    return {"document": {"causes": [likeliest], "deciding": "trim one target"}}


CAUSE = caused_by("trim-overdue")


def snapshot(
    at: datetime,
    troubles: Mapping[str, Sequence[str]],
    *,
    names: Sequence[str] = ("OST0000", "OST0001", "OST0002"),
    complete: bool = True,
    fullness: float = 0.5,
    bad_checksums: Mapping[str, float] | None = None,
    confirmed: Mapping[str, Sequence[str]] | None = None,
) -> SnapshotView:
    """Return a snapshot of targets, some of which have troubles: id to names.

    ``confirmed`` are those that a second source shows, likewise.
    """
    views = {}
    for name in names:
        ids = [id_ for id_, places in troubles.items() if name in places]
        here = tuple(Trouble(id_, SEVERITIES.get(id_, Severity.INFO), "as it is") for id_ in ids)
        known = frozenset(id_ for id_, places in (confirmed or {}).items() if name in places)
        views[name] = PlaceView(name, here, fullness, (bad_checksums or {}).get(name), known)
    return SnapshotView(at, complete, views)


class Ledger:
    """A record that changes, and the alerts that were decided on it."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.snapshots: tuple[SnapshotView, ...] = ()

    def incidents(self, now: datetime, *incidents: KeptIncident) -> list[Alert]:
        """Return the new alerts where these incidents were found now."""
        return self.decided(now, judged_at=now, incidents=incidents)

    def look(self, view: SnapshotView) -> list[Alert]:
        """Return the new alerts after one more snapshot."""
        self.snapshots = (view, *self.snapshots)[:2]
        return self.decided(view.at, snapshots=self.snapshots)

    def decided(self, now: datetime, **observed: Any) -> list[Alert]:
        """Return the new alerts of a view."""
        view = AlertView("scratch", **observed)
        alerts = decide(view, self.alerts, now)
        assert alerts == decide(view, self.alerts, now)
        self.alerts += alerts
        return alerts
