"""``trimtab targets``: every OST and MDT, sorted by trouble."""

from __future__ import annotations

import click

from trimtab.cli import options


@click.command("targets")
@click.argument("where", metavar="PATH|SITE")
@click.argument("names", metavar="[TARGET]...", nargs=-1)
@options.as_json
@options.store
@click.option(
    "--at",
    "at",
    metavar="TIME",
    help="As the last snapshot kept by then has it. Default: now, nothing is kept.",
)
def command(
    where: str, names: tuple[str, ...], as_json: bool, store_url: str | None, at: str | None
) -> None:
    """List the targets of a site, those in trouble first, or all that is known of some.

    Asks the client's tools and every server once, each within its deadline; what does not answer
    is named. Changes nothing.
    """
    from trimtab.errors import UsageError
    from trimtab.loop.sites import open_driver, open_site, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.targets import look, recall, refuse_silence
    from trimtab.units import parse_moment

    site = open_site(where).site
    if at is None:
        state = look(site, open_driver(site))
    else:
        with open_store(with_store(site, store_url)) as store:
            state = recall(site, store, parse_moment(at, site.timezone))
    known = {one.name: one for one in state.targets}
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no target {name!r}", hint=f"known: {', '.join(list(known)[:12])}"
            )
    if as_json:
        from trimtab.report.documents.site import targets_document

        click.echo(targets_document(state, names).to_json())
        refuse_silence(state, reported=True)
        return
    from trimtab.cli.render.targets import print_target, print_targets

    for name in names:
        print_target(state, known[name])
    if not names:
        print_targets(state)
    refuse_silence(state)
