"""Read from the store what alerts are decided on."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.action import Action, Outcome
from trimtab.base.error import TrimtabError
from trimtab.base.incident import GOING_ON
from trimtab.base.site import Site
from trimtab.explain.trouble import host_troubles, is_loss_confirmed, target_troubles
from trimtab.probe.verdict.site_standing import purging_of
from trimtab.store.purge_place import purge_place
from trimtab.watch.alert.alert_table import ActionView, AlertView, PlaceView, SnapshotView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trimtab.base.event import Event
    from trimtab.base.snapshot import Reading, Snapshot
    from trimtab.store.store import Store

RECENT: Final = timedelta(days=30)
"""Incidents that ended longer ago are not looked at: their end was told then."""
_DAY: Final = timedelta(days=1)
_FAILED: Final = (Outcome.REFUSED, Outcome.NOT_STORED, Outcome.FAILED, Outcome.UNKNOWN)


class SnapshotViews:
    """The views of the last two snapshots, made once: alerts are decided on after each slot."""

    def __init__(self) -> None:
        self._made: list[tuple[Snapshot, SnapshotView]] = []

    def of(self, site: Site, snapshots: Iterable[Snapshot]) -> tuple[SnapshotView, ...]:
        """Return the view of each snapshot."""
        # One that is read twice is the same one in memory (`SnapshotRecords`).
        known = {id(snapshot): view for snapshot, view in self._made}
        self._made = [
            (snapshot, known.get(id(snapshot)) or snapshot_view(site, snapshot))
            for snapshot in snapshots
        ]
        return tuple(view for _, view in self._made)


def observe(
    site: Site, store: Store, now: datetime, views: SnapshotViews | None = None
) -> AlertView:
    """Return what is known of a site now, as far as alerts depend on it.

    Parameters
    ----------
    views
        Of the last time that the same process asked.
    """
    judged = store.judged(site.name)
    incidents = {stored.id: stored for stored in store.incidents(site.name, since=now - RECENT)}
    incidents |= {stored.id: stored for stored in store.incidents(site.name, states=GOING_ON)}
    return AlertView(
        site=site.name,
        timezone=site.timezone,
        reopen=site.limits.reopen,
        judged_at=None if judged is None else judged.at,
        incidents=tuple(incidents.values()),
        snapshots=(views or SnapshotViews()).of(site, store.snapshots(site.name, limit=2)),
        actions=_failed(store.actions(site.name, since=now - _DAY)),
        purging=purging_of(store, site.name, now),
        forged=_forged(store.events(site=site.name, since=now - RECENT)),
    )


def snapshot_view(site: Site, snapshot: Snapshot) -> SnapshotView:
    """Return the problems of a snapshot, by target and machine."""
    places = {
        seen.target.name: PlaceView(
            seen.target.name,
            target_troubles(seen, site.limits),
            seen.fullness(),
            _bad_checksums(seen.readings),
            frozenset({"lost"}) if is_loss_confirmed(seen, snapshot) else frozenset(),
        )
        for seen in snapshot.targets
    }
    places |= {
        host.name: PlaceView(
            host.name, host_troubles(host), bad_checksums=_bad_checksums(host.readings)
        )
        for host in snapshot.hosts
        if host.name not in places
    }
    return SnapshotView(snapshot.at, snapshot.complete, places)


def _bad_checksums(readings: Iterable[Reading]) -> float | None:
    """Return how many transfers a place has counted with a bad checksum."""
    counts = [
        float(reading.value)
        for reading in readings
        if reading.name == "checksum_errors_total" and isinstance(reading.value, (int, float))
    ]
    return sum(counts) if counts else None


def _forged(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return the approvals that this host's key did not sign; none where it has no key."""
    from trimtab.purge.plan.arming import claimed, is_signed
    from trimtab.purge.plan.plan_signature import read_key

    entries = claimed(events)
    if not entries:
        return ()
    place = purge_place()
    try:
        key = read_key(place.key, owner=place.owner)
    except TrimtabError:
        return ()
    return tuple(entry for entry in entries if not is_signed(entry, key))


def _is_failure(action: Action) -> bool:
    """Whether an action failed; one that gave way to a probe, or was killed, goes on later."""
    return action.outcome in _FAILED and not action.is_interrupted


def _failed(actions: tuple[Action, ...]) -> tuple[ActionView, ...]:
    views = []
    for policy in sorted({action.policy for action in actions}):
        failed = [action for action in actions if action.policy == policy and _is_failure(action)]
        if failed:
            outcomes = Counter(action.outcome.value for action in failed if action.outcome)
            last = failed[-1]
            views.append(ActionView(policy, last.at, outcomes, last.detail))
    return tuple(views)
