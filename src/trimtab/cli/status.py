"""``trimtab status``: the current state, from the store."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import show_page


@click.command("status")
@click.argument("where", metavar="[PATH|SITE]", required=False)
@options.output
@options.store
@options.cov_goal
@options.window
def status_command(
    where: str | None, store_url: str | None, cov_goal: float | None, window_s: float | None
) -> None:
    """Show the state of one file system, or of all, from the stored runs.

    Shows the last runs, and for each series of comparable runs its mean, COV with interval,
    verdict and trend. Measures nothing.
    """
    from trimtab.cli.render.progress import QUIET_S, progress_bar
    from trimtab.loop.sites import site_of
    from trimtab.loop.standing import standings_of
    from trimtab.loop.status import status_of
    from trimtab.model.site import LIMITS
    from trimtab.model.status import StatusDocument
    from trimtab.report.headline import site_troubles
    from trimtab.report.status import status_document

    with opened(where, store_url) as record, progress_bar(quiet_s=QUIET_S) as progress:
        limits = LIMITS if record.site is None else record.site.limits
        name = where if record.site is None else record.site.name
        state = status_of(
            record.store,
            None if name is None else site_of(record.store, name),
            goal=limits.cov if cov_goal is None else cov_goal,
            window_s=limits.window_s if window_s is None else window_s,
            progress=progress,
        )
        standings = standings_of(record.store, state, record.site)
    troubles = {standing.site: site_troubles(standing) for standing in standings}
    more = []
    if state.series:
        site = options.site_argument(state.series[0].site)
        more = [f"trimtab judge {site} shows changes over months, trimtab incidents {site} causes"]
    show_page(
        lambda: StatusDocument(state, troubles),
        lambda: status_document(state, standings, options.site_argument(where) if where else ""),
        more=more,
    )
