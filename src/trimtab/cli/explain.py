"""``trimtab explain``: everything that is known about one moment."""

from __future__ import annotations

import click

from trimtab.cli import options


@click.command("explain")
@click.argument("where", metavar="SITE")
@click.option("--at", "moment", metavar="TIME", required=True, help="The moment, in its zone.")
@options.as_json
@options.store
def command(where: str, moment: str, as_json: bool, store_url: str | None) -> None:
    """Show everything that is known about one moment, whether anything was wrong or not.

    Every piece of evidence that was looked for: found, absent, or not available with the reason.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.event_log import place_of
    from trimtab.loop.explaining.incidents import explain_at
    from trimtab.loop.sites import site_file, with_store
    from trimtab.loop.stores import open_store

    loaded = site_file(where)
    with (
        open_store(with_store(loaded and loaded.site, store_url)) as store,
        progress_bar(silent=as_json) as progress,
    ):
        found = explain_at(store, place_of(store, where), moment, progress=progress)
    if as_json:
        from trimtab.report.documents.incidents import explain_document

        document = explain_document(
            found.site, found.at, found.explanations, found.moment, store=found.store
        )
        click.echo(document.to_json())
    else:
        from trimtab.cli.render.incidents import print_explanation

        print_explanation(found.explanations, found.moment)
