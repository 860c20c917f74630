"""What passes between a run's decisions and its shell: instructions, events, plan rows, facts.

`next_step` returns instructions; `runner` carries them out through `RunSurroundings` and returns
events.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from trimtab.base.error import DataError, UsageError
from trimtab.purge.fullness import Usage
from trimtab.purge.run.rows import BatchOutcome, ListedRows, RowBatch, Rows
from trimtab.purge.run.situation import Situation

if TYPE_CHECKING:
    from trimtab._core import Candidates as OpenedCandidates


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
