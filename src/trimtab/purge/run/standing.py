"""Determine the progress of a plan from its journal. Pure."""

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
class Standing:
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
    claims: tuple[Claim, ...] = ()
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


def replay(chronicle: Chronicle) -> Standing:
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
    return Standing(shared.todo, tuple(fates), tuple(unsettled), shared.claims, lease_s)


def _without_undone(line: UndoneLine, unsettled: list[Unsettled], number: int) -> list[Unsettled]:
    """Return the rows still unsettled; raise if undone rows were not deleted."""
    for place, known in enumerate(unsettled):
        rest = without(known.rows, *line.rows)
        count = row_count(known.rows) - row_count(rest)
        if known.batch == line.batch and count == row_count(line.rows):
            remaining = [replace(known, rows=joined(rest))] if rest else []
            return [*unsettled[:place], *remaining, *unsettled[place + 1 :]]
    raise DataError("undone rows were not deleted", code="journal-contradictory", line=number)
