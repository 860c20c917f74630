"""Runs that are stored and do not count: repeated ones, and those inside a maintenance window.

What is kept of a record rests on sums of its rows, by period. `with_windows` puts the windows into
these, so that one that is entered afterwards makes everything anew that rests on its runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Integer, Row, bindparam, or_, select

from trimtab.base.maintenance_window import LONGEST, WINDOW_KINDS, MaintenanceWindow, windows_of
from trimtab.base.run import EXPLAINING
from trimtab.store import schema
from trimtab.store.connection import Connections, between, of_site, to_event
from trimtab.store.kept_period import Period, Sum, bounds_of
from trimtab.store.repeated_run import repeated_runs


class PlannedRecords(Connections):
    """The part of the store that knows when a site is in maintenance."""

    def windows(self, site: str, *, since: datetime | None = None) -> tuple[MaintenanceWindow, ...]:
        """Return the maintenance windows of a site, by time.

        Parameters
        ----------
        since
            Those that were over by then may be left out.
        """
        with self._reading() as connection:
            return windows_between(connection, site, since)


def windows_between(
    connection: Connection, site: str, since: datetime | None = None, until: datetime | None = None
) -> tuple[MaintenanceWindow, ...]:
    """Return the windows that runs may overlap which begin within a stretch."""
    event = schema.event
    query = of_site(select(event, schema.site.c.name.label("site_name")), event, site)
    query = query.where(event.c.kind.in_([kind.value for kind in WINDOW_KINDS]))
    begin = None if since is None else since - LONGEST
    end = None if until is None else until + LONGEST
    return windows_of(map(to_event, connection.execute(between(query, event.c.at, begin, end))))


def windows_unchecked(connection: Connection, site: str) -> tuple[MaintenanceWindow, ...]:
    """Return the windows of a site, none if one is damaged: whoever rests on them is told."""
    try:
        return windows_between(connection, site)
    except (TypeError, ValueError):
        return ()


def runs_in_windows(
    connection: Connection,
    site: str,
    *,
    probe: str | None = None,
    comparability: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[tuple[MaintenanceWindow, Row[Any]]]:
    """Yield number, id and status of each run of a site that is partly in a window, with that.

    Whatever its targets: a run of the whole site used them all. What explains other runs, such as
    the accounting of a day, is in none.
    """
    run = schema.run.c
    for window in windows_between(connection, site, since, until):
        if window.at >= window.end:  # cancelled before it began
            continue
        query = of_site(select(run.number, run.id, run.status), schema.run, site)
        query = between(query, run.at, since, until).where(
            run.at > window.at - LONGEST,
            run.at < window.end,
            or_(run.at >= window.at, run.until > window.at),
            run.kind.not_in(EXPLAINING),
        )
        if probe is not None:
            query = query.where(run.probe == probe)
        if comparability is not None:
            query = query.where(run.comparability == comparability)
        for row in connection.execute(query).all():
            yield window, row


def not_counted(
    connection: Connection, site: str, *, target: str | None = None, **which: Any
) -> frozenset[int]:
    """Return the numbers of the runs of a site that are repeated or inside a window.

    Parameters
    ----------
    target
        Only its figures are asked for: windows of other targets leave them.
    which
        As for `repeated_runs` and `runs_in_windows`.
    """
    inside = runs_in_windows(connection, site, **which)
    return frozenset(repeated_runs(connection, site, **which)) | {
        row.number for window, row in inside if target is None or window.concerns(target)
    }


def literals(numbers: Collection[int]) -> BindParameter[Any]:
    """Return numbers of runs for a query, as text: SQLite takes so many values only."""
    return bindparam("runs", [*numbers], expanding=True, literal_execute=True, type_=Integer)


def counted_figures(
    connection: Connection,
    site: str,
    records: Sequence[Sequence[Any]],
    since: datetime | None,
    until: datetime | None,
) -> Sequence[Sequence[Any]]:
    """Return those of the figures of single targets (at, run, target, ...) that count."""
    repeated = repeated_runs(connection, site, since=since, until=until).values()
    runs, figures = {each.id for each in repeated}, set()
    for window, row in runs_in_windows(connection, site, since=since, until=until):
        if window.targets:
            figures.update((row.id, target) for target in window.targets)
        else:
            runs.add(row.id)
    if not runs and not figures:
        return records
    return [row for row in records if row[1] not in runs and (row[1], row[2]) not in figures]


_ALWAYS: Final = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def with_windows(windows: Iterable[MaintenanceWindow], total: Sum, period: Period = None) -> Sum:
    """Return the sum of some rows, with the windows in which they may be.

    Parameters
    ----------
    period
        Only those that runs of this period may overlap.
    """
    begin, end = _ALWAYS if period is None else bounds_of(period)
    near = [
        (window.at, window.end, window.targets)
        for window in windows
        if window.at - LONGEST <= end and window.end > begin
    ]
    return (total[0], total[1] + zlib.crc32(repr(near).encode())) if near else total
