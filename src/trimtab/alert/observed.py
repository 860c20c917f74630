"""What alerts are decided on: a site's incidents, its last two snapshots, what acting came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.model.event import Event
from trimtab.model.purging import PurgeTrouble
from trimtab.model.target import Trouble


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident as it was last found.

    Attributes
    ----------
    effect
        Ratio of bad to good level; ``None`` where it has none.
    cause, cause_title, confidence
        The cause that is named; ``None`` where it is unexplained.
    deciding
        The measurement that would decide between causes.
    runs
        Number of bad runs; ``None``: not known.
    """

    id: str
    at: datetime
    state: str
    shape: str
    certainty: str
    summary: str
    effect: float | None = None
    cause: str | None = None
    cause_title: str | None = None
    confidence: float | None = None
    deciding: str | None = None
    runs: float | None = None


@dataclass(frozen=True, slots=True)
class PlaceView:
    """A target or a machine of a snapshot, with its problems.

    Attributes
    ----------
    confirmed
        Ids of the troubles that a second source of the same snapshot shows, too.
    bad_checksums
        Transfers with a bad checksum, counted since it was started; ``None``: not known.
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
    """What one policy could not do.

    Attributes
    ----------
    outcomes
        Outcome to the number of actions.
    """

    policy: str
    at: datetime
    outcomes: Mapping[str, int]
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that alerts of a site are decided on.

    Attributes
    ----------
    reopen
        Fullness below which a target is no longer too full (``limits.reopen``).
    judged_at
        When incidents were last looked for; ``None``: never.
    snapshots
        The last two, the newest first.
    actions
        Of the last day, those that failed, by policy.
    purging
        What is wrong with the scheduled purge.
    forged
        Entries of the log book that claim an admin's approval and lack a valid signature.
    """

    site: str
    timezone: str = "UTC"
    reopen: float = 0.70
    judged_at: datetime | None = None
    incidents: tuple[IncidentView, ...] = ()
    snapshots: tuple[SnapshotView, ...] = ()
    actions: tuple[ActionView, ...] = field(default_factory=tuple)
    purging: tuple[PurgeTrouble, ...] = ()
    forged: tuple[Event, ...] = ()
