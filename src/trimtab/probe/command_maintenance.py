"""``trimtab maintenance``: plan, end and list the maintenance windows of a site."""

from __future__ import annotations

from datetime import datetime

import click

from trimtab.show import command_options
from trimtab.show.screen_document import show_page


@click.command("maintenance")
@click.argument("where", metavar="SITE")
@command_options.output
@command_options.store
@click.option("--from", "at", metavar="TIME", help="Begin, also in the past. Default: now.")
@click.option("--until", metavar="TIME", help="End. With --end: when it ended. Default there: now.")
@click.option("--targets", metavar="SET", help="Only these: OST[0000-0003],MDT0000.")
@click.option("--why", metavar="TEXT", help="What is done. Plans a window, with --until.")
@click.option("--end", "ending", metavar="ID", help="End this window, or cancel it.")
def maintenance_command(
    where: str,
    store_url: str | None,
    *,
    at: str | None,
    until: str | None,
    targets: str | None,
    why: str | None,
    ending: str | None,
) -> None:
    """Plan a downtime: trimtab maintenance SITE --until 2026-10-14T18:00 --why "firmware".

    Runs inside a window are kept and not judged, controllers hold still, and alerts wait for its
    end, except those about wrong data. Without options it lists the windows.
    """
    from trimtab.base.error import UsageError
    from trimtab.probe.maintenance import add_window, end_window
    from trimtab.probe.page_maintenance import maintenance_of, windows_document
    from trimtab.site.place import PERSON, opened

    with opened(where, store_url) as record:
        store, place, now = record.store, record.place, record.now
        if ending is not None:
            if at or targets or why:
                raise UsageError("--end takes --until alone", code="options-contradict")
            moment: datetime = place.moment(until) or now
            end_window(store, place, ending, at=moment, source=PERSON)
        elif why is not None and until is not None:
            add_window(
                store, place, why=why, until=until, now=now, source=PERSON, at=at, targets=targets
            )
        elif at or until or targets or why:
            hint = "trimtab maintenance SITE --from TIME --until TIME --why TEXT"
            raise UsageError("a window needs --until and --why", code="usage", hint=hint)
        known = maintenance_of(store, place)
    show_page(
        lambda: known, lambda: windows_document(known, now, command_options.extent().rows(30))
    )
