"""The page and the document of the maintenance windows of a site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trimtab.base.error import visible
from trimtab.base.maintenance_window import MaintenanceWindow, inside
from trimtab.base.text import local_moment, local_times
from trimtab.base.units import plural
from trimtab.show.document import ALL, Document, Section, row, table


@dataclass(frozen=True, slots=True)
class MaintenanceDocument:
    """``trimtab maintenance SITE --json``: every window, by time.

    Attributes
    ----------
    now
        Time by the site's clock.
    """

    store: str
    site: str
    now: datetime
    windows: tuple[MaintenanceWindow, ...]


def windows_document(
    site: str, windows: Sequence[MaintenanceWindow], now: datetime, most: int
) -> Document:
    """Return the windows of a site, those to come first.

    Parameters
    ----------
    most
        Maximum number of windows.
    """
    if not windows:
        hint = f'trimtab maintenance {visible(site)} --until TIME --why "firmware" plans one'
        return Document("No maintenance is planned, and none was.", more=(f"hint: {hint}",))
    shown = [*reversed(windows)][:most]
    begins, ends = (
        local_times([each.at for each in shown]),
        local_times([each.end for each in shown]),
    )
    rows = (
        row(
            begin, end, state_of(window, now), ", ".join(window.targets) or "all",
            window.why, window.source, window.id[:18],
        )
        for window, begin, end in zip(shown, begins, ends, strict=True)
    )  # fmt: skip
    columns = ("from", "until", "state", "targets", "what", "source??", "id")
    before = len(windows) - len(shown)
    lines = (f"... {before:,} earlier windows: --all",) if before else ()
    return Document(
        heading(site, windows, now),
        (Section(lines=lines, tables=(table(columns, rows, first=ALL),)),),
    )


def heading(site: str, windows: Sequence[MaintenanceWindow], now: datetime) -> str:
    """Return what holds now, or what comes next, in one line."""
    holding = [window for window in windows if window.holds(now)]
    current = inside(windows, now) or (holding[0] if holding else None)
    name = visible(site)
    if current is not None:
        named = ", ".join(current.targets)
        of = f"{name} ({named})" if named else name
        return f"{of} is in maintenance until {local_moment(current.end)}: {current.why}"
    coming = [window for window in windows if window.at > now and window.end > window.at]
    if coming:
        return f"{name}: the next maintenance is {local_moment(coming[0].at)}: {coming[0].why}"
    return f"{name}: no maintenance is planned; {plural(len(windows), 'window')} before"


def state_of(window: MaintenanceWindow, now: datetime) -> str:
    """Return whether a window is planned, now, over or cancelled."""
    if window.end <= window.at:
        return "cancelled"
    if now < window.at:
        return "planned"
    return "now" if window.holds(now) else "over"
