"""``trimtab status``: where things stand, from what is kept."""

from __future__ import annotations

import click

from trimtab.cli import options


@click.command("status")
@click.argument("where", metavar="[PATH|SITE]", required=False)
@options.as_json
@options.store
@click.option(
    "--cov-goal",
    type=options.FRACTION,
    default="8%",
    show_default=True,
    help="COV over the window not to exceed.",
)
@click.option(
    "--window",
    "window_s",
    type=options.DURATION,
    default="48h",
    show_default=True,
    help="Twice the longest job.",
)
def command(
    where: str | None, as_json: bool, store_url: str | None, cov_goal: float, window_s: float
) -> None:
    """Say where one file system stands, or all of them, from what is kept.

    Shows the last runs, and for each series of comparable runs its mean, COV with interval,
    verdict and trend. Measures nothing.
    """
    from trimtab.loop.status import status
    from trimtab.loop.stores import open_store

    with open_store(store_url) as store:
        found = status(store, where, goal=cov_goal, window_s=window_s)
    if as_json:
        from trimtab.report.documents.kept import status_document

        click.echo(status_document(found).to_json())
    else:
        from trimtab.cli.render.kept import print_status

        print_status(found)
