"""How far a plan is, from the lines of its journal: pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from trimtab.errors import DataError
from trimtab.purge.run.records import (
    Chronicle,
    DoneLine,
    ReleasedLine,
    SyncedLine,
    UndoneLine,
)
from trimtab.purge.run.shared import GRACE, Claim, Shared, advanced
from trimtab.purge.run.state import (
    CAPPED,
    DELETED,
    NOT_BEGUN,
    NOT_KNOWN,
    Rows,
    fates_of,
    joined,
    row_count,
    rows_with,
    without,
)

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
"""After everything that a journal says: nothing counts against caps."""
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
    run: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a plan is.

    Attributes
    ----------
    todo
        Rows that no run has claimed or dealt with, in order.
    fates
        What became of the rows that were dealt with, in the order in which that happened.
    unsettled
        What was deleted and is not known to be on stable storage: the stretches of each batch.
    claims, lease_s
        Every batch that was begun and not ended: some of its files may be gone. For how long one
        holds; 0: while a run has the lock.
    """

    todo: tuple[Rows, ...]
    fates: tuple[tuple[Rows, str], ...] = ()
    unsettled: tuple[Unsettled, ...] = ()
    claims: tuple[Claim, ...] = ()
    lease_s: float = 0.0

    def releases(self, at: datetime, who: str) -> Iterator[ReleasedLine]:
        """Yield the lines that end the batches that no run did."""
        for claim in self.claims:
            reserved = claim.reserved
            yield ReleasedLine(at, claim.batch.rows, reserved.files, reserved.bytes, who)

    @property
    def held_until(self) -> datetime | None:
        """When no host can be at work any more on what several have begun; ``None``: nothing is."""
        if not self.lease_s:
            return None
        lease = timedelta(seconds=self.lease_s * GRACE) + _CLOCK_DIFFERENCE
        return max((claim.at + lease for claim in self.claims), default=None)

    @property
    def open_rows(self) -> int:
        """How many rows are in batches that were begun and not ended."""
        return row_count(claim.batch.rows for claim in self.claims)


def replay(chronicle: Chronicle) -> Standing:
    """Return how far a plan is, from its journal.

    Raises
    ------
    DataError
        Lines do not fit together: a batch that was dealt with twice, or ended without a beginning.
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
                # What another host did is on its way to the disk by itself.
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
    return Standing(shared.todo, tuple(fates), tuple(unsettled), shared.claims, lease_s)


def _without_undone(line: UndoneLine, unsettled: list[Unsettled], number: int) -> list[Unsettled]:
    """Return what is still unsettled; raise where rows are undone that were not deleted."""
    for place, known in enumerate(unsettled):
        rest = without(known.rows, *line.rows)
        count = row_count(known.rows) - row_count(rest)
        if known.batch == line.batch and count == row_count(line.rows):
            remaining = [replace(known, rows=joined(rest))] if rest else []
            return [*unsettled[:place], *remaining, *unsettled[place + 1 :]]
    raise DataError(
        "rows are undone that were not deleted", code="journal-contradictory", line=number
    )
