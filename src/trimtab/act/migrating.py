"""Which files to move off full targets: the last resort.

A target is relieved that is over ``limits.fullness`` and closed to new files, until it would be at
``limits.reopen``: on an open one new files would take the room at once. The files that take up most
of it go first. What was written or renamed lately is left: it is about to change again. A file that
was moved or had changed since the index was made is not tried again from that index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.act.holding import TOO_MANY, allowance, held
from trimtab.act.observed import Answer, Observed
from trimtab.act.targets import server_of, why_left_alone
from trimtab.message import Message
from trimtab.model.action import Action, ActionKind, Instruction, Outcome, Plan, Untouched
from trimtab.model.telemetry import TargetSnapshot
from trimtab.units import format_bytes, format_duration, format_percent

FEWEST_BYTES: Final = 2**30
"""Moving a smaller file costs more than the room that it makes is worth."""
QUIET: Final = timedelta(days=7)
"""So long a file was neither written nor renamed."""
STALE_INDEX: Final = timedelta(days=7)
"""On what an older index says of files nothing is moved."""
_AGAIN: Final = frozenset({Outcome.REFUSED, Outcome.UNREACHABLE})
"""A file that was open is tried again."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of an index.

    Attributes
    ----------
    identity
        Its FID or inode number, as text.
    path
        Absolute, percent-encoded: names are bytes.
    state
        Its length and times as the index has them: what must still be so.
    allocated_bytes
        On each of its targets, the mean.
    """

    identity: str
    path: str
    state: str
    allocated_bytes: int
    changed_at: datetime
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """What is known of files, and when it was looked at."""

    ended_at: datetime
    files: Sequence[File]


def decide(observed: Observed, index: Index, now: datetime) -> Plan:
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
            text = f"the index names no quiet file of {format_bytes(FEWEST_BYTES)} or more there"
            reason = Message("no-candidates", text)
        elif reason is None and len(fitting) < len(rows):
            reason = TOO_MANY
        if reason is not None:
            answers.append(Untouched(seen.target.name, reason))
    return observed.plan("migrate", now, answers)


def _over(observed: Observed, targets: Iterable[TargetSnapshot]) -> list[TargetSnapshot]:
    limit = observed.site.limits.fullness
    full = [
        seen for seen in targets if seen.target.kind == "ost" and (seen.fullness() or 0.0) > limit
    ]
    return sorted(full, key=lambda seen: (-(seen.fullness() or 0.0), seen.target.name))


def _open(seen: TargetSnapshot) -> Message | None:
    if seen.value("create_enabled") is False:
        return None
    text = "it takes new files: close it first, or they use the room up"
    return Message("target-open", text)


def _tried(actions: Iterable[Action], index: Index) -> frozenset[str]:
    """Return the files that were moved since the index, or had changed, and are left now."""
    rows = (row for row in actions if row.instruction.kind is ActionKind.MIGRATE)
    return frozenset(
        row.instruction.setting or ""
        for row in rows
        if row.at > index.ended_at and row.outcome not in _AGAIN and not row.is_interrupted
    )


def _moved(
    observed: Observed, seen: TargetSnapshot, index: Index, tried: frozenset[str], now: datetime
) -> Iterable[Instruction]:
    """Yield the files that bring a target under the mark, the largest there first."""
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
