"""``trimtab balance``: full targets closed to new files, and opened again."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.acting import act, applying


@click.command("balance")
@click.argument("where", metavar="SITE")
@applying
@options.as_json
@options.store
@click.option("--reopen-all", is_flag=True, help="Open every target that Trimtab has closed.")
def command(where: str, store_url: str | None, apply: bool, reopen_all: bool) -> None:
    """Show which targets [policy.balance] closes or opens, and with --apply do it.

    Existing files are not touched: they can grow on a closed target.
    """
    policy, option = ("reopen", ("--reopen-all",)) if reopen_all else ("balance", ())
    act(where, store_url, policy, apply=apply, words=("balance", where, *option))
