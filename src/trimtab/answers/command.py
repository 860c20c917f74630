"""``trimtab status`` and ``correlate``: the current state, and what moves with performance."""

from __future__ import annotations

import click

from trimtab.show import command_options
from trimtab.show.screen_document import show_page


@click.command("status")
@click.argument("where", metavar="[PATH|SITE]", required=False)
@command_options.output
@command_options.store
@command_options.cov_goal
@command_options.window
def status_command(
    where: str | None, store_url: str | None, cov_goal: float | None, window_s: float | None
) -> None:
    """Show the state of one file system, or of all, from the stored runs.

    Shows the last runs, and for each series of comparable runs its mean, COV with interval,
    verdict and trend. Measures nothing.
    """
    from trimtab.answers.page import status_document
    from trimtab.base.site import LIMITS
    from trimtab.explain.headline import site_troubles
    from trimtab.explain.status import StatusDocument
    from trimtab.probe.verdict.site_standing import standings_of
    from trimtab.probe.verdict.site_status import status_of
    from trimtab.show.screen_document import QUIET_S, progress_bar
    from trimtab.site.lookup import site_of
    from trimtab.site.place import opened

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
        site = command_options.site_argument(state.series[0].site)
        more = [f"trimtab judge {site} shows changes over months, trimtab incidents {site} causes"]
    show_page(
        lambda: StatusDocument(state, troubles),
        lambda: status_document(
            state, standings, command_options.site_argument(where) if where else ""
        ),
        more=more,
    )


@click.command("correlate")
@click.argument("where", metavar="SITE")
@command_options.since("Start of the analysis. Default: 90 days before the last run.")
@command_options.until
@command_options.series
@command_options.output
@command_options.store
def correlate_command(where: str, store_url: str | None, **limits: str | None) -> None:
    """Correlate telemetry with performance, with significance. Correlation is not cause.

    The significance allows for autocorrelation in both series and for multiple testing.
    """
    from trimtab.answers.page import correlated_document
    from trimtab.answers.site_correlation import correlate_site
    from trimtab.show.screen_document import progress_bar
    from trimtab.site.place import opened

    with opened(where, store_url) as record, progress_bar() as progress:
        result = correlate_site(record.store, record.place, progress=progress, **limits)
    show_page(lambda: result, lambda: correlated_document(result))
