"""``trimtab watch``: probes and snapshots on schedule."""

from __future__ import annotations

import time

import click

from trimtab.cli import options


@click.command("watch")
@click.argument("where", metavar="SITE")
@options.as_json
@options.store
@click.option("--once", is_flag=True, help="Do what is not yet done, then end.")
def command(where: str, as_json: bool, store_url: str | None, once: bool) -> None:
    """Run a site's probes and take its snapshots on schedule, and judge each run.

    Runs in the foreground and logs to standard error, as JSON where that is no terminal. It may be
    ended at any moment: the next watch goes on where this one stopped. One watch a site.

    With --once: takes a snapshot, runs each probe whose last slot is not done, and ends.
    """
    from trimtab.launch.notify import from_environment
    from trimtab.loop.site_probe import SiteProbeRunner
    from trimtab.loop.sites import know_site, open_driver, open_site, utc_now, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.watch import Watch
    from trimtab.loop.watching.log import configured

    if as_json and not once:
        raise click.UsageError("--json goes with --once: a watch has no end to print")
    loaded = open_site(where)
    site, log = loaded.site, configured()
    for warning in loaded.warnings:
        log.warning(warning)
    with open_store(with_store(site, store_url), create=True) as store:
        know_site(store, site)
        watch = Watch(
            site,
            store,
            open_driver(site, clock=utc_now),
            SiteProbeRunner(site, utc_now),
            clock=utc_now,
            sleep=time.sleep,
            log=log,
            notify=from_environment(),
        )
        slots = watch.run(once=once)
        place = str(store.location)
        runs = {slot.run: store.run(slot.run) for slot in slots if slot.run is not None}
    if as_json:
        from trimtab.report.documents.site import watch_document

        click.echo(watch_document(site.name, place, slots).to_json())
    elif once:
        from trimtab.cli.render.watch import print_slots

        print_slots(site.name, place, slots, runs)
