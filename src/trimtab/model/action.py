"""What Trimtab does to a file system: instructions, their plan, and what came of each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from trimtab.message import Message


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
    """What became of an instruction.

    Attributes
    ----------
    DONE
        Read back as intended.
    SKIPPED
        A condition of the plan no longer held just before: nothing was written.
    CHANGED
        Somebody else had changed the value since the plan: nothing was written.
    REFUSED
        The system refused it.
    NOT_STORED
        The system accepted the value, and another one is read back.
    UNREACHABLE
        No connection came about: nothing was written.
    UNKNOWN
        The answer is missing: whether it was done is not known until the value is read again.
    FAILED
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
    """One change of one target, as it is planned.

    Attributes
    ----------
    reason
        Why, with the figure it rests on.
    setting
        As the driver names it; ``None`` where the kind has none.
    before, value
        The setting's value in the plan's snapshot, and the one to write. Of a changelog user: the
        one that the MDT has, and the command.
    stage
        Instructions of a stage are carried out only after every one of the stage before was done
        and did no harm.
    permanent
        For every mount to come: ``lctl set_param -P``.
    reverts
        The actions that this one takes back, newest first; empty unless the plan is ``revert``.
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
    """A target, or one setting of it, that a plan leaves as it is though it is not as desired."""

    target: str
    reason: Message
    setting: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a policy would do to a site now.

    Attributes
    ----------
    policy
        ``tunables``, ``trim``, ``balance`` or ``allocator``; ``revert`` for the way back;
        ``changelogs`` for changelog users.
    at
        When it was decided.
    snapshot_at
        Of the telemetry it rests on; ``None`` where there is none.
    instructions
        In the order in which they are carried out.
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
        """Whether there is something to change that may be changed now."""
        return bool(self.instructions) and not self.held

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that are the same for the same instructions."""
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
    """One instruction that was carried out, or was to be: a row of the ledger.

    Attributes
    ----------
    id
        UUIDv7 text.
    plan
        `Plan.id`.
    who
        The user and host that applied it.
    at, until
        When it was begun and when its outcome was known; ``until`` is ``None`` before.
    outcome
        ``None``: begun, and not known to have ended.
    found
        The value, or the bytes of a trim, as read back.
    detail
        The system's own words, or which condition no longer held.
    facts
        Of its surroundings, each as text. Decisions rest on ``slower`` (by which fraction the
        target got slower; negative: faster), ``verdict`` (``pending`` while a measurement of the
        effect is expected), ``bytes_written_total`` (the target's counter when a trim began),
        ``interrupted`` (``killed``, or ``gave-way``: what it did can go on at once),
        ``permanent_before`` (empty where there was none) and ``effect`` (``seen``, ``none`` where
        the file system shows no sign of an action that was done, or ``unconfirmed`` where that
        could not be waited for).
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
        """Whether it was killed or gave way: it is no failure, and goes on at once."""
        return INTERRUPTED in self.facts

    @property
    def gave_way(self) -> bool:
        """Whether it ended early for something that goes before."""
        return self.facts.get(INTERRUPTED) == GAVE_WAY
