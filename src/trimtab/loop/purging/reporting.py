"""What was purged, from the journals of this host."""

from __future__ import annotations

from datetime import UTC, date, tzinfo

from trimtab.loop.purging.place import PurgePlace
from trimtab.purge.report import PurgeReport, report
from trimtab.purge.run.journal import journals, read


def report_purges(
    place: PurgePlace,
    *,
    first: date | None = None,
    last: date | None = None,
    timezone: tzinfo = UTC,
) -> PurgeReport:
    """Return what became of every plan that a run of this host had to do with, day by day."""
    chronicles = [read(path) for path in journals(place.journals)]
    return report(chronicles, first=first, last=last, timezone=timezone)
