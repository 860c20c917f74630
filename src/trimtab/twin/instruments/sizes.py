"""Times as the benchmarks write them."""

from __future__ import annotations

from datetime import datetime
from typing import Final

_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def ctime(at: datetime) -> str:
    """Return a time as C's ``ctime`` prints it, in every locale the same.

    Examples
    --------
    >>> ctime(datetime(2026, 11, 2, 16, 20, 9))
    'Mon Nov  2 16:20:09 2026'
    """
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day} {month} {at.day:2d} {at:%H:%M:%S} {at.year}"


def posix_date(at: datetime, zone: str) -> str:
    """Return a time as ``date`` prints it under ``LC_ALL=POSIX``.

    Examples
    --------
    >>> posix_date(datetime(2026, 11, 20, 16, 36, 22), "UTC")
    'Fri Nov 20 16:36:22 UTC 2026'
    """
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day} {month} {at.day:2d} {at:%H:%M:%S} {zone} {at.year}"
