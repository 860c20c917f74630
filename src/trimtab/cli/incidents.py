"""``trimtab incidents``: when a site had problems, and why."""

from __future__ import annotations

from functools import cache, partial

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import print_note, show_page


@click.command("incidents")
@click.argument("where", metavar="SITE")
@options.since("Only incidents that lasted until this time or later. Default: all.")
@options.until
@options.afresh
@options.output
@options.store
def incidents_command(
    where: str, store_url: str | None, since: str | None, until: str | None, afresh: bool
) -> None:
    """List incidents: when, how severe, and the likely causes.

    Open incidents come first, then the largest. The first is shown with its causes, their
    probability and evidence, and the decisive measurement; --all shows each.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.keeping import compared_afresh
    from trimtab.loop.verdicts import look_for_incidents, standing_beside
    from trimtab.record.kept import value_of
    from trimtab.report.documents.judged import IncidentsDocument
    from trimtab.report.incidents import incidents_document

    with (
        opened(where, store_url) as record,
        compared_afresh(afresh, print_note),
        progress_bar() as progress,
    ):
        place, now = record.place, record.now
        search = look_for_incidents(
            record.store, place, now=now, since=since, until=until, progress=progress
        )
        standing = cache(partial(standing_beside, record.store, place, search))
        # JSON shows the incidents alone; after a search the rest is kept for who asks next.
        if afresh or not options.wants_json() or search.explained.judged_at == now:
            standing()
    explained = search.explained
    for note in filter(None, (search.why_none, search.unkept)):
        print_note(note)
    show_page(
        lambda: value_of(IncidentsDocument, explained, incidents=explained.explanations),
        lambda: incidents_document(
            explained.explanations,
            explained.standing,
            explained.lone_runs,
            standing(),
            in_full=options.extent().rows(1),
            where=options.site_argument(explained.site),
        ),
        more=[
            f"trimtab explain {options.site_argument(explained.site)} --at TIME has all evidence"
        ],
    )
