"""What passes between the decision and the shell: instructions one way, events the other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.run.state import Batch, Listed, Outcome, Rows


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a run must not begin, or not go on.

    Attributes
    ----------
    guard
        Which guard says so, a stable word: ``kill-switch``.
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
        """Which guard objects, and why."""
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
    """Ask every guard of a run again, and read what the plan says of the coming rows."""

    rows: Rows


@dataclass(frozen=True, slots=True)
class Measure:
    """Ask the file system how full it is, and whether it still destroys objects."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Deal with a batch: check each row and delete it; in a dry run, check only."""

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
        A sentence for people.
    """

    reason: StopReason
    text: str
    objections: tuple[Objection, ...] = ()


Instruction = Look | Measure | Delete | Wait | Stop


@dataclass(frozen=True, slots=True)
class Looked:
    """What the guards say, and the plan of the rows that were asked for.

    Times of all events are in seconds since 1970.
    """

    at_s: float
    objections: tuple[Objection, ...]
    listed: Listed


@dataclass(frozen=True, slots=True)
class Measured:
    """How full the file system is.

    Attributes
    ----------
    in_flight
        Objects that are being destroyed, whose space is not free yet; ``None`` where nobody says.
    """

    at_s: float
    usage: Usage
    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """What a batch came to."""

    at_s: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Waited:
    """The time of a `Wait` is over."""

    at_s: float


Event = Looked | Measured | Ended | Waited


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; for people.

    Attributes
    ----------
    latency_s_p99
        Of one row, at the 99th percentile of the last batch.
    """

    rows: int
    rows_left: int
    files: int
    freed_bytes: int
    needed_bytes: int | None
    doing: str
    latency_s_p99: float | None
