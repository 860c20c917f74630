"""Which of the coming rows are taken: the oldest first, within the caps, no more than is needed."""

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
    """What to do with the coming rows.

    Attributes
    ----------
    batch
        ``None``: none of them can be dealt with, since a cap of the whole run is reached.
    capped
        Which one.
    stopped_users
        Users of whom nothing more goes in this run.
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
    """Return the batch that comes next: as many of the rows as may and have to go.

    A user's cap stops that user's rows and not the run: the rest of the plan is still needed, and
    one user with much old data must not keep everybody's from going. A cap of the run stops it.
    A single file that is larger than all that a run may delete is passed over, or nothing behind it
    would ever go.

    Parameters
    ----------
    listed
        The coming rows, at least one.
    needed_bytes
        The batch ends with the row that reaches it, as the plan lists sizes; ``None``: no end.

    Notes
    -----
    Whether a row is taken follows from the rows before it alone, so the whole stretch is judged
    first and cut afterwards.
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
    """Return the sizes so that no sum of them overflows: a cap is not got round by a wrong size."""
    if len(sizes) and int(sizes.max()) > (1 << 62) // len(sizes):
        return sizes.astype(object)
    return sizes.astype("int64")


def _stop_users(
    uids: NDArray[np.uint32],
    sizes: NDArray,
    leave: NDArray[np.bool_],
    limits: tuple[Spent, Allowance, frozenset[int]],
) -> Iterator[tuple[int, int]]:
    """Mark in ``leave`` what users' caps keep; yield who meets a cap, and at which row."""
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
                over[0] = False  # a single file larger than the share would be kept for ever
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
    """Return how many rows are dealt with, and the cap that allows none."""
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
    """Yield the stretches of rows that are marked."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate(([False], marks, [False])).astype("int8")))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield Rows(first + start, end - start)
