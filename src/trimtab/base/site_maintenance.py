"""Maintenance that the site file schedules, ``[maintenance.NAME]``, as windows of the log book."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.base.event import EventKind, identifier_of
from trimtab.base.maintenance_window import LONGEST, MaintenanceWindow
from trimtab.base.name_set import unfold_targets
from trimtab.base.schedule import parse_schedule
from trimtab.base.toml_kind import SCHEDULE, TEXT, duration, of_text
from trimtab.base.toml_schema import key

SITE_FILE: Final = "site-file"
"""Source of windows of the site file."""


def _targets(text: str) -> str:
    unfold_targets(text)
    return text


@dataclass(frozen=True, slots=True)
class SiteMaintenance:
    """A maintenance that comes again."""

    name: str
    schedule: str = key(SCHEDULE, "When it begins.", example='"weekly on tuesday at 08:00"')
    duration_s: float = key(
        duration(60.0, LONGEST.total_seconds(), example="4h", most_text="28 days"),
        "How long it lasts.",
    )
    why: str = key(TEXT, "What is done.", example='"firmware of the drives"')
    targets: str | None = key(
        of_text(_targets, "targets", "OST[0000-0003]"), "Only these; else the whole site.", None
    )


def planned_by_file(
    site: str, maintenance: Iterable[SiteMaintenance], timezone: str, now: datetime, until: datetime
) -> Iterator[MaintenanceWindow]:
    """Yield the windows that a site file plans, and that are not over now and begin in time.

    Parameters
    ----------
    until
        Those that begin later are left out.
    """
    for planned in maintenance:
        schedule, length = parse_schedule(planned.schedule), timedelta(seconds=planned.duration_s)
        targets = () if planned.targets is None else unfold_targets(planned.targets)
        at = schedule.last_until(now, timezone)
        while at <= until:
            if at + length > now:
                id_ = identifier_of(at, site, EventKind.MAINTENANCE, SITE_FILE, planned.name)
                yield MaintenanceWindow(id_, site, at, at + length, planned.why, SITE_FILE, targets)
            at = schedule.next_after(at, timezone)
