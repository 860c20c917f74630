"""When targets pass their limit and when they are full, from a value a day. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from trimtab.base.finding import Severity
from trimtab.base.site import SiteLimits
from trimtab.base.units import format_percent
from trimtab.explain.status import FullWhen, Trouble
from trimtab.judge.crossing import AHEAD_DAYS, Crossing, crossings

INODE_LIMIT: Final = 0.95
SOON: Final = timedelta(days=7)
"""A week: time to warn users and to purge."""
SPACE: Final[Mapping[str, tuple[str, str]]] = {
    "bytes": ("used_bytes", "available_bytes"),
    "inodes": ("inodes_total", "inodes_free"),
}
"""What a target can run out of, and the telemetry that says how much of it is left."""


def fullness_of(kind: str, first: float, second: float) -> float | None:
    """Return the fullness, 0 to 1, of a value each of both readings of `SPACE`."""
    used, total = (first, first + second) if kind == "bytes" else (first - second, first)
    return used / total if total > 0 else None


def full_when(kind: str, points: Sequence[tuple[int, float]], limits: SiteLimits) -> FullWhen:
    """Return when a target passes its limit, and when it is full.

    Parameters
    ----------
    points
        Seconds since 1970 and fullness, 0 to 1, about one a day.
    """
    limit = limits.fullness if kind == "bytes" else INODE_LIMIT
    return FullWhen(kind, *crossings(points, (limit, 1.0)))


def full_soon(forecasts: Sequence[FullWhen], now: datetime) -> Iterator[Trouble]:
    """Yield what a target probably runs out of within a week."""
    for each in forecasts:
        of = "" if each.kind == "bytes" else " of inodes"
        limit = f"over its limit of {format_percent(each.limit.level, 0)}{of}"
        for words, crossing in ((f"full{of}", each.full), (limit, each.limit)):
            if crossing.at is not None and crossing.at - now <= SOON:
                text = f"{words} {day_text(crossing)}"
                yield Trouble("full-soon", Severity.WARNING, text, "snapshots by day")
                break


def is_near(forecasts: Sequence[FullWhen], now: datetime, within: timedelta) -> bool:
    """Return whether a level is passed, or probably will be within a time."""
    each = [crossing for forecast in forecasts for crossing in (forecast.limit, forecast.full)]
    return any(
        crossing.is_passed or (crossing.at is not None and crossing.at - now <= within)
        for crossing in each
    )


def day_text(crossing: Crossing) -> str:
    """Return when a level is passed: a day with its interval, or what is known of it.

    Examples
    --------
    >>> from datetime import UTC
    >>> from trimtab.base.error import Message
    >>> day_text(Crossing(0.75, *(datetime(2026, 12, day, tzinfo=UTC) for day in (9, 7, 13))))
    'about 2026-12-09 (2026-12-07 to 2026-12-13)'
    >>> day_text(Crossing(0.75, reason=Message("forecast-too-short", "3 days")))
    'cannot tell: 3 days'
    """
    if crossing.reason is not None:
        return f"cannot tell: {crossing.reason}"
    if crossing.is_passed:
        return "passed"
    if crossing.earliest is None:
        return f"not within {AHEAD_DAYS} days"
    if crossing.at is None:
        return f"probably not within {AHEAD_DAYS} days, not before {crossing.earliest:%Y-%m-%d}"
    latest = "later" if crossing.latest is None else f"{crossing.latest:%Y-%m-%d}"
    return f"about {crossing.at:%Y-%m-%d} ({crossing.earliest:%Y-%m-%d} to {latest})"
