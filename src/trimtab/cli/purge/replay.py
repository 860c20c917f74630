"""``trimtab purge replay``: try a policy on the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page


@click.command("replay", cls=options.GroupedCommand)
@terms.index
@click.option("--later", type=terms.PATH, required=True, metavar="DIR", help="Later index.")
@click.option(
    "--policy", type=terms.PATH, metavar="FILE", help="Policy whose target and rules apply."
)
@click.option(
    "--target", type=options.FRACTION, help="Target fullness at the time of the index: 70%."
)
@click.option("--before", metavar="TIME", help="The cut-off itself, instead of a target.")
@click.option("--used", type=options.SIZE, help="Bytes in use at the time of the index.")
@click.option(
    "--available", type=options.SIZE, help="Bytes available at the time of the index; with --used."
)
@click.option(
    "--reads-known", is_flag=True, help="Every class of client recorded reads in between."
)
@terms.threads
@options.output
def purge_replay_command(
    directory: Path, later: Path, before: str | None, **options_given: Any
) -> None:
    """Replay a policy at the time of --index, and count what was used afterwards.

    Files are matched by their identity in the later index. Reads are counted only where every
    class of client records them.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_horizon import replay_document
    from trimtab.loop.purging.replaying import replay_policy
    from trimtab.units import parse_moment

    policy = terms.policy_of(options_given.pop("policy"))
    cut_off = None if before is None else parse_moment(before)
    if cut_off is not None and policy is None and options_given["target"] is None:
        options_given["target"] = 1.0  # any value: the cut-off is given
    reads_known = options_given.pop("reads_known")
    question = terms.horizon_question(directory, policy, **options_given)
    with progress_bar() as progress:
        progress("reading both indexes", 0.0)
        replayed = replay_policy(question, later, before=cut_off, reads_known=reads_known)
    show_page(lambda: replayed, lambda: replay_document(replayed))
