"""``trimtab purge plan``: freeze and sign the purge candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page


@click.command("plan", cls=options.GroupedCommand)
@terms.index
@click.option("--policy", type=terms.PATH, required=True, metavar="FILE", help="The purge policy.")
@click.option(
    "--out", type=terms.PATH, required=True, metavar="DIR",
    help="New directory for the plan, in a directory owned by root.",
)  # fmt: skip
@terms.site
@terms.place
@terms.threads
@options.dask_or_site
@options.store
@options.output
def purge_plan_command(directory: Path, policy: Path, out: Path, **options_given: Any) -> None:
    """Freeze and sign a list of purge candidates, the longest unused first.

    The list exceeds the current need: it covers the growth forecast until the plan expires, times
    the policy's factor. A plan never changes. Nothing is deleted before its users are notified and
    the notice period is over. The first plan creates the signing key.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_plan import plan_document
    from trimtab.launch.process import utc_now
    from trimtab.loop.purging.place import purge_place
    from trimtab.loop.purging.planning import make_plan
    from trimtab.purge.policy_file import load_policy

    loaded, where = load_policy(policy), purge_place(options_given["place"])
    question = terms.horizon_question(directory, loaded.policy, **options_given)
    with progress_bar() as progress:
        made = make_plan(question, loaded, out, place=where, now=utc_now(), progress=progress)
    show_page(lambda: made, lambda: plan_document(made, where))
