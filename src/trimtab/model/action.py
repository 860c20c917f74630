"""Changes that Trimtab makes to a file system: instructions, their plan and their outcomes."""

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
