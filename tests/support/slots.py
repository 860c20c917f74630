"""The slots of a schedule in a stretch of time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

from trimtab.base.schedule import Schedule


def between(
    schedule: Schedule, start: datetime, end: datetime, zone: str | tzinfo = UTC
) -> Iterator[datetime]:
    """Yield the slots after a time up to and with another, in UTC."""
    slot = start
    while (slot := schedule.next_after(slot, zone)) <= end:
        yield slot
