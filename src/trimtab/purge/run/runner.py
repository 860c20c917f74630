"""The shell of a run: carries out what `decide` says, journals it, and hands back what happened.

::

    lock ─▶ replay ─▶ guards ─▶ look back ─▶ ┌ instruction ─▶ carry out ─▶ event ─▶ decide ┐ ─▶ end
                                             └──────────────────────────────────────────────┘

A batch is shielded from signals: whatever arrives, its outcome is journalled before the run ends.
`kill -9` may come anywhere; the next run finds the batch that has no end and recovers it. That
deletes nothing: what was moved aside is put back and stays until a later plan, since that moved its
change time; what was not begun goes with the others if guards let it.

A power cut can come as well: then the file system may have lost what the journal knows. The root is
synchronised after every `SYNC_ROWS` rows and when a run ends, and journalled then. Whatever was
deleted since is looked for by the next run, and so is what lies aside, by the whole plan.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trimtab.errors import Interrupted, ToolError, TrimtabError
from trimtab.launch.interruption import interruptible, shielded
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.plan.names import escape
from trimtab.purge.run import guards
from trimtab.purge.run.decide import State, Step, Terms, begin, handle
from trimtab.purge.run.journal import Journal, SharedJournal, opened, spent_since
from trimtab.purge.run.listing import Listing
from trimtab.purge.run.messages import (
    Begun,
    Delete,
    Ended,
    Event,
    Look,
    Looked,
    Measure,
    Measured,
    Objection,
    Progress,
    Recover,
    Stop,
    StopReason,
    Wait,
    Waited,
)
from trimtab.purge.run.protocols import RemovalBatch, Remover, Surroundings
from trimtab.purge.run.records import (
    BatchLine,
    BeginLine,
    DoneLine,
    EndLine,
    PlanLine,
    RunPace,
    SyncedLine,
    UndoneLine,
    UsageLine,
    done_line,
)
from trimtab.purge.run.result import RunInterrupted, RunResult
from trimtab.purge.run.situation import Situation
from trimtab.purge.run.state import (
    CAPPED,
    CAPS_WINDOW_S,
    GONE,
    NOT_BEGUN,
    TOO_LATE,
    WOULD_DELETE,
    Batch,
    Listed,
    Outcome,
    Rows,
    joined,
    latency_of,
    outcome_of,
)
from trimtab.visible import visible

SYNC_ROWS: Final = 10_000
"""After so many rows the file system is told to put on stable storage what was done."""

INTACT: Final = frozenset({"too_young", WOULD_DELETE})
"""What a restorer says of a file that nothing was done to."""

ABSENT: Final = frozenset({GONE, "not_same", "replaced", "changed_type"})
"""What it says where a file is not under its name."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run that is to be done.

    Attributes
    ----------
    id
        Of the run; unique.
    plan
        What it is a run of.
    horizon_s
        The plan's cut-off, in seconds since 1970.
    terms
        Makes the terms of the run from the situation at its beginning
        (`trimtab.purge.run.facts.terms_of`).
    remover
        Makes the remover, once the guards have nothing to object.
    restorer
        Makes a remover with a cut-off before all times, so that every file is too young for it.
        What an interrupted run had begun is recovered by this one: that deletes nothing, and may
        happen though a guard objects to the run.
    codes
        What the remover's codes mean, by code.
    journals
        Directory of the journals; those of several file systems may share it.
    version, host, who
        Of what made the run, for the journal.
    owner
        Whose the journals have to be.
    """

    id: str
    plan: PlanLine
    horizon_s: float
    terms: Callable[[Situation], Terms]
    remover: Callable[[], Remover]
    restorer: Callable[[], Remover]
    codes: Mapping[int, str]
    listing: Listing
    surroundings: Surroundings
    journals: Path
    version: str = ""
    host: str = ""
    who: str = ""
    owner: int = 0


def run(job: Job, *, apply: bool, progress: Callable[[Progress], None] | None = None) -> RunResult:
    """Carry a plan out, or go through it without deleting; return what it came to.

    Raises
    ------
    RefusedError
        Another run is at work on the file system, or the journals are not root's alone.
    RunInterrupted
        A signal came; the batch that was under way is journalled.
    DataError
        The journal or the candidates were changed or damaged.
    UnreadableError
        The journal cannot be written.
    ToolError
        The remover failed. The next run recovers its batch.
    """
    at = moment_of(job.surroundings.now_s())
    with interruptible(), opened(job.journals, job.plan, at=at, owner=job.owner) as journal:
        return Run(job, journal, apply, progress).carry_out()


class Run:
    """One run under way."""

    def __init__(
        self,
        job: Job,
        journal: Journal | SharedJournal,
        apply: bool,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.job, self.journal, self.apply, self.progress = job, journal, apply, progress
        self.objections: tuple[Objection, ...] = ()
        self.remover: Remover | None = None
        self.files = self.bytes = self.freed_bytes = self.recovered_rows = 0
        self.outcomes: Counter[str] = Counter()
        self.outcome_bytes: Counter[str] = Counter()
        self.users: set[int] = set()
        self.pace = RunPace()
        self.latency_s_p99: float | None = None
        self.unexplained: list[bytes] = []
        self.undone_rows = self.unsynced_rows = 0
        self.before: Usage | None = None
        self.after: Measured | None = None
        self.deleted_at_s: float | None = None
        self.unmeasured = ""
        self.state: State | None = None
        self.ended: Ended | None = None

    def carry_out(self) -> RunResult:
        """Return what the run came to."""
        job, standing = self.job, self.journal.standing
        now = self._situation()
        self.spent = now.spent
        kinds = guards.before_deleting() if self.apply else guards.before_dry_run()
        self.objections = guards.objections(now, kinds)
        with shielded():
            self.journal.write(self._begin_line(now))
        todo = standing.todo
        if not self.apply and standing.open_batch is not None:
            todo = joined((*todo, standing.open_batch.rows))
        state = begin(job.terms(now), todo, open_batch=standing.open_batch, spent=now.spent)
        with self._ended_whatever_happens(state):
            state, stop = self._loop(state, now)
        return self._result(state, stop)

    def _loop(self, state: State, now: Situation) -> tuple[State, Stop]:
        """Carry out instructions until one says stop, and journal why."""
        state, instruction = handle(state, Begun(now.now_s))
        held = guards.objections(now, guards.before_recovery())
        if isinstance(instruction, Recover):
            if held:
                return state, self._end(Stop(StopReason.REFUSED, _reasons(held), held))
            state, instruction = self._step(state, self._recover(instruction))
        if self.apply and not held:
            state = self.state = self._look_back(state)
        if self._is_refused():
            stop = Stop(StopReason.REFUSED, _reasons(self.objections), self.objections)
            return state, self._end(stop)
        while not isinstance(instruction, Stop):
            event = self._carried_out(instruction, state)
            state, instruction = self._step(state, event)
            if isinstance(event, Measured) and not isinstance(instruction, Wait):
                self._write_usage(event)
        return state, self._end(instruction)

    def _carried_out(
        self, instruction: Look | Measure | Delete | Recover | Wait, state: State
    ) -> Event:
        match instruction:
            case Look():
                return self._look(instruction)
            case Measure():
                return self._measure()
            case Delete():
                return self._delete(instruction)
            case Recover():
                return self._recover(instruction)
            case Wait():
                self._tell(state, instruction.reason)
                self.job.surroundings.wait(instruction.seconds)
                return Waited(self._now_s())

    def _step(self, state: State, event: Event) -> Step:
        state, instruction = handle(state, event)
        self.state, self.ended = state, None
        if isinstance(event, Ended):
            self._tell(state, "checking and deleting" if self.apply else "checking")
        return state, instruction

    def _is_refused(self) -> bool:
        """Whether guards hold the run back; a dry run only where there is nothing to look at."""
        return any(self.apply or objection.guard == "mount" for objection in self.objections)

    def _situation(self) -> Situation:
        now = self.job.surroundings.situation()
        since = moment_of(now.now_s - CAPS_WINDOW_S)
        return replace(now, spent=spent_since(self.job.journals, self.job.plan, since))

    def _look(self, instruction: Look) -> Looked:
        known = {objection.guard for objection in self.objections}
        now = self.job.surroundings.situation()
        objections = guards.objections(now, guards.before_batch())
        new = tuple(objection for objection in objections if objection.guard not in known)
        self.listed = self.job.listing.listed(instruction.rows)
        return Looked(self._now_s(), new, self.listed)

    def _measure(self) -> Measured:
        usage, in_flight = self.job.surroundings.measure()
        measured = Measured(self._now_s(), usage, in_flight)
        self.before = self.before or usage
        self.after = None if self.deleted_at_s is None else measured
        return measured

    def _measure_last(self) -> None:
        """Measure how full it is after the last deletion, if nobody has; no reason to fail."""
        if self.deleted_at_s is None or self.after is not None:
            return
        try:
            measured = self._measure()
        except (TrimtabError, OSError) as error:
            self.unmeasured = visible(str(getattr(error, "message", None) or error))
        else:
            self._write_usage(measured)

    def _delete(self, instruction: Delete) -> Ended:
        batch, remover = instruction.batch, self._remover()
        listed = self.listed.part(batch.rows)
        with shielded():
            if self.apply:
                at, size = moment_of(self._now_s()), listed.bytes_of(batch.taken())
                self.journal.write(BatchLine(self.job.id, at, batch.rows, batch.leave, size))
            ask = remover.delete if self.apply else remover.check
            return self._done(self._answered(batch, listed, ask))

    def _recover(self, instruction: Recover) -> Ended:
        batch = instruction.batch
        listed = self.job.listing.listed(batch.rows)
        with shielded():
            # Kept nowhere: it has the place to itself where files are moved aside.
            outcome = self._answered(batch, listed, self.job.restorer().recover, recovered=True)
            self.recovered_rows += batch.rows.count
            return self._done(outcome)

    def _look_back(self, state: State) -> State:
        """Put back what lies aside, and find what was deleted and is there: after a power cut.

        It deletes nothing, and happens whatever guards object to the run.
        """
        with shielded():
            restorer = self.job.restorer()
            _, waiting = restorer.sweep()
            self.unexplained = list(dict.fromkeys(waiting))
            undone: list[Rows] = []
            for unsettled in self.journal.standing.unsettled:
                present = [
                    part for rows in unsettled.rows for part in self._present(rows, restorer)
                ]
                if present:
                    self.journal.write(self._undone_line(unsettled.batch, joined(present)))
                    undone += present
            self.undone_rows = sum(rows.count for rows in undone)
            if self.journal.standing.unsettled:
                self._sync()
        return replace(state, todo=joined((*state.todo, *undone)))

    def _present(self, rows: Rows, restorer: Remover) -> Iterator[Rows]:
        """Yield the rows whose files are there, of those that were deleted."""
        for first in range(rows.first, rows.end, SYNC_ROWS):
            part = Rows(first, min(SYNC_ROWS, rows.end - first))
            names = _named(restorer.check(part.first, part.count), part, self.job.codes, False)
            for number, name in enumerate(names):
                if name not in ABSENT:
                    yield Rows(part.first + number, 1)

    def _undone_line(self, batch: Rows, rows: tuple[Rows, ...]) -> UndoneLine:
        by_user: dict[int, tuple[int, int]] = {}
        for part in rows:
            listed = self.job.listing.listed(part)
            for uid, size in zip(
                listed.uids.tolist(), listed.allocated_bytes.tolist(), strict=True
            ):
                files, total = by_user.get(uid, (0, 0))
                by_user[uid] = (files + 1, total + size)
        at = moment_of(self._now_s())
        files = sum(part.count for part in rows)
        size = sum(total for _, total in by_user.values())
        return UndoneLine(self.job.id, at, batch, rows, files, size, by_user)

    def _sync(self) -> None:
        """See to it that what was done outlasts a power cut, and journal that it does."""
        self.job.surroundings.sync()
        self.journal.write(SyncedLine(self.job.id, moment_of(self._now_s())))
        self.unsynced_rows = 0

    def _answered(
        self,
        batch: Batch,
        listed: Listed,
        ask: Callable[[int, int], RemovalBatch],
        *,
        recovered: bool = False,
    ) -> Outcome:
        names = [CAPPED] * batch.rows.count
        answers: list[RemovalBatch] = []
        latencies: list[tuple[int, float, float]] = []
        for rows in batch.taken():
            answer = ask(rows.first, rows.count)
            start = rows.first - batch.rows.first
            names[start : start + rows.count] = _named(answer, rows, self.job.codes, recovered)
            answers.append(answer)
            latencies.append((rows.count, answer.latency_s_median, answer.latency_s_p99))
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
            doubtful=self._doubtful(),
        )

    def _doubtful(self) -> tuple[Rows, ...]:
        """Return rows of which one that is gone counts as deleted; see `outcome_of`."""
        return ()

    def _done(self, outcome: Outcome) -> Ended:
        at_s = self._now_s()
        line = done_line(self.job.id, moment_of(at_s), outcome, apply=self.apply)
        self.journal.write(line)
        self._count(outcome, line)
        self.ended = Ended(at_s, outcome)
        return self.ended

    def _count(self, outcome: Outcome, line: DoneLine) -> None:
        """Add what was journalled to what the run came to."""
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
                self._sync()

    def _remover(self) -> Remover:
        if self.remover is None:
            self.remover = self.job.remover()
        return self.remover

    @contextlib.contextmanager
    def _ended_whatever_happens(self, state: State) -> Iterator[None]:
        """Journal the end of a run that an error or a signal ends; the error goes on.

        That of a signal says what the run had come to.
        """
        self.state = state
        try:
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            reason = StopReason.INTERRUPTED if stopped else StopReason.FAILED
            text = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
            with contextlib.suppress(TrimtabError), shielded():
                if self.unsynced_rows:
                    with contextlib.suppress(TrimtabError):
                        self._sync()
                    self.unsynced_rows = 0
                self._end(Stop(reason, str(text)))
            if isinstance(error, Interrupted):
                result = self._result(self._state_now(), Stop(reason, str(text)))
                raise RunInterrupted(error, result) from error
            raise

    def _state_now(self) -> State:
        """Return the state with the last batch: a signal may come between its end and the next."""
        assert self.state is not None
        return self.state if self.ended is None else handle(self.state, self.ended)[0]

    def _end(self, stop: Stop) -> Stop:
        if self.unsynced_rows:
            with shielded():
                self._sync()
        self._measure_last()
        at = moment_of(self._now_s())
        reasons = tuple(
            visible(f"{objection.guard}: {objection.reason}") for objection in stop.objections
        )
        aside = tuple(map(escape, self.unexplained))
        self.journal.write(
            EndLine(self.job.id, at, stop.reason.value, visible(stop.text), reasons, aside)
        )
        return stop

    def _begin_line(self, now: Situation) -> BeginLine:
        job = self.job
        return BeginLine(
            run=job.id,
            at=moment_of(now.now_s),
            apply=self.apply,
            horizon=moment_of(job.horizon_s),
            target_fullness=now.target,
            version=visible(job.version),
            host=visible(job.host),
            who=visible(job.who),
            objections=tuple(
                visible(f"{objection.guard}: {objection.reason}") for objection in self.objections
            ),
        )

    def _write_usage(self, event: Measured) -> None:
        usage, at = event.usage, moment_of(event.at_s)
        line = UsageLine(self.job.id, at, usage.used_bytes, usage.available_bytes, event.in_flight)
        with shielded():
            self.journal.write(line)

    def _tell(self, state: State, doing: str) -> None:
        if self.progress is not None:
            left = sum(rows.count for rows in state.todo)
            self.progress(
                Progress(
                    rows=self.job.plan.rows,
                    rows_left=left,
                    files=self.files,
                    freed_bytes=self.freed_bytes,
                    needed_bytes=state.needed_bytes,
                    doing=doing,
                    latency_s_p99=self.latency_s_p99,
                )
            )

    def _now_s(self) -> float:
        return self.job.surroundings.now_s()

    def _result(self, state: State, stop: Stop) -> RunResult:
        after, deleted_at_s = self.after, self.deleted_at_s
        return RunResult(
            id=self.job.id,
            apply=self.apply,
            reason=stop.reason,
            text=stop.text,
            objections=stop.objections or self.objections,
            files=self.files,
            bytes=self.bytes,
            freed_bytes=self.freed_bytes,
            outcomes=dict(self.outcomes),
            before=self.before,
            after=None if after is None else after.usage,
            after_s=None if after is None or deleted_at_s is None else after.at_s - deleted_at_s,
            in_flight=None if after is None else after.in_flight,
            unmeasured=self.unmeasured,
            rows_left=sum(rows.count for rows in state.todo),
            recovered_rows=self.recovered_rows,
            torn_bytes=self.journal.torn_bytes,
            unexplained=tuple(self.unexplained),
            journal=self.journal.path,
            undone_rows=self.undone_rows,
            users=len(self.users),
            pace=self.pace,
            outcome_bytes=dict(self.outcome_bytes),
        )


def _named(
    answer: RemovalBatch, rows: Rows, codes: Mapping[int, str], recovered: bool
) -> Sequence[str]:
    """Return the outcome of each row by its name."""
    if len(answer.outcomes) != rows.count:
        raise ToolError(
            f"the remover was given {rows.count} rows and accounts for {len(answer.outcomes)}",
            code="remover-contradictory",
            hint="nothing more is deleted; run again, and the batch is recovered",
        )
    names = {code: codes.get(code, "unknown") for code in set(answer.outcomes)}
    names = {code: NOT_BEGUN if n == TOO_LATE else n for code, n in names.items()}
    if recovered:
        # It is where it was, and too young for the restorer as every file is: it is done again.
        names = {code: NOT_BEGUN if n in INTACT else n for code, n in names.items()}
    return [names[code] for code in answer.outcomes]


def _reasons(objections: Sequence[Objection]) -> str:
    return "; ".join(objection.reason for objection in objections)


def moment_of(at_s: float) -> datetime:
    """Return a time of the journal."""
    return datetime.fromtimestamp(at_s, UTC)
