"""``trimtab incidents``: when a site was not well, and why."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("incidents")
@click.argument("where", metavar="SITE")
@click.option(
    "--since",
    metavar="TIME",
    help="Only incidents that lasted until this time or later. Default: all.",
)
@click.option("--until", metavar="TIME", help="Ignore everything after this time.")
@options.as_json
@options.store
def command(where: str, store_url: str | None, since: str | None, until: str | None) -> None:
    """List incidents: when, how severe, and the likely causes.

    Open incidents come first. Every cause is listed with its evidence and probability, and with
    the evidence that was looked for and not found. Each incident names the measurement that would
    decide between causes.
    """
    from trimtab.cli.render.incidents import print_incidents
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.event_log import place_of
    from trimtab.loop.explaining.incidents import incidents_of, keep_incidents
    from trimtab.loop.sites import clock_of, site_file, with_store
    from trimtab.loop.stores import open_store
    from trimtab.report import documents

    loaded = site_file(where)
    with (
        open_store(with_store(loaded and loaded.site, store_url)) as store,
        progress_bar() as progress,
    ):
        explained = incidents_of(
            store,
            place_of(store, where),
            now=clock_of(loaded and loaded.site)(),
            since=since,
            until=until,
            progress=progress,
        )
        whole = since is None and until is None
        unkept = keep_incidents(store, explained) if whole else None
    if unkept is not None:
        click.echo(f"note: {unkept}", err=True)
    show(
        lambda: documents.judged.IncidentsDocument(
            explained.store,
            explained.site,
            explained.judged_at,
            explained.judged_until,
            explained.explanations,
            explained.standing,
        ),
        lambda: print_incidents(explained.explanations, explained.standing),
    )
