"""``trimtab actions``: the ledger of a site."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.output import show


@click.command("actions")
@click.argument("where", metavar="SITE")
@options.extent_options
@options.as_json
@options.store
@options.since("Only actions that began at or after this time.")
def command(where: str, store_url: str | None, since: str | None) -> None:
    """List what was done to a site: when, by whom, why, and how performance went afterwards."""
    from trimtab.cli.render.acting import print_ledger
    from trimtab.loop.acting.effects import ledger
    from trimtab.report import documents

    with opened(where, store_url) as record:
        place = record.place
        actions, effects = ledger(record.store, place, record.now, since=place.moment(since))
    show(
        lambda: documents.acting.ActionsDocument(record.location, actions, effects),
        lambda: print_ledger(place.name, actions, effects),
    )
