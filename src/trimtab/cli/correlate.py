"""``trimtab correlate``: which telemetry moves with performance."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import show_page


@click.command("correlate")
@click.argument("where", metavar="SITE")
@options.since("Start of the analysis. Default: 90 days before the last run.")
@options.until
@options.series
@options.output
@options.store
def correlate_command(where: str, store_url: str | None, **limits: str | None) -> None:
    """Correlate telemetry with performance, with significance. Correlation is not cause.

    The significance allows for autocorrelation in both series and for multiple testing.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.correlating import correlate_site
    from trimtab.report.correlate import correlated_document

    with opened(where, store_url) as record, progress_bar() as progress:
        result = correlate_site(record.store, record.place, progress=progress, **limits)
    show_page(lambda: result, lambda: correlated_document(result))
