"""Instructions from the decision to the shell, and events back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.run.state import Batch, Listed, Outcome, Rows


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
class Look:
    """Check the guards of a run again, and read the plan's next rows."""

    rows: Rows


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure usage, and whether objects are still being destroyed."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Process a batch: check each row and delete it; in a dry run, only check."""

    batch: Batch


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


Instruction = Look | Measure | Delete | Wait | Stop


@dataclass(frozen=True, slots=True)
class Looked:
    """Objections of the guards, and the requested rows of the plan.

    Times of all events are in seconds since 1970.
    """

    at_s: float
    objections: tuple[Objection, ...]
    listed: Listed


@dataclass(frozen=True, slots=True)
class Measured:
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
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Waited:
    """The time of a `Wait` is over."""

    at_s: float


Event = Looked | Measured | Ended | Waited


@dataclass(frozen=True, slots=True)
class Progress:
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
