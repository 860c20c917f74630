"""``trimtab revert``: the way back."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.acting import act, applying
from trimtab.errors import UsageError
from trimtab.visible import shell_text


@click.command("revert")
@click.argument("where", metavar="SITE")
@click.argument("action", metavar="[ACTION]", required=False)
@applying
@options.brief_options
@options.as_json
@options.store
@click.option("--all", "everything", is_flag=True, help="Everything in the ledger.")
def command(
    where: str, action: str | None, store_url: str | None, apply: bool, everything: bool
) -> None:
    """Show how an action is taken back, and with --apply take it back.

    A setting gets its value of before where nobody has changed it since; a target that was closed
    is opened. ACTION is an id of `trimtab actions SITE`, or its beginning.
    """
    if everything == (action is not None):
        raise UsageError(
            "name one action, or --all",
            code="action-missing",
            hint=f"list them: trimtab actions {shell_text([where])}",
        )
    words = ("revert", where, action or "--all")
    act(where, store_url, "revert", apply=apply, words=words, action=action)
