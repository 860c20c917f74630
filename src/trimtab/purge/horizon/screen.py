"""A policy replayed on the past, and signs of files kept young, as their commands show them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.units import format_bytes, format_percent, plural
from trimtab.base.visible import shell_text
from trimtab.purge.horizon.evasion_sign import KINDS, MAY_BE, statement
from trimtab.purge.owner import owner_text
from trimtab.purge.rules_in_force import moment
from trimtab.show.document import ALL, ROWS, Document, Row, Section, row, table
from trimtab.show.text import sentences, utc_moment

if TYPE_CHECKING:
    from trimtab.purge.horizon.age_curve import Freed
    from trimtab.purge.horizon.evasion_sign import Signs
    from trimtab.purge.horizon.horizon_question import PurgeReplayDocument

_USERS: Final = 5
"""Rows on the screen."""


def evasion_document(signs: Signs, directory: Path) -> Document:
    """Return the signs, their possible meanings, and what was not checked."""
    root = signs.manifest.root.decode("utf-8", "surrogateescape")
    count = plural(len(signs.found), "sign").capitalize() if signs.found else "No sign"
    argv = ["trimtab", "purge", "query", "--index", str(directory)]
    rows = (
        row(
            sign.kind,
            owner_text(sign.uid),
            f"{sign.files:,}",
            format_bytes(sign.allocated_bytes),
            moment(sign.first_s),
            moment(sign.last_s),
        )
        for sign in signs.found
    )
    over = (f"not looked for: {kind}: {why}" for kind, why in signs.passed_over.items())
    more = (
        f"the files of the first: {shell_text([*argv, statement(sign)])}"
        for sign in signs.found[:1]
    )
    as_of = moment(signs.manifest.as_of_s)
    return Document(
        f"{count} of files kept artificially young: {root}, as of {as_of}.",
        (
            Section(
                lines=sentences((*_meanings(signs), *over)),
                tables=(table(("", "owner", "files>", "hold>", "from", "to"), rows, first=ROWS),),
            ),
            Section(lines=sentences(signs.notes), tone="warning"),
        ),
        more=tuple(more),
    )


def _meanings(signs: Signs) -> Iterator[str]:
    kinds = {sign.kind for sign in signs.found}
    for kind in KINDS:
        if kind in kinds:
            example = next(sign for sign in signs.found if sign.kind == kind)
            yield f"{kind}, of {owner_text(example.uid)}: {example.words}. It may be {MAY_BE[kind]}"
    if kinds:
        yield "None of this is proof, and no plan or run uses it: ask the owner."


def replay_document(replayed: PurgeReplayDocument) -> Document:
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
