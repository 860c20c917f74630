"""The page and the document of the maintenance windows of a site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from trimtab.base.error import visible
from trimtab.base.maintenance_window import AfterMaintenance, MaintenanceWindow
from trimtab.base.text import local_moment, local_times
from trimtab.base.units import plural
from trimtab.probe.maintenance import changed_since
from trimtab.show.document import ALL, Document, Section, row, table

if TYPE_CHECKING:
    from trimtab.site.place import Place
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class MaintenanceDocument:
    """``trimtab maintenance SITE --json``: every window, by time.

    Attributes
    ----------
    after
        What is different since one of the last weeks, the worst first.
    alerts
        Id of a window to the number of alerts that were decided inside.
    """

    store: str
    site: str
    windows: tuple[MaintenanceWindow, ...]
    after: tuple[AfterMaintenance, ...]
    alerts: Mapping[str, int]


def maintenance_of(store: Store, place: Place) -> MaintenanceDocument:
    """Return all that is known of the maintenance of a site."""
    windows = store.windows(place.name)
    alerts = store.alerts(place.name, since=windows[0].at) if windows else ()
    sent = [alert.at for alert in alerts if alert.deliveries]
    counts = {window.id: sum(map(window.holds, sent)) for window in windows}
    after = changed_since(store, place)
    return MaintenanceDocument(str(store.location), place.name, windows, after, counts)


def windows_document(known: MaintenanceDocument, now: datetime, most: int) -> Document:
    """Return the windows of a site, those to come first, and what is different since.

    Parameters
    ----------
    most
        Maximum number of windows.
    """
    site, windows = known.site, known.windows
    if not windows:
        hint = f'trimtab maintenance {visible(site)} --until TIME --why "firmware" plans one'
        return Document("No maintenance is planned, and none was.", more=(f"hint: {hint}",))
    shown = [*reversed(windows)][:most]
    begins, ends = (
        local_times([at(each) for each in shown]) for at in map(attrgetter, ("at", "end"))
    )
    rows = (
        row(
            begin, end, state_of(window, now), ", ".join(window.targets) or "all",
            str(known.alerts.get(window.id, 0)), window.why, window.source, window.id[:18],
        )
        for window, begin, end in zip(shown, begins, ends, strict=True)
    )  # fmt: skip
    columns = ("from", "until", "state", "targets", "alerts>", "what", "source??", "id")
    before = len(windows) - len(shown)
    lines = (f"... {before:,} earlier windows: --all",) if before else ()
    changes = tuple(
        f"{each.until:%Y-%m-%d} ({visible(each.why)}): {each.change.value}, {each}"
        for each in known.after
    )
    return Document(
        heading(site, windows, now),
        (
            Section(lines=lines, tables=(table(columns, rows, first=ALL),)),
            *([Section("Different since", lines=changes)] if changes else []),
        ),
    )


def heading(site: str, windows: Sequence[MaintenanceWindow], now: datetime) -> str:
    """Return what holds now, or what comes next, in one line."""
    name = visible(site)
    current = max(
        (each for each in windows if each.holds(now)), key=attrgetter("end"), default=None
    )
    if current is not None:
        of = f"{name} ({', '.join(current.targets)})" if current.targets else name
        return f"{of} is in maintenance until {local_moment(current.end)}: {current.why}"
    for window in windows:
        if now < window.at < window.end:
            return f"{name}: the next maintenance is {local_moment(window.at)}: {window.why}"
    return f"{name}: no maintenance is planned; {plural(len(windows), 'window')} before"


def state_of(window: MaintenanceWindow, now: datetime) -> str:
    """Return whether a window is planned, now, over or cancelled."""
    if window.end <= window.at:
        return "cancelled"
    if now < window.at:
        return "planned"
    return "now" if window.holds(now) else "over"
