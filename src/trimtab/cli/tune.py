"""``trimtab tune``: keep settings at the values in the site file."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.acting import act, applying


@click.command("tune")
@click.argument("where", metavar="SITE")
@applying
@options.output
@options.store
@click.option(
    "--allocator",
    is_flag=True,
    help="Instead, reset the block allocator's pointer where its searches find nothing.",
)
@click.option("--again", is_flag=True, help="Also set what was reverted.")
def tune_command(
    where: str, store_url: str | None, apply: bool, allocator: bool, again: bool
) -> None:
    """Compare settings with the site file's [policy.tunables], and with --apply set them.

    One target comes first, then the rest of its server, then all others; each later stage waits
    for the first target's verdict.
    """
    policy = "allocator" if allocator else "again" if again else "tunables"
    option = () if policy == "tunables" else (f"--{policy}",)
    act(where, store_url, policy, apply=apply, words=("tune", where, *option))
