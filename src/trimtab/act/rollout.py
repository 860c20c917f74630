"""How a value spreads: one target first, the rest of its server, then all others.

::

    nothing done ─▶ canary ─▶ settled, not worse ─▶ its server ─▶ settled ─▶ all ─▶ over
                      │                                                              │
                      └─ worse, reverted, lost: nothing further         drift: all at once

What was done is read from the ledger, never remembered. A rollout is over once a target of the last
stage was done, or all have been; what is lost from then on, by a failover, a reboot or udev, is set
again on all targets at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.act.ledger import ended_at, number_of
from trimtab.act.observed import Observed
from trimtab.act.targets import disconnected, server_of, unfit
from trimtab.message import Message
from trimtab.model.action import Action
from trimtab.model.telemetry import TargetSnapshot
from trimtab.units import format_duration, format_percent

CANARY: Final = 0
SERVER: Final = 1
ALL: Final = 2
RECENT: Final = timedelta(days=7)
"""A canary that was measured within it can be compared with what it was before."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one value has come among the targets of one kind.

    Attributes
    ----------
    pending
        Targets that lack it and could be changed.
    lacking
        Names of all that lack it, those that must be left alone too.
    done, failed
        Actions that wrote it, of targets that are gone too, and those of the last day that could
        not; oldest first.
    reverted
        Ids of actions that were taken back.
    """

    pending: Sequence[TargetSnapshot]
    lacking: frozenset[str]
    done: Sequence[Action]
    failed: Sequence[Action]
    reverted: frozenset[str]

    @property
    def is_over(self) -> bool:
        """Whether what is lacking now had it once, or the last stage has begun."""
        rolled = {action.instruction.target for action in self.done}
        is_last = any(action.instruction.stage == ALL for action in self.done)
        return is_last or (len(rolled) > 1 and self.lacking <= rolled)


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is.

    Attributes
    ----------
    targets
        Those that may be changed now.
    stage
        `CANARY`, `SERVER` or `ALL`.
    waiting
        Why the others may not; ``None`` where there are no others.
    """

    targets: frozenset[str]
    stage: int
    waiting: Message | None = None


def turn(observed: Observed, progress: Progress, now: datetime) -> Turn:
    """Return which of the targets that lack a value may get it now."""
    names = frozenset(seen.target.name for seen in progress.pending)
    if not progress.done:
        return _first(observed, progress, now)
    if progress.is_over:
        return Turn(names, ALL)
    reason = _harm(observed, progress)
    canary = progress.done[0].instruction.target
    if reason is None and canary in names:
        text = f"{canary} lost the value, and gets it again first"
        return Turn(frozenset({canary}), CANARY, Message("waits-for-canary", text))
    reason = reason or _wait(observed, progress, now)
    if reason is not None:
        return Turn(frozenset(), CANARY, reason)
    of_server = _of_server(observed, canary, progress.pending)
    if of_server:
        text = f"the rest of {canary}'s server is next, and is observed for {_settle(observed)}"
        return Turn(of_server, SERVER, Message("waits-for-server", text))
    return Turn(names, ALL)


def _first(observed: Observed, progress: Progress, now: datetime) -> Turn:
    """Return the canary; none where the system did not take the value on another target."""
    if progress.failed:
        last = progress.failed[-1]
        detail = f": {last.detail}" if last.detail else ""
        text = f"{last.instruction.target} did not take it within the last day{detail}"
        return Turn(frozenset(), CANARY, Message("value-refused", text))
    canary = _choose(observed, progress.pending, now)
    text = f"{canary} is first, and is observed for {_settle(observed)}"
    return Turn(frozenset({canary}), CANARY, Message("waits-for-canary", text))


def _choose(observed: Observed, pending: Sequence[TargetSnapshot], now: datetime) -> str:
    """Return the first target: one that was measured lately, and of these the least full."""

    def rank(seen: TargetSnapshot) -> tuple[bool, float, str]:
        measured_at = observed.measured.get(seen.target.name)
        recent = measured_at is not None and now - measured_at <= RECENT
        fullness = seen.fullness()
        return not recent, 1.0 if fullness is None else fullness, seen.target.name

    return min(pending, key=rank).target.name


def _harm(observed: Observed, progress: Progress) -> Message | None:
    """Return why a rollout ends: a target got slower, or a person took a change back."""
    worse = observed.site.policies.tunables.worse
    for action in progress.done:
        name, slower = action.instruction.target, number_of(action, "slower")
        if action.id in progress.reverted:
            return Message("canary-reverted", f"the change of {name} was reverted")
        if slower is not None and slower > worse:
            text = f"{name} got {format_percent(slower)} slower with it"
            return Message("canary-worse", f"{text}; {format_percent(worse)} are allowed")
    return None


def _wait(observed: Observed, progress: Progress, now: datetime) -> Message | None:
    """Return why a rollout does not go on yet."""
    canary = progress.done[0].instruction.target
    seen = observed.snapshot.of(canary) if observed.snapshot is not None else None
    ill = Message("target-absent", "gone") if seen is None else unfit(seen) or disconnected(seen)
    if ill is not None:
        return Message("canary-unhealthy", f"{canary}, which was first, is not well now: {ill}")
    last = max(progress.done, key=ended_at)
    if last.facts.get("verdict") == "pending":
        text = f"whether {last.instruction.target} got slower is not measured yet"
        return Message("canary-pending", text)
    if now - ended_at(last) < timedelta(seconds=observed.site.policies.tunables.settle_s):
        text = f"{last.instruction.target} is observed for {_settle(observed)} first"
        return Message("canary-settling", text)
    return None


def _of_server(
    observed: Observed, canary: str, pending: Sequence[TargetSnapshot]
) -> frozenset[str]:
    seen = observed.snapshot.of(canary) if observed.snapshot is not None else None
    server = None if seen is None else server_of(seen)
    return frozenset(other.target.name for other in pending if server_of(other) == server)


def _settle(observed: Observed) -> str:
    return format_duration(observed.site.policies.tunables.settle_s)
