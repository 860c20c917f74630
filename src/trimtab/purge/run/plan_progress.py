"""Determine the progress of a plan that several hosts carry out, from their journal alone. Pure.

::

    plan                              which plan; its hash says which file a row is
    shared                            the duration of a claim
    begin A · begin B                 a run of each host
    need 40 GiB                       measured while no host was deleting
    claim A rows 0..999               the batch is A's: its files, bytes and users count against the
    claim B rows 1000..1999           caps and the need of all, as listed
    done  A rows 0..999               now the actual outcome counts
    takeover C of B rows 1000..1999   B was silent for longer than the lease
    done  C rows 1000..1999 recovered

A host appends a line only after reading all before it (`trimtab.store.chain`). A batch is
therefore chosen in view of all claims, and concurrent choices cannot exceed a cap.

A run alone is the special case of one host: claims hold while it has the lock, and the next holder
takes over at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from trimtab.base.error import DataError
from trimtab.purge.run.journal_line import (
    Chronicle,
    ClaimLine,
    DoneLine,
    Line,
    NeedLine,
    PlanLine,
    ReleasedLine,
    SharedLine,
    SyncedLine,
    TakeoverLine,
    UndoneLine,
)
from trimtab.purge.run.rows import (
    CAPPED,
    DELETED,
    NOT_BEGUN,
    NOT_KNOWN,
    RowBatch,
    Rows,
    Spent,
    fates_of,
    joined,
    row_count,
    rows_with,
    without,
)

GRACE: Final = 1.25
"""Number of leases after which rows are taken over, because clocks of two hosts may drift."""


@dataclass(frozen=True, slots=True)
class BatchClaim:
    """An open batch of a run.

    Attributes
    ----------
    number
        Line number of the claim or takeover: the fencing token.
    runs
        All runs that had it, including the last; they may have set files aside.
    at
        Since when the last run has it.
    """

    run: str
    batch: RowBatch
    reserved: Spent
    number: int
    runs: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class Shared:
    """Progress of all hosts together.

    Attributes
    ----------
    since
        Earlier deletions do not count against the caps.
    number
        Number of lines read.
    plan, lease_s
        ``None`` if not yet in the journal. For a lease of 0 see `SharedLine`.
    todo
        Rows not yet claimed or processed.
    doubtful
        Rows returned when their batch was taken over. A removal of the former host may still have
        been in progress, so such a row that is found gone counts as deleted.
    spent
        Deletions of ended batches.
    need_bytes
        Need at the last measurement less bytes freed since, without those that open batches will
        free.
    needed_first_bytes, used_first_bytes, freed_bytes
        Need and usage at the first measurement, and bytes freed since.
    batches_number
        Number of the last line that began or ended a batch.
    """

    since: datetime
    number: int = 0
    plan: PlanLine | None = None
    lease_s: float | None = None
    todo: tuple[Rows, ...] = ()
    claims: tuple[BatchClaim, ...] = ()
    doubtful: tuple[Rows, ...] = ()
    spent: Spent = field(default_factory=Spent)
    need_bytes: int | None = None
    needed_first_bytes: int | None = None
    used_first_bytes: int = 0
    freed_bytes: int = 0
    batches_number: int = 0

    @property
    def reserved(self) -> Spent:
        """Upper bound of the deletions of open batches."""
        return sum((claim.reserved for claim in self.claims), Spent())

    @property
    def needed_bytes(self) -> int | None:
        """Bytes still to free that are in no open batch; ``None`` if unknown."""
        if self.need_bytes is None:
            return None
        return max(0, self.need_bytes - self.reserved.bytes)

    def claim_of(self, run: str) -> BatchClaim | None:
        """Return the open batch of a run; ``None`` if it has none, or lost it."""
        return next((claim for claim in self.claims if claim.run == run), None)


def advanced(shared: Shared, lines: Iterable[Line]) -> Shared:
    """Return the progress after more lines.

    Raises
    ------
    DataError
        Lines are contradictory: a row processed twice, or a batch ended by a run that does not have
        it.
    """
    for line in lines:
        shared = _after(replace(shared, number=shared.number + 1), line)
    return shared


def _after(shared: Shared, line: Line) -> Shared:
    match line:
        case PlanLine():
            return replace(shared, plan=line, todo=(Rows(0, line.rows),) if line.rows else ())
        case SharedLine():
            return replace(shared, lease_s=line.lease_s)
        case ClaimLine():
            return _claimed(shared, line)
        case TakeoverLine():
            return _taken_over(shared, line)
        case DoneLine(apply=True):
            return _done(shared, line)
        case ReleasedLine():
            return _released(shared, line)
        case UndoneLine():
            return replace(shared, todo=joined((*shared.todo, *line.rows)))
        case NeedLine():
            return _needed(shared, line)
        case _:
            return shared


def _claimed(shared: Shared, line: ClaimLine) -> Shared:
    if shared.claim_of(line.run) is not None or (shared.claims and not shared.lease_s):
        raise _contradiction(shared, "a batch is claimed before the previous one has ended")
    todo = without(shared.todo, line.rows)
    if row_count(todo) != row_count(shared.todo) - line.rows.count:
        raise _contradiction(shared, "claimed rows are not free")
    batch = RowBatch(line.rows, line.leave)
    claim = BatchClaim(line.run, batch, line.reserved, shared.number, (line.run,), line.at)
    number = shared.number
    return replace(shared, todo=todo, claims=(*shared.claims, claim), batches_number=number)


def _taken_over(shared: Shared, line: TakeoverLine) -> Shared:
    claim = shared.claim_of(line.of)
    if claim is None or claim.batch.rows != line.rows:
        raise _contradiction(shared, "a batch is taken over from a run that does not have it")
    if shared.claim_of(line.run) is not None:
        raise _contradiction(shared, "a run takes over a batch but already has one")
    runs = (*claim.runs, line.run)
    taken = replace(claim, run=line.run, number=shared.number, runs=runs, at=line.at)
    claims = tuple(taken if other is claim else other for other in shared.claims)
    return replace(shared, claims=claims, batches_number=shared.number)


def _done(shared: Shared, line: DoneLine) -> Shared:
    claim = shared.claim_of(line.run)
    if claim is None or claim.batch.rows != line.rows:
        raise _contradiction(shared, "a batch is ended by a run that does not have it")
    if sum(count for _, count in line.outcomes) != line.rows.count:
        raise _contradiction(shared, "a batch lacks the outcome of some rows")
    again = tuple(rows_with(line.rows, line.outcomes, NOT_BEGUN))
    doubtful = shared.doubtful
    if not line.recovered:
        doubtful = without(doubtful, line.rows)
    need = shared.need_bytes
    return replace(
        shared,
        todo=joined((*shared.todo, *again)),
        claims=tuple(other for other in shared.claims if other is not claim),
        doubtful=joined((*doubtful, *(again if line.recovered and shared.lease_s else ()))),
        spent=shared.spent + line.spent if line.at >= shared.since else shared.spent,
        need_bytes=None if need is None else max(0, need - line.lessens_bytes),
        freed_bytes=shared.freed_bytes + line.freed_bytes,
        batches_number=shared.number,
    )


def _released(shared: Shared, line: ReleasedLine) -> Shared:
    claims = tuple(claim for claim in shared.claims if claim.batch.rows != line.rows)
    if len(claims) == len(shared.claims):
        raise _contradiction(shared, "a released batch is not open")
    spent = shared.spent + line.spent if line.at >= shared.since else shared.spent
    return replace(shared, claims=claims, spent=spent, batches_number=shared.number)


def _needed(shared: Shared, line: NeedLine) -> Shared:
    needed = line.needed_bytes
    shared = replace(shared, need_bytes=needed)
    if not line.first:
        return shared
    first, used = needed, line.used_bytes
    return replace(shared, needed_first_bytes=first, used_first_bytes=used, freed_bytes=0)


def _contradiction(shared: Shared, message: str) -> DataError:
    return DataError(message, code="journal-contradictory", line=shared.number)


_NEVER: Final = datetime.max.replace(tzinfo=UTC)
"""After all times of a journal, so that nothing counts against caps."""
_CLOCK_DIFFERENCE: Final = timedelta(minutes=5)
"""Possible clock difference of two hosts that no run compares."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Deleted rows of a batch that may exist again after a power failure.

    Attributes
    ----------
    run
        Run whose host must synchronise them; with a single host any run may.
    """

    batch: Rows
    rows: tuple[Rows, ...]
    run: str


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """Progress of a plan.

    Attributes
    ----------
    todo
        Rows not yet claimed or processed, in order.
    fates
        Outcomes of processed rows, in the order of processing.
    unsettled
        Deleted rows not known to be on stable storage, by batch.
    claims, lease_s
        Open batches, some of whose files may be gone, and the duration of a claim in seconds; 0:
        while a run holds the lock.
    """

    todo: tuple[Rows, ...]
    fates: tuple[tuple[Rows, str], ...] = ()
    unsettled: tuple[Unsettled, ...] = ()
    claims: tuple[BatchClaim, ...] = ()
    lease_s: float = 0.0

    def releases(self, at: datetime, who: str) -> Iterator[ReleasedLine]:
        """Yield the lines that end the open batches."""
        for claim in self.claims:
            reserved = claim.reserved
            yield ReleasedLine(at, claim.batch.rows, reserved.files, reserved.bytes, who)

    @property
    def held_until(self) -> datetime | None:
        """Time after which no host can still be working on open batches.

        ``None`` if none are shared.
        """
        if not self.lease_s:
            return None
        lease = timedelta(seconds=self.lease_s * GRACE) + _CLOCK_DIFFERENCE
        return max((claim.at + lease for claim in self.claims), default=None)

    @property
    def open_rows(self) -> int:
        """Number of rows in open batches."""
        return row_count(claim.batch.rows for claim in self.claims)


def replay(chronicle: Chronicle) -> PlanProgress:
    """Return the progress of a plan from its journal.

    Raises
    ------
    DataError
        Lines are contradictory: a batch processed twice, or ended without a beginning.
    """
    shared = Shared(since=_NEVER)
    fates: list[tuple[Rows, str]] = []
    unsettled: list[Unsettled] = []
    for line in (*filter(None, (chronicle.plan,)), *chronicle.lines):
        claims, shared = shared.claims, advanced(shared, (line,))
        match line:
            case DoneLine(apply=True):
                known = fates_of(line.rows, line.outcomes)
                fates += (fate for fate in known if fate[1] != NOT_BEGUN)
                if deleted := tuple(rows_with(line.rows, line.outcomes, DELETED)):
                    unsettled.append(Unsettled(line.rows, deleted, line.run))
            case ReleasedLine():
                (batch,) = (claim.batch for claim in claims if claim.batch.rows == line.rows)
                fates += ((rows, NOT_KNOWN) for rows in batch.taken())
                fates += ((rows, CAPPED) for rows in batch.leave)
            case SyncedLine():
                # Deletions of another host reach the disk separately.
                others = [known for known in unsettled if known.run != line.run]
                unsettled = others if shared.lease_s else []
            case UndoneLine():
                unsettled = _without_undone(line, unsettled, shared.number)
                fates = [
                    (rest, outcome)
                    for rows, outcome in fates
                    for rest in without((rows,), *line.rows)
                ]
    lease_s = shared.lease_s or 0.0
    return PlanProgress(shared.todo, tuple(fates), tuple(unsettled), shared.claims, lease_s)


def _without_undone(line: UndoneLine, unsettled: list[Unsettled], number: int) -> list[Unsettled]:
    """Return the rows still unsettled; raise if undone rows were not deleted."""
    for place, known in enumerate(unsettled):
        rest = without(known.rows, *line.rows)
        count = row_count(known.rows) - row_count(rest)
        if known.batch == line.batch and count == row_count(line.rows):
            remaining = [replace(known, rows=joined(rest))] if rest else []
            return [*unsettled[:place], *remaining, *unsettled[place + 1 :]]
    raise DataError("undone rows were not deleted", code="journal-contradictory", line=number)
