"""Every alert of the watch by name, and the input of decisions, as read from the store.

The name of an alert is also its section of the runbook.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from trimtab.base.action import Action, Outcome
from trimtab.base.error import TrimtabError
from trimtab.base.event import Event, EventKind
from trimtab.base.finding import Alert, Phase, Severity
from trimtab.base.incident import GOING_ON
from trimtab.base.maintenance_window import AfterMaintenance
from trimtab.base.server_message import EVICTIONS, KERNEL_LOG, message_of
from trimtab.base.site import Site
from trimtab.explain.space_forecast import full_soon
from trimtab.explain.status import FullWhen, PurgeTrouble, Trouble
from trimtab.explain.trouble import host_troubles, is_loss_confirmed, target_troubles
from trimtab.probe.maintenance import changed_since
from trimtab.probe.scheduled_purge import purging_of
from trimtab.probe.space_history import full_when_of
from trimtab.site.place import Place
from trimtab.store.kept import KeptIncident
from trimtab.store.location import purge_place

if TYPE_CHECKING:
    from trimtab.base.snapshot import Reading, Snapshot
    from trimtab.store.store import Store


INCIDENT: Final = "incident"
INTEGRITY: Final = "integrity"
ACTION_FAILED: Final = "action-failed"
PURGE_FAILED: Final = "purge-failed"
"""A scheduled purge did not begin, did not end, or freed less than planned."""
APPROVAL_FORGED: Final = "approval-forged"
MAINTENANCE_OVER: Final = "maintenance-over"
"""Something is slower since a maintenance."""
WATCH_GONE: Final = "watch-gone"
"""Sent by `trimtab watch --check`, because a stopped watch cannot send it."""
TEST: Final = "test"


@dataclass(frozen=True, slots=True)
class StateAlert:
    """A state of targets or machines that raises an alert.

    Attributes
    ----------
    name
        Name of the alert.
    trouble
        Id of the `trimtab.explain.status.Trouble`.
    words
        Description after a count: "3 targets lost".
    at_once
        Alert on the first snapshot that shows the state, from any source; otherwise on the second
        in a row, or on the first in which two sources show it.
    """

    name: str
    trouble: str
    severity: Severity
    words: str
    at_once: bool = False


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
STATES: Final = (
    StateAlert("target-read-only", "read-only", _CRITICAL, "read-only", at_once=True),
    StateAlert("target-may-be-read-only", "may-be-read-only", _CRITICAL, "may be read-only"),
    StateAlert(
        "target-file-system-errors",
        "file-system-errors",
        _CRITICAL,
        "with file system errors",
        at_once=True,
    ),
    StateAlert("target-two-servers", "two-servers", _CRITICAL, "claimed by two servers"),
    StateAlert("target-lost", "lost", _CRITICAL, "lost"),
    StateAlert("target-disconnected", "disconnected", _CRITICAL, "not connected"),
    StateAlert("server-no-answer", "no-answer", _CRITICAL, "not answering"),
    StateAlert("target-degraded", "degraded", _WARNING, "degraded"),
    StateAlert("target-failed-over", "failed-over", _WARNING, "failed over"),
    StateAlert("target-over-limit", "over-limit", _WARNING, "over the fullness limit"),
    StateAlert("target-inodes", "inodes", _WARNING, "almost out of inodes"),
    StateAlert("target-full-soon", "full-soon", _WARNING, "over the limit or full within a week"),
    StateAlert("target-media-errors", "media-errors", _WARNING, "with media errors"),
    StateAlert("clients-evicted", "clients-evicted", _WARNING, "that evict clients"),
)
"""States that raise alerts.

Others only show in `trimtab targets`: a target closed on purpose, or a setting wrong for months, is
no reason to wake someone.
"""

REACH: Final = frozenset({"lost", "disconnected", "no-answer", "two-servers"})
"""Troubles that even an incomplete snapshot can show to be over."""
AGAIN: Final[Mapping[Severity, timedelta]] = {
    Severity.CRITICAL: timedelta(hours=1),
    Severity.WARNING: timedelta(days=1),
    Severity.INFO: timedelta(days=1),
}
"""Minimum time between two alerts that a subject got worse; changes in between go into the next."""

NAMES: Final = (
    INCIDENT,
    INTEGRITY,
    ACTION_FAILED,
    PURGE_FAILED,
    APPROVAL_FORGED,
    MAINTENANCE_OVER,
    WATCH_GONE,
    *(state.name for state in STATES),
)
"""Every alert that is sent; each has a section in docs/runbook.md."""


OPEN, CLOSED, NOTHING = "open", "closed", "nothing"


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of alerts and what the recipients know about it.

    Attributes
    ----------
    facts
        Facts of its last row; ``told`` is `OPEN`, `CLOSED` or `NOTHING`.
    sent_at
        When the last alert about it was decided; ``None`` if none was sent.
    rows
        Number of rows, including those removed since.
    """

    name: str
    facts: Mapping[str, Any]
    at: datetime | None = None
    sent_at: datetime | None = None
    rows: int = 0

    @property
    def belief(self) -> str:
        """State that the recipients believe: `OPEN`, `CLOSED` or `NOTHING`."""
        return str(self.facts["told"]) if self.rows else NOTHING


def subjects_of(sent: Iterable[Alert]) -> dict[str, Subject]:
    """Return every subject of the ledger by name; ``sent`` is its rows, oldest first.

    A silence is no subject: nothing is decided on it.
    """
    subjects: dict[str, Subject] = {}
    for alert in sent:
        if alert.phase is Phase.SILENCED:
            continue
        known = subjects.get(alert.subject, Subject(alert.subject, {}))
        sent_at = known.sent_at if alert.phase is Phase.NOTED else alert.at
        # Earlier rows may be gone after their retention time, so each row counts those before it.
        rows = cast("int", alert.facts["rows"])
        subjects[alert.subject] = Subject(alert.subject, alert.facts, alert.at, sent_at, rows)
    return subjects


@dataclass(frozen=True, slots=True)
class AlertDraft:
    """Creates the alerts of one site at one time.

    Attributes
    ----------
    subjects
        Subjects by name.
    """

    site: str
    now: datetime
    subjects: Mapping[str, Subject]

    def subject(self, name: str) -> Subject:
        """Return a subject; a new one if it has no alerts yet."""
        return self.subjects.get(name) or Subject(name, {})

    def may_be_sent(self, subject: Subject, severity: Severity) -> bool:
        """Return whether enough time has passed since the last alert about a subject."""
        return subject.sent_at is None or self.now - subject.sent_at >= AGAIN[severity]

    def alert(
        self,
        subject: Subject,
        name: str,
        phase: Phase,
        severity: Severity,
        *,
        title: str = "",
        facts: Mapping[str, Any],
        since: datetime | None = None,
        lines: tuple[str, ...] = (),
    ) -> Alert:
        """Return an alert.

        Its id is derived from the ledger, so a repeated decision has the same id.

        `Phase.NOTED` leaves the belief of the recipients unchanged.
        """
        belief = {Phase.NOTED: subject.belief, Phase.CLOSED: CLOSED}.get(phase, OPEN)
        text = "\0".join((self.site, subject.name, phase.value, str(subject.rows)))
        return Alert(
            hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32],
            self.site,
            subject.name,
            name,
            phase,
            severity,
            self.now,
            since,
            title,
            lines,
            {**facts, "told": belief, "rows": subject.rows + 1},
        )


@dataclass(frozen=True, slots=True)
class PlaceView:
    """A target or machine of a snapshot, with its problems.

    Attributes
    ----------
    confirmed
        Ids of troubles that a second source of the same snapshot confirms.
    bad_checksums
        Transfers with a bad checksum since start-up; ``None`` if unknown.
    """

    name: str
    troubles: tuple[Trouble, ...] = ()
    fullness: float | None = None
    bad_checksums: float | None = None
    confirmed: frozenset[str] = frozenset()
    full_when: tuple[FullWhen, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """A snapshot: targets and machines by name."""

    at: datetime
    complete: bool
    places: Mapping[str, PlaceView]


@dataclass(frozen=True, slots=True)
class ActionView:
    """Failed actions of one policy.

    Attributes
    ----------
    outcomes
        Outcome to number of actions.
    """

    policy: str
    at: datetime
    outcomes: Mapping[str, int]
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class AlertView:
    """All input for deciding a site's alerts.

    Attributes
    ----------
    reopen
        Fullness below which a target is no longer too full (``limits.reopen``).
    judged_at
        When incidents were last analysed; ``None`` if never.
    snapshots
        The last two, newest first.
    actions
        Failed actions of the last day, by policy.
    purging
        Problems of the scheduled purge.
    forged
        Log book entries that claim an admin's approval but lack a valid signature.
    after
        What is different since a maintenance.
    """

    site: str
    timezone: str = "UTC"
    reopen: float = 0.70
    judged_at: datetime | None = None
    incidents: tuple[KeptIncident, ...] = ()
    snapshots: tuple[SnapshotView, ...] = ()
    actions: tuple[ActionView, ...] = field(default_factory=tuple)
    purging: tuple[PurgeTrouble, ...] = ()
    forged: tuple[Event, ...] = ()
    after: tuple[AfterMaintenance, ...] = ()


RECENT: Final = timedelta(days=30)
"""Incidents that ended longer ago are ignored: their end was reported then."""
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)
EVICTIONS_MANY: Final = 8
"""Clients evicted from a target in an hour: one node that died is evicted by all its targets, once
each."""
_NONE: Final[Mapping[str, int]] = {}
_FAILED: Final = (Outcome.REFUSED, Outcome.NOT_STORED, Outcome.FAILED, Outcome.UNKNOWN)


class SnapshotViews:
    """The views of the last two snapshots, made once: alerts are decided on after each slot."""

    def __init__(self) -> None:
        self._made: list[tuple[Snapshot, SnapshotView]] = []

    def of(
        self, site: Site, store: Store, snapshots: Iterable[Snapshot]
    ) -> tuple[SnapshotView, ...]:
        """Return the view of each snapshot; forecasts come from the store."""
        # A snapshot that is read twice is the same object in memory (`SnapshotRecords`).
        known = {id(snapshot): view for snapshot, view in self._made}
        self._made = [
            (snapshot, known.get(id(snapshot)) or _view(site, store, snapshot))
            for snapshot in snapshots
        ]
        return tuple(view for _, view in self._made)


def observe(
    site: Site, store: Store, now: datetime, views: SnapshotViews | None = None
) -> AlertView:
    """Return the facts about a site on which alerts depend.

    Parameters
    ----------
    views
        Views from the last call in the same process.
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
        snapshots=(views or SnapshotViews()).of(site, store, store.snapshots(site.name, limit=2)),
        actions=_failed(store.actions(site.name, since=now - _DAY)),
        purging=purging_of(store, site.name, now),
        forged=_forged(store.events(site=site.name, since=now - RECENT)),
        after=changed_since(store, Place(site.name, site)),
    )


def _view(site: Site, store: Store, snapshot: Snapshot) -> SnapshotView:
    full_when = full_when_of(store, site.name, site.limits, snapshot.at)
    return snapshot_view(site, snapshot, full_when, _evicted(store, site.name, snapshot.at))


def snapshot_view(
    site: Site,
    snapshot: Snapshot,
    full_when: Mapping[str, tuple[FullWhen, ...]] | None = None,
    evicted: Mapping[str, int] = _NONE,
) -> SnapshotView:
    """Return the problems of a snapshot, by target and machine.

    Parameters
    ----------
    full_when
        Target to its forecasts.
    evicted
        Target to the number of clients that its server evicted in the hour before.
    """
    places = {}
    for seen in snapshot.targets:
        name, forecasts = seen.target.name, (full_when or {}).get(seen.target.name, ())
        more = (*full_soon(forecasts, snapshot.at), *_evicting(evicted.get(name, 0)))
        places[name] = PlaceView(
            name,
            target_troubles(seen, site.limits, more),
            seen.fullness(),
            _bad_checksums(seen.readings),
            frozenset({"lost"}) if is_loss_confirmed(seen, snapshot) else frozenset(),
            forecasts,
        )
    places |= {
        host.name: PlaceView(
            host.name, host_troubles(host), bad_checksums=_bad_checksums(host.readings)
        )
        for host in snapshot.hosts
        if host.name not in places
    }
    return SnapshotView(snapshot.at, snapshot.complete, places)


def _evicted(store: Store, site: str, at: datetime) -> Mapping[str, int]:
    """Return target to the number of clients that it lost in the hour before a snapshot."""
    kinds = (EventKind.SERVER_MESSAGE,)
    events = store.events(site=site, since=at - _HOUR, until=at, kinds=kinds)
    counts = Counter[str]()
    for event in events:
        message = message_of(event)
        if message is not None and message.family in EVICTIONS and message.target is not None:
            counts[message.target] += message.count
    return counts


def _evicting(count: int) -> Iterable[Trouble]:
    if count >= EVICTIONS_MANY:
        text = f"{count} clients evicted within an hour"
        yield Trouble("clients-evicted", Severity.WARNING, text, KERNEL_LOG)


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
