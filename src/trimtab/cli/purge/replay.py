"""``trimtab purge replay``: a policy tried on the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.errors import UsageError


@click.command("replay")
@terms.index
@click.option(
    "--later", type=terms.PATH, required=True, metavar="DIR", help="An index of a later time."
)
@click.option("--policy", type=terms.PATH, metavar="FILE", help="Whose target and rules hold.")
@click.option("--target", type=options.FRACTION, help="Fullness to come to, then: 70%.")
@click.option("--before", metavar="TIME", help="The cut-off itself, in place of a target's.")
@click.option("--used", type=options.SIZE, help="In use at the time of the index.")
@click.option("--available", type=options.SIZE, help="Available then; with --used.")
@click.option(
    "--reads-known", is_flag=True, help="Every class of client recorded reads in between."
)
@click.option(
    "--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
    help="So many users are shown; --json has all that are kept.",
)  # fmt: skip
@terms.threads
@options.as_json
def command(directory: Path, later: Path, before: str | None, top: int, **asked: Any) -> None:
    """Say what a policy would have deleted at the time of --index, and what of it was used since.

    Files are known again by their identity in the later index. Reads after the earlier one are
    told only where every class of client records them.
    """
    from trimtab.cli.purge.asked import horizon_question
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_replay import print_replay
    from trimtab.loop.purging.replaying import replay_policy
    from trimtab.report import documents
    from trimtab.units import parse_moment

    if (asked["used"] is None) != (asked["available"] is None):
        raise UsageError("--used and --available are given together", hint="as df --block-size=1")
    cut_off = None if before is None else parse_moment(before)
    if cut_off is not None and asked["policy"] is None and asked["target"] is None:
        asked["target"] = 1.0  # any: the cut-off is given
    reads_known = asked.pop("reads_known")
    question = horizon_question(
        directory,
        **{"target_ost": None, "target_pool": (), "forecast_s": None},
        **{"site": None, "store_url": None, "place": None},
        **asked,
    )
    with progress_bar() as progress:
        progress("reading both indexes", 0.0)
        replayed = replay_policy(question, later, before=cut_off, reads_known=reads_known)
    show(
        lambda: documents.purged.PurgeReplayDocument(replayed.replay, replayed.before_s),
        lambda: print_replay(replayed, top=top),
    )
