"""``trimtab purge replay``: try a policy on the past."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.report.kit import ALL, Row, row, table
from trimtab.report.purge import owner_text
from trimtab.report.sections import Document, Section
from trimtab.report.text import sentences, utc_moment
from trimtab.units import format_bytes, format_percent, plural

if TYPE_CHECKING:
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
@click.option("--before", metavar="TIME", help="The cut-off itself, instead of a target.")
@click.option("--used", type=options.SIZE, help="Bytes in use at the time of the index.")
@click.option(
    "--available", type=options.SIZE, help="Bytes available at the time of the index; with --used."
)
@click.option(
    "--reads-known", is_flag=True, help="Every class of client recorded reads in between."
)
@terms.threads
@options.output
def purge_replay_command(
    directory: Path, later: Path, before: str | None, **options_given: Any
) -> None:
    """Replay a policy at the time of --index, and count what was used afterwards.

    Files are matched by their identity in the later index. Reads are counted only where every
    class of client records them.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop import documents
    from trimtab.loop.purging.replaying import replay_policy
    from trimtab.units import parse_moment

    policy = terms.policy_of(options_given.pop("policy"))
    cut_off = None if before is None else parse_moment(before)
    if cut_off is not None and policy is None and options_given["target"] is None:
        options_given["target"] = 1.0  # any value: the cut-off is given
    reads_known = options_given.pop("reads_known")
    question = terms.horizon_question(directory, policy, **options_given)
    with progress_bar() as progress:
        progress("reading both indexes", 0.0)
        replayed = replay_policy(question, later, before=cut_off, reads_known=reads_known)
    show_page(
        lambda: documents.purged.PurgeReplayDocument(replayed.replay, replayed.before_s),
        lambda: replay_document(replayed),
    )


_USERS: Final = 5
"""Rows on the screen."""


def replay_document(replayed: Replayed) -> Document:
    """Return what would have been deleted, and its later use."""
    replay = replayed.replay
    deleted, missed = replay.deleted, replay.missed
    then, later, before = (
        utc_moment(datetime.fromtimestamp(at_s, UTC))
        for at_s in (replay.then_s, replay.later_s, replayed.before_s)
    )
    words = (
        f"tried on {then}, compared with {later}",
        f"deleting files last used before {before}",
        *replay.words,
    )
    outcomes = [row(outcome.value, *_numbers(share)) for outcome, share in replay.outcomes.items()]
    ages = [
        _missed(f"{age.from_days} to {age.from_days + 28}", age.deleted, age.missed)
        for age in replay.ages
    ]
    users = (_missed(owner_text(user.uid), user.deleted, user.missed) for user in replay.users)
    held = ("files>", "deleted>", "used since>", "part>")
    return Document(
        f"{plural(deleted.files, 'file', ',')} ({format_bytes(deleted.allocated_bytes)}) would "
        f"have been deleted; {missed.files:,} ({format_bytes(missed.allocated_bytes)}) of them "
        "were used later.",
        (
            Section(lines=sentences(words)),
            Section(
                "later use",
                tables=(table(("outcome", "files>", "held>"), outcomes, first=ALL),),
            ),
            Section("by age at the time", tables=(table(("days>", *held), ages, first=ALL),)),
            Section(
                "users who would have missed something",
                tables=(table(("user", *held), users, first=_USERS),),
            ),
        ),
    )


def _missed(name: str, deleted: Freed, missed: Freed) -> Row:
    whole = deleted.allocated_bytes
    part = format_percent(missed.allocated_bytes / whole) if whole else "-"
    return row(name, *_numbers(deleted), format_bytes(missed.allocated_bytes), part)


def _numbers(share: Freed) -> tuple[str, str]:
    return f"{share.files:,}", format_bytes(share.allocated_bytes)
