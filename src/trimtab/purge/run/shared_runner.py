"""The shell of a run that is one of several hosts' at once, by one plan and one journal.

::

    read what others wrote ─▶ decide ─▶ claim rows ─▶ delete ─▶ journal what came of them ─┐
       ▲     │                              └ another line came first: decide anew          │
       │     └ a batch is open for longer than the lease: take it over                      │
       └────────────────────────────────────────────────────────────────────────────────────┘

`decide` is the same as of a run alone: before each decision its state is given what all hosts
together have done (`adopted`). What follows from it is written only if nobody wrote meanwhile, so
caps and need hold for all together at every line of the journal.

A host that was stopped or cut off and lives on cannot do harm: from its lease on its remover takes
no file; who takes over removes the directories in which it removes files (`Removal.take_over`), and
its own account of the batch is refused. It finds that out there, and ends as ``overtaken``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from trimtab.launch.interruption import interruptible, shielded
from trimtab.purge.run import guards
from trimtab.purge.run.decide import (
    State,
    Step,
    accompanied,
    adopted,
    begin,
    handle,
    looking,
    settling,
)
from trimtab.purge.run.journal import SharedJournal, opened_shared, spent_since
from trimtab.purge.run.messages import (
    Begun,
    Delete,
    Ended,
    Instruction,
    Look,
    Measure,
    Measured,
    Progress,
    Stop,
    StopReason,
    Wait,
    Waited,
)
from trimtab.purge.run.protocols import RemovalBatch, Remover
from trimtab.purge.run.records import ClaimLine, NeedLine, TakeoverLine, done_line
from trimtab.purge.run.result import RunResult
from trimtab.purge.run.runner import Job, Run, moment_of
from trimtab.purge.run.shared import GRACE, Claim
from trimtab.purge.run.situation import Situation
from trimtab.purge.run.standing import Unsettled
from trimtab.purge.run.state import (
    CAPPED,
    CAPS_WINDOW_S,
    DELETED,
    Batch,
    Listed,
    Outcome,
    Rows,
    Spent,
    joined,
    outcome_of,
)

_LOOK: Final = Look(Rows(0, 0))
"""Look at what comes next, whatever that is by then."""

_AT_ONCE: Final = frozenset({StopReason.OBJECTION, StopReason.OUT_OF_TIME})
"""Ends that do not wait for what others have open; the next run takes over what is lost."""


class SharedRemover(Remover, Protocol):
    """What deletes rows beside other hosts: ``trimtab._core.Removal``."""

    def delete(self, first: int, count: int, until_s: float | None = None, /) -> RemovalBatch:
        """Check some rows and delete those that may go, none after a moment of `boot_clock`."""
        ...

    def take_over(self, first: int, count: int, quarantines: Sequence[str], /) -> RemovalBatch:
        """See that runs delete nothing any more, and say what became of their rows.

        Asked of a remover for which nothing may go.
        """
        ...


def boot_clock() -> float:
    """Return for how long this host is up, in seconds, also while it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a run shares a plan with runs of other hosts.

    Attributes
    ----------
    quarantines
        The names of the directories where a run, given by its id, has files aside.
    lease_s
        How long a claim holds, if the journal does not say so yet.
    poll_s
        How long it waits before it looks whether others are done.
    """

    quarantines: Callable[[str], Sequence[str]]
    lease_s: float = 300.0
    poll_s: float = 1.0
    clock: Callable[[], float] = boot_clock


class _Overtaken(Exception):
    """The rows of this run belong to another by now."""


def run_shared(
    job: Job, sharing: Sharing, *, progress: Callable[[Progress], None] | None = None
) -> RunResult:
    """Carry a plan out beside runs of other hosts; return what this one came to.

    ``job.journals`` is a directory that all hosts have in common; its removers are `SharedRemover`.

    Raises
    ------
    RefusedError
        One host alone is at work on the file system, or the journals are not root's alone.
    RunInterrupted
        A signal came; the batch that was under way is journalled.
    DataError
        The journal or the candidates were changed or damaged.
    UnreadableError
        The journal cannot be written.
    ToolError
        The remover failed. Its batch is taken over.
    """
    now_s = job.surroundings.now_s()
    at, since = moment_of(now_s), moment_of(now_s - CAPS_WINDOW_S)
    with (
        interruptible(),
        opened_shared(
            job.journals, job.plan, at=at, since=since, lease_s=sharing.lease_s, owner=job.owner
        ) as journal,
    ):
        return SharedRun(job, journal, sharing, progress).carry_out()


class SharedRun(Run):
    """One run of several that are under way."""

    journal: SharedJournal  # pyrefly: ignore[bad-override-mutable-attribute]

    def __init__(
        self,
        job: Job,
        journal: SharedJournal,
        sharing: Sharing,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        super().__init__(job, journal, True, progress)
        self.sharing = sharing
        self.by_others = Spent()
        self.seen: dict[tuple[str, int], float] = {}

    def carry_out(self) -> RunResult:
        """Return what the run came to."""
        job = self.job
        now = self._situation()
        since = self.journal.shared.since
        self.by_others = spent_since(job.journals, job.plan, since, but=self.journal.path)
        self.objections = guards.objections(now, guards.before_deleting())
        with shielded():
            self.journal.write(self._begin_line(now))
        state = self._adopted(begin(job.terms(now), ()))
        with self._ended_whatever_happens(state):
            try:
                state, stop = self._loop(state, now)
            except _Overtaken:
                stop = self._end(_overtaken())
        return self._result(self._adopted(state), stop)

    def _loop(self, state: State, now: Situation) -> tuple[State, Stop]:
        held = guards.objections(now, guards.before_recovery())
        if not held:
            self._look_back_together()
        if self.objections:
            if not held:
                self._outlast()
            reasons = "; ".join(objection.reason for objection in self.objections)
            return state, self._end(Stop(StopReason.REFUSED, reasons, self.objections))
        state, instruction = handle(self._adopted(state), Begun(now.now_s))
        if self._others():
            state, instruction = accompanied(state, now.now_s), Measure()
        while not isinstance(instruction, Stop):
            state, instruction = self._next(state, instruction)
        if instruction.reason not in _AT_ONCE:
            self._outlast()
        return state, self._end(instruction)

    def _next(self, state: State, instruction: Instruction) -> Step:
        """Return the state and the instruction after one was carried out, or another came first."""
        if self._took_over():
            return state, instruction
        state = self._adopted(state)
        match instruction:
            case Measure():
                return self._measured(state)
            case Wait():
                self._tell(state, instruction.reason)
                self.job.surroundings.wait(instruction.seconds)
                if state.settling_since_s is None:
                    return state, _LOOK
                return handle(state, Waited(self._now_s()))
            case _:
                return self._looked(state)

    def _looked(self, state: State) -> Step:
        """Choose rows and deal with them; the choice is void where others wrote meanwhile."""
        if not state.todo or state.needed_bytes == 0:
            return self._bide(state) if self._others() else settling(state, self._now_s())
        state, instruction = handle(state, self._look(looking(state)))
        match instruction:
            case Delete():
                return self._dealt_with(state, instruction.batch)
            case Stop(reason=StopReason.FILES_CAP | StopReason.BYTES_CAP) if self._others():
                # What they have claimed counts, and they may delete less.
                return self._bide(state)
            case _:
                return state, instruction

    def _bide(self, state: State) -> Step:
        self._tell(state, "waiting for other hosts")
        self.job.surroundings.wait(self.sharing.poll_s)
        return state, _LOOK

    def _dealt_with(self, state: State, batch: Batch) -> Step:
        listed = self.listed.part(batch.rows)
        with shielded():
            # Before the line: others count from when they see it.
            until_s = self.sharing.clock() + self._lease_s
            if not self.journal.offer(self._claim_line(batch, listed)):
                return state, _LOOK
            remover = cast("SharedRemover", self._remover())

            def delete(first: int, count: int) -> RemovalBatch:
                return remover.delete(first, count, until_s)

            return handle(state, self._done(self._answered(batch, listed, delete)))

    def _claim_line(self, batch: Batch, listed: Listed) -> ClaimLine:
        taken = outcome_of(batch, listed, _all_deleted(batch), freed_bytes=0, elapsed_s=0.0)
        at = moment_of(self._now_s())
        return ClaimLine(
            self.job.id, at, batch.rows, batch.leave, taken.files, taken.bytes, dict(taken.by_user)
        )

    def _done(self, outcome: Outcome) -> Ended:
        at_s = self._now_s()
        line = done_line(self.job.id, moment_of(at_s), outcome, apply=True)
        while True:
            claim = self.journal.shared.claim_of(self.job.id)
            if claim is None or claim.batch.rows != outcome.batch.rows:
                raise _Overtaken
            if self.journal.offer(line):
                break
        self._count(outcome, line)
        return Ended(at_s, outcome)

    def _doubtful(self) -> tuple[Rows, ...]:
        return self.journal.shared.doubtful

    def _measured(self, state: State) -> Step:
        """Measure, and commit what is needed unless others began or ended batches meanwhile."""
        now_s = self._now_s()
        if state.settling_since_s is not None and self._others():
            if state.needed_bytes and state.todo:
                return accompanied(state, now_s), _LOOK
            self._bide(state)
            return settling(state, self._now_s())
        before, settled = self.journal.shared.batches_number, state.settling_since_s is not None
        event = self._measure()
        self.journal.refresh()
        while not settled or self.journal.shared.batches_number == before:
            after, instruction = handle(self._adopted(state), event)
            if isinstance(instruction, Wait):
                return after, instruction
            if self._others() and _only_claims(instruction, event, after):
                return self._bide(state)
            if self.journal.offer(self._need_line(state, after, event)):
                break
        else:
            return settling(state, self._now_s())
        is_exhausted = isinstance(instruction, Stop) and instruction.reason is StopReason.EXHAUSTED
        # Others may give rows back.
        return self._bide(after) if is_exhausted and self._others() else (after, instruction)

    def _need_line(self, before: State, after: State, event: Measured) -> NeedLine:
        usage, needed = event.usage, after.needed_bytes
        target, reserved = after.terms.target_fullness, self.journal.shared.reserved.bytes
        if needed is not None and target is not None and reserved:
            # What open batches are about to free is in the excess still.
            needed = min(needed, max(0, usage.excess_bytes(target) - reserved))
        return NeedLine(
            run=self.job.id,
            at=moment_of(event.at_s),
            used_bytes=usage.used_bytes,
            available_bytes=usage.available_bytes,
            in_flight=event.in_flight,
            needed_bytes=needed,
            first=before.measured_at_s == -math.inf,
        )

    def _others(self) -> tuple[Claim, ...]:
        """Return the batches that other runs have open."""
        return tuple(c for c in self.journal.shared.claims if c.run != self.job.id)

    def _took_over(self) -> bool:
        """Return whether a batch that a run has left open for too long was taken over."""
        self.journal.refresh()
        others, now_s = self._others(), self.sharing.clock()
        known = {(claim.run, claim.number): claim for claim in others}
        self.seen = {token: self.seen.get(token, now_s) for token in known}
        lost = (
            known[token]
            for token, since_s in self.seen.items()
            if now_s - since_s > self._lease_s * GRACE
        )
        claim = next(lost, None)
        if claim is None:
            return False
        at = moment_of(self._now_s())
        with shielded():
            if self.journal.offer(TakeoverLine(self.job.id, at, claim.run, claim.batch.rows)):
                self._recover_from(claim)
        return True

    def _recover_from(self, claim: Claim) -> None:
        batch, rows = claim.batch, claim.batch.rows
        listed = self.job.listing.listed(rows)
        restorer = cast("SharedRemover", self.job.restorer())
        names = [name for run in claim.runs for name in self.sharing.quarantines(run)]

        def take_over(first: int, count: int) -> RemovalBatch:
            return restorer.take_over(first, count, names)

        # All rows at once: what is aside may be of any of them.
        whole = self._answered(Batch(rows), listed, take_over, recovered=True)
        outcome = _with_left(whole, batch, listed)
        self._done(outcome)
        self.recovered_rows += rows.count

    def _outlast(self) -> None:
        """Wait until each batch that is open now has ended or is taken over: nothing is deleted.

        What a lost host had aside must not stay there because the plan has expired.
        """
        self.journal.refresh()
        first = {claim.number for claim in self._others()}
        while first & {claim.number for claim in self._others()}:
            if not self._took_over():
                self.job.surroundings.wait(self.sharing.poll_s)

    def _look_back_together(self) -> None:
        """Find what was deleted and is there again after a power cut; nothing is deleted."""
        with shielded():
            restorer = self.job.restorer()
            known: dict[Unsettled, tuple[Rows, ...]] = {}
            undone = True
            while undone:
                undone = self._undo_one(restorer, known)

    def _undo_one(self, restorer: Remover, known: dict[Unsettled, tuple[Rows, ...]]) -> bool:
        """Journal one batch of which files are there again; return whether there may be more."""
        self.journal.refresh()
        # If it has more lines than were read, the offer is refused and all begins anew.
        for unsettled in self.journal.standing.unsettled:
            if unsettled not in known:
                parts = (part for rows in unsettled.rows for part in self._present(rows, restorer))
                known[unsettled] = joined(parts)
            if present := known[unsettled]:
                if self.journal.offer(self._undone_line(unsettled.batch, present)):
                    self.undone_rows += sum(rows.count for rows in present)
                return True
        return False

    def _state_now(self) -> State:
        assert self.state is not None
        return self._adopted(self.state)

    def _adopted(self, state: State) -> State:
        return adopted(state, self.journal.shared, spent=self.by_others)

    @property
    def _lease_s(self) -> float:
        return self.journal.shared.lease_s or self.sharing.lease_s


def _only_claims(instruction: Instruction, event: Measured, state: State) -> bool:
    """Whether nothing is needed only because others are about to free it, if all goes well."""
    target = state.terms.target_fullness
    is_enough = isinstance(instruction, Stop) and instruction.reason is StopReason.TARGET
    return is_enough and target is not None and event.usage.excess_bytes(target) > 0


def _overtaken() -> Stop:
    return Stop(
        StopReason.OVERTAKEN,
        "another host took the rows of this run over: it had not said for longer than its lease "
        "what became of them",
    )


def _all_deleted(batch: Batch) -> list[str]:
    names = [CAPPED] * batch.rows.count
    for rows in batch.taken():
        start = rows.first - batch.rows.first
        names[start : start + rows.count] = [DELETED] * rows.count
    return names


def _with_left(whole: Outcome, batch: Batch, listed: Listed) -> Outcome:
    """Return the outcome of a batch whose rows were all asked for, also those left alone."""
    names = [name for name, count in whole.outcomes for _ in range(count)]
    for left in batch.leave:
        start = left.first - batch.rows.first
        names[start : start + left.count] = [CAPPED] * left.count
    return outcome_of(
        batch,
        listed,
        names,
        freed_bytes=whole.freed_bytes,
        elapsed_s=whole.elapsed_s,
        recovered=True,
    )
