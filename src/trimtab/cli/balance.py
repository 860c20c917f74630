"""``trimtab balance``: close full targets to new files, and reopen them."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.acting import act, applying
from trimtab.errors import UsageError


@click.command("balance")
@click.argument("where", metavar="SITE")
@applying
@options.output
@options.store
@click.option("--reopen-all", is_flag=True, help="Open every target that Trimtab has closed.")
@click.option("--migrate", is_flag=True, help="Instead, move files off full targets: last resort.")
@click.option(
    "--index",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --migrate: index of `trimtab purge scan`, at most a week old.",
)
def balance_command(
    *,
    where: str,
    store_url: str | None,
    apply: bool,
    reopen_all: bool,
    migrate: bool,
    index: Path | None,
) -> None:
    """Show which targets [policy.balance] closes or opens, and with --apply do it.

    Existing files are not touched: they can grow on a closed target.
    """
    if migrate and reopen_all:
        raise UsageError("--migrate and --reopen-all exclude each other", code="option-conflict")
    policy = "migrate" if migrate else "reopen" if reopen_all else "balance"
    option = () if policy == "balance" else ("--reopen-all",) if reopen_all else ("--migrate",)
    option += () if index is None else ("--index", str(index))
    act(where, store_url, policy, apply=apply, words=("balance", where, *option), index=index)
