"""Choose the next rows to delete: the oldest first, within the caps, no more than needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.purge.run.messages import StopReason
from trimtab.purge.run.state import Allowance, Batch, Listed, Rows, Spent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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

    batch: Batch | None
    stopped_users: frozenset[int]
    capped: StopReason | None = None


def choose(
    listed: Listed,
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
    return Choice(Batch(rows, tuple(_marked(rows.first, leave[:count]))), now_stopped)


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
