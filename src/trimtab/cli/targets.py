"""``trimtab targets``: every OST and MDT, most troubled first."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.render.document import print_document, show


@click.command("targets")
@click.argument("where", metavar="PATH|SITE")
@click.argument("names", metavar="[TARGET]...", nargs=-1)
@options.output
@options.store
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

    from trimtab.loop.sites import kept_site, open_driver, open_site
    from trimtab.loop.stores import open_store, with_store
    from trimtab.loop.targets import chosen_of, look, recall, refuse_silence
    from trimtab.report.targets import target_document, targets_document
    from trimtab.units import parse_moment

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
    more = [f"trimtab targets {options.site_argument(state.site)} TARGET shows all values of one"]
    show(
        lambda: replace(state, targets=of_chosen),
        lambda: (
            [print_document(target_document(state, target)) for target in chosen]
            if chosen
            else print_document(targets_document(standing), more)
        ),
    )
    refuse_silence(state, reported=options.wants_json())
