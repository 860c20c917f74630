"""``trimtab purge replay``: a policy tried on the past."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms
from trimtab.cli.render.purge_tables import owner
from trimtab.cli.render.screen import print_screen
from trimtab.cli.render.text import print_sentences, print_table, table, utc_moment
from trimtab.errors import UsageError
from trimtab.units import format_bytes, format_percent, plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trimtab.loop.purging.replaying import Replayed
    from trimtab.purge.horizon.curve import Freed


@click.command("replay", cls=options.GroupedCommand)
@terms.index
@click.option("--later", type=terms.PATH, required=True, metavar="DIR", help="Later index.")
@click.option(
    "--policy", type=terms.PATH, metavar="FILE", help="Policy whose target and rules apply."
)
@click.option(
    "--target", type=options.FRACTION, help="Target fullness at the time of the index: 70%."
)
@click.option("--before", metavar="TIME", help="The cut-off itself, in place of a target's.")
@click.option("--used", type=options.SIZE, help="Bytes in use at the time of the index.")
@click.option(
    "--available", type=options.SIZE, help="Bytes available at the time of the index; with --used."
)
@click.option(
    "--reads-known", is_flag=True, help="Every class of client recorded reads in between."
)
@terms.threads
@options.as_json
@options.extent_options
def command(directory: Path, later: Path, before: str | None, **options_given: Any) -> None:
    """Replay a policy at the time of --index, and count what was used afterwards.

    Files are matched by their identity in the later index. Reads are counted only where every
    class of client records them.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.purging.replaying import replay_policy
    from trimtab.report import documents
    from trimtab.units import parse_moment

    if (options_given["used"] is None) != (options_given["available"] is None):
        raise UsageError(
            "--used and --available are given together",
            code="usage-incomplete",
            hint="as df --block-size=1",
        )
    cut_off = None if before is None else parse_moment(before)
    if cut_off is not None and options_given["policy"] is None and options_given["target"] is None:
        options_given["target"] = 1.0  # any: the cut-off is given
    reads_known = options_given.pop("reads_known")
    question = terms.horizon_question(
        directory,
        **{"target_ost": None, "target_pool": (), "forecast_s": None},
        **{"site": None, "store_url": None, "place": None, "dask": None},
        **options_given,
    )
    with progress_bar() as progress:
        progress("reading both indexes", 0.0)
        replayed = replay_policy(question, later, before=cut_off, reads_known=reads_known)
    show(
        lambda: documents.purged.PurgeReplayDocument(replayed.replay, replayed.before_s),
        lambda: print_replay(replayed),
    )


_USERS: Final = 5
"""On the screen."""


def print_replay(replayed: Replayed) -> None:
    """Print what would have been deleted and what became of it."""
    replay = replayed.replay
    deleted, missed = replay.deleted, replay.missed
    answer = f"{plural(deleted.files, 'file', ',')} ({format_bytes(deleted.allocated_bytes)}) would"
    answer += f" have been deleted; {missed.files:,} ({format_bytes(missed.allocated_bytes)}) of"
    answer += " them were used later."
    more = () if options.extent().everything else ("--all shows every age and user",)
    print_screen(answer, partial(_print_body, replayed), more=more)


def _print_body(replayed: Replayed, out: Console) -> None:
    replay, top = replayed.replay, options.extent().rows(_USERS)
    then, later = (datetime.fromtimestamp(at_s, UTC) for at_s in (replay.then_s, replay.later_s))
    span = f"tried on {utc_moment(then)}, looked at on {utc_moment(later)}"
    print_sentences(out, [span])
    cut_off = utc_moment(datetime.fromtimestamp(replayed.before_s, UTC))
    print_sentences(out, [f"deleting what was last used before {cut_off}"])
    print_sentences(out, replay.words)
    out.print("what became of it", style="bold")
    outcomes = table("", "files>", "held>")
    for outcome, share in replay.outcomes.items():
        outcomes.add_row(outcome.value, *_numbers(share))
    print_table(out, outcomes)
    out.print("by age at the time", style="bold")
    ages = table("days>", "files>", "deleted>", "used since>", "part>")
    for age in replay.ages:
        _add(ages, f"{age.from_days} to {age.from_days + 28}", age.deleted, age.missed)
    print_table(out, ages)
    if replay.users:
        out.print("who would have missed something", style="bold")
        users = table("user", "files>", "deleted>", "used since>", "part>")
        for user in replay.users[:top]:
            _add(users, owner(user.uid), user.deleted, user.missed)
        print_table(out, users)


def _add(made: Table, name: str, deleted: Freed, missed: Freed) -> None:
    whole = deleted.allocated_bytes
    part = format_percent(missed.allocated_bytes / whole) if whole else "-"
    made.add_row(name, *_numbers(deleted), format_bytes(missed.allocated_bytes), part)


def _numbers(share: Freed) -> tuple[str, str]:
    return f"{share.files:,}", format_bytes(share.allocated_bytes)
