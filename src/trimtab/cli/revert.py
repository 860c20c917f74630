"""``trimtab revert``: revert actions."""

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
def revert_command(
    where: str, action: str | None, store_url: str | None, apply: bool, everything: bool
) -> None:
    """Show how to revert an action, and with --apply revert it.

    A setting gets its previous value unless it was changed again since; a closed target is opened.
    ACTION is an id of `trimtab actions SITE`, or its beginning.
    """
    if everything == (action is not None):
        raise UsageError(
            "name one action, or --all",
            code="action-missing",
            hint=f"list them: trimtab actions {shell_text([where])}",
        )
    words = ("revert", where, action or "--all")
    act(where, store_url, "revert", apply=apply, words=words, action=action)
