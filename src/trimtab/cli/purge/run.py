"""``trimtab purge run``: carry out a plan, or check it without deleting."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page


@click.command("run")
@click.argument("plan", metavar="PLAN", type=terms.PATH)
@click.option("--apply", "apply", is_flag=True, help="Delete. Default: check only, touch nothing.")
@click.option(
    "--policy", type=terms.PATH, metavar="FILE",
    help="The policy in force now: it may keep more than the plan's. Default: the plan's own.",
)  # fmt: skip
@click.option(
    "--whole-plan", is_flag=True,
    help="Continue a dry run beyond the target, to show the outcome of every file.",
)  # fmt: skip
@click.option(
    "--within", "within_s", type=options.POSITIVE_DURATION, help="Stop after this time: 4h."
)
@click.option(
    "--site", metavar="SITE",
    help="Site whose servers are queried, and whose log book records a run with --apply. Default: "
    "the only site file with this root.",
)  # fmt: skip
@click.option(
    "--shared", is_flag=True,
    help="Delete together with other hosts that run the same plan with --shared and this --place.",
)  # fmt: skip
@click.option(
    "--lease", "lease_s", type=options.POSITIVE_DURATION, default="5m", show_default=True,
    help="With --shared: time after which another host takes over the batch of a lost one. The "
    "first run of a plan decides.",
)  # fmt: skip
@terms.place
@options.store
@options.as_json
def purge_run_command(
    plan: Path, within_s: float | None, place: str | None, store_url: str | None, **terms_given: Any
) -> None:
    """Recheck every file of a plan, the longest unused first; delete with --apply.

    The run stops at the target. Each file is checked by its identity immediately before deletion;
    files used, changed, moved or exempted since are retained and counted. The same command resumes
    a run that was stopped or killed. Without --apply it changes nothing and lists all objections
    to a run.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_progress import run_progress, watched
    from trimtab.cli.render.purge_run import run_document
    from trimtab.config.version import __version__
    from trimtab.loop.purging.log import run_logged
    from trimtab.loop.purging.place import purge_place
    from trimtab.loop.purging.running import GOES_ON, RunOptions

    ends_at_s = None if within_s is None else time.time() + within_s
    run_options = RunOptions(ends_at_s=ends_at_s, **terms_given)
    with progress_bar(remains=GOES_ON, counts=True) as plain, watched(plain) as display:
        ran = run_logged(
            plan,
            run_options,
            store_url=store_url,
            place=purge_place(place),
            version=__version__,
            progress=run_progress(display),
        )
    show_page(
        lambda: ran,
        lambda: run_document(ran.result, ran.loaded, ran.notes),
        error=ran.error,
    )
