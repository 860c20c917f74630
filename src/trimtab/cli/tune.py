"""``trimtab tune``: settings held at the values that the site file wants."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.acting import act, applying


@click.command("tune")
@click.argument("where", metavar="SITE")
@applying
@options.as_json
@options.store
@click.option(
    "--allocator",
    is_flag=True,
    help="Instead, set the block allocator's pointer back where it loops in vain.",
)
def command(where: str, store_url: str | None, apply: bool, allocator: bool) -> None:
    """Compare settings with the site file's [policy.tunables], and with --apply set them.

    One target comes first, then the rest of its server, then all others; each later stage waits
    for the first target's verdict.
    """
    act(where, store_url, "allocator" if allocator else "tunables", apply=apply, command="tune")
