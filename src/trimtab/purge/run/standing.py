"""How far a plan is, from the lines of its journal: pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from trimtab.errors import DataError
from trimtab.purge.run.records import (
    BatchLine,
    BeginLine,
    Chronicle,
    DoneLine,
    EndLine,
    ReleasedLine,
    SharedLine,
    SyncedLine,
    UndoneLine,
)
from trimtab.purge.run.shared import GRACE, Claim, Shared, advanced
from trimtab.purge.run.state import (
    CAPPED,
    DELETED,
    NOT_BEGUN,
    NOT_KNOWN,
    Batch,
    Rows,
    joined,
    rows_with,
    without,
)

EVER: Final = datetime.min.replace(tzinfo=UTC)
"""Before everything that a journal says."""
_CLOCK_DIFFERENCE: Final = timedelta(minutes=5)
"""By how much the clocks of two hosts may differ where no run compares them."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Rows of a batch that were deleted and may be there again after a power cut.

    Attributes
    ----------
    run
        Whose host has to say that they are on stable storage; where one host deletes, any run does.
    """

    batch: Rows
    rows: tuple[Rows, ...]
    run: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a plan is.

    Attributes
    ----------
    todo
        Rows that no run has dealt with, in order; those of ``open_batch`` are not among them.
    open_batch
        A batch that was begun and not ended: some of its files may be gone.
    open_bytes
        What it lists.
    fates
        What became of the rows that were dealt with, in the order in which that happened.
    unended
        The run that began and did not say that it ended; ``None``: every run did.
    unsettled
        What was deleted and is not known to be on stable storage: the stretches of each batch.
    claims, lease_s
        Where several hosts carry the plan out: every batch that was begun and not ended, and for
        how long one holds.
    """

    todo: tuple[Rows, ...]
    open_batch: Batch | None = None
    open_bytes: int = 0
    fates: tuple[tuple[Rows, str], ...] = ()
    unended: str | None = None
    unsettled: tuple[Unsettled, ...] = ()
    claims: tuple[Claim, ...] = ()
    lease_s: float = 0.0

    def releases(self, at: datetime, who: str) -> Iterator[ReleasedLine]:
        """Yield the lines that end the batches that no run did."""
        if (batch := self.open_batch) is not None:
            files = sum(rows.count for rows in batch.taken())
            yield ReleasedLine(at, batch.rows, files, self.open_bytes, who)
        for claim in self.claims:
            reserved = claim.reserved
            yield ReleasedLine(at, claim.batch.rows, reserved.files, reserved.bytes, who)

    @property
    def held_until(self) -> datetime | None:
        """When no host can be at work any more on what several have begun; ``None``: nothing is."""
        lease = timedelta(seconds=self.lease_s * GRACE) + _CLOCK_DIFFERENCE
        return max((claim.at + lease for claim in self.claims), default=None)

    @property
    def open_rows(self) -> int:
        """How many rows are in batches that were begun and not ended."""
        batches = [claim.batch for claim in self.claims]
        batches += [] if self.open_batch is None else [self.open_batch]
        return sum(batch.rows.count for batch in batches)

    def fate(self, row: int) -> str | None:
        """Return what became of a row; ``None``: nothing yet."""
        return next((outcome for rows, outcome in self.fates if row in rows), None)


def replay(chronicle: Chronicle) -> Standing:
    """Return how far a plan is, from its journal.

    Raises
    ------
    DataError
        Lines do not fit together: a batch that was dealt with twice, or ended without a beginning.
    """
    if any(isinstance(line, SharedLine) for line in chronicle.lines[:1]):
        return _replay_shared(chronicle)
    plan = chronicle.plan
    todo: tuple[Rows, ...] = (Rows(0, plan.rows),) if plan and plan.rows else ()
    open_batch: Batch | None = None
    open_bytes = 0
    fates: list[tuple[Rows, str]] = []
    unended: str | None = None
    unsettled: list[Unsettled] = []
    for number, line in enumerate(chronicle.lines, start=2):
        match line:
            case BeginLine() | EndLine():
                unended = line.run if isinstance(line, BeginLine) else None
            case BatchLine():
                _check_begun(line, todo, open_batch, number)
                open_batch, open_bytes = Batch(line.rows, line.leave), line.bytes
                todo = without(todo, line.rows)
            case DoneLine(apply=True):
                _check_done(line, open_batch, number)
                open_batch = None
                again = tuple(rows_with(line.rows, line.outcomes, NOT_BEGUN))
                todo = joined((*todo, *again)) if again else todo
                fates += _fates(line)
                if deleted := tuple(rows_with(line.rows, line.outcomes, DELETED)):
                    unsettled.append(Unsettled(line.rows, deleted))
            case ReleasedLine():
                fates += _released(line, open_batch, number)
                open_batch = None
            case SyncedLine():
                unsettled = []
            case UndoneLine():
                unsettled = _without_undone(line, unsettled, number)
                fates = [fate for pair in fates for fate in _without_fates(pair, line.rows)]
                todo = joined((*todo, *line.rows))
    return Standing(todo, open_batch, open_bytes, tuple(fates), unended, tuple(unsettled))


def _replay_shared(chronicle: Chronicle) -> Standing:
    plan = () if chronicle.plan is None else (chronicle.plan,)
    shared = advanced(Shared(EVER), (*plan, *chronicle.lines))
    fates: list[tuple[Rows, str]] = []
    unsettled: list[Unsettled] = []
    for number, line in enumerate(chronicle.lines, start=2):
        match line:
            case DoneLine(apply=True):
                fates += _fates(line)
                if deleted := tuple(rows_with(line.rows, line.outcomes, DELETED)):
                    unsettled.append(Unsettled(line.rows, deleted, line.run))
            case ReleasedLine():
                fates.append((line.rows, NOT_KNOWN))
            case SyncedLine():
                # What another host did is on its way to the disk by itself.
                unsettled = [known for known in unsettled if known.run != line.run]
            case UndoneLine():
                unsettled = _without_undone(line, unsettled, number)
                fates = [fate for pair in fates for fate in _without_fates(pair, line.rows)]
    return Standing(
        shared.todo,
        fates=tuple(fates),
        unsettled=tuple(unsettled),
        claims=shared.claims,
        lease_s=shared.lease_s or 0.0,
    )


def _check_begun(
    line: BatchLine, todo: tuple[Rows, ...], open_batch: Batch | None, number: int
) -> None:
    if open_batch is not None:
        raise DataError(
            "a batch begins before the one before it has ended",
            code="journal-contradictory",
            line=number,
        )
    if sum(rows.count for rows in without(todo, line.rows)) != sum(rows.count for rows in todo) - (
        line.rows.count
    ):
        raise DataError(
            "a batch has rows that were dealt with before",
            code="journal-contradictory",
            line=number,
        )


def _check_done(line: DoneLine, open_batch: Batch | None, number: int) -> None:
    if open_batch is None or open_batch.rows != line.rows:
        raise DataError(
            "a batch ends that was not begun", code="journal-contradictory", line=number
        )
    if sum(count for _, count in line.outcomes) != line.rows.count:
        raise DataError(
            "a batch does not say of every row what became of it",
            code="journal-contradictory",
            line=number,
        )


def _released(
    line: ReleasedLine, open_batch: Batch | None, number: int
) -> Iterator[tuple[Rows, str]]:
    if open_batch is None or open_batch.rows != line.rows:
        raise DataError(
            "a batch is released that was not begun", code="journal-contradictory", line=number
        )
    yield from ((rows, NOT_KNOWN) for rows in open_batch.taken())
    yield from ((rows, CAPPED) for rows in open_batch.leave)


def _without_undone(line: UndoneLine, unsettled: list[Unsettled], number: int) -> list[Unsettled]:
    """Return what is still unsettled; raise where rows are undone that were not deleted."""
    for place, known in enumerate(unsettled):
        rest = known.rows
        for rows in line.rows:
            rest = without(rest, rows)
        count = sum(rows.count for rows in known.rows) - sum(rows.count for rows in rest)
        if known.batch == line.batch and count == sum(rows.count for rows in line.rows):
            remaining = [replace(known, rows=joined(rest))] if rest else []
            return [*unsettled[:place], *remaining, *unsettled[place + 1 :]]
    raise DataError(
        "rows are undone that were not deleted", code="journal-contradictory", line=number
    )


def _without_fates(fate: tuple[Rows, str], undone: tuple[Rows, ...]) -> list[tuple[Rows, str]]:
    rest: tuple[Rows, ...] = (fate[0],)
    for rows in undone:
        rest = without(rest, rows)
    return [(rows, fate[1]) for rows in rest]


def _fates(line: DoneLine) -> Iterator[tuple[Rows, str]]:
    first = line.rows.first
    for outcome, count in line.outcomes:
        if outcome != NOT_BEGUN:
            yield Rows(first, count), outcome
        first += count
