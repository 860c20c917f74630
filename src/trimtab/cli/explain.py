"""``trimtab explain``: all evidence about one moment."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import show_page


@click.command("explain")
@click.argument("where", metavar="SITE")
@click.option(
    "--at", "moment", metavar="TIME", required=True,
    help="The moment, in the site's zone; a date is any time of that day.",
)  # fmt: skip
@options.output
@options.store
def explain_command(where: str, moment: str, store_url: str | None) -> None:
    """Show all evidence about one moment, whether or not anything was wrong.

    Shows the speed of its runs compared with usual, then the incidents that include it. --all
    lists every piece of evidence: found, absent, or not available with the reason.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.explaining.incidents import explain_at
    from trimtab.record.kept import value_of
    from trimtab.report.documents.judged import ExplainDocument
    from trimtab.report.incidents import moment_document

    with opened(where, store_url) as record, progress_bar() as progress:
        known = explain_at(record.store, record.place, moment, progress=progress)
    show_page(
        lambda: value_of(ExplainDocument, known, incidents=known.explanations),
        lambda: moment_document(
            known.moment,
            known.explanations,
            known.lone_runs,
            known.speeds,
            where=options.site_argument(known.site),
        ),
    )
