"""``trimtab trim``: trim the targets that are due, one after the other."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.acting import act, applying


@click.command("trim")
@click.argument("where", metavar="SITE")
@applying
@options.output
@options.store
@click.option("--targets", metavar="SET", help="Only these: OST[0000-0003].")
def trim_command(where: str, store_url: str | None, apply: bool, targets: str | None) -> None:
    """Show which targets are due for a trim by [policy.trim], and with --apply trim them.

    One target per server and enclosure at a time, in steps; an interrupted trim continues where
    it stopped.
    """
    option = () if targets is None else ("--targets", targets)
    words = ("trim", where, *option)
    act(where, store_url, "trim", apply=apply, words=words, targets=targets)
