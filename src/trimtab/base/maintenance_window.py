"""Maintenance windows: planned times in which runs are kept and not judged.

A window is an event of the log book, its early end another. It is half open, so that a run that
begins at its end is judged::

        at                 end: `until`, or earlier where it was ended
    ────├──────────────────┤────
      ▒▒▒▒▒ run: overlaps     ▒▒▒ run: judged
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.base.error import UsageError
from trimtab.base.event import Event, EventKind, identifier_of
from trimtab.base.verdict import Change, Interval

WINDOW_KINDS: Final = (EventKind.MAINTENANCE, EventKind.MAINTENANCE_ENDED)
LONGEST: Final = timedelta(days=28)
"""No window is longer, so that those of a period are found without reading the whole log book."""
IN_MAINTENANCE: Final = "in-maintenance"
"""Code of what is not done or not judged because of a window."""


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """One window.

    Attributes
    ----------
    at, until
        Aware UTC, as planned.
    targets
        Empty: the whole site.
    ended_at
        When it was ended or cancelled before ``until``.
    """

    id: str
    site: str
    at: datetime
    until: datetime
    why: str
    source: str
    targets: tuple[str, ...] = ()
    ended_at: datetime | None = None

    @property
    def end(self) -> datetime:
        """When it really ends; a window that was cancelled before it began ends as it begins."""
        return self.until if self.ended_at is None else max(self.at, self.ended_at)

    def holds(self, moment: datetime) -> bool:
        """Return whether a moment is within."""
        return self.at <= moment < self.end

    def overlaps(self, begin: datetime, end: datetime | None = None) -> bool:
        """Return whether something that lasts from one time to another is partly within."""
        return begin < self.end and self.at < self.end and (
            begin >= self.at or (end is not None and end > self.at)
        )  # fmt: skip

    def concerns(self, *targets: str) -> bool:
        """Return whether all of the targets are in maintenance; without one: the whole site."""
        return not self.targets or (bool(targets) and set(targets) <= set(self.targets))


def windows_of(events: Iterable[Event]) -> tuple[MaintenanceWindow, ...]:
    """Return the windows of a log book by time, each with its early end."""
    windows: dict[str, MaintenanceWindow] = {}
    ends: dict[str, datetime] = {}
    for event in events:
        if event.kind is EventKind.MAINTENANCE_ENDED:
            ends[event.detail] = min(event.at, ends.get(event.detail, event.at))
        elif event.kind is EventKind.MAINTENANCE and event.until is not None:
            windows[event.id] = MaintenanceWindow(
                event.id, event.site, event.at, min(event.until, event.at + LONGEST),
                event.detail, event.source, event.targets,
            )  # fmt: skip
    ended = (
        replace(window, ended_at=end) if (end := ends.get(id_)) and end < window.until else window
        for id_, window in windows.items()
    )
    return tuple(sorted(ended, key=lambda window: (window.at, window.id)))


def inside(
    windows: Iterable[MaintenanceWindow], moment: datetime, *targets: str
) -> MaintenanceWindow | None:
    """Return the window of the site, or of all these targets, in which a moment is, if any.

    Of several the one that ends last.
    """
    holding = (each for each in windows if each.holds(moment) and each.concerns(*targets))
    return max(holding, key=lambda window: window.end, default=None)


def event_of(window: MaintenanceWindow) -> Event:
    """Return a window as an entry of the log book.

    Raises
    ------
    UsageError
        It does not end after its begin, or is too long.
    """
    length = window.until - window.at
    if length <= timedelta(0):
        problem = f"it ends at {window.until.isoformat()} and begins at {window.at.isoformat()}"
        raise UsageError(problem, code="times-reversed")
    if length > LONGEST:
        raise UsageError(
            f"a maintenance of {length.days} days", code="maintenance-too-long",
            hint=f"a window is at most {LONGEST.days} days; what stays so is no maintenance",
        )  # fmt: skip
    return Event(
        window.id, window.site, EventKind.MAINTENANCE, window.at, window.why, window.source,
        window.until, window.targets,
    )  # fmt: skip


def ending_of(window: MaintenanceWindow, at: datetime, source: str) -> Event:
    """Return the entry of the log book that ends a window early; a second one changes nothing."""
    moment = max(at, window.at)
    id_ = identifier_of(moment, window.site, EventKind.MAINTENANCE_ENDED, window.id)
    return Event(id_, window.site, EventKind.MAINTENANCE_ENDED, moment, window.id, source)


@dataclass(frozen=True, slots=True)
class AfterMaintenance:
    """What a series is after a maintenance.

    Attributes
    ----------
    window
        Id of its window.
    until
        When it ended.
    series
        The name of the series as people read it.
    ratio, interval
        Median after over median before.
    runs
        Number of runs after it that were compared.
    """

    window: str
    until: datetime
    why: str
    series: str
    change: Change
    ratio: float
    interval: Interval
    runs: int

    def __str__(self) -> str:
        """Return it in words: ``hourly write bandwidth -9 % (-12 to -6, 24 runs)``."""
        edges = (self.ratio, self.interval.low, self.interval.high)
        size, low, high = (f"{(edge - 1) * 100:+.0f}" for edge in edges)
        return f"{self.series} {size} % ({low} to {high}, {self.runs} runs)"
