"""``trimtab purge horizon``: how old files have to be to go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.errors import UsageError


@click.command("horizon")
@terms.index
@click.option("--policy", type=terms.PATH, metavar="FILE", help="Whose target and rules hold.")
@click.option("--target", type=options.FRACTION, help="Fullness of the whole to come to: 70%.")
@click.option(
    "--target-ost", type=options.FRACTION, help="Fullness that no OST is to be above: 75%."
)
@terms.target_pool
@click.option(
    "--forecast", "forecast_s", type=options.POSITIVE_DURATION,
    help="How far growth is forecast. Default: until a plan of the policy expires.",
)  # fmt: skip
@click.option(
    "--used", type=options.SIZE, help="In use, where the file system is not mounted here."
)
@click.option("--available", type=options.SIZE, help="Available; with --used.")
@click.option(
    "--top", type=click.IntRange(0), default=20, show_default=True, metavar="N",
    help="So many users, projects, OSTs and pools are shown; --json has all.",
)  # fmt: skip
@terms.site
@terms.place
@terms.threads
@options.store
@options.as_json
def command(directory: Path, top: int, **asked: Any) -> None:
    """Say how old files have to be to go, and what each horizon would free, from whom.

    The horizon is the earliest cut-off at which deleting everything last used before it brings
    use to the target. Nothing is deleted, and nothing is listed: this only looks.
    """
    from trimtab.cli.purge.asked import horizon_question
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_horizon import print_horizon
    from trimtab.launch.process import utc_now
    from trimtab.loop.purging.horizons import ask_horizon
    from trimtab.purge.horizon.curve import Freed
    from trimtab.report import documents

    if (asked["used"] is None) != (asked["available"] is None):
        raise UsageError("--used and --available are given together", hint="as df --block-size=1")
    targets = [asked[name] for name in ("target", "target_ost", "target_pool")]
    if [asked["policy"], *targets] == [None, None, None, ()]:
        raise UsageError(
            "how full the file system may be is not said",
            hint="--target 70%, or --policy POLICY.toml",
        )
    terms.one_target(*targets)
    question = horizon_question(directory, **asked)
    with progress_bar() as progress:
        progress("reading the index", 0.0)
        found = ask_horizon(question, now=utc_now())
    show(
        lambda: documents.purged.PurgeHorizonDocument(
            str(directory),
            found.manifest,
            found.answer,
            found.rules,
            found.usage,
            Freed(found.files, found.allocated_bytes),
            tuple(found.notes),
        ),
        lambda: print_horizon(found, top=top),
    )
