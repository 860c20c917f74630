"""``trimtab purge horizon``: how old files have to be to go."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.cli.render.purge_tables import fullness, owner
from trimtab.cli.render.screen import print_screen
from trimtab.cli.render.text import print_sentences, print_table, table, utc_moment
from trimtab.errors import UsageError
from trimtab.purge.horizon.curve import HOUR_S, Freed
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.report.purge import horizon_answer
from trimtab.units import format_bytes, format_duration, format_percent, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from trimtab.loop.purging.horizons import Found
    from trimtab.purge.horizon.horizon import Horizon, OwnedBy, Step
    from trimtab.purge.horizon.targets import GroupHorizons


@click.command("horizon", cls=options.GroupedCommand)
@terms.index
@click.option(
    "--policy", type=terms.PATH, metavar="FILE", help="Policy whose target and rules apply."
)
@click.option(
    "--target", type=options.FRACTION, help="Target fullness of the whole file system: 70%."
)
@click.option("--target-ost", type=options.FRACTION, help="Target fullness of every OST: 75%.")
@terms.target_pool
@click.option(
    "--forecast", "forecast_s", type=options.POSITIVE_DURATION,
    help="How far growth is forecast. Default: until a plan of the policy expires.",
)  # fmt: skip
@click.option(
    "--used", type=options.SIZE, help="Bytes in use, if the file system is not mounted here."
)
@click.option("--available", type=options.SIZE, help="Bytes available; with --used.")
@terms.site
@terms.place
@terms.threads
@options.dask_or_site
@options.store
@options.keep
@options.report
@options.as_json
@options.extent_options
def command(directory: Path, report: str | None, keep: str | None, **options_given: Any) -> None:
    """Find the age cut-off that reaches a target, and what each cut-off frees, by owner.

    The horizon is the earliest cut-off at which deleting everything last used before it brings
    use to the target. Nothing is deleted, and nothing is listed: this only looks.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.launch.process import utc_now
    from trimtab.loop.purging.horizons import ask_horizon
    from trimtab.report import documents

    if (options_given["used"] is None) != (options_given["available"] is None):
        raise UsageError(
            "--used and --available are given together",
            code="usage-incomplete",
            hint="as df --block-size=1",
        )
    targets = [options_given[name] for name in ("target", "target_ost", "target_pool")]
    if [options_given["policy"], *targets] == [None, None, None, ()]:
        raise UsageError(
            "how full the file system may be is not said",
            code="target-missing",
            hint="--target 70%, or --policy POLICY.toml",
        )
    terms.one_target(*targets)
    question = terms.horizon_question(directory, **options_given)
    with progress_bar() as progress:
        progress("reading the index", 0.0)
        horizons = ask_horizon(question, now=utc_now())
    if keep is not None:
        from trimtab.loop.results import horizon_result, keep_result

        keep_result(keep, options_given["store_url"], horizon_result(horizons), utc_now())
    if report is not None:
        from trimtab.report.purge import render_horizon
        from trimtab.report.write import write_report

        page = render_horizon(
            visible(horizons.policy.root),
            horizons.answer,
            horizons.usage,
            total=Freed(horizons.files, horizons.allocated_bytes),
            rules=horizons.rules.words,
            notes=horizons.notes,
        )
        write_report(Path(report), page)
    show(
        lambda: documents.purged.PurgeHorizonDocument(
            str(directory),
            horizons.manifest,
            horizons.answer,
            horizons.rules,
            horizons.usage,
            Freed(horizons.files, horizons.allocated_bytes),
            tuple(horizons.notes),
        ),
        lambda: print_horizon(horizons, report),
    )


_STATUS = {
    HorizonStatus.MET_ALREADY: "at its limit or under",
    HorizonStatus.REACHED: "a horizon fixes it",
    HorizonStatus.OUT_OF_REACH: "no horizon fixes it",
}


_OWNERS: Final = 5
"""Users, projects, OSTs and pools of each list on the screen."""


def print_horizon(horizons: Found, report: str | None = None) -> None:
    """Print a horizon: what each cut-off frees, and whom it affects."""
    more = []
    if not options.extent().everything:
        more.append("--all shows the rules of what may be deleted, and every owner")
    if report is not None:
        more.append(f"report: {visible(report)}")
    print_screen(horizon_answer(horizons.answer), partial(_print_body, horizons), more=more)


def _print_body(horizons: Found, out: Console) -> None:
    answer, extent = horizons.answer, options.extent()
    top = extent.rows(_OWNERS)
    usage, root = horizons.usage, visible(horizons.policy.root)
    use = f"{format_bytes(usage.used_bytes)} of {format_bytes(usage.total_bytes)}"
    out.print(f"{root}: {format_percent(usage.fullness, 2)} full ({use})", soft_wrap=True)
    if extent.everything:
        print_sentences(out, [word for word in answer.words if word not in horizons.rules.words])
    print_sentences(out, horizons.notes, "yellow")
    out.print("what deleting by age alone would free", style="bold")
    print_table(out, _curve(answer.steps, (answer.needed, answer.published), answer.as_of_s))
    _print_kept(out, horizons)
    _print_owners(out, "the lists, by user", "user", answer.users, top)
    _print_owners(out, "the lists, by project", "project", answer.projects, top)
    if answer.osts is not None:
        limit = format_percent(answer.osts.groups[0].group.limit)
        _print_groups(out, f"every OST at or under {limit}", answer.osts, top)
    if answer.pools is not None:
        _print_groups(out, "every pool at or under its limit", answer.pools, top)
    if extent.everything:
        out.print("the rules", style="bold")
        print_sentences(out, horizons.rules.words, "dim")


def _curve(steps: Sequence[Step], cut_offs: tuple[Horizon, Horizon], as_of_s: int) -> Table:
    """Return the table of ages, with the cut-offs of now and of the lists among them."""
    made = table("unused for>", "last used before", "files>", "frees>", "leaves>", "")
    rows = [(step.cut_off_hour, step.age_s, step.freed, step.after, "") for step in steps]
    for horizon, noun in zip(cut_offs, ("enough now", "the lists"), strict=True):
        reached = horizon.status is HorizonStatus.REACHED
        pointer = f"<- {noun if reached else 'all that may go'}"
        hour, age_s = horizon.cut_off_hour, horizon.age_s(as_of_s)
        if hour is None or age_s is None:
            continue
        same = [row for row in rows if row[0] == hour]
        mark = same[0][4] if same else ""
        mark = pointer if mark in ("", pointer) else f"{mark}, {pointer[3:]}"
        rows = [row for row in rows if row[0] != hour]
        rows.append((hour, age_s, horizon.freed, horizon.after, mark))
    for hour, age_s, freed, after, mark in sorted(rows, key=lambda row: row[0]):
        made.add_row(
            format_duration(age_s),
            utc_moment(datetime.fromtimestamp(hour * HOUR_S, UTC)),
            f"{freed.files:,}",
            format_bytes(freed.allocated_bytes),
            fullness(after),
            mark,
            style="bold" if mark else None,
        )
    return made


def _print_kept(out: Console, horizons: Found) -> None:
    needed = horizons.answer.needed
    totals = Freed(horizons.files, horizons.allocated_bytes)
    out.print("what may be deleted, and what stays", style="bold")
    made = table("", "files>", "holds>")
    made.add_row("may be deleted", *_numbers(needed.eligible))
    for row in needed.kept:
        words = f"stays: {row.reason.replace('_', ' ')}"
        made.add_row(words, f"{row.files:,}", format_bytes(row.allocated_bytes))
    made.add_row("all regular files", *_numbers(totals), style="dim")
    print_table(out, made)


def _print_owners(out: Console, title: str, noun: str, owners: Sequence[OwnedBy], top: int) -> None:
    if not owners:
        return
    out.print(title, style="bold")
    made = table(noun, "files>", "would go>", "of what may>")
    for row in owners[:top]:
        name = owner(row.owner) if noun == "user" else str(row.owner)
        made.add_row(
            name,
            f"{row.most.files:,}",
            _between(row.least, row.most),
            format_bytes(row.eligible.allocated_bytes),
        )
    print_table(out, made)
    if len(owners) > top:
        print_sentences(out, [f"... and {plural(len(owners) - top, noun, ',')} more"], "dim")


def _print_groups(out: Console, title: str, group_horizons: GroupHorizons, top: int) -> None:
    """Print what each OST or pool needs, the fullest first."""
    out.print(title, style="bold")
    noun = group_horizons.groups[0].group.noun
    pool_heads = ("OSTs>", "limit>") if noun == "pool" else ()
    made = table(noun, *pool_heads, "full>", "over by>", "frees>", "leaves>", "")
    fullest = sorted(group_horizons.groups, key=lambda row: -row.usage.fullness)
    for row in fullest[:top]:
        of_pool = (str(len(row.group.osts)), format_percent(row.group.limit)) if pool_heads else ()
        made.add_row(
            visible(row.name),
            *of_pool,
            fullness(row.usage),
            format_bytes(row.excess_bytes),
            format_bytes(row.freed.allocated_bytes),
            fullness(row.after),
            _STATUS[row.status],
            style="yellow" if row.status is HorizonStatus.OUT_OF_REACH else None,
        )
    print_table(out, made)
    if len(fullest) > top:
        print_sentences(out, [f"... and {len(fullest) - top} {noun}s less full"], "dim")


def _numbers(freed: Freed) -> tuple[str, str]:
    return f"{freed.files:,}", format_bytes(freed.allocated_bytes)


def _between(least: Freed, most: Freed) -> str:
    low, high = format_bytes(least.allocated_bytes), format_bytes(most.allocated_bytes)
    return high if low == high else f"{low} to {high}"
