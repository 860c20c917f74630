"""``trimtab correlate``: which telemetry moves with performance."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("correlate")
@click.argument("where", metavar="SITE")
@click.option("--since", metavar="TIME", help="Default: 90 days before the last run.")
@click.option("--until", metavar="TIME", help="What came later is not looked at.")
@click.option("--probe", metavar="NAME", help="Only this probe.")
@click.option("--metric", metavar="METRIC", help="Only this metric.")
@options.as_json
@options.store
def command(where: str, store_url: str | None, **asked: str | None) -> None:
    """Say which telemetry moves with performance, and how surely; never that it is the cause.

    The significance allows for the memory that both have, and for how much was asked at once.
    """
    from trimtab.cli.render.correlate import print_correlated
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.correlating import correlate_site
    from trimtab.loop.event_log import place_of
    from trimtab.loop.sites import site_file, with_store
    from trimtab.loop.stores import open_store
    from trimtab.report import documents

    loaded = site_file(where)
    with (
        open_store(with_store(loaded and loaded.site, store_url)) as store,
        progress_bar() as progress,
    ):
        found = correlate_site(store, place_of(store, where), progress=progress, **asked)
    show(
        lambda: documents.judged.CorrelateDocument(
            found.store,
            found.site,
            found.snapshots,
            tuple(
                documents.judged.CorrelatedSeries(
                    series.key, series.runs, series.from_, series.to, series.correlations
                )
                for series in found.series
            ),
        ),
        lambda: print_correlated(found),
    )
