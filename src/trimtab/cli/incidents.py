"""``trimtab incidents``: when a site was not well, and why."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import show_page


@click.command("incidents")
@click.argument("where", metavar="SITE")
@options.since("Only incidents that lasted until this time or later. Default: all.")
@options.until
@options.output
@options.store
def command(where: str, store_url: str | None, since: str | None, until: str | None) -> None:
    """List incidents: when, how severe, and the likely causes.

    Open incidents come first, then the largest. The first is shown with its causes, their
    probability and evidence, and the measurement that would decide between them; --all shows each.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.explaining.incidents import incidents_if_any, keep_incidents
    from trimtab.loop.standing import standing_of, with_series
    from trimtab.loop.status import status_of
    from trimtab.record.rows import value_of
    from trimtab.report import documents
    from trimtab.report.incidents import incidents_document

    with opened(where, store_url) as record, progress_bar() as progress:
        explained, why_none = incidents_if_any(
            record.store, record.place, now=record.now, since=since, until=until, progress=progress
        )
        whole = since is None and until is None and why_none is None
        unkept = keep_incidents(record.store, explained) if whole else None
        status = status_of(record.store, explained.site)
        searched = explained.explanations if why_none is None else None
        standing = standing_of(record.store, record.place, explanations=searched)
        site = with_series(standing, status)
    for note in filter(None, (why_none, unkept)):
        click.echo(f"note: {note}", err=True)
    show_page(
        lambda: value_of(
            documents.judged.IncidentsDocument, explained, incidents=explained.explanations
        ),
        lambda: incidents_document(
            explained.explanations,
            explained.standing,
            explained.lone_runs,
            site,
            in_full=options.extent().rows(1),
            where=options.site_argument(explained.site),
        ),
        more=[
            f"trimtab explain {options.site_argument(explained.site)} --at TIME has all evidence"
        ],
    )
