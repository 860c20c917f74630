"""The shell of a run: carries out what `decide` says, beside other hosts or alone, by one journal.

::

    lock ─▶ guards ─▶ take over what was interrupted ─▶ look back ─▶

    read what others wrote ─▶ decide ─▶ claim rows ─▶ delete ─▶ journal what came of them ─┐
       ▲     │                              └ another line came first: decide anew          │
       │     └ a batch is open for longer than the lease: take it over                      │
       └────────────────────────────────────────────────────────────────────────────────────┘

Before each decision the state is given what all hosts together have done (`adopted`). What follows
from it is written only if nobody wrote meanwhile, so caps and need hold for all together at every
line of the journal. Who is alone has nobody to wait for, and finds nothing that others wrote.

A batch is shielded from signals: whatever arrives, its outcome is journalled before the run ends.
`kill -9` may come anywhere; the next run finds the batch that has no end and recovers it. That
deletes nothing: what was moved aside is put back and stays until a later plan, since that moved its
change time; what was not begun goes with the others if guards let it.

A host that was stopped or cut off and lives on cannot do harm: from its lease on its remover takes
no file; who takes over removes the directories in which it removes files (`Removal.take_over`), and
its own account of the batch is refused. It finds that out there, and ends as ``overtaken``. A host
alone has no lease: who has the lock of the file system knows that no process had it since.

A power cut can come as well: then the file system may have lost what the journal knows. The root is
synchronised after every `SYNC_ROWS` rows and when a run ends, and journalled then. Whatever was
deleted since is looked for by the next run, and so is what lies aside, by the whole plan.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trimtab.errors import Interrupted, TrimtabError
from trimtab.launch.interruption import interruptible, shielded
from trimtab.purge.run import guards
from trimtab.purge.run.account import Account, Job, moment_of
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
from trimtab.purge.run.journal import Journal, opened, spent_since
from trimtab.purge.run.messages import (
    Delete,
    Ended,
    Instruction,
    Look,
    Looked,
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
from trimtab.purge.run.result import RunInterrupted, RunResult
from trimtab.purge.run.shared import GRACE, Claim
from trimtab.purge.run.situation import Situation
from trimtab.purge.run.standing import Unsettled
from trimtab.purge.run.state import (
    Batch,
    Listed,
    Outcome,
    Rows,
    Spent,
    counted,
    joined,
    row_count,
)

_LOOK: Final = Look(Rows(0, 0))
"""Look at what comes next, whatever that is by then."""

_AT_ONCE: Final = frozenset({StopReason.OBJECTION, StopReason.OUT_OF_TIME})
"""Ends that do not wait for what others have open; the next run takes over what is lost."""


def boot_clock() -> float:
    """Return for how long this host is up, in seconds, also while it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a run shares a plan with runs of other hosts; by default it is alone.

    Attributes
    ----------
    quarantines
        The names of the directories where a run, given by its id, has files aside, if it has its
        own.
    lease_s
        How long a claim holds, if the journal does not say so yet; 0: this host is alone.
    poll_s
        How long it waits before it looks whether others are done.
    """

    quarantines: Callable[[str], Sequence[str]] = lambda _run: ()
    lease_s: float = 0.0
    poll_s: float = 1.0
    clock: Callable[[], float] = boot_clock


_OVERTAKEN: Final = Stop(
    StopReason.OVERTAKEN,
    "another host took the rows of this run over: it had not said for longer than its lease what "
    "became of them",
)


class _Overtaken(Exception):
    """The rows of this run belong to another by now."""


def run(
    job: Job,
    *,
    apply: bool,
    sharing: Sharing | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Carry a plan out, or go through it without deleting; return what it came to.

    Where other hosts do too, ``job.journals`` is a directory that all have in common.

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
    sharing = sharing or Sharing()
    at, lease_s = moment_of(job.surroundings.now_s()), sharing.lease_s if apply else None
    with (
        interruptible(),
        opened(job.journals, job.plan, at=at, lease_s=lease_s, owner=job.owner) as journal,
    ):
        return Run(job, journal, sharing, apply, progress).carry_out()


class Run(Account):
    """One run under way."""

    def __init__(
        self,
        job: Job,
        journal: Journal,
        sharing: Sharing,
        apply: bool,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        super().__init__(job, journal, apply, progress)
        self.sharing = sharing
        self.lease_s = journal.shared.lease_s or 0.0
        self.remover: Remover | None = None
        self.by_others = Spent()
        self.seen: dict[tuple[str, int], float] = {}

    def carry_out(self) -> RunResult:
        """Return what the run came to."""
        job, shared = self.job, self.journal.shared
        now = job.surroundings.situation()
        self.by_others = spent_since(job.journals, job.plan, shared.since, but=self.journal.path)
        now = replace(now, spent=self.by_others + shared.spent)
        kinds = guards.GUARDS if self.apply else guards.IN_DRY_RUN
        self.objections = guards.objections(now, kinds)
        self.write_begin(now)
        # A dry run claims nothing, and looks at what others have open too.
        rows = (*shared.todo, *(claim.batch.rows for claim in shared.claims))
        self.state = begin(job.terms(now), rows, spent=now.spent)
        with self._ended_whatever_happens():
            try:
                stop = self._loop(now)
            except _Overtaken:
                stop = self.end(_OVERTAKEN)
        return self.result(self._adopted(self.state), stop)

    def _loop(self, now: Situation) -> Stop:
        """Carry out instructions until one says stop, and journal why."""
        recovers = self.apply and not guards.objections(now, guards.TO_RECOVER)
        if recovers:
            while self._took_over():
                pass
            self._look_back()
        if any(self.apply or objection.guard == "mount" for objection in self.objections):
            if recovers:
                self._outlast()
            reasons = "; ".join(objection.reason for objection in self.objections)
            return self.end(Stop(StopReason.REFUSED, reasons, self.objections))
        state, instruction = settling(self._adopted(self.state), self.now_s())
        if self._others():
            state, instruction = accompanied(state, now.now_s), Measure()
        while not isinstance(instruction, Stop):
            state, instruction = self._next(state, instruction)
        if instruction.reason not in _AT_ONCE:
            self._outlast()
        return self.end(instruction)

    def _next(self, state: State, instruction: Instruction) -> Step:
        """Return the state and the instruction after one was carried out, or another came first."""
        if self._took_over():
            return state, instruction
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

    def _looked(self, state: State) -> Step:
        """Choose rows and deal with them; the choice is void where others wrote meanwhile."""
        if not state.todo or state.needed_bytes == 0:
            return self._bide(state) if self._others() else settling(state, self.now_s())
        state, instruction = handle(state, self._look(looking(state)))
        match instruction:
            case Delete():
                return self._dealt_with(state, instruction.batch)
            case Stop(reason=StopReason.FILES_CAP | StopReason.BYTES_CAP) if self._others():
                # What they have claimed counts, and they may delete less.
                return self._bide(state)
            case _:
                return state, instruction

    def _look(self, instruction: Look) -> Looked:
        known = {objection.guard for objection in self.objections}
        now = self.job.surroundings.situation()
        objections = guards.objections(now, guards.EACH_BATCH)
        new = tuple(objection for objection in objections if objection.guard not in known)
        self.listed = self.job.listing.listed(instruction.rows)
        return Looked(self.now_s(), new, self.listed)

    def _bide(self, state: State) -> Step:
        self.tell(state, "waiting for other hosts")
        self.job.surroundings.wait(self.sharing.poll_s)
        return state, _LOOK

    def _dealt_with(self, state: State, batch: Batch) -> Step:
        listed = self.listed.part(batch.rows)
        with shielded():
            # Before the line: others count from when they see it.
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

    def _claim_line(self, batch: Batch, listed: Listed) -> ClaimLine:
        totals, at = counted(map(listed.part, batch.taken())), moment_of(self.now_s())
        return ClaimLine(self.job.id, at, batch.rows, batch.leave, *totals)

    def _done(self, outcome: Outcome) -> Ended:
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

    def _measured(self, state: State) -> Step:
        """Measure, and commit what is needed unless others began or ended batches meanwhile."""
        now_s = self.now_s()
        if state.settling_since_s is not None and self._others():
            if state.needed_bytes and state.todo:
                return accompanied(state, now_s), _LOOK
            self._bide(state)
            return settling(state, self.now_s())
        before, settled = self.journal.shared.batches_number, state.settling_since_s is not None
        event = self.measure()
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
        """Return the batches that other runs have open; a dry run minds none."""
        claims = self.journal.shared.claims if self.apply else ()
        return tuple(claim for claim in claims if claim.run != self.job.id)

    def _took_over(self) -> bool:
        """Return whether a batch that a run has left open for too long was taken over."""
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

    def _recover_from(self, claim: Claim) -> None:
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
        """Wait until each batch that is open now has ended or is taken over: nothing is deleted.

        What a lost host had aside must not stay there because the plan has expired.
        """
        self.journal.refresh()
        first = {claim.number for claim in self._others()}
        while first & {claim.number for claim in self._others()}:
            if not self._took_over():
                self.job.surroundings.wait(self.sharing.poll_s)

    def _look_back(self) -> None:
        """Put back what lies aside, and find what was deleted and is there: after a power cut.

        It deletes nothing, and happens whatever guards object to the run.
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

    def _undone(self, restorer: Remover, known: dict[Unsettled, tuple[Rows, ...]]) -> bool:
        """Journal what is there again, batch by batch; return whether nobody wrote meanwhile."""
        self.journal.refresh()
        # If it has more lines than were read, the offer is refused and all begins anew.
        for unsettled in self.journal.standing.unsettled:
            if unsettled not in known:
                parts = (part for rows in unsettled.rows for part in self.present(rows, restorer))
                known[unsettled] = joined(parts)
            if present := known[unsettled]:
                if not self.journal.offer(self.undone_line(unsettled.batch, present)):
                    return False
                self.undone_rows += row_count(present)
        return True

    def _adopted(self, state: State) -> State:
        """Return the state with what all have done; a dry run has what it went through alone."""
        if not self.apply:
            return state
        return adopted(state, self.journal.shared, spent=self.by_others)

    @contextlib.contextmanager
    def _ended_whatever_happens(self) -> Iterator[None]:
        """Journal the end of a run that an error or a signal ends; the error goes on.

        That of a signal says what the run had come to.
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


def _only_claims(instruction: Instruction, event: Measured, state: State) -> bool:
    """Whether nothing is needed only because others are about to free it, if all goes well."""
    target = state.terms.target_fullness
    is_enough = isinstance(instruction, Stop) and instruction.reason is StopReason.TARGET
    return is_enough and target is not None and event.usage.excess_bytes(target) > 0
