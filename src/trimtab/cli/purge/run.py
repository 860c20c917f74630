"""``trimtab purge run``: a plan carried out, or gone through without deleting."""

from __future__ import annotations

import time
from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms


@click.command("run")
@click.argument("plan", metavar="PLAN", type=terms.PATH)
@click.option("--apply", "apply", is_flag=True, help="Delete. Default: check only, touch nothing.")
@click.option(
    "--policy", type=terms.PATH, metavar="FILE",
    help="The policy in force now: it may keep more than the plan's. Default: the plan's own.",
)  # fmt: skip
@click.option(
    "--whole-plan", is_flag=True,
    help="A dry run goes on when the target would be reached: to see what becomes of every file.",
)  # fmt: skip
@click.option(
    "--within", "within_s", type=options.POSITIVE_DURATION, help="Stop after so long: 4h."
)
@click.option(
    "--site", metavar="SITE",
    help="Whose servers are asked, and whose log book a run that deleted is written to. Default: "
    "the servers of the one site file that has the root, and no log book.",
)  # fmt: skip
@terms.place
@options.store
@options.as_json
def command(
    *,
    plan: Path,
    apply: bool,
    policy: Path | None,
    whole_plan: bool,
    within_s: float | None,
    site: str | None,
    place: str | None,
    store_url: str | None,
) -> None:
    """Check every file of a plan again, the longest unused first, and with --apply delete it.

    It stops at the target. Each file is checked by its identity at the last moment; what was used,
    changed, moved or exempted since is kept, and counted. A run that was stopped or killed goes on
    when the same command is given again. Without --apply nothing is touched, and everything that
    would hold a run back is said.
    """
    from trimtab import __version__
    from trimtab.cli.render.purge_progress import meter, run_progress, watched
    from trimtab.cli.render.purge_run import print_run
    from trimtab.launch.process import utc_now
    from trimtab.loop.purging.log import log_purge
    from trimtab.loop.purging.place import purge_place
    from trimtab.loop.purging.running import RunOptions, error_of, run_plan
    from trimtab.report import documents

    began = utc_now()
    ends_at_s = None if within_s is None else time.time() + within_s
    asked = RunOptions(
        apply=apply, policy=policy, whole_plan=whole_plan, ends_at_s=ends_at_s, site=site
    )
    with meter() as plain, watched(plain) as display:
        ran = run_plan(
            plan,
            asked,
            place=purge_place(place),
            version=__version__,
            progress=run_progress(display),
        )
    loaded, result, notes = ran.loaded, ran.result, ran.notes
    if site is not None:
        said = log_purge(site, store_url, loaded, result, began=began, ended=utc_now())
        notes = notes if said is None else (*notes, said)
    error = error_of(result)
    show(
        lambda: documents.purged.PurgeRunDocument(
            loaded.plan.id,
            loaded.plan.file_system.root,
            loaded.plan.candidates.files,
            result,
            tuple(notes),
            error,
        ),
        lambda: print_run(result, loaded, notes),
        error=error,
    )
