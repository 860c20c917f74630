"""``trimtab purge report``: what was deleted and what was retained."""

from __future__ import annotations

from datetime import date

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.errors import UsageError
from trimtab.visible import visible


@click.command("report")
@click.option("--since", metavar="DAY", help="First day: 2026-11-01. Default: all.")
@click.option("--until", metavar="DAY", help="Last day, inclusive.")
@click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Time zone of the days: Europe/Zurich.",
)
@terms.place
@options.report
@options.output
def purge_report_command(
    *,
    since: str | None,
    until: str | None,
    timezone: str,
    place: str | None,
    report: str | None,
) -> None:
    """Report what was deleted and retained, and why, day by day, from this host's journals.

    Dry runs are listed separately from runs that deleted. The progress of each plan comes last.
    """
    from trimtab.config.schedule import find_zone
    from trimtab.loop.purging.place import purge_place
    from trimtab.purge.report import PurgeReportDocument
    from trimtab.purge.report import report as report_of
    from trimtab.purge.run.journal import journals, read
    from trimtab.report.purge import runs_document

    where = purge_place(place)
    chronicles = [read(path) for path in journals(where.journals)]
    deletions = report_of(
        chronicles, first=_day(since), last=_day(until), timezone=find_zone(timezone)
    )
    shown = visible(str(where.directory))
    show_page(
        lambda: PurgeReportDocument(shown, deletions.days, deletions.plans),
        lambda: runs_document(deletions, shown),
        report,
    )


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(
            f"{text[:40]!r} is not a day", code="date-malformed", hint="write 2026-11-20"
        ) from error
