"""Values of a run: rows, batches, deletions that count against caps, outcomes.

A row is a candidate of the plan, counted from 0, oldest first. Outcomes are stored as runs of equal
ones, since neighbours mostly have the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UsageError
from trimtab.base.units import share_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DELETED: Final = "deleted"
WOULD_DELETE: Final = "would_delete"
CAPPED: Final = "capped"
"""Left alone because of a cap; the next plan finds it again."""
NOT_BEGUN: Final = "not_begun"
"""Not reached in an interrupted batch; it is processed again, and counts only then."""
TOO_LATE: Final = "too_late"
"""Outcome from the core for a row not reached before the host's lease expired."""
NOT_KNOWN: Final = "not_known"
"""In a batch that an administrator ended without its plan; possibly deleted."""
GONE: Final = "gone"
IN_QUARANTINE: Final = "in_quarantine"
"""It could not be restored, and waits for an administrator."""
TROUBLES: Final = frozenset(
    {"failed", "denied", "not_same", IN_QUARANTINE, "cannot_return", "unknown"}
)
"""Outcomes that are rare in a healthy run.

Many of them mean that something else is wrong. ``replaced``, a file created since the scan began,
is not among them: users save their files.
"""


@dataclass(frozen=True, slots=True, order=True)
class Rows:
    """A range of rows of a plan: ``count`` rows from ``first``."""

    first: int
    count: int

    def __post_init__(self) -> None:
        if self.first < 0 or self.count < 0:
            raise UsageError(
                f"{self.count} rows from {self.first} are impossible", code="rows-out-of-range"
            )

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.first + self.count


def row_count(rows: Iterable[Rows]) -> int:
    """Return the total number of rows in ranges."""
    return sum(stretch.count for stretch in rows)


def without(rows: Iterable[Rows], *taken: Rows) -> tuple[Rows, ...]:
    """Return the ranges without the rows taken.

    Examples
    --------
    >>> without([Rows(0, 10)], Rows(3, 2), Rows(9, 4))
    (Rows(first=0, count=3), Rows(first=5, count=4))
    """
    left = tuple(rows)
    for gone in taken:
        rest: list[Rows] = []
        for row in left:
            rest.append(Rows(row.first, max(0, min(row.end, gone.first) - row.first)))
            start = max(row.first, gone.end)
            rest.append(Rows(start, max(0, row.end - start)))
        left = tuple(row for row in dict.fromkeys(rest) if row.count)
    return left


def joined(rows: Iterable[Rows]) -> tuple[Rows, ...]:
    """Return ranges in order, with adjacent ones merged.

    Examples
    --------
    >>> joined([Rows(5, 5), Rows(0, 3), Rows(3, 2)])
    (Rows(first=0, count=10),)
    """
    stretches: list[Rows] = []
    for row in sorted(rows):
        if stretches and stretches[-1].end >= row.first:
            last = stretches.pop()
            stretches.append(Rows(last.first, max(last.end, row.end) - last.first))
        elif row.count:
            stretches.append(row)
    return tuple(stretches)


def common(rows: Iterable[Rows], others: Iterable[Rows]) -> tuple[Rows, ...]:
    """Return the intersection of two sets of ranges.

    Examples
    --------
    >>> common([Rows(0, 10)], [Rows(3, 2), Rows(8, 5)])
    (Rows(first=3, count=2), Rows(first=8, count=2))
    """
    others = tuple(others)
    pairs = ((max(a.first, b.first), min(a.end, b.end)) for a in rows for b in others)
    return joined(Rows(first, end - first) for first, end in pairs if end > first)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows processed together; some may be left alone.

    Attributes
    ----------
    leave
        Ranges within ``rows`` held by a cap, in order.
    """

    rows: Rows
    leave: tuple[Rows, ...] = ()

    def taken(self) -> tuple[Rows, ...]:
        """Return the ranges not left alone, in order."""
        taken: list[Rows] = []
        first = self.rows.first
        for left in joined(self.leave):
            taken.append(Rows(first, max(0, min(left.first, self.rows.end) - first)))
            first = max(first, left.end)
        taken.append(Rows(first, max(0, self.rows.end - first)))
        return tuple(rows for rows in taken if rows.count)


Stretch = tuple[str, int]
"""An outcome and the number of consecutive rows with it."""


def stretches(outcomes: Iterable[str]) -> tuple[Stretch, ...]:
    """Return the outcomes of rows as runs of equal ones.

    Examples
    --------
    >>> stretches(["deleted", "deleted", "touched"])
    (('deleted', 2), ('touched', 1))
    """
    return tuple((outcome, len(tuple(alike))) for outcome, alike in groupby(outcomes))


def fates_of(rows: Rows, outcomes: Iterable[Stretch]) -> Iterator[tuple[Rows, str]]:
    """Yield ranges of rows with their outcomes."""
    first = rows.first
    for outcome, count in outcomes:
        yield Rows(first, count), outcome
        first += count


def rows_with(rows: Rows, outcomes: Iterable[Stretch], wanted: str) -> Iterator[Rows]:
    """Yield the rows with a given outcome."""
    return (stretch for stretch, outcome in fates_of(rows, outcomes) if outcome == wanted)


CAPS_WINDOW_S: Final = 20 * 3600.0
"""Caps cover all runs within this time, in seconds.

A daily run starts with unused caps, one started every minute by a broken timer does not.
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """Deletions that count against the caps.

    Attributes
    ----------
    bytes
        Bytes as listed in the plan, or as found by the remover if larger: a size listed too small
        must not bypass a cap, and one listed too large counts as listed.
    by_user
        Bytes by uid.
    times
        Time in seconds since 1970, files and bytes of each batch.
    """

    files: int = 0
    bytes: int = 0
    by_user: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    times: tuple[tuple[float, int, int], ...] = field(default=(), compare=False)

    def __add__(self, other: Spent) -> Spent:
        """Return the sum."""
        by_user = dict(self.by_user)
        for uid, size in other.by_user.items():
            by_user[uid] = by_user.get(uid, 0) + size
        times = (*self.times, *other.times)
        return Spent(self.files + other.files, self.bytes + other.bytes, by_user, times)

    def free_at_s(self, most: Allowance) -> float | None:
        """Return when caps allow deletion again, in seconds since 1970.

        ``None`` for now or unknown.
        """
        files, size, free_at_s = self.files, self.bytes, None
        over_files = math.inf if most.files is None else most.files
        over_bytes = math.inf if most.bytes is None else most.bytes
        for at_s, batch_files, batch_bytes in sorted(self.times):
            if files < over_files and size < over_bytes:
                break
            files, size, free_at_s = files - batch_files, size - batch_bytes, at_s + CAPS_WINDOW_S
        return free_at_s if files < over_files and size < over_bytes else None


def spent_on(
    files: int, size: int, by_user: Mapping[int, tuple[int, int]], at_s: float | None = None
) -> Spent:
    """Return the deletions of given files and bytes; ``by_user`` has files and bytes by uid."""
    times = () if at_s is None else ((at_s, files, size),)
    return Spent(files, size, {uid: held for uid, (_, held) in by_user.items()}, times)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Caps in absolute numbers; ``None`` for no limit.

    Attributes
    ----------
    user_fraction
        Share of a user's bytes. A user's first file in a run may be larger than this share, or it
        would be retained for ever.
    user_bytes
        Bytes of each user, by uid, from the index. A missing user counts as holding nothing, so
        only their first file may be deleted.
    """

    files: int | None = None
    bytes: int | None = None
    user_fraction: float | None = None
    user_bytes: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    def of_user(self, uid: int) -> int | None:
        """Return how many bytes of a user may be deleted; ``None`` for no limit."""
        if self.user_fraction is None:
            return None
        return share_of(self.user_fraction, self.user_bytes.get(uid, 0))


@dataclass(frozen=True, slots=True)
class ListedRows:
    """Owners and sizes of some rows in the plan.

    Attributes
    ----------
    uids, allocated_bytes
        One number per row.
    """

    rows: Rows
    uids: NDArray[np.uint32]
    allocated_bytes: NDArray[np.uint64]

    def part(self, rows: Rows) -> ListedRows:
        """Return the part for some of the rows."""
        start = rows.first - self.rows.first
        if start < 0 or rows.end > self.rows.end:
            raise UsageError(f"rows {rows} are not within {self.rows}", code="rows-out-of-range")
        chosen = slice(start, start + rows.count)
        return ListedRows(rows, self.uids[chosen], self.allocated_bytes[chosen])


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """Outcome of a batch.

    Attributes
    ----------
    outcomes
        Outcome of every row of the batch, including those left alone.
    files, bytes
        Files and bytes deleted, or that a dry run would delete; bytes as listed in the plan.
    freed_bytes
        Bytes counted by the remover; in a dry run as listed in the plan.
    by_user
        Files and listed bytes by uid.
    elapsed_s, latency_s_median, latency_s_p99
        Duration of the batch, and latency of a deletion; ``None`` without deletions. Quantiles are
        values of actual rows: the smallest not exceeded by that fraction of them.
    recovered
        Whether the batch was begun by an interrupted run and ended by this one.
    outcome_bytes
        Bytes as listed in the plan, by outcome.
    """

    batch: RowBatch
    outcomes: tuple[Stretch, ...]
    files: int
    bytes: int
    freed_bytes: int
    by_user: Mapping[int, tuple[int, int]]
    elapsed_s: float
    latency_s_median: float | None = None
    latency_s_p99: float | None = None
    recovered: bool = False
    outcome_bytes: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def lessens_bytes(self) -> int:
        """Reduction of the need.

        Files gone from an interrupted batch may have been deleted by its host, with objects still
        being destroyed, so other files must not replace them.
        """
        return max(self.bytes, self.freed_bytes) if self.recovered else self.freed_bytes

    @property
    def spent(self) -> Spent:
        """Deletions that count against the caps."""
        return spent_on(self.files, max(self.bytes, self.freed_bytes), self.by_user)

    def count(self, *wanted: str) -> int:
        """Return the number of rows with one of the outcomes."""
        return sum(count for outcome, count in self.outcomes if outcome in wanted)

    @property
    def asked_rows(self) -> int:
        """Number of rows processed."""
        return self.batch.rows.count - self.count(CAPPED, NOT_BEGUN)

    def late_rows(self, limit_s: float) -> int:
        """Return a lower bound, from the quantiles, of the rows slower than a limit."""
        if self.latency_s_median is not None and self.latency_s_median > limit_s:
            return self.asked_rows // 2 + 1
        late = self.latency_s_p99 is not None and self.latency_s_p99 > limit_s
        return self.asked_rows // 100 + 1 if late else 0

    def not_begun(self) -> tuple[Rows, ...]:
        """Return the rows to process again."""
        return tuple(rows_with(self.batch.rows, self.outcomes, NOT_BEGUN))


def latency_of(calls: Sequence[tuple[int, float, float]]) -> tuple[float, float] | None:
    """Return median and 99th percentile of the rows of several calls, from those of each call.

    In a call of 16 rows the 99th percentile is the maximum, so the worst of many short calls would
    be that of a single row.

    Parameters
    ----------
    calls
        Rows, median and 99th percentile of each, in seconds; the result is ``None`` without calls.

    Examples
    --------
    >>> latency_of([(10, 0.001, 0.002)] * 19 + [(10, 0.001, 3.0)])
    (0.001, 0.002)
    """
    known: list[tuple[float, int]] = []
    for rows, median_s, p99_s in calls:
        slowest, slower_half = rows // 100 + 1, rows // 2 + 1
        known += [(p99_s, slowest), (median_s, slower_half - slowest)]
    if not known:
        return None
    known.sort(reverse=True)
    rows = sum(rows for rows, _, _ in calls)
    return _reached(known, rows // 2 + 1), _reached(known, rows // 100 + 1)


def _reached(known: Sequence[tuple[float, int]], rows: int) -> float:
    """Return the latency reached by a number of rows; latencies are in descending order."""
    so_far = accumulate(count for _, count in known)
    return next(value_s for (value_s, _), sum_ in zip(known, so_far, strict=True) if sum_ >= rows)


def outcome_of(
    batch: RowBatch,
    listed: ListedRows,
    names: Iterable[str],
    *,
    freed_bytes: int,
    elapsed_s: float,
    latency_s: tuple[float, float] | None = None,
    recovered: bool = False,
    dry: bool = False,
    doubtful: Iterable[Rows] = (),
) -> BatchOutcome:
    """Return the outcome of a batch from those of its rows.

    In an interrupted batch, a file that is gone counts against the caps as deleted: who removed it
    is unknown, and a cap must err on the safe side.

    Parameters
    ----------
    names
        One per row, including those left alone.
    doubtful
        Rows that another host may have deleted after they were taken over from it; a file of these
        that is gone counts too.
    """
    outcomes = stretches(names)
    if sum(count for _, count in outcomes) != batch.rows.count:
        raise UsageError(
            f"the number of outcomes is not {batch.rows.count}, the number of rows",
            code="rows-out-of-range",
        )
    wanted = {WOULD_DELETE} if dry else {DELETED, GONE} if recovered else {DELETED}
    taken = [rows for name in wanted for rows in rows_with(batch.rows, outcomes, name)]
    if GONE not in wanted and not dry:
        taken += common(rows_with(batch.rows, outcomes, GONE), doubtful)
    files, size, by_user = counted(map(listed.part, taken))
    return BatchOutcome(
        batch=batch,
        outcomes=outcomes,
        files=files,
        bytes=size,
        freed_bytes=size if dry else freed_bytes,
        by_user=by_user,
        elapsed_s=elapsed_s,
        latency_s_median=None if latency_s is None else latency_s[0],
        latency_s_p99=None if latency_s is None else latency_s[1],
        recovered=recovered,
        outcome_bytes=_bytes_by_outcome(listed.part(batch.rows), outcomes),
    )


def _bytes_by_outcome(listed: ListedRows, outcomes: Iterable[Stretch]) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for rows, outcome in fates_of(listed.rows, outcomes):
        sizes[outcome] += int(listed.part(rows).allocated_bytes.sum())
    return dict(sizes)


def counted(parts: Iterable[ListedRows]) -> tuple[int, int, dict[int, tuple[int, int]]]:
    """Return files and bytes of some rows, in total and by uid."""
    import numpy as np

    by_user: dict[int, tuple[int, int]] = {}
    for listed in parts:
        uids, place = np.unique(listed.uids, return_inverse=True)
        files = np.bincount(place, minlength=len(uids))
        sizes = np.zeros(len(uids), np.uint64)  # not bincount's weights: those are floating point
        np.add.at(sizes, place, listed.allocated_bytes)
        for uid, number, size in zip(uids.tolist(), files.tolist(), sizes.tolist(), strict=True):
            before = by_user.get(uid, (0, 0))
            by_user[uid] = (before[0] + number, before[1] + size)
    totals = by_user.values()
    return sum(files for files, _ in totals), sum(size for _, size in totals), by_user
