"""Events of a file system, and identifiers of records: UUIDv7, which sort by time.

Any unique prefix of an identifier names its record.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
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
    MAINTENANCE = "maintenance"
    """A planned window, `trimtab.base.maintenance_window`."""
    MAINTENANCE_ENDED = "maintenance-ended"
    """A window ended early; the detail is its id."""
    SERVER_MESSAGE = "server-message"
    """What the kernel log of a server or client says: an eviction, a lost connection ..."""


MADE: Final = frozenset(
    {EventKind.MAINTENANCE, EventKind.MAINTENANCE_ENDED, EventKind.SERVER_MESSAGE}
)
"""Kinds that have a command or a program of their own: there are many, or they silence alerts."""
WRITTEN: Final = tuple(kind for kind in EventKind if kind not in MADE)
"""Kinds of entries of the log book as people write them."""


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


def new_identifier(at: datetime) -> str:
    """Return a new UUIDv7 as text; its first 48 bits are the milliseconds of ``at``.

    Parameters
    ----------
    at
        Aware time.

    Notes
    -----
    RFC 9562, section 5.7.

    Examples
    --------
    >>> from datetime import UTC
    >>> new_identifier(datetime(2026, 11, 20, tzinfo=UTC))[:13]
    '01a1f640-bc00'
    """
    import secrets

    return identifier_with(at, secrets.randbits(80))


def identifier_of(at: datetime, *words: str) -> str:
    """Return the UUIDv7 for a time and some words; the same arguments always give the same id.

    A record with such an id can be rewritten after an interruption and is stored only once.

    Parameters
    ----------
    at
        Aware time, to the microsecond.
    words
        Further parts that identify the record.

    Examples
    --------
    >>> from datetime import UTC
    >>> at = datetime(2026, 11, 20, tzinfo=UTC)
    >>> identifier_of(at, "scratch", "probe:hourly") == identifier_of(at, "scratch", "probe:hourly")
    True
    >>> identifier_of(at, "scratch", "snapshot")[:15]
    '01a1f640-bc00-7'
    """
    import hashlib

    # The length of each word keeps ("ab", "c") and ("a", "bc") apart.
    parts = [str(round(at.timestamp() * 10**6)), *words]
    text = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return identifier_with(at, int.from_bytes(digest[:10], "big"))


def identifier_with(at: datetime, rest: int) -> str:
    """Return the UUIDv7 of a time and 80 bits."""
    import uuid

    milliseconds = int(at.timestamp() * 1000) & ((1 << 48) - 1)
    value = milliseconds << 80 | rest
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def utc_now() -> datetime:
    """Return the current time, aware UTC."""
    return datetime.now(UTC)
