"""``trimtab targets``: every OST and MDT, sorted by trouble."""

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
    help="Show the last snapshot kept at this time. Default: look now, keep nothing.",
)
def command(where: str, names: tuple[str, ...], store_url: str | None, at: str | None) -> None:
    """List the targets of a site, those in trouble first, or all that is known of some.

    Asks the client's tools and every server once, each within its deadline; what does not answer
    is named. Changes nothing.
    """
    from dataclasses import replace

    from trimtab.config.problems import did_you_mean
    from trimtab.errors import UsageError
    from trimtab.loop.sites import kept_site, open_driver, open_site
    from trimtab.loop.stores import open_store, with_store
    from trimtab.loop.targets import look, recall, refuse_silence
    from trimtab.report.targets import target_document, targets_document
    from trimtab.units import parse_moment

    site = open_site(where).site if at is None else kept_site(where, store_url)
    if at is None:
        standing = look(site, open_driver(site), with_store(site, store_url))
    else:
        with open_store(store_url, site) as store:
            standing = recall(site, store, parse_moment(at, site.timezone, end=True))
    state = standing.state
    assert state is not None  # of a look and of a recall it is known
    known = {target.name: target for target in state.targets}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"known: {', '.join(list(known)[:12])}"
            raise UsageError(f"there is no target {name!r}", code="target-unknown", hint=hint)
    chosen = [known[name] for name in names]
    of_chosen = tuple(target for target in state.targets if target in chosen or not chosen)
    more = [
        f"trimtab targets {options.site_argument(state.site)} TARGET shows all that is known of one"
    ]
    show(
        lambda: replace(state, targets=of_chosen),
        lambda: (
            [print_document(target_document(state, target)) for target in chosen]
            if chosen
            else print_document(targets_document(standing), more)
        ),
    )
    refuse_silence(state, reported=options.wants_json())
