"""The totals of a run, journalled as it goes, its result, and whether it freed what it could."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.encode import Problem, shape
from trimtab.base.error import Interrupted, Message, RefusedError, ToolError, TrimtabError, visible
from trimtab.base.interruption import shielded
from trimtab.base.units import format_bytes, format_percent, plural
from trimtab.purge.fullness import Usage
from trimtab.purge.plan.deletion_plan import escape, same_named
from trimtab.purge.run.journal_line import (
    DoneLine,
    PlanLine,
    RunBeginLine,
    RunEndLine,
    RunPace,
    SyncedLine,
    UndoneLine,
    UsageLine,
)
from trimtab.purge.run.next_step import RunState, RunTerms
from trimtab.purge.run.rows import (
    CAPPED,
    DELETED,
    GONE,
    NOT_BEGUN,
    TOO_LATE,
    WOULD_DELETE,
    BatchOutcome,
    ListedRows,
    RowBatch,
    Rows,
    counted,
    latency_of,
    outcome_of,
    row_count,
)
from trimtab.purge.run.run_journal import RunJournal
from trimtab.purge.run.situation import (
    Listing,
    Objection,
    RunProgress,
    RunSurroundings,
    Situation,
    Stop,
    StopReason,
    UsageMeasured,
)

if TYPE_CHECKING:
    from trimtab._core import Removal, RemovalBatch


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run.

    Attributes
    ----------
    objections
        Objections of guards, also of a dry run that continued nevertheless.
    files, bytes, freed_bytes
        Files and bytes deleted, or that a dry run would delete.
    outcomes, outcome_bytes
        Rows by outcome, and their bytes as listed in the plan.
    before
        First measured usage of the file system.
    after, after_s, in_flight
        Usage after the last deletion, the seconds between, and the objects still being destroyed
        then. ``None`` if nothing was deleted, or usage was not measured since.
    unmeasured
        Why it was not measured.
    rows_left
        Rows of the plan not yet processed by any run.
    recovered_rows
        Rows of a batch begun by an interrupted run.
    undone_rows
        Rows deleted by an earlier run whose files exist again after a power failure.
    unexplained
        Files set aside that no row explains; an administrator must check them. Paths relative to
        the root.
    trim_due
        Whether space was freed that the drives do not know of yet.
    users
        Number of users who owned the files.
    pace
        Its speed.
    errors
        Failed rows by the system's error number.
    unwatched
        Whether changes of ctime alone could not be detected between a file's last check and its
        removal.
    """

    id: str
    apply: bool
    reason: StopReason
    text: str
    objections: tuple[Objection, ...]
    files: int
    bytes: int
    freed_bytes: int
    outcomes: Mapping[str, int]
    before: Usage | None
    after: Usage | None
    rows_left: int
    recovered_rows: int
    unexplained: tuple[bytes, ...]
    journal: Path
    undone_rows: int = 0
    users: int = 0
    pace: RunPace = field(default_factory=RunPace)
    after_s: float | None = None
    in_flight: int | None = None
    unmeasured: str = ""
    outcome_bytes: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[int, int] = field(default_factory=dict)
    unwatched: bool = False

    @property
    def trim_due(self) -> bool:
        """Whether space was freed that the drives do not know of yet."""
        return self.apply and self.freed_bytes > 0

    def refusal(self) -> RefusedError | None:
        """Return the error with the reason why nothing was deleted; ``None`` if the run began."""
        if self.reason is not StopReason.REFUSED:
            return None
        # One line: an error is shown with invisible characters escaped.
        reasons = "; ".join(objection.words for objection in self.objections)
        first = self.objections[0].hint if len(self.objections) == 1 else None
        many = plural(len(self.objections), "guard")
        return RefusedError(
            f"nothing was deleted, {many} object: {reasons}", code="guards-object", hint=first
        )


class RunInterrupted(Interrupted):
    """A signal ended a running run.

    Attributes
    ----------
    result
        Its result, as complete as that of a run that ended by itself.
    """

    def __init__(self, error: Interrupted, result: RunResult) -> None:
        super().__init__(error.message, error.hint)
        self.result = result


shape(
    RunResult,
    omit=["id", "apply", "errors", "unwatched"],
    derive={"run": "id", "applied": "apply", "trim_due": "trim_due"},
)


WAITS: Final = frozenset({"published", "armed", "caps", "maintenance"})
"""Guards whose objections end by themselves or by an approval; a nightly timer often meets them."""
EXCUSED: Final = frozenset(
    {
        "gone",
        "touched",
        "changed_owner",
        "changed_project",
        "changed_size",
        "changed_mtime",
        "changed_atime",
        "ctime_only",
        "changed_type",
        "moved",
        "replaced",
        "other_links",
        "open",
        "immutable",
        "exempt",
        "too_small",
        "too_young",
        "put_back",
    }
)
"""Outcomes caused by users and exemptions between plan and run.

The rest are errors, or unknown to this host.
"""
SHORT: Final = 0.9
"""A run that freed less than this fraction of the bytes without an excused outcome fell short.

A healthy run frees all of them; a run stops by itself at a tenth of rows with trouble
(`trimtab.purge.run.next_step.RunTerms`).
"""

_FAILED: Final = frozenset(
    {
        StopReason.OBJECTION,
        StopReason.NOT_SETTLED,
        StopReason.NOT_FREED,
        StopReason.TROUBLES,
        StopReason.INTERRUPTED,
        StopReason.FAILED,
    }
)


def waits(result: RunResult) -> bool:
    """Whether a run was refused only because it is too early."""
    return result.reason is StopReason.REFUSED and all(
        objection.guard in WAITS for objection in result.objections
    )


def shortfall(result: RunResult) -> Message | None:
    """Return why a run deleted less than planned; ``None`` if it did what it could.

    Notes
    -----
    Only rows that the run reached count, because a reached target, a cap and the end time are
    normal ends. Bytes are those listed in the plan, because deleting one of several names frees
    nothing.
    """
    if result.reason is StopReason.REFUSED:
        if waits(result):
            return None
        reasons = "; ".join(objection.words for objection in result.objections)
        return Message("purge-refused", f"it was refused ({reasons})")
    if result.reason in _FAILED:
        return Message("purge-stopped", f"it was stopped: {result.text}")
    sizes = result.outcome_bytes
    due_bytes = sum(
        size for name, size in sizes.items() if name not in {*EXCUSED, CAPPED, NOT_BEGUN}
    )
    done_bytes = sizes.get(DELETED, 0)
    if done_bytes >= SHORT * due_bytes:
        return None
    worst = max(
        (size, name)
        for name, size in sizes.items()
        if name not in {*EXCUSED, CAPPED, NOT_BEGUN, DELETED}
    )
    return Message(
        "purge-short",
        f"it deleted {format_bytes(done_bytes)} of the {format_bytes(due_bytes)} "
        f"({format_percent(done_bytes / due_bytes)}) that users had not used or removed; of the "
        f"rest {format_bytes(worst[0])} are {worst[1].replace('_', ' ')}",
    )


GOES_ON: Final = "deletions so far are in the journal: the same command continues with the rest"
"""State after an interruption of a run."""


def error_of(result: RunResult) -> Problem | None:
    """Return why a run did not do its work; ``None`` if it did as much as it may.

    Reaching a cap and the end of the plan are normal ends.
    """
    match result.reason:
        case StopReason.REFUSED:
            return result.refusal()
        case StopReason.INTERRUPTED:
            return Interrupted(result.text, GOES_ON)
        case StopReason.OBJECTION:
            hint = result.objections[0].hint if result.objections else None
            return RefusedError(
                f"the run was stopped: {result.text}", code="run-stopped", hint=hint
            )
        case (
            StopReason.NOT_SETTLED
            | StopReason.NOT_FREED
            | StopReason.TROUBLES
            | StopReason.OVERTAKEN
        ):
            return ToolError(f"the run was stopped: {result.text}", code="run-stopped")
        case _:
            return None


SYNC_ROWS: Final = 10_000
"""Number of rows after which the file system is synchronised to stable storage."""

INTACT: Final = frozenset({"too_young", WOULD_DELETE})
"""A restorer's outcomes for an untouched file."""

ABSENT: Final = frozenset({GONE, "not_same", "replaced", "changed_type"})
"""Outcomes for a file that is not under its name."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """A run to carry out.

    Attributes
    ----------
    id
        Unique id of the run.
    plan
        The plan to carry out.
    horizon_s
        The plan's cut-off, in seconds since 1970.
    terms
        Creates the terms of the run from the situation at its start
        (`trimtab.purge.run.next_step.terms_of`).
    remover
        Creates the remover, once the guards have no objections.
    restorer
        Creates a remover with a cut-off before all times, for which every file is too young. It
        recovers the batch of an interrupted run, which deletes nothing and is allowed even if a
        guard objects to the run.
    codes
        Outcome of each of the remover's codes.
    journals
        Directory of the journals; those of several file systems may share it.
    version, host, who
        Origin of the run, for the journal.
    owner
        Uid that must own the journals.
    """

    id: str
    plan: PlanLine
    horizon_s: float
    terms: Callable[[Situation], RunTerms]
    remover: Callable[[], Removal]
    restorer: Callable[[], Removal]
    codes: Mapping[int, str]
    listing: Listing
    surroundings: RunSurroundings
    journals: Path
    version: str = ""
    host: str = ""
    who: str = ""
    owner: int = 0


class RunAccount:
    """Totals of one run; it decides nothing."""

    def __init__(
        self,
        job: RunJob,
        journal: RunJournal,
        apply: bool,
        progress: Callable[[RunProgress], None] | None,
    ) -> None:
        self.job, self.journal, self.apply, self.progress = job, journal, apply, progress
        self.objections: tuple[Objection, ...] = ()
        self.files = self.bytes = self.freed_bytes = self.recovered_rows = 0
        self.outcomes: Counter[str] = Counter()
        self.outcome_bytes: Counter[str] = Counter()
        self.errors: Counter[int] = Counter()
        self.unwatched = False
        self.users: set[int] = set()
        self.pace = RunPace()
        self.latency_s_p99: float | None = None
        self.unexplained: list[bytes] = []
        self.undone_rows = self.unsynced_rows = 0
        self.before: Usage | None = None
        self.after: UsageMeasured | None = None
        self.deleted_at_s: float | None = None
        self.unmeasured = ""

    def now_s(self) -> float:
        """Return the time, in seconds since 1970."""
        return self.job.surroundings.now_s()

    def write_begin(self, now: Situation) -> None:
        """Journal that the run begins."""
        job = self.job
        line = RunBeginLine(
            run=job.id,
            at=moment_of(now.now_s),
            apply=self.apply,
            horizon=moment_of(job.horizon_s),
            target_fullness=now.target,
            version=visible(job.version),
            host=visible(job.host),
            who=visible(job.who),
            objections=_sentences(self.objections),
        )
        with shielded():
            self.journal.write(line)

    def answered(
        self,
        batch: RowBatch,
        listed: ListedRows,
        ask: Callable[[int, int], RemovalBatch],
        *,
        recovered: bool = False,
    ) -> BatchOutcome:
        """Have a remover process the rows of a batch, and return the outcome.

        All rows of a recovered batch are passed at once, because a file set aside may belong to
        any.
        """
        names = [CAPPED] * batch.rows.count
        answers: list[RemovalBatch] = []
        latencies: list[tuple[int, float, float]] = []
        for rows in (batch.rows,) if recovered else batch.taken():
            answer = ask(rows.first, rows.count)
            names[_within(batch, rows)] = self._named(answer, rows, recovered)
            answers.append(answer)
            latencies.append((rows.count, answer.latency_s_median, answer.latency_s_p99))
        for left in batch.leave:
            names[_within(batch, left)] = [CAPPED] * left.count
        self.unexplained += [path for reply in answers for path in reply.unexplained]
        return outcome_of(
            batch,
            listed,
            names,
            freed_bytes=sum(reply.freed_bytes for reply in answers),
            elapsed_s=sum(reply.elapsed_s for reply in answers),
            latency_s=latency_of(latencies),
            recovered=recovered,
            dry=not self.apply,
            doubtful=self.journal.shared.doubtful,
        )

    def count(self, outcome: BatchOutcome, line: DoneLine) -> None:
        """Add a journalled outcome to the totals."""
        self.pace, self.latency_s_p99 = self.pace.after(line), line.latency_s_p99
        self.files += outcome.files
        self.bytes += outcome.bytes
        self.freed_bytes += outcome.freed_bytes
        self.users |= outcome.by_user.keys()
        for name, count in outcome.outcomes:
            self.outcomes[name] += count
        self.outcome_bytes.update(outcome.outcome_bytes)
        if self.apply and outcome.files:
            self.deleted_at_s, self.after = line.at.timestamp(), None
        if self.apply:
            self.unsynced_rows += outcome.batch.rows.count
            if self.unsynced_rows >= SYNC_ROWS:
                self.sync()

    def present(self, rows: Rows, restorer: Removal) -> Iterator[Rows]:
        """Yield those deleted rows whose files exist."""
        for first in range(rows.first, rows.end, SYNC_ROWS):
            part = Rows(first, min(SYNC_ROWS, rows.end - first))
            names = self._named(restorer.check(part.first, part.count), part, False)
            for number, name in enumerate(names):
                if name not in ABSENT:
                    yield Rows(part.first + number, 1)

    def _named(self, answer: RemovalBatch, rows: Rows, recovered: bool) -> Sequence[str]:
        """Return the name of each row's outcome."""
        if len(answer.outcomes) != rows.count:
            raise ToolError(
                f"the remover got {rows.count} rows but reports on {len(answer.outcomes)}",
                code="remover-contradictory",
                hint="deletion stopped; run again to recover the batch",
            )
        self.errors.update(number for _, number in answer.errors)
        names = {code: self.job.codes.get(code, "unknown") for code in set(answer.outcomes)}
        names = {code: NOT_BEGUN if n == TOO_LATE else n for code, n in names.items()}
        if recovered:
            # It is in its place; the restorer finds every file too young, so the row is repeated.
            names = {code: NOT_BEGUN if n in INTACT else n for code, n in names.items()}
        return [names[code] for code in answer.outcomes]

    def undone_line(self, batch: Rows, rows: tuple[Rows, ...]) -> UndoneLine:
        """Return the line for rows whose files exist again."""
        totals = counted(map(self.job.listing.listed, rows))
        return UndoneLine(self.job.id, moment_of(self.now_s()), batch, rows, *totals)

    def sync(self) -> None:
        """Synchronise deletions to stable storage against power failure, and journal it."""
        with shielded():
            self.job.surroundings.sync()
            self.journal.write(SyncedLine(self.job.id, moment_of(self.now_s())))
            self.unsynced_rows = 0

    def measure(self) -> UsageMeasured:
        """Measure the usage of the file system."""
        usage, in_flight = self.job.surroundings.measure()
        measured = UsageMeasured(self.now_s(), usage, in_flight)
        self.before = self.before or usage
        self.after = None if self.deleted_at_s is None else measured
        return measured

    def write_usage(self, event: UsageMeasured) -> None:
        """Journal a measurement that does not change what other hosts need."""
        usage, at = event.usage, moment_of(event.at_s)
        line = UsageLine(self.job.id, at, usage.used_bytes, usage.available_bytes, event.in_flight)
        with shielded():
            self.journal.write(line)

    def _measure_last(self) -> None:
        """Measure usage after the last deletion, if not yet done; a failure is only recorded."""
        if self.deleted_at_s is None or self.after is not None:
            return
        try:
            measured = self.measure()
        except (TrimtabError, OSError) as error:
            self.unmeasured = visible(str(getattr(error, "message", None) or error))
        else:
            self.write_usage(measured)

    def end(self, stop: Stop) -> Stop:
        """Journal the end of the run, and why."""
        if self.unsynced_rows:
            self.sync()
        self._measure_last()
        at, reasons = moment_of(self.now_s()), _sentences(stop.objections)
        aside = tuple(map(escape, self.unexplained))
        self.journal.write(
            RunEndLine(self.job.id, at, stop.reason.value, visible(stop.text), reasons, aside)
        )
        return stop

    def tell(self, state: RunState, doing: str) -> None:
        """Report the run's progress to the caller."""
        if self.progress is not None:
            self.progress(
                RunProgress(
                    rows=self.job.plan.rows,
                    rows_left=row_count(state.todo),
                    files=self.files,
                    freed_bytes=self.freed_bytes,
                    needed_bytes=state.needed_bytes,
                    doing=doing,
                    latency_s_p99=self.latency_s_p99,
                )
            )

    def result(self, state: RunState, stop: Stop) -> RunResult:
        """Return the result of the run."""
        after, deleted_at_s = self.after, self.deleted_at_s
        return same_named(
            RunResult,
            self,
            id=self.job.id,
            reason=stop.reason,
            text=stop.text,
            objections=stop.objections or self.objections,
            outcomes=dict(self.outcomes),
            after=None if after is None else after.usage,
            after_s=None if after is None or deleted_at_s is None else after.at_s - deleted_at_s,
            in_flight=None if after is None else after.in_flight,
            rows_left=row_count(state.todo),
            unexplained=tuple(self.unexplained),
            journal=self.journal.path,
            users=len(self.users),
            outcome_bytes=dict(self.outcome_bytes),
            errors=dict(self.errors),
        )


def _within(batch: RowBatch, rows: Rows) -> slice:
    start = rows.first - batch.rows.first
    return slice(start, start + rows.count)


def _sentences(objections: Sequence[Objection]) -> tuple[str, ...]:
    return tuple(visible(objection.words) for objection in objections)


def moment_of(at_s: float) -> datetime:
    """Return a time in seconds since 1970 as in the journal."""
    return datetime.fromtimestamp(at_s, UTC)
