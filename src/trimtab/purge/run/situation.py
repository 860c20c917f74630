"""Facts for the guards of a run, and what passes between a run's decisions and its shell.

Facts are plain values, collected before a run and before each batch; ``None`` means unknown, and an
unknown fact prevents deletion.

`trimtab.purge.run.next_step` returns instructions; `trimtab.purge.run.runner` carries them out
through `RunSurroundings` and returns events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from trimtab.base.error import DataError, UsageError
from trimtab.base.units import share_of
from trimtab.purge.fullness import Usage
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.deletion_plan import Candidates, DeletionPlan
from trimtab.purge.plan.plan_signature import Publication
from trimtab.purge.purge_policy import Policy
from trimtab.purge.run.rows import Allowance, BatchOutcome, ListedRows, RowBatch, Rows, Spent

if TYPE_CHECKING:
    from trimtab._core import Candidates as OpenedCandidates


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
    maintenance
        The maintenance in which the site is.
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
    maintenance: str | None = None

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


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a run must not begin or continue.

    Attributes
    ----------
    guard
        Stable name of the guard: ``kill-switch``.
    reason
        A sentence.
    hint
        What to do about it.
    """

    guard: str
    reason: str
    hint: str | None = None

    @property
    def words(self) -> str:
        """The guard and its reason."""
        return f"{self.guard}: {self.reason}"


class StopReason(StrEnum):
    """Why a run ended."""

    TARGET = "target-reached"
    EXHAUSTED = "plan-exhausted"
    FILES_CAP = "files-cap"
    BYTES_CAP = "bytes-cap"
    OBJECTION = "objection"
    OUT_OF_TIME = "out-of-time"
    NOT_SETTLED = "not-settled"
    NOT_FREED = "not-freed"
    TROUBLES = "troubles"
    INTERRUPTED = "interrupted"
    OVERTAKEN = "overtaken"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class LookAtRows:
    """Check the guards of a run again, and read the plan's next rows."""

    rows: Rows


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure usage, and whether objects are still being destroyed."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Process a batch: check each row and delete it; in a dry run, only check."""

    batch: RowBatch


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for a while."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run.

    Attributes
    ----------
    text
        The reason as a sentence.
    """

    reason: StopReason
    text: str
    objections: tuple[Objection, ...] = ()


Instruction = LookAtRows | Measure | Delete | Wait | Stop


@dataclass(frozen=True, slots=True)
class LookedAtRows:
    """Objections of the guards, and the requested rows of the plan.

    Times of all events are in seconds since 1970.
    """

    at_s: float
    objections: tuple[Objection, ...]
    listed: ListedRows


@dataclass(frozen=True, slots=True)
class UsageMeasured:
    """Usage of the file system.

    Attributes
    ----------
    in_flight
        Objects being destroyed, whose space is not free yet; ``None`` if unknown.
    """

    at_s: float
    usage: Usage
    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A batch has ended."""

    at_s: float
    outcome: BatchOutcome


@dataclass(frozen=True, slots=True)
class Waited:
    """The time of a `Wait` is over."""

    at_s: float


Event = LookedAtRows | UsageMeasured | Ended | Waited


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run, for display.

    Attributes
    ----------
    latency_s_p99
        99th percentile latency of a row in the last batch.
    """

    rows: int
    rows_left: int
    files: int
    freed_bytes: int
    needed_bytes: int | None
    doing: str
    latency_s_p99: float | None


class Listing(Protocol):
    """The rows of a plan."""

    def listed(self, rows: Rows) -> ListedRows:
        """Return owners and sizes of some rows."""
        ...


class CandidatesListing:
    """The rows of the candidates of a plan.

    A row group is verified when its first row is requested, before it enters a batch, and the
    verified rows stay in memory for the remover.

    Parameters
    ----------
    candidates
        The candidates to read.
    rows
        Number of rows in the plan; a different number is an error.
    """

    def __init__(self, candidates: OpenedCandidates, rows: int) -> None:
        if candidates.rows != rows:
            raise DataError(
                f"there are {candidates.rows} candidates, but the plan has {rows}",
                code="candidates-changed",
            )
        self.candidates, self.rows = candidates, rows
        self._stretch: ListedRows | None = None

    def listed(self, rows: Rows) -> ListedRows:
        """Return owners and sizes of some rows.

        Raises
        ------
        RefusedError
            They differ from what was signed.
        """
        if rows.end > self.rows:
            raise UsageError(
                f"the plan has {self.rows} rows, but none at {rows.end - 1}",
                code="rows-out-of-range",
            )
        stretch = self._stretch
        if stretch is None or rows.first < stretch.rows.first or rows.end > stretch.rows.end:
            stretch = self._stretch = self._read(rows)
        return stretch.part(rows)

    def _read(self, rows: Rows) -> ListedRows:
        import numpy as np

        uids, allocated = self.candidates.listed(rows.first, rows.count)
        owners = np.frombuffer(uids, np.uint32)
        return ListedRows(
            Rows(rows.first, len(owners)), owners, np.frombuffer(allocated, np.uint64)
        )


class RunSurroundings(Protocol):
    """Surroundings of a run: clock, file system, and facts for the guards."""

    def now_s(self) -> float:
        """Return the time, in seconds since 1970."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait; signals may end it by raising."""
        ...

    def measure(self) -> tuple[Usage, int | None]:
        """Return usage, and the number of objects still being destroyed, if known."""
        ...

    def sync(self) -> None:
        """Synchronise all changes of the file system to stable storage."""
        ...

    def situation(self) -> Situation:
        """Return the current facts; those that cannot change during a run may be cached."""
        ...
