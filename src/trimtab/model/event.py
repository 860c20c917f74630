"""An event: something that happened to the file system."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class EventKind(StrEnum):
    """What can happen."""

    TRIM = "trim"
    PURGE = "purge"
    CONFIG_CHANGE = "config-change"
    FAILOVER = "failover"
    REBUILD = "rebuild"
    TARGET_FAILED = "target-failed"
    TARGET_CLOSED = "target-closed"
    TARGET_OPENED = "target-opened"
    CAPACITY_ADDED = "capacity-added"
    LAUNCH_FAILURE = "launch-failure"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, at a time or over a stretch, to some targets or to the whole.

    Attributes
    ----------
    id
        UUIDv7 text.
    at, until
        Aware UTC; ``until`` is ``None`` for a moment.
    targets
        Empty is the whole site.
    source
        Who says so: ``journal``, ``person``, ``probe`` ...
    """

    id: str
    site: str
    kind: EventKind
    at: datetime
    detail: str
    source: str
    until: datetime | None = None
    targets: tuple[str, ...] = ()
