"""``trimtab show``: every number of a run traced to its command and raw output."""

from __future__ import annotations

import sys

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page


@click.command("show")
@click.argument("run")
@options.as_json
@options.store
@click.option(
    "--output",
    "ordinal",
    type=click.IntRange(min=0),
    help="Print only this raw output, as the tool printed it.",
)
def show_command(run: str, store_url: str | None, ordinal: int | None) -> None:
    """Trace every number of RUN to the command, its version and the raw output.

    RUN is a run's id or any unique beginning of it, as listed by `trimtab runs`.
    """
    from trimtab.loop.show import raw_output, show_run
    from trimtab.loop.stores import open_store
    from trimtab.report.runs import run_document

    with open_store(store_url) as store:
        if ordinal is not None:
            sys.stdout.buffer.write(raw_output(store, run, ordinal))
            return
        shown = show_run(store, run)
    show_page(lambda: shown, lambda: run_document(shown))
