"""Facts for the guards: plain values, collected before a run and before each batch.

``None`` means unknown throughout; an unknown fact prevents deletion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.base.units import share_of
from trimtab.purge.fullness import Usage
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.deletion_plan import Candidates, DeletionPlan
from trimtab.purge.plan.publication import Publication
from trimtab.purge.purge_policy import Policy
from trimtab.purge.run.rows import Allowance, Spent

SWITCH_WITHOUT_DIRECTORY: Final = "switch-directory-missing"
SWITCH_UNREADABLE: Final = "switch-unreadable"
"""Codes for a kill switch that counts as pulled although the file does not exist."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan, and facts about it from elsewhere.

    Attributes
    ----------
    publication
        ``None`` if it was never published.
    changes
        What the policy allows now but did not when the plan was made
        (`trimtab.purge.purge_policy.loosened`).
    previous
        Candidates of the previously published plan; ``None`` for a first plan.
    exempt_troubles
        Why exempt paths of the policy protect less than they state, one sentence each.
    signature
        Why its signature or a hash is invalid; ``None`` if valid.
    """

    plan: DeletionPlan
    publication: Publication | None = None
    changes: tuple[str, ...] = ()
    previous: Candidates | None = None
    exempt_troubles: tuple[str, ...] = ()
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class RootFacts:
    """Facts about the root's path.

    Attributes
    ----------
    trouble
        Why it cannot be determined, or is not a directory to purge; ``None`` if the other fields
        are valid.
    atime_settings
        Settings that decide how clients record reads.
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
        Why the file is invalid: missing, or writable by others; ``None`` if valid.
    """

    trouble: str | None
    roots: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class ArmedBy:
    """A person armed the plan.

    Attributes
    ----------
    person
        Uid of the login; ``None`` if unknown, which does not count as a second person.
    """

    at_s: float
    person: int | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class ArmingFacts:
    """Who armed the plan; ``trouble`` is why the arming file is invalid."""

    trouble: str | None
    armed_by: tuple[ArmedBy, ...] = ()


@dataclass(frozen=True, slots=True)
class CanaryFacts:
    """Result of creating and removing a file of another user beneath the root.

    Attributes
    ----------
    trouble
        What failed; ``None`` on success.
    file_system_at_s
        Time from the file system.
    before_s, after_s
        This host's time just before and after.
    no_room
        Whether only space was missing.
    """

    trouble: str | None
    file_system_at_s: float | None = None
    before_s: float = 0.0
    after_s: float = 0.0
    no_room: bool = False


@dataclass(frozen=True, slots=True)
class ServerClock:
    """Time of a server, and this host's just before and after the query."""

    name: str
    at_s: float
    before_s: float
    after_s: float


@dataclass(frozen=True, slots=True)
class Situation:
    """All facts for the guards of a run.

    Attributes
    ----------
    now_s
        Seconds since 1970.
    root_user
        Whether this process runs as root.
    kill_switch
        Why the run must stop: the file exists or cannot be checked; ``None`` to continue.
    canary
        ``None`` if not tried, as in a dry run.
    clocks
        Clocks of the site's servers.
    usage
        Usage of the file system.
    keeps_deleted
        What keeps the space of deleted files, such as an active trash can.
    journal_trouble
        Why the journal's location is unsuitable: beneath the root, or on a full file system.
    leftovers
        Unfinished batches and files set aside of other plans, one sentence each.
    spent
        Deletions of recent runs.
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
        """Fullness at which deletion ends: the plan's, or the policy's if higher."""
        return max(self.planned.plan.horizon.target, self.policy.target or 0.0)

    @property
    def allowance(self) -> Allowance:
        """The policy's caps in absolute numbers."""
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
