"""``trimtab targets`` and ``snapshot``: every OST and MDT now, and a snapshot to store."""

from __future__ import annotations

import click

from trimtab.show import command_options
from trimtab.show.screen_document import print_document, show, show_page


@click.command("targets")
@click.argument("where", metavar="PATH|SITE")
@click.argument("names", metavar="[TARGET]...", nargs=-1)
@command_options.output
@command_options.store
@click.option(
    "--at",
    metavar="TIME",
    help="Show the last snapshot stored at this time. Default: query now, store nothing.",
)
def targets_command(
    where: str, names: tuple[str, ...], store_url: str | None, at: str | None
) -> None:
    """List the targets of a site, troubled ones first, or show some in full.

    Queries the client's tools and every server once, each with a deadline; names what does not
    answer. Changes nothing.
    """
    from dataclasses import replace

    from trimtab.answers.page import target_document, targets_document
    from trimtab.base.units import parse_moment
    from trimtab.probe.site_look import chosen_of, look, recall, refuse_silence
    from trimtab.site.lookup import kept_site, open_driver, open_site, open_store, with_store

    site = open_site(where).site if at is None else kept_site(where, store_url)
    if at is None:
        standing = look(site, open_driver(site), with_store(site, store_url))
    else:
        with open_store(store_url, site) as store:
            standing = recall(site, store, parse_moment(at, site.timezone, end=True))
    state = standing.state
    assert state is not None  # a look and a recall both have it
    chosen = chosen_of(state, names)
    of_chosen = tuple(target for target in state.targets if target in chosen or not chosen)
    site = command_options.site_argument(state.site)
    more = [f"trimtab targets {site} TARGET shows all values of one"]
    show(
        lambda: replace(state, targets=of_chosen),
        lambda: (
            [print_document(target_document(state, target)) for target in chosen]
            if chosen
            else print_document(targets_document(standing), more)
        ),
    )
    refuse_silence(state, reported=command_options.wants_json())


@click.command("snapshot")
@click.argument("where", metavar="PATH|SITE")
@command_options.output
@command_options.store
def snapshot_command(where: str, store_url: str | None) -> None:
    """Take a snapshot of every target and machine of a site, and store it.

    One round trip to each server. `trimtab targets SITE --at TIME` shows it again.
    """
    from trimtab.answers.page import snapshot_document
    from trimtab.explain.status import SnapshotDocument
    from trimtab.probe.site_look import keep, refuse_silence
    from trimtab.site.lookup import open_driver, open_site, open_store

    site = open_site(where).site
    with open_store(store_url, site, create=True) as store:
        identifier, standing = keep(site, open_driver(site), store)
        place = str(store.location)
    state = standing.state
    assert state is not None  # it was stored just now
    show_page(
        lambda: SnapshotDocument(place, identifier, state),
        lambda: snapshot_document(identifier, place, standing),
    )
    refuse_silence(state, reported=command_options.wants_json())
