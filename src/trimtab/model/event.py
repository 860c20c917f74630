"""An event: something that happened to the file system."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

JOURNAL: Final = "journal"
"""Source of Trimtab's own journalled actions."""


class EventKind(StrEnum):
    """Kind of an event."""

    TRIM = "trim"
    PURGE = "purge"
    PURGE_FAILED = "purge-failed"
    """A run that did not do what its plan said, or never began."""
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
    """An event at a time or over a period, on some targets or on the whole file system.

    Attributes
    ----------
    id
        UUIDv7 text.
    at, until
        Aware UTC; ``until`` is ``None`` for an event without duration.
    detail
        Description.
    source
        Origin of the entry: `JOURNAL`, ``person``, ``probe`` ...
    targets
        Names of the affected targets; empty: the whole site.
    """

    id: str
    site: str
    kind: EventKind
    at: datetime
    detail: str
    source: str
    until: datetime | None = None
    targets: tuple[str, ...] = ()

    @property
    def end(self) -> datetime:
        """When it ended; an event without duration ends at once."""
        return self.at if self.until is None else max(self.at, self.until)
