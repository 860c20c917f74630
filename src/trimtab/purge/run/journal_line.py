"""The lines of a journal, converted to JSON and back; see `trimtab.store.chain`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from trimtab.base.encode import shape
from trimtab.base.error import DataError
from trimtab.base.units import format_duration, plural
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.deletion_plan import same_named
from trimtab.purge.run.rows import CAPPED, NOT_BEGUN, BatchOutcome, Rows, Spent, Stretch, spent_on
from trimtab.store.chain import StrictLine, line_adapter, line_value, unlinked

FORMAT: Final = 1
CHANGED_HINT: Final = (
    "nothing is deleted while it is there: keep it as evidence, move it with its .head.json to "
    "another directory, wait 20 hours, since the caps no longer include its deletions, and make a "
    "new plan"
)


@dataclass(frozen=True, slots=True)
class _LineOfRun(StrictLine):
    """A line written by a run, with its time."""

    run: str
    at: datetime


@dataclass(frozen=True, slots=True)
class FullnessLine(_LineOfRun):
    """Usage of the file system, and the number of objects still being destroyed."""

    used_bytes: int
    available_bytes: int
    in_flight: int | None


@dataclass(frozen=True, slots=True)
class PlanLine(StrictLine):
    """The first line of a journal: its plan.

    Attributes
    ----------
    sha256
        Hash of the plan and hence of its candidates: with a row's number it identifies a file.
    root, file_system
        Names for display.
    identity
        Identity of the file system.
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
        """One text that identifies the file system, such as for a lock."""
        return self.identity.key

    def is_of(self, other: PlanLine) -> bool:
        """Return whether both are of the same, unchanged plan."""
        return (self.plan, self.sha256, self.rows) == (other.plan, other.sha256, other.rows)

    def shares_caps(self, other: PlanLine) -> bool:
        """Return whether both are or may be of the same file system, which has common caps."""
        return self.identity.shares_caps(other.identity)


@dataclass(frozen=True, slots=True)
class RunBeginLine(_LineOfRun):
    """A run begins.

    Attributes
    ----------
    horizon
        Cut-off: files in the plan were last used before it.
    who
        Who started it, as far as known.
    objections
        What would prevent a dry run from deleting, one sentence each.
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
    """Usage measured by a dry run or at the end of a run."""

    do: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True)
class DoneLine(_LineOfRun):
    """The outcome of a batch; in a dry run (not ``apply``) without a `ClaimLine` before it.

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
        """Reduction of the need: see `BatchOutcome.lessens_bytes`."""
        return max(self.bytes, self.freed_bytes) if self.recovered else self.freed_bytes

    @property
    def spent(self) -> Spent:
        """Deletions that count against the caps."""
        size = max(self.bytes, self.freed_bytes)
        return spent_on(self.files, size, self.by_user, self.at.timestamp())


@dataclass(frozen=True, slots=True)
class RunPace:
    """Speed of a run, including pauses and measurements between rows.

    Attributes
    ----------
    rows
        Rows processed.
    since, until
        Start of its first batch and end of its last; ``None`` without batches.
    latency_s_p99
        Highest 99th percentile latency of a row in any batch.
    """

    rows: int = 0
    since: datetime | None = None
    until: datetime | None = None
    latency_s_p99: float | None = None

    @property
    def rows_per_s(self) -> float | None:
        """Rows per second; ``None`` without rows or elapsed time."""
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
        """Return the pace as a sentence; empty if no rows were processed."""
        if not self.rows or self.rows_per_s is None:
            return ""
        words = f"{plural(self.rows, 'row', ',')}, {self.rows_per_s:,.1f} a second"
        if self.latency_s_p99 is None:
            return words
        return f"{words}; 99 % of the slowest batch within {format_duration(self.latency_s_p99)}"


@dataclass(frozen=True, slots=True)
class SyncedLine(_LineOfRun):
    """The deletions of every earlier `DoneLine` are on stable storage."""

    do: Literal["synced"] = "synced"


@dataclass(frozen=True, slots=True)
class UndoneLine(_LineOfRun):
    """Files deleted by a batch exist again: power failed before the deletion was on disk.

    Attributes
    ----------
    batch
        Rows of the batch, as in its `DoneLine`.
    rows
        Rows whose files exist; they are processed again.
    files, bytes, by_user
        Totals as listed, which were wrongly counted as deleted.
    """

    batch: Rows
    rows: tuple[Rows, ...]
    files: int
    bytes: int
    by_user: dict[int, tuple[int, int]]
    do: Literal["undone"] = "undone"


@dataclass(frozen=True, slots=True)
class ReleasedLine(StrictLine):
    """An administrator ended a batch that no run ended: `trimtab purge recover` without its plan.

    Files set aside were restored. Which of the other rows were deleted is unknown; the next plan
    finds those that were not.

    Attributes
    ----------
    files, bytes
        Totals as listed of the rows that may have been deleted; all count against the caps.
    """

    at: datetime
    rows: Rows
    files: int
    bytes: int
    who: str = ""
    do: Literal["released"] = "released"

    @property
    def spent(self) -> Spent:
        """Deletions that count against the caps."""
        return spent_on(self.files, self.bytes, {}, self.at.timestamp())


@dataclass(frozen=True, slots=True)
class RunEndLine(_LineOfRun):
    """A run ended, and why.

    Attributes
    ----------
    unexplained
        Files set aside that no row explains, escaped; an administrator must check them.
    """

    reason: str
    text: str
    objections: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    do: Literal["end"] = "end"


@dataclass(frozen=True, slots=True)
class SharedLine(StrictLine):
    """Which hosts may carry out the plan; written before its first batch.

    Attributes
    ----------
    lease_s
        How long a claimed batch belongs to its run, in seconds. 0: a single host carries out the
        plan, and a batch belongs to its run while that holds the lock of the file system.
    """

    at: datetime
    lease_s: float
    do: Literal["shared"] = "shared"


@dataclass(frozen=True, slots=True)
class ClaimLine(_LineOfRun):
    """A run claims a batch exclusively; from here on its files may be gone.

    Its line number is the fencing token: only the run that claimed a batch last can end it.

    Attributes
    ----------
    files, bytes, by_user
        Totals as listed of the rows not left alone; they count against the caps of all hosts until
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
        """Amount that counts against the caps while the batch is open."""
        return spent_on(self.files, self.bytes, self.by_user)


@dataclass(frozen=True, slots=True)
class TakeoverLine(_LineOfRun):
    """A run takes over a batch, to recover it, from one that did not end it in time.

    Attributes
    ----------
    of
        The run that had the batch.
    """

    of: str
    rows: Rows
    do: Literal["takeover"] = "takeover"


@dataclass(frozen=True, slots=True)
class NeedLine(FullnessLine):
    """Usage of the file system, and what all hosts together still have to free.

    Attributes
    ----------
    needed_bytes
        Bytes still to free, including those that open batches are about to free; ``None`` without a
        target. Batches that end later reduce it.
    first
        Whether it is the first measurement of a run that found no other run active.
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
    | RunBeginLine
    | UsageLine
    | DoneLine
    | SyncedLine
    | UndoneLine
    | ReleasedLine
    | RunEndLine
)


@dataclass(frozen=True, slots=True)
class Chronicle:
    """Contents of a journal.

    Attributes
    ----------
    lines
        All lines except the first, which is ``plan``.
    """

    plan: PlanLine | None
    lines: tuple[Line, ...]


def done_line(run: str, at: datetime, outcome: BatchOutcome, *, apply: bool) -> DoneLine:
    """Return the line for the outcome of a batch."""
    return same_named(DoneLine, outcome, run=run, at=at, apply=apply, rows=outcome.batch.rows)


def encode(line: Line) -> bytes:
    """Return a line as a JSON object, for `trimtab.store.chain`."""
    return line_adapter(Line).dump_json(line)


def decode(text: bytes) -> Chronicle:
    """Return the contents of a journal.

    Raises
    ------
    DataError
        A line was changed; `DataError.line` has its number.
    """
    chain = unlinked(text, hint=CHANGED_HINT)
    if chain.torn:
        raise DataError(
            "the last line is incomplete",
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
                "a journal must name its plan once, in its first line",
                code="journal-contradictory",
                line=number,
            )
        lines.append(line)
    first = lines[0] if lines else None
    plan = first if isinstance(first, PlanLine) else None
    return Chronicle(plan, tuple(lines[1:]))


def decoded(text: bytes) -> Line:
    """Return the value of one line, without its sum.

    Raises
    ------
    DataError
        It is not a line of a journal.
    """
    return line_value(line_adapter(Line), text, unreleased_hint=CHANGED_HINT)


shape(RunPace, derive={"rows_per_s": "rows_per_s"})
