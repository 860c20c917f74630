"""``trimtab probe``: a probe of the site file, now."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("probe")
@click.argument("name", metavar="NAME")
@click.option("--site", "where", metavar="SITE", help="Whose probe. Default: the only site here.")
@options.as_json
@options.store
@click.option("--trim", is_flag=True, help="Trim every target first, where its driver can.")
def command(name: str, where: str | None, store_url: str | None, trim: bool) -> None:
    """Run the probe NAME of a site file now, keep the run and judge it.

    On this host, as an MPI job or as a batch job, as its launcher says. Its files are removed in
    every case, and the nodes of a job are given back.
    """
    from trimtab.cli.render.probe import print_probe
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.probing.mount_check import refuse_wrong_mount
    from trimtab.loop.probing.probe_now import probe_now, probe_of
    from trimtab.loop.probing.site_probe import SiteProbeRunner
    from trimtab.loop.sites import (
        kept_identity,
        know_site,
        only_site,
        open_driver,
        open_site,
        reach_of,
        with_store,
    )
    from trimtab.loop.stores import open_store
    from trimtab.report import documents

    site = open_site(where).site if where is not None else only_site().site
    probe = probe_of(site, name)
    with (
        open_store(with_store(site, store_url), create=True) as store,
        progress_bar() as progress,
    ):
        reach = reach_of(site)
        refuse_wrong_mount(site, kept_identity(store, site), reach)
        runner = SiteProbeRunner(site, reach.clock, know_site(store, site), reach)
        made = probe_now(
            site,
            probe,
            store,
            open_driver(site, clock=reach.clock),
            runner,
            clock=reach.clock,
            progress=progress,
            trim=trim,
        )
        place = str(store.location)
    show(
        lambda: documents.measured.ProbeDocument(
            place,
            (made.run, *made.others),
            tuple(made.verdicts),
            tuple(made.comparisons),
            tuple(made.notes),
            made.error,
        ),
        lambda: print_probe(made, place),
        error=made.error,
    )
