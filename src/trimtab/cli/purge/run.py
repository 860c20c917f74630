"""``trimtab purge run``: carry out a plan, or check it without deleting."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.purge.run.facts import frees_late
from trimtab.purge.run.state import DELETED, WOULD_DELETE
from trimtab.report.kit import ALL, facts, row, table
from trimtab.report.purge import counts_text
from trimtab.report.sections import Document, Section
from trimtab.report.text import sentences
from trimtab.units import format_bytes, format_duration, format_percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trimtab.purge.plan.load import LoadedPlan
    from trimtab.purge.run.result import RunResult


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
    from trimtab.loop import documents
    from trimtab.loop.purging.log import run_logged
    from trimtab.loop.purging.place import purge_place
    from trimtab.loop.purging.running import GOES_ON, RunOptions, error_of
    from trimtab.twin.version import __version__

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
    loaded, result, notes = ran.loaded, ran.result, ran.notes
    error = error_of(result)
    show_page(
        lambda: documents.purged.PurgeRunDocument(
            loaded.plan.id,
            loaded.plan.file_system.root,
            loaded.plan.candidates.files,
            result,
            tuple(notes),
            error,
        ),
        lambda: run_document(result, loaded, notes),
        error=error,
    )


_SHOWN = 20


def run_document(result: RunResult, loaded: LoadedPlan, notes: Sequence[str] = ()) -> Document:
    """Return the result of a run."""
    kind, held = "run", "objections"
    if not result.apply:
        kind, held = "dry run", "objections to a run"
    objections = (
        row(objection.guard, objection.reason, objection.hint or "")
        for objection in result.objections
    )
    trim = "the drives do not know yet which space is free: trim them (fstrim) in a quiet hour"
    return Document(
        _answer(result),
        (
            Section(tables=(facts(_facts(result, loaded)),)),
            Section(lines=sentences([f"it ended: {result.text}"])),
            Section(
                held,
                tables=(table(("guard", "says", "what to do"), objections, first=ALL),),
                tone="warning",
            ),
            Section(lines=sentences([trim] if result.trim_due else [])),
            Section(lines=sentences((*notes, *_unexplained(result))), tone="warning"),
            Section(tables=(facts([("journal", str(result.journal))]),)),
        ),
        details=(f"{kind} of plan {loaded.plan.id}, {loaded.plan.file_system.root}",),
    )


def _answer(result: RunResult) -> str:
    word = "deleted" if result.apply else "would delete"
    if not result.files:
        return f"{word} nothing"
    users = plural(result.users, "user", ",")
    return f"{word} {plural(result.files, 'file', ',')}, {format_bytes(result.bytes)}, of {users}"


def _unexplained(result: RunResult) -> Iterator[str]:
    for path in result.unexplained[:_SHOWN]:
        shown = path.decode("utf-8", "surrogateescape")
        yield (
            f"{shown}, moved aside by an interrupted run, matches no row of the plan and is left "
            "there: check the owner, and move it back"
        )
    if len(result.unexplained) > _SHOWN:
        yield f"{len(result.unexplained) - _SHOWN:,} more are beside it"


def _facts(result: RunResult, loaded: LoadedPlan) -> Iterator[tuple[str, str]]:
    if result.apply:
        yield "freed", format_bytes(result.freed_bytes)
    outcomes = result.outcomes.items()
    if counts := counts_text({o: n for o, n in outcomes if o not in (DELETED, WOULD_DELETE)}):
        yield "kept", counts
    rows = loaded.plan.candidates.files
    yield "plan", f"{result.rows_left:,} of {plural(rows, 'row', ',')} left"
    if pace := result.pace.text():
        yield "speed", pace
    if result.recovered_rows:
        yield "recovered", f"{plural(result.recovered_rows, 'row', ',')} of an interrupted batch"
    if result.before is not None:
        yield "full", f"{format_percent(result.before.fullness, 2)}{_after(result, loaded)}"


def _after(result: RunResult, loaded: LoadedPlan) -> str:
    """Return the fullness after the last deletion, and what that figure leaves out."""
    if result.after is None or result.after_s is None:
        return f"; not measured since: {result.unmeasured}" if result.unmeasured else ""
    since = f"{format_duration(max(0.0, result.after_s))} after the last deletion"
    text = f", then {format_percent(result.after.fullness, 2)}, measured {since}"
    if result.in_flight:
        return f"{text}; {plural(result.in_flight, 'object', ',')} still being destroyed"
    late = result.in_flight is None and frees_late(loaded.plan.file_system.kind)
    return f"{text}; space may become free later" if late else text
