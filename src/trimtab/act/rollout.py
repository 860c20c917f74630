"""Roll a value out: one target first, then the rest of its server, then all others.

::

    nothing done ─▶ canary ─▶ settled, not worse ─▶ its server ─▶ settled ─▶ all ─▶ over
                      │                                                              │
                      └─ worse, reverted, lost: nothing further         drift: all at once

Progress is read from the ledger, never kept in memory. A rollout is over once a target of the last
stage, or every target, has the value; a value lost after that to a failover, a reboot or udev is
set again on all targets at once.
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
"""A canary measured within this time can be compared with its earlier performance."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of one value among the targets of one kind.

    Attributes
    ----------
    pending
        Targets that lack the value and may be changed.
    lacking
        Names of all targets that lack it, including those that must be left alone.
    done, failed
        Actions that wrote it, including on targets now gone, and failed attempts of the last day;
        oldest first.
    reverted
        Ids of reverted actions.
    """

    pending: Sequence[TargetSnapshot]
    lacking: frozenset[str]
    done: Sequence[Action]
    failed: Sequence[Action]
    reverted: frozenset[str]

    @property
    def is_over(self) -> bool:
        """Whether all targets that lack the value had it once, or the last stage has begun."""
        rolled = {action.instruction.target for action in self.done}
        is_last = any(action.instruction.stage == ALL for action in self.done)
        return is_last or (len(rolled) > 1 and self.lacking <= rolled)


@dataclass(frozen=True, slots=True)
class Turn:
    """The targets whose turn it is.

    Attributes
    ----------
    targets
        Targets that may be changed now.
    stage
        `CANARY`, `SERVER` or `ALL`.
    waiting
        Why the others must wait; ``None`` if there are no others.
    """

    targets: frozenset[str]
    stage: int
    waiting: Message | None = None


def turn(observed: Observed, progress: Progress, now: datetime) -> Turn:
    """Return which targets that lack a value may get it now."""
    names = frozenset(seen.target.name for seen in progress.pending)
    if not progress.done:
        return _first(observed, progress, now)
    if progress.is_over:
        return Turn(names, ALL)
    reason = _harm(observed, progress)
    canary = progress.done[0].instruction.target
    if reason is None and canary in names:
        text = f"{canary} lost the value and gets it again first"
        return Turn(frozenset({canary}), CANARY, Message("waits-for-canary", text))
    reason = reason or _wait(observed, progress, now)
    if reason is not None:
        return Turn(frozenset(), CANARY, reason)
    of_server = _of_server(observed, canary, progress.pending)
    if of_server:
        text = f"the rest of {canary}'s server is next, then observed for {_settle(observed)}"
        return Turn(of_server, SERVER, Message("waits-for-server", text))
    return Turn(names, ALL)


def _first(observed: Observed, progress: Progress, now: datetime) -> Turn:
    """Return the canary; no target if the system recently refused the value elsewhere."""
    if progress.failed:
        last = progress.failed[-1]
        detail = f": {last.detail}" if last.detail else ""
        text = f"{last.instruction.target} refused it within the last day{detail}"
        return Turn(frozenset(), CANARY, Message("value-refused", text))
    canary = _choose(observed, progress.pending, now)
    text = f"{canary} is first, then observed for {_settle(observed)}"
    return Turn(frozenset({canary}), CANARY, Message("waits-for-canary", text))


def _choose(observed: Observed, pending: Sequence[TargetSnapshot], now: datetime) -> str:
    """Return the canary: the least full of the recently measured targets, if any."""

    def rank(seen: TargetSnapshot) -> tuple[bool, float, str]:
        measured_at = observed.measured.get(seen.target.name)
        recent = measured_at is not None and now - measured_at <= RECENT
        fullness = seen.fullness()
        return not recent, 1.0 if fullness is None else fullness, seen.target.name

    return min(pending, key=rank).target.name


def _harm(observed: Observed, progress: Progress) -> Message | None:
    """Return why a rollout ends: a target got slower, or a person reverted a change."""
    worse = observed.site.policies.tunables.worse
    for action in progress.done:
        name, slower = action.instruction.target, number_of(action, "slower")
        if action.id in progress.reverted:
            return Message("canary-reverted", f"the change of {name} was reverted")
        if slower is not None and slower > worse:
            text = f"{name} got {format_percent(slower)} slower with it"
            return Message("canary-worse", f"{text}; {format_percent(worse)} is allowed")
    return None


def _wait(observed: Observed, progress: Progress, now: datetime) -> Message | None:
    """Return why a rollout must wait."""
    canary = progress.done[0].instruction.target
    seen = observed.snapshot.of(canary) if observed.snapshot is not None else None
    ill = Message("target-absent", "gone") if seen is None else unfit(seen) or disconnected(seen)
    if ill is not None:
        return Message("canary-unhealthy", f"{canary}, the canary, is unhealthy: {ill}")
    last = max(progress.done, key=ended_at)
    if last.facts.get("verdict") == "pending":
        text = f"not yet measured whether {last.instruction.target} got slower"
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
