"""``trimtab snapshot``: take one and keep it."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("snapshot")
@click.argument("where", metavar="PATH|SITE")
@options.extent_options
@options.as_json
@options.store
def command(where: str, store_url: str | None) -> None:
    """Take a snapshot of every target and machine of a site, and keep it.

    One round trip to each server. `trimtab targets SITE --at TIME` shows it again.
    """
    from trimtab.cli.render.targets import print_kept
    from trimtab.loop.sites import open_driver, open_site, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.targets import keep, refuse_silence
    from trimtab.report import documents

    site = open_site(where).site
    with open_store(with_store(site, store_url), create=True) as store:
        identifier, standing = keep(site, open_driver(site), store)
        place = str(store.location)
    state = standing.state
    assert state is not None  # it was kept just now
    show(
        lambda: documents.measured.SnapshotDocument(place, identifier, state),
        lambda: print_kept(identifier, place, standing),
    )
    refuse_silence(state, reported=options.wants_json())
