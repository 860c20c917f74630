"""Input of alert decisions: a site's incidents, its last two snapshots and failed actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.model.event import Event
from trimtab.model.purging import PurgeTrouble
from trimtab.model.target import Trouble
from trimtab.record.kept import KeptIncident


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
class Observed:
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
