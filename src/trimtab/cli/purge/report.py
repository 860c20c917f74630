"""``trimtab purge report``: what was deleted and what was kept."""

from __future__ import annotations

from datetime import date, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.cli.render.purge_tables import owner
from trimtab.cli.render.screen import print_screen, print_wrapped
from trimtab.cli.render.text import console, print_sentences, utc_moment
from trimtab.errors import UsageError
from trimtab.report.purge import counts_text, runs_answer
from trimtab.units import format_bytes, format_percent, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from trimtab.purge.report import Day, PlanStanding, PurgeReport


@click.command("report")
@click.option("--since", metavar="DAY", help="The first day: 2026-11-01. Default: all.")
@click.option("--until", metavar="DAY", help="The last day, included.")
@click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Time zone of the days: Europe/Zurich.",
)
@terms.place
@options.report
@options.as_json
@options.extent_options
def command(
    *,
    since: str | None,
    until: str | None,
    timezone: str,
    place: str | None,
    report: str | None,
) -> None:
    """Report what was deleted and retained, and why, day by day, from this host's journals.

    Dry runs are listed apart from runs that deleted. The progress of each plan comes last.
    """
    from trimtab.loop.purging.place import purge_place
    from trimtab.purge.report import report as report_of
    from trimtab.purge.run.journal import journals, read
    from trimtab.report import documents

    where = purge_place(place)
    chronicles = [read(path) for path in journals(where.journals)]
    deletions = report_of(chronicles, first=_day(since), last=_day(until), timezone=_zone(timezone))
    if report is not None:
        from trimtab.report.purge import render_runs
        from trimtab.report.write import write_report

        write_report(Path(report), render_runs(deletions, visible(str(where.directory))))
    show(
        lambda: documents.purged.PurgeReportDocument(
            visible(str(where.directory)), deletions.days, deletions.plans
        ),
        lambda: print_report(deletions, str(where.directory)),
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


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise UsageError(
            f"{name[:40]!r} is no time zone", code="timezone-unknown", hint="as Europe/Zurich"
        ) from error


_USERS: Final = 3
"""Of each day on the screen."""


def print_report(purge_report: PurgeReport, place: str) -> None:
    """Print days with their users, the last one first, and plans."""
    if not purge_report.days and not purge_report.plans:
        print_wrapped(console(), f"No purge runs recorded in {place}.")
        return
    more = () if options.extent().everything else ("--all shows every day and user",)
    print_screen(runs_answer(purge_report), partial(_print_body, purge_report), more=more)


def _print_body(purge_report: PurgeReport, out: Console) -> None:
    top = options.extent().rows(_USERS)
    for day in reversed(purge_report.days):
        _print_day(out, day, top)
    if purge_report.plans:
        out.print("plans", style="bold")
        for plan in purge_report.plans:
            print_wrapped(out, visible(f"{plan.plan}  {_standing(plan)}"), indent=2, hang=4)


_NAME_WIDTH: Final = len("last used before")


def _print_day(out: Console, day: Day, top: int) -> None:
    kind = ", dry runs" if day.dry else ""
    out.print(f"{day.day.isoformat()}{kind}", style="bold")
    for name, value in _facts(day, top):
        print_wrapped(
            out, visible(f"{name:<{_NAME_WIDTH}} {value}"), indent=2, hang=_NAME_WIDTH + 1
        )
    for run in day.runs:
        ended = "never said how it ended" if run.end is None else f"{run.end}: {run.text}"
        who = f" by {run.who}" if run.who else ""
        print_sentences(out, [f"run {run.run[:18]}{who}: {ended}"], "dim")
        if pace := run.pace.text():
            print_sentences(out, [pace], "dim")
        print_sentences(out, run.objections, "yellow")
        aside = (f"moved aside by an interrupted run: {path}" for path in run.unexplained)
        print_sentences(out, aside, "yellow")


def _facts(day: Day, top: int) -> Iterator[tuple[str, str]]:
    word = "would delete" if day.dry else "deleted"
    yield word, f"{plural(day.files, 'file', ',')}, {format_bytes(day.bytes)}"
    if not day.dry:
        yield "freed", format_bytes(day.freed_bytes)
    if day.kept:
        yield "kept", counts_text(day.kept)
    if day.horizons:
        yield "last used before", ", ".join(utc_moment(horizon) for horizon in day.horizons)
    if day.before is not None:
        after = "; not measured after the last deletion" if day.files and not day.dry else ""
        if day.after is not None:
            after = f", then {format_percent(day.after.usage.fullness, 2)}"
        yield "full", f"{format_percent(day.before.usage.fullness, 2)}{after}"
    shown = [
        f"{owner(user.uid)} {user.files:,} ({format_bytes(user.bytes)})" for user in day.users[:top]
    ]
    if shown:
        more = f", and {len(day.users) - top} more" if len(day.users) > top else ""
        yield "users", ", ".join(shown) + more


def _standing(plan: PlanStanding) -> str:
    words = [visible(plan.root), plural(plan.rows, "row", ",")]
    if plan.outcomes:
        words.append(counts_text(plan.outcomes))
    words.append(f"{plan.waiting_rows:,} waiting")
    if plan.interrupted_rows:
        words.append(f"{plan.interrupted_rows:,} of an interrupted batch")
    return ", ".join(words)
