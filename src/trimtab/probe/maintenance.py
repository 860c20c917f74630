"""Maintenance windows of a site: planned by people, the site file and Slurm, kept in its log book.

Windows of the site file and of reservations are written a day before they begin. The log book alone
says what was a window: a site file that changes later leaves the past as it was.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UsageError
from trimtab.base.event import new_identifier
from trimtab.base.maintenance_window import AfterMaintenance, MaintenanceWindow, ending_of, event_of
from trimtab.base.name_set import unfold_targets
from trimtab.base.verdict import Change
from trimtab.judge.after_maintenance import after_windows
from trimtab.probe.site_series import frames_of, series_of
from trimtab.store.kept import Keeping, keeping

if TYPE_CHECKING:
    from trimtab.base.run import Run
    from trimtab.site.place import Place
    from trimtab.store.store import Store

AHEAD: Final = timedelta(days=1)
"""How long before its begin a planned window is written."""
_WHY_MAXIMUM: Final = 200


def add_window(
    store: Store,
    place: Place,
    *,
    why: str,
    until: str,
    now: datetime,
    source: str,
    at: str | None = None,
    targets: str | None = None,
) -> MaintenanceWindow:
    """Plan a maintenance, also of the past, and return its window.

    Parameters
    ----------
    at, until
        As `trimtab.base.units.parse_moment` reads them, in the site's zone; ``at`` is now by
        default.
    targets
        As ``OST[0000-0003],MDT0000``; ``None``: the whole site.

    Raises
    ------
    UsageError
        A time is invalid, it does not end after it begins, or nothing says why.
    """
    words = why.strip()
    if not words or len(words) > _WHY_MAXIMUM:
        raise UsageError(
            f"a maintenance needs a reason, of at most {_WHY_MAXIMUM} characters",
            code="maintenance-without-reason",
        )
    begin, end = place.moment(at) or now, place.moment(until, end=True)
    assert end is not None
    named = () if targets is None else unfold_targets(targets)
    id_ = new_identifier(begin)
    window = MaintenanceWindow(id_, place.name, begin, end, words, source, named)
    store.add_event(event_of(window))
    return window


def end_window(
    store: Store, place: Place, prefix: str, *, at: datetime, source: str
) -> MaintenanceWindow:
    """End the window whose id begins so, or cancel it where it has not begun; return it.

    Parameters
    ----------
    at
        The end may be in the past: runs since then are judged.

    Raises
    ------
    UsageError
        No window or several have this prefix, or it was over by then.
    """
    known = [window for window in store.windows(place.name) if window.id.startswith(prefix)]
    if len(known) != 1 or not prefix:
        raise UsageError(
            f"{len(known) if prefix else 'all'} windows begin with {prefix!r}",
            code="maintenance-unknown",
            hint=f"trimtab maintenance {place.name} lists them",
        )
    window = known[0]
    if at >= window.end:
        raise UsageError(
            f"it was over at {window.end.isoformat()}", code="maintenance-over",
            hint="--until TIME ends it earlier, in the past too",
        )  # fmt: skip
    ending = ending_of(window, at, source)
    store.add_event(ending)
    return replace(window, ended_at=ending.at)


def changed_since(store: Store, place: Place) -> tuple[AfterMaintenance, ...]:
    """Return what is faster or slower since a maintenance of the last weeks, worst first."""
    windows = [window for window in store.windows(place.name) if not window.targets]
    if not windows:
        return ()
    with keeping(store, place.name) as look:
        return look.remembered(
            "after maintenance",
            tuple[AfterMaintenance, ...],
            lambda sums: (sorted(sums.runs.items()), place.timezone),
            lambda: tuple(_changed(look, windows, place.timezone)),
        )


def _changed(
    look: Keeping, windows: Sequence[MaintenanceWindow], timezone: str
) -> list[AfterMaintenance]:
    changes = [
        change
        for series in series_of(look.store, look.series(), None)
        for key, frame in frames_of(series, look.history(series), None)
        for change in after_windows(frame, key, windows, timezone)
    ]
    # Slower first: of a time, a rise is slower.
    return sorted(
        changes, key=lambda each: (each.change is not Change.WORSE, -abs(math.log(each.ratio)))
    )


def window_of(store: Store, run: Run) -> MaintenanceWindow | None:
    """Return the window in which a run is, so that it is not judged."""
    if run.at is None:
        return None
    overlapping = (
        window
        for window in store.windows(run.site, since=run.at)
        if window.overlaps(run.at, run.until)
    )
    return next(overlapping, None)


def write_planned(
    store: Store,
    site: str,
    planned: Iterable[MaintenanceWindow],
    *,
    sources: Collection[str],
    now: datetime,
) -> None:
    """Write planned windows into the log book, once, and cancel those that are planned no more.

    Parameters
    ----------
    planned
        Their ids depend on what they are, so a second call writes nothing.
    sources
        Sources that were read in full: what these planned before and do not now is cancelled.
    """
    coming = {window.id: window for window in planned if window.at <= now + AHEAD}
    written = {window.id: window for window in store.windows(site, since=now)}
    new = [event_of(window) for id_, window in coming.items() if id_ not in written]
    gone = [
        ending_of(window, now, window.source)
        for id_, window in written.items()
        if window.source in sources and id_ not in coming and window.end > now
    ]
    if new or gone:
        store.add_events([*new, *gone])
