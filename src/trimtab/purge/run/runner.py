"""The shell of a run: carries out what `next_step` decides, alone or with other hosts.

::

    lock ─▶ guards ─▶ take over interrupted batches ─▶ look back ─▶

    read what others wrote ─▶ decide ─▶ claim rows ─▶ delete ─▶ journal what came of them ─┐
       ▲     │                              └ another line came first: decide again         │
       │     └ a batch is open for longer than the lease: take it over                      │
       └────────────────────────────────────────────────────────────────────────────────────┘

Before each decision the state takes over the progress of all hosts (`adopted`), which they share in
one journal. The resulting line is written only if no other line came in between, so caps and need
hold for all hosts together at every line of the journal. A host alone never waits, and finds no
lines of others.

A batch is shielded from signals: its outcome is journalled before the run ends. `kill -9` may come
at any point; the next run finds the unfinished batch and recovers it. Recovery deletes nothing:
files set aside are restored and stay until a later plan, since this changed their change time; rows
not begun are deleted with the others if guards allow it.

A host that was paused or disconnected and resumes cannot do harm: after its lease its remover takes
no more files; the run that takes over removes its removal directories (`Removal.take_over`), and
its own result of the batch is refused, upon which it ends as ``overtaken``. A host alone has no
lease: holding the lock of the file system shows that no other process is active.

After a power failure the file system may have lost deletions that the journal records. The root is
synchronised after every `trimtab.purge.run.run_account.SYNC_ROWS` rows and at the end of a run, and
this is journalled. The next run checks all deletions since, and looks for files set aside in the
whole plan.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Interrupted, TrimtabError
from trimtab.base.interruption import interruptible, shielded
from trimtab.purge.run import run_guard
from trimtab.purge.run.journal_line import ClaimLine, NeedLine, TakeoverLine, done_line
from trimtab.purge.run.next_step import (
    RunState,
    Step,
    accompanied,
    adopted,
    begin,
    handle,
    looking,
    settling,
)
from trimtab.purge.run.plan_progress import GRACE, BatchClaim, Unsettled
from trimtab.purge.run.rows import (
    BatchOutcome,
    ListedRows,
    RowBatch,
    Rows,
    Spent,
    counted,
    joined,
    row_count,
)
from trimtab.purge.run.run_account import RunAccount, RunInterrupted, RunJob, RunResult, moment_of
from trimtab.purge.run.run_journal import RunJournal, opened, spent_since
from trimtab.purge.run.situation import (
    Delete,
    Ended,
    Instruction,
    LookAtRows,
    LookedAtRows,
    Measure,
    RunProgress,
    Situation,
    Stop,
    StopReason,
    UsageMeasured,
    Wait,
    Waited,
)

if TYPE_CHECKING:
    from trimtab._core import Removal, RemovalBatch

_LOOK: Final = LookAtRows(Rows(0, 0))
"""Look at the next rows, whichever these are by then."""

_AT_ONCE: Final = frozenset({StopReason.OBJECTION, StopReason.OUT_OF_TIME})
"""Ends that do not wait for other hosts' open batches; the next run takes over lost ones."""


def boot_clock() -> float:
    """Return this host's uptime in seconds, including suspended time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a run shares a plan with other hosts; by default it is alone.

    Attributes
    ----------
    quarantines
        Returns the names of a run's own quarantine directories, if any, by its id.
    lease_s
        Duration of a claim in seconds, if not yet in the journal; 0: this host is alone.
    poll_s
        Interval of checking whether others are done, in seconds.
    """

    quarantines: Callable[[str], Sequence[str]] = lambda _run: ()
    lease_s: float = 0.0
    poll_s: float = 1.0
    clock: Callable[[], float] = boot_clock


_OVERTAKEN: Final = Stop(
    StopReason.OVERTAKEN,
    "another host took over the rows of this run, which did not report their outcome within its "
    "lease",
)


class _Overtaken(Exception):
    """The rows of this run now belong to another."""


def run(
    job: RunJob,
    *,
    apply: bool,
    sharing: Sharing | None = None,
    progress: Callable[[RunProgress], None] | None = None,
) -> RunResult:
    """Carry out a plan, or check it without deleting; return the result.

    If other hosts take part, ``job.journals`` is a directory shared by all.

    Raises
    ------
    RefusedError
        Another run is active on the file system, or others can write the journals.
    RunInterrupted
        A signal arrived; the current batch is journalled.
    DataError
        The journal or the candidates were changed or damaged.
    UnreadableError
        The journal cannot be written.
    ToolError
        The remover failed. The next run recovers its batch.
    """
    sharing = sharing or Sharing()
    at, lease_s = moment_of(job.surroundings.now_s()), sharing.lease_s if apply else None
    with (
        interruptible(),
        opened(job.journals, job.plan, at=at, lease_s=lease_s, owner=job.owner) as journal,
    ):
        return PurgeRun(job, journal, sharing, apply, progress).carry_out()


class PurgeRun(RunAccount):
    """One run in progress."""

    def __init__(
        self,
        job: RunJob,
        journal: RunJournal,
        sharing: Sharing,
        apply: bool,
        progress: Callable[[RunProgress], None] | None,
    ) -> None:
        super().__init__(job, journal, apply, progress)
        self.sharing = sharing
        self.lease_s = journal.shared.lease_s or 0.0
        self.remover: Removal | None = None
        self.by_others = Spent()
        self.seen: dict[tuple[str, int], float] = {}
        self.has_waited = False  # for other hosts, since the last measurement

    def carry_out(self) -> RunResult:
        """Carry out the run and return its result."""
        job, shared = self.job, self.journal.shared
        now = job.surroundings.situation()
        self.by_others = spent_since(job.journals, job.plan, shared.since, but=self.journal.path)
        now = replace(now, spent=self.by_others + shared.spent)
        kinds = run_guard.GUARDS if self.apply else run_guard.IN_DRY_RUN
        self.objections = run_guard.objections(now, kinds)
        self.write_begin(now)
        # A dry run claims nothing, and checks other hosts' open batches too.
        rows = (*shared.todo, *(claim.batch.rows for claim in shared.claims))
        self.state = begin(job.terms(now), rows, spent=now.spent)
        with self._ended_whatever_happens():
            try:
                stop = self._loop(now)
            except _Overtaken:
                stop = self.end(_OVERTAKEN)
        return self.result(self._adopted(self.state), stop)

    def _loop(self, now: Situation) -> Stop:
        """Carry out instructions until one is a stop, and journal the reason."""
        recovers = self.apply and not run_guard.objections(now, run_guard.TO_RECOVER)
        if recovers:
            while self._took_over():
                pass
            self._look_back()
        if any(self.apply or objection.guard == "mount" for objection in self.objections):
            if recovers:
                self._outlast()
            reasons = "; ".join(objection.reason for objection in self.objections)
            return self.end(Stop(StopReason.REFUSED, reasons, self.objections))
        self._outlast()  # users may have freed much since a lost host measured
        state, instruction = settling(self._adopted(self.state), self.now_s())
        if self._others():
            state, instruction = accompanied(state, now.now_s), Measure()
        while not isinstance(instruction, Stop):
            state, instruction = self._next(state, instruction)
        if instruction.reason not in _AT_ONCE:
            self._outlast()
        return self.end(instruction)

    def _next(self, state: RunState, instruction: Instruction) -> Step:
        """Carry out an instruction, unless a batch is taken over first; return the next step."""
        if self._took_over():
            # What the lost host freed may not show yet, and the need is from before.
            return settling(self._adopted(state), self.now_s())
        state = self._adopted(state)
        match instruction:
            case Measure():
                return self._measured(state)
            case Wait():
                self.tell(state, instruction.reason)
                self.job.surroundings.wait(instruction.seconds)
                return handle(state, Waited(self.now_s()))
            case _:
                return self._looked(state)

    def _looked(self, state: RunState) -> Step:
        """Choose rows and process them; the choice is void if others wrote in between."""
        if not state.todo or state.needed_bytes == 0:
            return self._bide(state) if self._others() else settling(state, self.now_s())
        if self.has_waited:
            return state, Measure()  # users may have freed what the returned rows were needed for
        state, instruction = handle(state, self._look(looking(state)))
        match instruction:
            case Delete():
                return self._dealt_with(state, instruction.batch)
            case Stop(reason=StopReason.FILES_CAP | StopReason.BYTES_CAP) if self._others():
                # Their claims count in full, but they may delete less.
                return self._bide(state)
            case _:
                return state, instruction

    def _look(self, instruction: LookAtRows) -> LookedAtRows:
        known = {objection.guard for objection in self.objections}
        now = self.job.surroundings.situation()
        objections = run_guard.objections(now, run_guard.EACH_BATCH)
        new = tuple(objection for objection in objections if objection.guard not in known)
        self.listed = self.job.listing.listed(instruction.rows)
        return LookedAtRows(self.now_s(), new, self.listed)

    def _bide(self, state: RunState) -> Step:
        self.tell(state, "waiting for other hosts")
        self.job.surroundings.wait(self.sharing.poll_s)
        self.has_waited = True
        return state, _LOOK

    def _dealt_with(self, state: RunState, batch: RowBatch) -> Step:
        listed = self.listed.part(batch.rows)
        with shielded():
            # Before the line is written: others count from when they see it.
            until_s = self.sharing.clock() + self.lease_s if self.lease_s else None
            if self.apply and not self.journal.offer(self._claim_line(batch, listed)):
                return state, _LOOK
            remover = self.remover = self.remover or self.job.remover()

            def delete(first: int, count: int) -> RemovalBatch:
                return remover.delete(first, count, until_s)

            outcome = self.answered(batch, listed, delete if self.apply else remover.check)
            self.unwatched |= self.apply and remover.watches is False
            self.state, instruction = handle(state, self._done(outcome))
        self.tell(self.state, "checking and deleting" if self.apply else "checking")
        return self.state, instruction

    def _claim_line(self, batch: RowBatch, listed: ListedRows) -> ClaimLine:
        totals, at = counted(map(listed.part, batch.taken())), moment_of(self.now_s())
        return ClaimLine(self.job.id, at, batch.rows, batch.leave, *totals)

    def _done(self, outcome: BatchOutcome) -> Ended:
        at_s = self.now_s()
        line = done_line(self.job.id, moment_of(at_s), outcome, apply=self.apply)
        while True:
            claim = self.journal.shared.claim_of(self.job.id)
            if self.apply and (claim is None or claim.batch.rows != outcome.batch.rows):
                raise _Overtaken
            if self.journal.offer(line):
                break
        self.count(outcome, line)
        return Ended(at_s, outcome)

    def _measured(self, state: RunState) -> Step:
        """Measure, and commit the need unless others began or ended batches in between."""
        now_s = self.now_s()
        if state.settling_since_s is not None and self._others():
            if state.needed_bytes and state.todo:
                return accompanied(state, now_s), _LOOK
            self._bide(state)
            return settling(state, self.now_s())
        before, settled = self.journal.shared.batches_number, state.settling_since_s is not None
        event = self.measure()
        self.has_waited = False
        self.journal.refresh()
        while not settled or self.journal.shared.batches_number == before:
            after, instruction = handle(self._adopted(state), event)
            if isinstance(instruction, Wait):
                return after, instruction
            if not self.apply:
                self.write_usage(event)
                break
            if self._others() and _only_claims(instruction, event, after):
                return self._bide(state)
            with shielded():
                is_written = self.journal.offer(self._need_line(state, after, event))
            if is_written:
                break
        else:
            return settling(state, self.now_s())
        is_exhausted = isinstance(instruction, Stop) and instruction.reason is StopReason.EXHAUSTED
        # Others may return rows.
        return self._bide(after) if is_exhausted and self._others() else (after, instruction)

    def _need_line(self, before: RunState, after: RunState, event: UsageMeasured) -> NeedLine:
        usage, needed = event.usage, after.needed_bytes
        target, reserved = after.terms.target_fullness, self.journal.shared.reserved.bytes
        if needed is not None and target is not None and reserved:
            # Open batches may free less than they hold: what they return adds no more than is used.
            excess = usage.excess_bytes(target)
            needed = min(excess, needed + reserved)
        return NeedLine(
            run=self.job.id,
            at=moment_of(event.at_s),
            used_bytes=usage.used_bytes,
            available_bytes=usage.available_bytes,
            in_flight=event.in_flight,
            needed_bytes=needed,
            first=before.measured_at_s == -math.inf,
        )

    def _others(self) -> tuple[BatchClaim, ...]:
        """Return the open batches of other runs; a dry run ignores them."""
        claims = self.journal.shared.claims if self.apply else ()
        return tuple(claim for claim in claims if claim.run != self.job.id)

    def _took_over(self) -> bool:
        """Take over a batch left open for too long; return whether there was one."""
        self.journal.refresh()
        known = {(claim.run, claim.number): claim for claim in self._others()}
        now_s = self.sharing.clock()
        self.seen = {token: self.seen.get(token, now_s) for token in known}
        lost = (
            known[token]
            for token, since_s in self.seen.items()
            if now_s - since_s >= self.lease_s * GRACE
        )
        claim = next(lost, None)
        if claim is None:
            return False
        at = moment_of(self.now_s())
        with shielded():
            if self.journal.offer(TakeoverLine(self.job.id, at, claim.run, claim.batch.rows)):
                self._recover_from(claim)
        return True

    def _recover_from(self, claim: BatchClaim) -> None:
        batch, restorer = claim.batch, self.job.restorer()
        names = [name for run in claim.runs for name in self.sharing.quarantines(run)]

        def take_over(first: int, count: int) -> RemovalBatch:
            if not names:
                return restorer.recover(first, count)
            return restorer.take_over(first, count, names)

        listed = self.job.listing.listed(batch.rows)
        self._done(self.answered(batch, listed, take_over, recovered=True))
        self.recovered_rows += batch.rows.count

    def _outlast(self) -> None:
        """Wait until each batch open now has ended or is taken over, without deleting.

        Files set aside by a lost host must not stay there because the plan has expired.
        """
        self.journal.refresh()
        first = {claim.number for claim in self._others()}
        while first & {claim.number for claim in self._others()}:
            if not self._took_over():
                self.tell(self.state, "waiting for other hosts")
                self.job.surroundings.wait(self.sharing.poll_s)

    def _look_back(self) -> None:
        """Restore files set aside, and find deleted files that exist again after a power failure.

        It deletes nothing, and happens regardless of the guards' objections to the run.
        """
        with shielded():
            restorer = self.job.restorer()
            _, waiting = restorer.sweep()
            self.unexplained = list(dict.fromkeys(waiting))
            known: dict[Unsettled, tuple[Rows, ...]] = {}
            while not self._undone(restorer, known):
                pass
            if known and not self.lease_s:
                self.sync()

    def _undone(self, restorer: Removal, known: dict[Unsettled, tuple[Rows, ...]]) -> bool:
        """Journal rows whose files exist again, batch by batch.

        Return whether no one else wrote.
        """
        self.journal.refresh()
        # If it has more lines than were read, the offer is refused and everything is repeated.
        for unsettled in self.journal.standing.unsettled:
            if unsettled not in known:
                parts = (part for rows in unsettled.rows for part in self.present(rows, restorer))
                known[unsettled] = joined(parts)
            if present := known[unsettled]:
                if not self.journal.offer(self.undone_line(unsettled.batch, present)):
                    return False
                self.undone_rows += row_count(present)
        return True

    def _adopted(self, state: RunState) -> RunState:
        """Return the state with the progress of all hosts; a dry run uses only its own."""
        if not self.apply:
            return state
        return adopted(state, self.journal.shared, spent=self.by_others)

    @contextlib.contextmanager
    def _ended_whatever_happens(self) -> Iterator[None]:
        """Journal the end of a run that an error or a signal ends, and re-raise it.

        For a signal the exception has the result of the run.
        """
        try:
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            reason = StopReason.INTERRUPTED if stopped else StopReason.FAILED
            text = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
            stop = Stop(reason, str(text))
            with contextlib.suppress(TrimtabError), shielded():
                if self.unsynced_rows:
                    with contextlib.suppress(TrimtabError):
                        self.sync()
                    self.unsynced_rows = 0
                self.end(stop)
            if isinstance(error, Interrupted):
                raise RunInterrupted(error, self.result(self._adopted(self.state), stop)) from error
            raise


def _only_claims(instruction: Instruction, event: UsageMeasured, state: RunState) -> bool:
    """Whether the need is 0 only because others are expected to free the rest."""
    target = state.terms.target_fullness
    is_enough = isinstance(instruction, Stop) and instruction.reason is StopReason.TARGET
    return is_enough and target is not None and event.usage.excess_bytes(target) > 0
