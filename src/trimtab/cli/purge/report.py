"""``trimtab purge report``: what was deleted and what was kept."""

from __future__ import annotations

from datetime import date, tzinfo

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.errors import UsageError
from trimtab.visible import visible


@click.command("report")
@click.option("--since", metavar="DAY", help="The first day: 2026-11-01. Default: all.")
@click.option("--until", metavar="DAY", help="The last day, included.")
@click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Whose days: Europe/Zurich.",
)
@click.option(
    "--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
    help="So many users of a day are shown; --json has all.",
)  # fmt: skip
@terms.place
@options.as_json
def command(
    *,
    since: str | None,
    until: str | None,
    timezone: str,
    top: int,
    place: str | None,
) -> None:
    """Say what was deleted and what was kept and why, day by day, by the journals of this host.

    Dry runs are told apart from runs that deleted. How far each plan is comes last.
    """
    from trimtab.cli.render.purge_report import print_report
    from trimtab.loop.purging.place import purge_place
    from trimtab.loop.purging.reporting import report_purges
    from trimtab.report import documents

    where = purge_place(place)
    found = report_purges(where, first=_day(since), last=_day(until), timezone=_zone(timezone))
    show(
        lambda: documents.purged.PurgeReportDocument(
            visible(str(where.directory)), found.days, found.plans
        ),
        lambda: print_report(found, str(where.directory), top=top),
    )


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(f"{text[:40]!r} is not a day", hint="write 2026-11-20") from error


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise UsageError(f"{name[:40]!r} is no time zone", hint="as Europe/Zurich") from error
