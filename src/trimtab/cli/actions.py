"""``trimtab actions``: the ledger of a site."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import show_page


@click.command("actions")
@click.argument("where", metavar="SITE")
@options.output
@options.store
@options.since("Only actions that began at or after this time.")
def actions_command(where: str, store_url: str | None, since: str | None) -> None:
    """List changes made to a site: when, by whom, why, and the performance afterwards."""
    from trimtab.loop.acting.effects import ledger
    from trimtab.report.acting import ledger_document
    from trimtab.report.documents.acting import ActionsDocument

    with opened(where, store_url) as record:
        place = record.place
        actions, effects = ledger(record.store, place, record.now, since=place.moment(since))
    show_page(
        lambda: ActionsDocument(record.location, actions, effects),
        lambda: ledger_document(
            place.name,
            actions,
            effects,
            short=not options.extent().everything,
            where=options.site_argument(place.name),
        ),
    )
