"""``trimtab purge run``, ``recover`` and ``report``: delete, put files back, show the outcome."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from typing import Any

import click

from trimtab.base.error import UsageError, visible
from trimtab.show import command_options
from trimtab.show.screen_document import show_page


@click.command("run")
@click.argument("plan", metavar="PLAN", type=command_options.PATH)
@click.option("--apply", "apply", is_flag=True, help="Delete. Default: check only, touch nothing.")
@click.option(
    "--policy", type=command_options.PATH, metavar="FILE",
    help="The policy in force now: it may keep more than the plan's. Default: the plan's own.",
)  # fmt: skip
@click.option(
    "--whole-plan", is_flag=True,
    help="Continue a dry run beyond the target, to show the outcome of every file.",
)  # fmt: skip
@click.option(
    "--within", "within_s", type=command_options.POSITIVE_DURATION, help="Stop after this time: 4h."
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
    "--lease", "lease_s", type=command_options.POSITIVE_DURATION, default="5m", show_default=True,
    help="With --shared: time after which another host takes over the batch of a lost one. The "
    "first run of a plan decides.",
)  # fmt: skip
@command_options.place
@command_options.store
@command_options.as_json
def purge_run_command(
    plan: Path, within_s: float | None, place: str | None, store_url: str | None, **terms_given: Any
) -> None:
    """Recheck every file of a plan, the longest unused first; delete with --apply.

    The run stops at the target. Each file is checked by its identity immediately before deletion;
    files used, changed, moved or exempted since are retained and counted. The same command resumes
    a run that was stopped or killed. Without --apply it changes nothing and lists all objections
    to a run.
    """
    from trimtab.base.code_version import __version__
    from trimtab.purge.index.screen import run_progress, watched
    from trimtab.purge.run.run_account import GOES_ON
    from trimtab.purge.run.run_log import run_logged
    from trimtab.purge.run.run_plan import RunOptions
    from trimtab.purge.run.screen import run_document
    from trimtab.show.screen_document import progress_bar
    from trimtab.store.location import purge_place

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


@click.command("recover")
@click.argument("root", metavar="ROOT", type=command_options.PATH)
@click.option("--restore", is_flag=True, help="Put the files back. Default: list them.")
@click.option(
    "--into", type=command_options.PATH, metavar="DIR",
    help="A directory beneath ROOT for files whose own directory is gone.",
)  # fmt: skip
@command_options.place
@command_options.output
def purge_recover_command(root: Path, restore: bool, into: Path | None, place: str | None) -> None:
    """List files that interrupted runs put aside beneath ROOT; put them back with --restore.

    Deletes nothing and replaces no file. A run of another plan does not start while such files
    exist, or while a batch is unfinished. `run` of its own plan puts the files of an interrupted
    batch back and reports the outcome of each row; --restore does so without the plan.
    """
    from trimtab.purge.run.recovery import recover
    from trimtab.purge.run.screen import recovered_document
    from trimtab.store.location import purge_place

    recovered = recover(root.absolute(), place=purge_place(place), restore=restore, into=into)
    show_page(lambda: recovered, lambda: recovered_document(recovered))


@click.command("report")
@click.option("--since", metavar="DAY", help="First day: 2026-11-01. Default: all.")
@click.option("--until", metavar="DAY", help="Last day, inclusive.")
@click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Time zone of the days: Europe/Zurich.",
)
@command_options.place
@command_options.report
@command_options.output
def purge_report_command(
    *,
    since: str | None,
    until: str | None,
    timezone: str,
    place: str | None,
    report: str | None,
) -> None:
    """Report what was deleted and retained, and why, day by day, from this host's journals.

    Dry runs are listed separately from runs that deleted. The progress of each plan comes last.
    """
    from trimtab.base.schedule import find_zone
    from trimtab.purge.run.page import runs_document
    from trimtab.purge.run.purge_report import PurgeReportDocument
    from trimtab.purge.run.purge_report import report as report_of
    from trimtab.purge.run.run_journal import journals, read
    from trimtab.store.location import purge_place

    where = purge_place(place)
    chronicles = [read(path) for path in journals(where.journals)]
    deletions = report_of(
        chronicles, first=_day(since), last=_day(until), timezone=find_zone(timezone)
    )
    shown = visible(str(where.directory))
    show_page(
        lambda: PurgeReportDocument(shown, deletions.days, deletions.plans),
        lambda: runs_document(deletions, shown),
        report,
    )


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(
            f"{text[:40]!r} is not a day", code="date-malformed", hint="write 2026-11-20"
        ) from error
