"""Which files to move off full targets: the last resort.

Files move off a target above ``limits.fullness`` that is closed to new files, until it would be at
``limits.reopen``; on an open target new files would take the space at once. The files with the most
bytes on the target go first. Files written or renamed recently stay: they are likely to change
again. A file that was moved or changed after the index was made is not retried from that index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.act.decide.holding import TOO_MANY, allowance, held
from trimtab.act.decide.site_observed import Answer, SiteObserved, server_of, why_left_alone
from trimtab.base.action import Action, ActionKind, Instruction, Outcome, Plan, Untouched
from trimtab.base.error import Message
from trimtab.base.snapshot import TargetSnapshot
from trimtab.base.units import format_bytes, format_duration, format_percent

FEWEST_BYTES: Final = 2**30
"""Moving a smaller file costs more than the space it frees."""
QUIET: Final = timedelta(days=7)
"""Minimum time since a file was last written or renamed."""
STALE_INDEX: Final = timedelta(days=7)
"""No file is moved on the basis of an older index."""
_AGAIN: Final = frozenset({Outcome.REFUSED, Outcome.UNREACHABLE})
"""Outcomes after which a file is retried: it was open, or its server did not answer."""


@dataclass(frozen=True, slots=True)
class MovableFile:
    """A file of an index.

    Attributes
    ----------
    identity
        Its FID or inode number, as text.
    path
        Absolute and percent-encoded, because names are bytes.
    state
        Length and times recorded by the index; they must not have changed.
    allocated_bytes
        Mean per target.
    """

    identity: str
    path: str
    state: str
    allocated_bytes: int
    changed_at: datetime
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MovableFiles:
    """Files of an index, and when its scan ended."""

    ended_at: datetime
    files: Sequence[MovableFile]


def decide(observed: SiteObserved, index: MovableFiles, now: datetime) -> Plan:
    """Return which files to move off which targets, the fullest target first."""
    snapshot = observed.snapshot
    reasons = held(observed, "migrate", now)
    if now - index.ended_at > STALE_INDEX:
        age = format_duration((now - index.ended_at).total_seconds())
        reasons = (*reasons, Message("index-stale", f"the index is {age} old"))
    if snapshot is None or reasons:
        return observed.plan("migrate", now, held=reasons)
    tried = _tried(observed.actions, index)
    left = allowance(observed, now)
    answers: list[Answer] = []
    for seen in _over(observed, snapshot.targets):
        reason = why_left_alone(observed, seen) or _open(seen)
        rows = [] if reason is not None else list(_moved(observed, seen, index, tried, now))
        fitting = rows[:left]
        left -= len(fitting)
        answers += fitting
        if reason is None and not rows:
            text = f"the index has no quiet file of {format_bytes(FEWEST_BYTES)} or more on it"
            reason = Message("no-candidates", text)
        elif reason is None and len(fitting) < len(rows):
            reason = TOO_MANY
        if reason is not None:
            answers.append(Untouched(seen.target.name, reason))
    return observed.plan("migrate", now, answers)


def _over(observed: SiteObserved, targets: Iterable[TargetSnapshot]) -> list[TargetSnapshot]:
    limit = observed.site.limits.fullness
    full = [
        seen for seen in targets if seen.target.kind == "ost" and (seen.fullness() or 0.0) > limit
    ]
    return sorted(full, key=lambda seen: (-(seen.fullness() or 0.0), seen.target.name))


def _open(seen: TargetSnapshot) -> Message | None:
    if seen.value("create_enabled") is False:
        return None
    text = "it takes new files: close it first, or they use up the freed space"
    return Message("target-open", text)


def _tried(actions: Iterable[Action], index: MovableFiles) -> frozenset[str]:
    """Return the files moved or found changed since the index was made; they are not retried."""
    rows = (row for row in actions if row.instruction.kind is ActionKind.MIGRATE)
    return frozenset(
        row.instruction.setting or ""
        for row in rows
        if row.at > index.ended_at and row.outcome not in _AGAIN and not row.is_interrupted
    )


def _moved(
    observed: SiteObserved,
    seen: TargetSnapshot,
    index: MovableFiles,
    tried: frozenset[str],
    now: datetime,
) -> Iterable[Instruction]:
    """Yield moves that bring a target below the mark, the file with the most bytes on it first."""
    name, fullness = seen.target.name, seen.fullness() or 0.0
    used, available = seen.number("used_bytes"), seen.number("available_bytes")
    if used is None or available is None:
        return
    excess = used - observed.site.limits.reopen * (used + available)
    rows = [
        file
        for file in index.files
        if name in file.targets
        and file.identity not in tried
        and file.allocated_bytes >= FEWEST_BYTES
        and now - file.changed_at >= QUIET
    ]
    for file in sorted(rows, key=lambda file: (-file.allocated_bytes, file.identity)):
        if excess <= 0:
            return
        excess -= file.allocated_bytes
        age = format_duration((now - file.changed_at).total_seconds())
        text = f"{name} is {format_percent(fullness)} full; {format_bytes(file.allocated_bytes)}"
        yield Instruction(
            ActionKind.MIGRATE, name, Message("target-full", f"{text}, unchanged for {age}"),
            server_of(seen), file.identity, file.state, file.path,
        )  # fmt: skip
