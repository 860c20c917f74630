"""The lines of a journal: what each says, to JSON and back; see `trimtab.record.chain`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from trimtab.errors import DataError
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.model import same_named
from trimtab.purge.run.state import CAPPED, NOT_BEGUN, Outcome, Rows, Spent, Stretch, spent_on
from trimtab.record.chain import StrictLine, unlinked, value_of
from trimtab.units import format_duration, plural

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT: Final = 1
CHANGED_HINT: Final = (
    "nothing is deleted while it lies there: keep it as evidence, move it with its .head.json to "
    "another directory, let 20 hours pass, since the caps know nothing of what it counted, and "
    "make a new plan"
)


@dataclass(frozen=True, slots=True)
class _LineOfRun(StrictLine):
    """What a run writes, and when."""

    run: str
    at: datetime


@dataclass(frozen=True, slots=True)
class FullnessLine(_LineOfRun):
    """How full the file system was, and how many objects were still being destroyed."""

    used_bytes: int
    available_bytes: int
    in_flight: int | None


@dataclass(frozen=True, slots=True)
class PlanLine(StrictLine):
    """Which plan the journal is of: its first line.

    Attributes
    ----------
    sha256
        Of the plan, and with it of its candidates: together with a row's number it says which file
        is meant.
    root, file_system
        In words, for people.
    identity
        By what the file system is known again.
    """

    plan: str
    sha256: str
    rows: int
    root: str
    file_system: str
    identity: FileSystemIdentity
    format: Literal[1] = FORMAT
    do: Literal["plan"] = "plan"

    @property
    def key(self) -> str:
        """What the file system is called where one text has to do, as for a lock."""
        return self.identity.key

    def is_of(self, other: PlanLine) -> bool:
        """Return whether both are of one plan, which is never changed."""
        return (self.plan, self.sha256, self.rows) == (other.plan, other.sha256, other.rows)

    def shares_caps(self, other: PlanLine) -> bool:
        """Return whether both are or may be of one file system, so that caps count both."""
        return self.identity.shares_caps(other.identity)


@dataclass(frozen=True, slots=True)
class BeginLine(_LineOfRun):
    """A run begins.

    Attributes
    ----------
    horizon
        Only files last used before it are in the plan.
    who
        Who started it, as far as the system says.
    objections
        Of a dry run: what would keep it from deleting, a sentence each.
    """

    apply: bool
    horizon: datetime
    target_fullness: float | None
    version: str
    host: str
    who: str
    objections: tuple[str, ...] = ()
    do: Literal["begin"] = "begin"


@dataclass(frozen=True, slots=True)
class UsageLine(FullnessLine):
    """How full the file system was as a run measured it that has nothing to free for others."""

    do: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True)
class DoneLine(_LineOfRun):
    """What a batch came to; of a dry run (not ``apply``) no `ClaimLine` stands before it.

    Attributes
    ----------
    by_user
        Files and bytes as listed, by uid.
    """

    apply: bool
    rows: Rows
    outcomes: tuple[Stretch, ...]
    files: int
    bytes: int
    freed_bytes: int
    by_user: dict[int, tuple[int, int]]
    elapsed_s: float
    latency_s_median: float | None = None
    latency_s_p99: float | None = None
    recovered: bool = False
    do: Literal["done"] = "done"

    @property
    def lessens_bytes(self) -> int:
        """By how much less has to go: see `Outcome.lessens_bytes`."""
        return max(self.bytes, self.freed_bytes) if self.recovered else self.freed_bytes

    @property
    def spent(self) -> Spent:
        """What of it counts against the caps."""
        size = max(self.bytes, self.freed_bytes)
        return spent_on(self.files, size, self.by_user, self.at.timestamp())


@dataclass(frozen=True, slots=True)
class RunPace:
    """How fast a run went through its rows, pauses and measurements between them included.

    Attributes
    ----------
    rows
        Rows that it asked something of.
    since, until
        When its first batch began and its last one ended; ``None``: it had none.
    latency_s_p99
        Of one row, in the batch whose 99th percentile was the highest.
    """

    rows: int = 0
    since: datetime | None = None
    until: datetime | None = None
    latency_s_p99: float | None = None

    @property
    def rows_per_s(self) -> float | None:
        """Rows a second; ``None``: it asked nothing, or in no time."""
        if self.since is None or self.until is None or self.until <= self.since:
            return None
        return self.rows / (self.until - self.since).total_seconds()

    def after(self, line: DoneLine) -> RunPace:
        """Return the pace after one more batch."""
        left = sum(count for name, count in line.outcomes if name in {CAPPED, NOT_BEGUN})
        latencies = (self.latency_s_p99, line.latency_s_p99)
        return RunPace(
            self.rows + line.rows.count - left,
            self.since or line.at - timedelta(seconds=line.elapsed_s),
            line.at,
            max((value for value in latencies if value is not None), default=None),
        )

    def text(self) -> str:
        """Return it in words; empty where nothing was asked."""
        if not self.rows or self.rows_per_s is None:
            return ""
        words = f"{plural(self.rows, 'row', ',')}, {self.rows_per_s:,.1f} a second"
        if self.latency_s_p99 is None:
            return words
        return f"{words}; 99 % of the slowest batch within {format_duration(self.latency_s_p99)}"


@dataclass(frozen=True, slots=True)
class SyncedLine(_LineOfRun):
    """The file system has on stable storage what every `DoneLine` before this one says."""

    do: Literal["synced"] = "synced"


@dataclass(frozen=True, slots=True)
class UndoneLine(_LineOfRun):
    """Files are there again that a batch had deleted: power was cut before that was on the disk.

    Attributes
    ----------
    batch
        Rows of the batch, as its `DoneLine` has them.
    rows
        Those whose files are there; they are dealt with again.
    files, bytes, by_user
        As listed; they were counted as deleted and were not.
    """

    batch: Rows
    rows: tuple[Rows, ...]
    files: int
    bytes: int
    by_user: dict[int, tuple[int, int]]
    do: Literal["undone"] = "undone"


@dataclass(frozen=True, slots=True)
class ReleasedLine(StrictLine):
    """A person ended a batch that no run did, as `trimtab purge recover` does without its plan.

    What had been put aside is back. Which of the other rows were deleted nobody can tell; the next
    plan finds those that were not.

    Attributes
    ----------
    files, bytes
        Of the rows that may have been deleted, as listed: all of them count against the caps.
    """

    at: datetime
    rows: Rows
    files: int
    bytes: int
    who: str = ""
    do: Literal["released"] = "released"

    @property
    def spent(self) -> Spent:
        """What of it counts against the caps."""
        return spent_on(self.files, self.bytes, {}, self.at.timestamp())


@dataclass(frozen=True, slots=True)
class EndLine(_LineOfRun):
    """A run ended, and why.

    Attributes
    ----------
    unexplained
        Files that were found moved aside and that no row explains, escaped: a person has to look.
    """

    reason: str
    text: str
    objections: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    do: Literal["end"] = "end"


@dataclass(frozen=True, slots=True)
class SharedLine(StrictLine):
    """Who may carry the plan out, written before its first batch.

    Attributes
    ----------
    lease_s
        How long a batch that was claimed belongs to the run that claimed it. 0: one host carries
        the plan out, and a batch belongs to its run while that has the lock of the file system.
    """

    at: datetime
    lease_s: float
    do: Literal["shared"] = "shared"


@dataclass(frozen=True, slots=True)
class ClaimLine(_LineOfRun):
    """A run is about to deal with a batch, and nobody else is: from here on files may be gone.

    Its number is the token that fences: only the run that claimed a batch last can end it.

    Attributes
    ----------
    files, bytes, by_user
        Of the rows that are not left alone, as listed: they count against the caps of all until
        the batch has ended.
    """

    rows: Rows
    leave: tuple[Rows, ...]
    files: int
    bytes: int
    by_user: dict[int, tuple[int, int]]
    do: Literal["claim"] = "claim"

    @property
    def reserved(self) -> Spent:
        """What of it counts against the caps while it is open."""
        return spent_on(self.files, self.bytes, self.by_user)


@dataclass(frozen=True, slots=True)
class TakeoverLine(_LineOfRun):
    """A run takes a batch over from one that has not ended it in time, to recover it.

    Attributes
    ----------
    of
        The run that had it.
    """

    of: str
    rows: Rows
    do: Literal["takeover"] = "takeover"


@dataclass(frozen=True, slots=True)
class NeedLine(FullnessLine):
    """How full the file system was, and what all hosts together have still to free.

    Attributes
    ----------
    needed_bytes
        Less what batches free that end after it, and less what is listed of open ones; ``None``:
        there is no target.
    first
        It is the first measurement of a run that found nobody else at work.
    """

    needed_bytes: int | None
    first: bool
    do: Literal["need"] = "need"


Line = (
    PlanLine
    | SharedLine
    | ClaimLine
    | TakeoverLine
    | NeedLine
    | BeginLine
    | UsageLine
    | DoneLine
    | SyncedLine
    | UndoneLine
    | ReleasedLine
    | EndLine
)


@dataclass(frozen=True, slots=True)
class Chronicle:
    """What a journal says.

    Attributes
    ----------
    lines
        Without the first, which is ``plan``.
    """

    plan: PlanLine | None
    lines: tuple[Line, ...]


def done_line(run: str, at: datetime, outcome: Outcome, *, apply: bool) -> DoneLine:
    """Return the line of what a batch came to."""
    return same_named(DoneLine, outcome, run=run, at=at, apply=apply, rows=outcome.batch.rows)


def encode(line: Line) -> bytes:
    """Return a line as a JSON object, for `trimtab.record.chain`."""
    return _adapter().dump_json(line)


def decode(text: bytes) -> Chronicle:
    """Return what the lines of a journal say.

    Raises
    ------
    DataError
        A line is not what was written; `DataError.line` says which.
    """
    chain = unlinked(text, hint=CHANGED_HINT)
    if chain.torn:
        raise DataError(
            "the last line is not whole",
            code="journal-changed",
            line=len(chain.lines) + 1,
            hint=CHANGED_HINT,
        )
    lines: list[Line] = []
    for number, written in enumerate(chain.lines, start=1):
        try:
            line = decoded(written)
        except DataError as error:
            raise DataError(error.reason, code=error.code, line=number, hint=error.hint) from error
        if isinstance(line, PlanLine) != (number == 1):
            raise DataError(
                "a journal names its plan once, in its first line",
                code="journal-contradictory",
                line=number,
            )
        lines.append(line)
    first = lines[0] if lines else None
    plan = first if isinstance(first, PlanLine) else None
    return Chronicle(plan, tuple(lines[1:]))


def decoded(text: bytes) -> Line:
    """Return what one line says, without its sum.

    Raises
    ------
    DataError
        It is no line of a journal.
    """
    return value_of(_adapter(), text, unreleased_hint=CHANGED_HINT)


@functools.cache
def _adapter() -> TypeAdapter[Line]:
    from typing import Annotated

    from pydantic import Field, TypeAdapter

    return TypeAdapter(Annotated[Line, Field(discriminator="do")])
