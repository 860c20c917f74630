"""``trimtab report``: one month of a site as a document."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.purge import command
from trimtab.show import command_options
from trimtab.show.screen_document import show_page


@click.command("report")
@click.argument("where", metavar="SITE")
@click.option("--month", metavar="MONTH", help="Such as 2026-10. Default: the last complete one.")
@click.option(
    "--out", required=True, type=command.PATH, metavar="FILE",
    help="Output file; its name ends in .html or .md.",
)  # fmt: skip
@command.place
@command_options.as_json
@command_options.store
def report_command(
    where: str, store_url: str | None, month: str | None, out: Path, place: str | None
) -> None:
    """Write the report of one month.

    Contains the verdicts, the incidents with their causes, space and purges, the cost of the
    probes, and the actions.
    """
    from trimtab.answers.month import MonthDocument, month_of, month_of_site
    from trimtab.answers.page_month import check_out, monthly_document, write_monthly
    from trimtab.show.document import Document
    from trimtab.show.screen_document import progress_bar
    from trimtab.site.place import opened

    check_out(out)
    with opened(where, store_url) as record, progress_bar() as progress:
        span = month_of(month, record.place.timezone, record.now)
        site, purges = record.place.name, None if place is None else Path(place)
        known = month_of_site(
            record.store, record.place, span, now=record.now, purges=purges, progress=progress
        )
        document = monthly_document(known)
        location = record.location
    write_monthly(out, document)

    show_page(
        lambda: MonthDocument(
            location, site, f"{span.first:%Y-%m}", str(out), document.answer, document.details
        ),
        lambda: Document(document.answer, details=document.details),
        more=(f"report: {out}",),
    )
