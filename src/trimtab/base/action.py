"""Actions that change a file system: instructions, their plan, their outcomes, and the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final

from trimtab.base.error import Message
from trimtab.base.event import Event, EventKind
from trimtab.base.run import grouped
from trimtab.base.snapshot import Snapshot, TargetSnapshot


class ActionKind(StrEnum):
    """Kind of an instruction."""

    SET = "set"
    TRIM = "trim"
    CLOSE = "close"
    OPEN = "open"
    RESET_ALLOCATOR = "reset-allocator"
    MIGRATE = "migrate"
    REGISTER = "register"
    DEREGISTER = "deregister"


class Outcome(StrEnum):
    """The outcome of an instruction.

    Attributes
    ----------
    DONE
        Done, and read back as intended.
    SKIPPED
        A condition of the plan no longer held just before: nothing was written.
    CHANGED
        The value had changed since the plan, by another hand: nothing was written.
    REFUSED
        The system refused it.
    NOT_STORED
        The system accepted the value, but another one was read back.
    UNREACHABLE
        The connection failed: nothing was written.
    UNKNOWN
        The answer is missing: the result is unknown until the value is read again.
    FAILED
        The tool for it failed.
        The tool that does it failed.
    """

    DONE = "done"
    SKIPPED = "skipped"
    CHANGED = "changed"
    REFUSED = "refused"
    NOT_STORED = "not-stored"
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"
    FAILED = "failed"

    @property
    def wrote(self) -> bool:
        """Whether the file system may differ from before."""
        return self in {Outcome.DONE, Outcome.NOT_STORED, Outcome.UNKNOWN, Outcome.FAILED}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One planned change of one target.

    Attributes
    ----------
    reason
        Why, with the figure behind it.
    setting
        In the driver's spelling; ``None`` if the kind has none.
    before, value
        The setting's value in the plan's snapshot, and the one to write. For a changelog user: the
        one on the MDT, and the command.
    stage
        Instructions of a stage run only after all of the previous stage succeeded and did no
        harm.
    permanent
        For all future mounts: ``lctl set_param -P``.
    reverts
        Actions reverted by this one, newest first; empty unless the plan is ``revert``.
    """

    kind: ActionKind
    target: str
    reason: Message
    server: str | None = None
    setting: str | None = None
    before: str | None = None
    value: str | None = None
    stage: int = 0
    permanent: bool = False
    reverts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Untouched:
    """A target, or one of its settings, that a plan leaves alone although it is not as desired."""

    target: str
    reason: Message
    setting: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that a policy would make to a site now.

    Attributes
    ----------
    policy
        ``tunables``, ``trim``, ``balance`` or ``allocator``; ``revert`` for the way back;
        ``changelogs`` for changelog users.
    at
        Time of the decision.
    snapshot_at
        Time of the telemetry behind it; ``None`` if there is none.
    instructions
        In order of execution.
    untouched
        What is not as desired and stays so, with the reason.
    held
        Why nothing may be changed now. Empty: the plan may be applied.
    """

    site: str
    policy: str
    at: datetime
    snapshot_at: datetime | None
    instructions: tuple[Instruction, ...] = ()
    untouched: tuple[Untouched, ...] = ()
    held: tuple[Message, ...] = ()

    @property
    def is_due(self) -> bool:
        """Whether there are changes, and they may be made now."""
        return bool(self.instructions) and not self.held

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits, identical for identical instructions."""
        parts = [self.site, self.policy]
        for each in self.instructions:
            parts += [each.kind, each.target, each.server or "", each.setting or ""]
            parts += [each.before or "", each.value or "", str(each.stage)]
            parts += ["permanent"] if each.permanent else []
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


INTERRUPTED: Final = "interrupted"
GAVE_WAY: Final = "gave-way"


@dataclass(frozen=True, slots=True)
class Action:
    """One instruction carried out or attempted: a row of the ledger.

    Attributes
    ----------
    id
        UUIDv7 text.
    plan
        `Plan.id`.
    who
        User and host that applied it.
    at, until
        When it began, and when its outcome was known; ``until`` is ``None`` before.
    outcome
        ``None``: begun, end unknown.
    found
        The value, or the bytes of a trim, as read back.
    detail
        The system's own words, or the condition that no longer held.
    facts
        Circumstances, each as text. Decisions use ``slower`` (fraction by which the target
        got slower; negative: faster), ``verdict`` (``pending`` while a measurement of the
        effect is expected), ``bytes_written_total`` (the target's counter when a trim began),
        ``interrupted`` (``killed``, or ``gave-way``: it can resume at once),
        ``permanent_before`` (empty if there was none) and ``effect`` (``seen``; ``none`` if
        the file system shows no sign of a completed action; ``unconfirmed`` if waiting for
        that was not possible).
    """

    id: str
    site: str
    policy: str
    plan: str
    who: str
    at: datetime
    instruction: Instruction
    until: datetime | None = None
    outcome: Outcome | None = None
    found: str | None = None
    detail: str | None = None
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def is_interrupted(self) -> bool:
        """Whether it was killed or gave way: not a failure, and it can resume at once."""
        return INTERRUPTED in self.facts

    @property
    def gave_way(self) -> bool:
        """Whether it stopped early in favour of something more important."""
        return self.facts.get(INTERRUPTED) == GAVE_WAY


CLOCK_S: Final = 60.0
"""Clocks that differ by more cannot date telemetry; a purge tolerates as much."""
CREATION: Final = frozenset({ActionKind.CLOSE, ActionKind.OPEN})
_NOT_TRIED: Final = frozenset({Outcome.SKIPPED, Outcome.CHANGED, Outcome.UNREACHABLE})
CREATED: Final = "creation"
_ANY: Final = Message("any", "any")
Key = tuple[str, str]
"""A target and what was changed on it: a setting, ``creation``, or the kind of action."""


def key_of(instruction: Instruction) -> Key:
    """Return what an instruction changes.

    Closing and opening change the same subject, a target's creation, by whichever setting.
    """
    if instruction.kind in CREATION:
        return instruction.target, CREATED
    return instruction.target, instruction.setting or str(instruction.kind)


def ended_at(action: Action) -> datetime:
    """Return when an action's outcome was known, or else when it began."""
    return action.until or action.at


def number_of(action: Action, fact: str) -> float | None:
    """Return a number recorded with an action; ``None`` if missing."""
    try:
        return float(action.facts[fact])
    except (KeyError, ValueError):
        return None


def may_have_written(action: Action) -> bool:
    """Return whether an action, ended or not, may have changed the file system."""
    return action.outcome is None or action.outcome.wrote


def still_counting(
    actions: Iterable[Action], reverted: Collection[str] = frozenset()
) -> list[Action]:
    """Return the old actions that decisions may still depend on, oldest first.

    Omitted are closings and openings before a target's last opening, and, of a change repeated with
    the same result, all attempts but the first and the last.

    Parameters
    ----------
    reverted
        Ids of actions reverted recently.
    """
    ledger, counting = Ledger(actions), list[Action]()
    taken_back = ledger.reverted.union(reverted)
    for (_, subject), rows in ledger.by_key.items():
        counting += _since_opened(rows) if subject == CREATED else _ends(rows, taken_back)
    return sorted(counting, key=lambda action: (action.at, action.id))


def _since_opened(rows: Sequence[Action]) -> Sequence[Action]:
    opened = (
        place
        for place, row in enumerate(rows)
        if row.instruction.kind is ActionKind.OPEN and row.outcome is Outcome.DONE
    )
    return rows[max(opened, default=0) :]


def _ends(rows: Sequence[Action], reverted: Collection[str]) -> list[Action]:
    """Return the rows without those that equal both neighbours."""
    results = [(_result(row), row.id in reverted) for row in rows]
    alike = [result == following for result, following in pairwise(results)]
    within = (False, *(before and after for before, after in pairwise(alike)), False)
    return [row for row, is_within in zip(rows, within[: len(rows)], strict=True) if not is_within]


def _result(action: Action) -> tuple[object, ...]:
    """Return everything of an action that decisions use, except its id and time."""
    instruction = replace(action.instruction, reason=_ANY)
    return action.policy, instruction, action.outcome, action.found, action.facts


class Ledger:
    """Actions by what they changed, each list oldest first."""

    def __init__(self, actions: Iterable[Action]) -> None:
        """Sort the actions by start time."""
        ordered = sorted(actions, key=lambda action: (action.at, action.id))
        self.by_key: Mapping[Key, list[Action]] = grouped(
            ordered, lambda action: key_of(action.instruction)
        )
        self.reverted: frozenset[str] = frozenset(
            identifier
            for action in ordered
            if action.outcome is Outcome.DONE
            for identifier in action.instruction.reverts
        )

    def of(self, target: str, subject: str) -> list[Action]:
        """Return all actions on one subject of a target, oldest first."""
        return self.by_key.get((target, subject), [])

    def last_tried(self, target: str, subject: str) -> Action | None:
        """Return the newest attempted action, successful or not."""
        rows = reversed(self.of(target, subject))
        return next((action for action in rows if action.outcome not in _NOT_TRIED), None)

    def last_done(self, target: str, subject: str) -> Action | None:
        """Return the newest action known to have succeeded."""
        rows = reversed(self.of(target, subject))
        return next((action for action in rows if action.outcome is Outcome.DONE), None)


def closed_by_us(ledger: Ledger, target: str) -> Action | None:
    """Return the first closing of a target that may be in force; it has the previous value."""
    first = None
    for action in ledger.of(target, CREATED):
        if action.instruction.kind is ActionKind.CLOSE:
            first = first or (action if may_have_written(action) else None)
        elif action.outcome is Outcome.DONE:
            first = None
    return first


def closed_targets(actions: Iterable[Action]) -> dict[str, Action]:
    """Return the targets that Trimtab closed and has not opened since, each with its closing.

    Parameters
    ----------
    actions
        Closings and openings of a site, however old: ``store.actions(site, kinds=CREATION)``.

    Notes
    -----
    A failover may have opened one of these targets since; only a snapshot shows that.
    """
    ledger = Ledger(actions)
    closings = {
        name: closed_by_us(ledger, name) for name, subject in ledger.by_key if subject == CREATED
    }
    return {name: action for name, action in sorted(closings.items()) if action is not None}


def last_trim(seen: TargetSnapshot, recorded: Iterable[datetime], now: datetime) -> datetime | None:
    """Return the latest trim of a target: of those recorded, or the one that its system reports.

    A report from the future is a wrong clock's, and does not count.
    """
    reported = seen.moment("last_trim_at")
    if reported is not None and reported <= now + timedelta(seconds=CLOCK_S):
        recorded = [*recorded, reported]
    return max(recorded, default=None)


def last_trims(
    snapshot: Snapshot, actions: Iterable[Action], events: Iterable[Event]
) -> dict[str, datetime]:
    """Return target to its last trim: by Trimtab, in the log book, or reported by its system.

    A plan of trims does not count what people wrote into the log book: `last_trim` alone.
    """
    recorded: dict[str | None, list[datetime]] = {}
    for event in events:
        if event.kind is EventKind.TRIM:
            for name in event.targets or (None,):  # None: every target
                recorded.setdefault(name, []).append(event.at)
    for action in actions:
        if action.instruction.kind is ActionKind.TRIM and action.outcome is Outcome.DONE:
            recorded.setdefault(action.instruction.target, []).append(ended_at(action))
    of_all = recorded.get(None, [])
    trims = {
        name: last_trim(seen, [*recorded.get(name, []), *of_all], snapshot.at)
        for seen in snapshot.targets
        for name in [seen.target.name]
    }
    return {name: at for name, at in trims.items() if at is not None}
