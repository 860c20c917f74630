"""Keep the totals of a run, and journal its batches, measurements and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import ToolError, TrimtabError
from trimtab.base.visible import visible
from trimtab.purge.fullness import Usage
from trimtab.purge.plan.deletion_plan import escape, same_named
from trimtab.purge.run.exchange import (
    Listing,
    Objection,
    RunProgress,
    RunSurroundings,
    Stop,
    UsageMeasured,
)
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
from trimtab.purge.run.run_result import RunResult
from trimtab.purge.run.situation import Situation
from trimtab.reach.interruption import shielded

if TYPE_CHECKING:
    from trimtab._core import Removal, RemovalBatch

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
