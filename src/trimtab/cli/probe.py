"""``trimtab probe``: run a probe of the site file now."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page


@click.command("probe")
@click.argument("name", metavar="NAME")
@click.option("--site", "where", metavar="SITE", help="Site of the probe. Default: the only one.")
@options.output
@options.store
@click.option("--trim", is_flag=True, help="Trim every target first, if its driver can.")
def probe_command(name: str, where: str | None, store_url: str | None, trim: bool) -> None:
    """Run the probe NAME of a site file now, keep the run and judge it.

    Runs on this host, as an MPI job or as a batch job, depending on its launcher. Always removes
    its files and releases the nodes of a job.
    """
    from trimtab.cli.render.progress import RUN_KEPT, progress_bar
    from trimtab.loop.probing.probe_now import probe_now, probe_of
    from trimtab.loop.probing.site_probe import runner_of
    from trimtab.loop.sites import only_site, open_driver, open_site, reach_of
    from trimtab.loop.stores import open_store
    from trimtab.report.check import probe_document

    site = open_site(where).site if where is not None else only_site().site
    probe = probe_of(site, name)
    with (
        open_store(store_url, site, create=True) as store,
        progress_bar(remains=RUN_KEPT) as progress,
    ):
        reach = reach_of(site)
        runner, driver = runner_of(site, store, reach), open_driver(site, clock=reach.clock)
        terms = {"clock": reach.clock, "progress": progress, "trim": trim}
        made = probe_now(site, probe, store, driver, runner, **terms)
    show_page(
        lambda: made,
        lambda: probe_document(made.runs, made.verdicts, made.comparisons, made.notes),
        more=(f"store: {made.store}",),
        error=made.error,
    )
