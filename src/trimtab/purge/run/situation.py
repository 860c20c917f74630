"""The facts that the guards judge: plain values, collected before a run and before each batch.

``None`` is "not known" throughout. A run that deletes is held back by what is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.model import Candidates, Plan
from trimtab.purge.plan.publication import Publication
from trimtab.purge.policy import Policy
from trimtab.purge.run.state import Allowance, Spent
from trimtab.units import share_of

SWITCH_WITHOUT_DIRECTORY: Final = "switch-directory-missing"
SWITCH_UNREADABLE: Final = "switch-unreadable"
"""Codes of why a kill switch counts as pulled that is not there."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan, and what is known of it beside what it says of itself.

    Attributes
    ----------
    publication
        ``None``: it was never published.
    changes
        What the policy allows now that it did not when the plan was made
        (`trimtab.purge.policy.loosened`).
    previous
        Candidates of the plan that was published before; ``None`` for a first plan.
    exempt_troubles
        Why exempt paths of the policy keep less than they say, a sentence each.
    signature
        Why its signature or one of its hashes is not good; ``None``: they are.
    """

    plan: Plan
    publication: Publication | None = None
    changes: tuple[str, ...] = ()
    previous: Candidates | None = None
    exempt_troubles: tuple[str, ...] = ()
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class RootFacts:
    """What is at the root's path now.

    Attributes
    ----------
    trouble
        Why it cannot be told, or is no directory to be purged; ``None``: the rest says what it is.
    atime_settings
        What decides how clients record reads: words and values.
    """

    trouble: str | None
    file_system: FileSystemIdentity | None = None
    read_only: bool = False
    atime_settings: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AllowList:
    """The roots that may be purged at all.

    Attributes
    ----------
    trouble
        Why the file does not count: not there, not root's alone; ``None``: it does.
    """

    trouble: str | None
    roots: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class ArmedBy:
    """Somebody armed the plan.

    Attributes
    ----------
    person
        Which login it was, by its uid; ``None``: the system does not say, and such a one is no
        second person.
    """

    at_s: float
    person: int | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class ArmingFacts:
    """Who armed the plan; ``trouble``: why the arming file does not count."""

    trouble: str | None
    armed_by: tuple[ArmedBy, ...] = ()


@dataclass(frozen=True, slots=True)
class CanaryFacts:
    """What became of a file that was made beneath the root as another user's, and removed.

    Attributes
    ----------
    trouble
        What did not work; ``None``: it was made and removed.
    file_system_at_s
        The time that the file system gave it.
    before_s, after_s
        This host's time just before and after.
    no_room
        Whether only room was missing.
    """

    trouble: str | None
    file_system_at_s: float | None = None
    before_s: float = 0.0
    after_s: float = 0.0
    no_room: bool = False


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The time that a server gave, and this host's just before and after it was asked."""

    name: str
    at_s: float
    before_s: float
    after_s: float


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the guards of a run judge.

    Attributes
    ----------
    now_s
        Seconds since 1970.
    root_user
        Whether this process has root's rights.
    kill_switch
        Why the run has to stop: the file is there, or cannot be asked for; ``None``: go on.
    canary
        ``None``: it was not tried, as in a dry run.
    clocks
        Of the servers that the site names.
    usage
        How full the file system is.
    keeps_deleted
        What keeps the space of a deleted file, such as a trash can that is switched on.
    journal_trouble
        Why the journal is no place to rely on: beneath the root, or its file system is full.
    leftovers
        What runs of other plans did not end, and what they put aside, a sentence each.
    spent
        What runs shortly before this one deleted.
    """

    now_s: float
    policy: Policy
    planned: Planned
    root: RootFacts
    allow_list: AllowList
    arming: ArmingFacts
    root_user: bool
    kill_switch: str | None
    canary: CanaryFacts | None
    usage: Usage | None
    clocks: tuple[ServerClock, ...] = ()
    keeps_deleted: str | None = None
    journal_trouble: str | None = None
    leftovers: tuple[str, ...] = ()
    spent: Spent = field(default_factory=Spent)

    @property
    def target(self) -> float:
        """The fullness at which deleting ends: the plan's, or the policy's where that is higher."""
        return max(self.planned.plan.horizon.target, self.policy.target or 0.0)

    @property
    def allowance(self) -> Allowance:
        """What may be deleted, the policy's caps made absolute."""
        caps, limits = self.policy.caps, []
        if caps.bytes is not None:
            limits.append(caps.bytes)
        if caps.filesystem_fraction is not None:
            capacity_bytes = 0 if self.usage is None else self.usage.total_bytes
            limits.append(share_of(caps.filesystem_fraction, capacity_bytes))
        held = {user.uid: user.held_bytes for user in self.planned.plan.candidates.users}
        return Allowance(
            files=caps.files,
            bytes=min(limits, default=None),
            user_fraction=caps.user_fraction,
            user_bytes={uid: size for uid, size in held.items() if size is not None},
        )
