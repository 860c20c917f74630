"""``trimtab explain``: everything that is known about one moment."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("explain")
@click.argument("where", metavar="SITE")
@click.option("--at", "moment", metavar="TIME", required=True, help="The moment, in its zone.")
@options.as_json
@options.store
def command(where: str, moment: str, store_url: str | None) -> None:
    """Show all evidence about one moment, whether or not anything was wrong.

    Lists every piece of evidence: found, absent, or not available with the reason.
    """
    from trimtab.cli.render.incidents import print_explanation
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.event_log import place_of
    from trimtab.loop.explaining.incidents import explain_at
    from trimtab.loop.sites import site_file, with_store
    from trimtab.loop.stores import open_store
    from trimtab.report import documents

    loaded = site_file(where)
    with (
        open_store(with_store(loaded and loaded.site, store_url)) as store,
        progress_bar() as progress,
    ):
        moment_explained = explain_at(store, place_of(store, where), moment, progress=progress)
    show(
        lambda: documents.judged.ExplainDocument(
            moment_explained.store,
            moment_explained.site,
            moment_explained.at,
            moment_explained.explanations,
            moment_explained.moment,
        ),
        lambda: print_explanation(moment_explained.explanations, moment_explained.moment),
    )
