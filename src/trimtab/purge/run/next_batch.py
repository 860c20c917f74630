"""Choose the next batch of a run: its rows, and their number from the latency of deletions. Pure.

Rows are taken oldest first, within the caps, and no more than needed.

A busy metadata server responds slowly to everyone, so the latency of the deletions themselves shows
when to slow down. As in TCP's window (Chiu and Jain, "Analysis of the increase and decrease
algorithms for congestion avoidance", 1989): the batch grows by a constant while latency is fine,
and halves as soon as it is not, which is fair to others that do the same and does not oscillate
upwards. After a batch of minimum size comes a pause that doubles, and that every good batch halves.

One late row does not mean a slow file system: the 99th percentile of 16 rows is their maximum, so
one late row in a thousand would keep batches small for ever. Rows are therefore judged a hundred at
a time, or a second's worth if they are slower, and never by a single late row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UsageError
from trimtab.purge.run.rows import Allowance, BatchOutcome, ListedRows, RowBatch, Rows, Spent
from trimtab.purge.run.situation import StopReason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PaceLimits:
    """Limits of the pace.

    Attributes
    ----------
    rows_min, rows_max, rows_step
        Minimum and maximum rows of a batch, and the increase after a good one.
    latency_s_max
        Maximum 99th percentile latency of a deletion.
    batch_s_max
        Maximum duration of a batch, estimated from the previous one: the interval between checks of
        the kill switch.
    pause_s_step, pause_s_max
        First and longest pause.
    """

    rows_min: int = 16
    rows_max: int = 1000
    rows_step: int = 100
    latency_s_max: float = 0.05
    batch_s_max: float = 2.0
    pause_s_step: float = 0.25
    pause_s_max: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.rows_min <= self.rows_max or self.rows_step < 1:
            raise UsageError(
                f"batches of {self.rows_min} to {self.rows_max} rows are impossible",
                code="value-out-of-range",
            )
        if not (self.latency_s_max > 0 and self.batch_s_max > 0):
            raise UsageError(
                "the latency and the duration of a batch must be greater than 0",
                code="value-out-of-range",
            )
        if not 0 < self.pause_s_step <= self.pause_s_max:
            raise UsageError(
                "a pause must be greater than 0, and its step no larger", code="value-out-of-range"
            )


JUDGED_ROWS: Final = 100
JUDGED_S: Final = 1.0
"""Rows are judged once there are this many, or after this time in seconds."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Rows since the last judgement, from one or several batches.

    Attributes
    ----------
    late_rows
        Rows certainly late: quantiles of a batch give a lower bound.
    """

    rows: int = 0
    late_rows: int = 0
    elapsed_s: float = 0.0

    def is_late(self) -> bool | None:
        """Return whether more than one row in a hundred is late; ``None`` if there are too few."""
        if self.rows < JUDGED_ROWS and (self.elapsed_s < JUDGED_S or self.late_rows == 1):
            return None
        return self.late_rows > max(1.0, self.rows / 100)


@dataclass(frozen=True, slots=True)
class Pace:
    """Number of rows in the next batch, and the pause before it."""

    rows: int
    pause_s: float = 0.0
    unjudged: Unjudged = field(default_factory=Unjudged)


def first_pace(limits: PaceLimits) -> Pace:
    """Return the cautious pace of a first batch: a hundredth of the maximum."""
    return Pace(max(limits.rows_min, limits.rows_max // 100))


def next_pace(pace: Pace, limits: PaceLimits, outcome: BatchOutcome) -> Pace:
    """Return the pace after a batch.

    A batch without file system operations (all rows left alone) changes nothing. One that took too
    long although its rows were not late only shortens the next.
    """
    if outcome.latency_s_p99 is None:
        return pace
    late_rows = outcome.late_rows(limits.latency_s_max)
    before = pace.unjudged
    unjudged = Unjudged(
        before.rows + outcome.asked_rows,
        before.late_rows + late_rows,
        before.elapsed_s + outcome.elapsed_s,
    )
    late = unjudged.is_late()
    pace = replace(pace, unjudged=unjudged if late is None else Unjudged())
    if late:
        return _slower(pace, limits)
    if outcome.elapsed_s > limits.batch_s_max:
        return replace(pace, rows=max(limits.rows_min, pace.rows // 2))
    return pace if late_rows else _faster(pace, limits)


def _faster(pace: Pace, limits: PaceLimits) -> Pace:
    if pace.pause_s:
        pause_s = pace.pause_s / 2
        return replace(pace, pause_s=pause_s if pause_s >= limits.pause_s_step else 0.0)
    return replace(pace, rows=min(limits.rows_max, pace.rows + limits.rows_step))


def _slower(pace: Pace, limits: PaceLimits) -> Pace:
    rows = max(limits.rows_min, pace.rows // 2)
    if rows < pace.rows:
        return replace(pace, rows=rows)
    pause_s = max(limits.pause_s_step, 2 * pace.pause_s)
    return replace(pace, pause_s=min(limits.pause_s_max, pause_s))


@dataclass(frozen=True, slots=True)
class Choice:
    """Decision on the next rows.

    Attributes
    ----------
    batch
        Next batch; ``None`` if a cap of the whole run is reached.
    capped
        That cap.
    stopped_users
        Users of whom no more is deleted in this run.
    """

    batch: RowBatch | None
    stopped_users: frozenset[int]
    capped: StopReason | None = None


def choose(
    listed: ListedRows,
    *,
    spent: Spent,
    allowance: Allowance,
    stopped_users: frozenset[int] = frozenset(),
    needed_bytes: int | None = None,
) -> Choice:
    """Return the next batch: as many rows as may and must be deleted.

    A user's cap stops that user's rows, not the run: the rest of the plan is still needed, and one
    user with much old data must not block the others. A cap of the run stops it. A single file
    larger than the run's cap is skipped, or nothing after it would ever be deleted.

    Parameters
    ----------
    listed
        The next rows, at least one.
    needed_bytes
        The batch ends with the row that reaches it, by the plan's sizes; ``None`` for no limit.

    Notes
    -----
    Whether a row is taken depends only on earlier rows, so all rows are judged first and cut
    afterwards.
    """
    import numpy as np

    sizes = _summable(listed.allocated_bytes)
    leave = np.zeros(len(sizes), bool)
    if allowance.bytes is not None:
        leave |= sizes > allowance.bytes
    stopped_at = dict(_stop_users(listed.uids, sizes, leave, (spent, allowance, stopped_users)))
    count, capped = _cut(np.where(leave, 0, sizes), ~leave, (spent, allowance), needed_bytes)
    now_stopped = stopped_users | {uid for uid, row in stopped_at.items() if row < count}
    if not count:
        return Choice(None, stopped_users, capped)
    rows = Rows(listed.rows.first, count)
    return Choice(RowBatch(rows, tuple(_marked(rows.first, leave[:count]))), now_stopped)


def _summable(sizes: NDArray[np.uint64]) -> NDArray:
    """Return the sizes in a type that no sum overflows, so a wrong size cannot bypass a cap."""
    if len(sizes) and int(sizes.max()) > (1 << 62) // len(sizes):
        return sizes.astype(object)
    return sizes.astype("int64")


def _stop_users(
    uids: NDArray[np.uint32],
    sizes: NDArray,
    leave: NDArray[np.bool_],
    limits: tuple[Spent, Allowance, frozenset[int]],
) -> Iterator[tuple[int, int]]:
    """Mark the rows held by users' caps in ``leave``; yield users who reach one, and the row."""
    import numpy as np

    spent, allowance, stopped_users = limits
    if allowance.user_fraction is None:
        return
    present, place = np.unique(uids, return_inverse=True)
    sums = np.zeros(len(present), sizes.dtype)
    np.add.at(sums, place, np.where(leave, 0, sizes))
    for number, uid in enumerate(present.tolist()):
        before, most = spent.by_user.get(uid, 0), allowance.of_user(uid)
        if uid in stopped_users:
            leave[place == number] = True
        elif most is not None and before + int(sums[number]) > most:
            rows = np.flatnonzero((place == number) & ~leave)
            over = before + np.cumsum(sizes[rows]) > most
            if not before:
                over[0] = False  # a single file larger than the share would be retained for ever
            if over.any():
                first = int(np.argmax(over))
                leave[rows[first:]] = True
                yield uid, int(rows[first])


def _cut(
    sizes: NDArray,
    taken: NDArray[np.bool_],
    limits: tuple[Spent, Allowance],
    needed_bytes: int | None,
) -> tuple[int, StopReason | None]:
    """Return the number of rows in the batch, and the cap of the run that ends it."""
    import numpy as np

    spent, allowance = limits
    count, capped = len(sizes), None
    total = np.cumsum(sizes)
    if needed_bytes is not None and int(total[-1]) >= needed_bytes:
        count = int(np.argmax(total >= needed_bytes)) + 1
    for most, gone, sums, reason in (
        (allowance.files, spent.files, np.cumsum(taken), StopReason.FILES_CAP),
        (allowance.bytes, spent.bytes, total, StopReason.BYTES_CAP),
    ):
        over = taken & (sums + gone > most) if most is not None else np.zeros(1, bool)
        if over.any() and int(np.argmax(over)) < count:
            count, capped = int(np.argmax(over)), reason
    return count, capped


def _marked(first: int, marks: NDArray[np.bool_]) -> Iterator[Rows]:
    """Yield the ranges of marked rows."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate(([False], marks, [False])).astype("int8")))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield Rows(first + start, end - start)
