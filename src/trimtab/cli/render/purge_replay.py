"""A policy tried on the past, as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trimtab.cli.render.purge_tables import owner
from trimtab.cli.render.text import console, print_sentences, print_table, table, utc_moment
from trimtab.loop.purging.replaying import Replayed
from trimtab.purge.horizon.replay import Share
from trimtab.units import format_bytes, format_percent

if TYPE_CHECKING:
    from rich.table import Table


def print_replay(replayed: Replayed, *, top: int) -> None:
    """Print what would have been deleted and what became of it."""
    out, found = console(), replayed.replay
    then, later = (datetime.fromtimestamp(at_s, UTC) for at_s in (found.then_s, found.later_s))
    out.print(f"tried on {utc_moment(then)}, looked at on {utc_moment(later)}", style="bold")
    cut_off = utc_moment(datetime.fromtimestamp(replayed.before_s, UTC))
    print_sentences(out, [f"deleting what was last used before {cut_off}"])
    print_sentences(out, found.words)
    out.print("\nwhat became of it", style="bold")
    outcomes = table("", "files>", "held>")
    for outcome, share in found.outcomes.items():
        outcomes.add_row(outcome.value, *_numbers(share))
    print_table(out, outcomes)
    out.print("\nby age at the time", style="bold")
    ages = table("days>", "files>", "deleted>", "used since>", "part>")
    for one in found.ages:
        _add(ages, f"{one.from_days} to {one.from_days + 28}", one.deleted, one.missed)
    print_table(out, ages)
    if found.users and top:
        out.print("\nwho would have missed something", style="bold")
        users = table("user", "files>", "deleted>", "used since>", "part>")
        for one in found.users[:top]:
            _add(users, owner(one.uid), one.deleted, one.missed)
        print_table(out, users)


def _add(made: Table, name: str, deleted: Share, missed: Share) -> None:
    whole = deleted.allocated_bytes
    part = format_percent(missed.allocated_bytes / whole) if whole else "-"
    made.add_row(name, *_numbers(deleted), format_bytes(missed.allocated_bytes), part)


def _numbers(share: Share) -> tuple[str, str]:
    return f"{share.files:,}", format_bytes(share.allocated_bytes)
