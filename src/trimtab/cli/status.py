"""``trimtab status``: where things stand, from what is kept."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("status")
@click.argument("where", metavar="[PATH|SITE]", required=False)
@options.as_json
@options.store
@click.option(
    "--cov-goal",
    type=options.FRACTION,
    help="Highest COV over the window. Default: the site file's, else 8%.",
)
@click.option(
    "--window",
    "window_s",
    type=options.POSITIVE_DURATION,
    help="Window of a verdict: twice the longest job. Default: the site file's, else 48h.",
)
def command(
    where: str | None,
    store_url: str | None,
    cov_goal: float | None,
    window_s: float | None,
) -> None:
    """Show the state of one file system, or of all, from the kept runs.

    Shows the last runs, and for each series of comparable runs its mean, COV with interval,
    verdict and trend. Measures nothing.
    """
    from trimtab.cli.render.kept import print_status
    from trimtab.loop.sites import site_file, with_store
    from trimtab.loop.status import status
    from trimtab.loop.stores import open_store
    from trimtab.model.site import SiteLimits
    from trimtab.report import documents

    loaded = site_file(where)
    site = None if loaded is None else loaded.site
    limits = SiteLimits() if site is None else site.limits
    with open_store(with_store(site, store_url)) as store:
        standing = status(
            store,
            where if site is None else site.name,
            goal=limits.cov if cov_goal is None else cov_goal,
            window_s=limits.window_s if window_s is None else window_s,
        )
    show(lambda: documents.kept.StatusDocument(standing), lambda: print_status(standing))
