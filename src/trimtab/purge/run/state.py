"""The values of a run: rows, batches, what was spent, how full the file system is.

A row is a line of the plan's candidates, counted from 0, the oldest first. What became of each row
is kept as stretches of equal outcomes, since neighbours mostly fare alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from trimtab.errors import UsageError
from trimtab.units import share_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DELETED: Final = "deleted"
WOULD_DELETE: Final = "would_delete"
CAPPED: Final = "capped"
"""Left alone since a cap was reached; the next plan finds it again."""
NOT_BEGUN: Final = "not_begun"
"""An interrupted batch had not come to it: it is done again, and counts only then."""
TOO_LATE: Final = "too_late"
"""So the core says of a row that it had not come to when the lease of its host ran out."""
NOT_KNOWN: Final = "not_known"
"""It was in a batch that a person ended without its plan: it may have been deleted or not."""
GONE: Final = "gone"
IN_QUARANTINE: Final = "in_quarantine"
"""It could not be put back, and waits for a person."""
TROUBLES: Final = frozenset(
    {"failed", "denied", "not_same", IN_QUARANTINE, "cannot_return", "unknown"}
)
"""Outcomes that a healthy run hardly has: many of them mean that something else is wrong. A file
that was made since the plan's index was begun, ``replaced``, is not among them: users save
their files."""


@dataclass(frozen=True, slots=True, order=True)
class Rows:
    """A stretch of rows of a plan: ``count`` of them from ``first`` on."""

    first: int
    count: int

    def __post_init__(self) -> None:
        if self.first < 0 or self.count < 0:
            raise UsageError(
                f"there are no {self.count} rows from {self.first} on", code="rows-out-of-range"
            )

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.first + self.count


def row_count(rows: Iterable[Rows]) -> int:
    """Return how many rows stretches have together."""
    return sum(stretch.count for stretch in rows)


def without(rows: Iterable[Rows], *taken: Rows) -> tuple[Rows, ...]:
    """Return the stretches less what was taken out of them.

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
    """Return stretches in order, neighbours made one.

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
    """Return the stretches that are in both.

    Examples
    --------
    >>> common([Rows(0, 10)], [Rows(3, 2), Rows(8, 5)])
    (Rows(first=3, count=2), Rows(first=8, count=2))
    """
    others = tuple(others)
    pairs = ((max(a.first, b.first), min(a.end, b.end)) for a in rows for b in others)
    return joined(Rows(first, end - first) for first, end in pairs if end > first)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are dealt with together, of which some are left alone.

    Attributes
    ----------
    leave
        Stretches within ``rows`` that a cap keeps; in order.
    """

    rows: Rows
    leave: tuple[Rows, ...] = ()

    def taken(self) -> tuple[Rows, ...]:
        """Return the stretches that are not left alone, in order."""
        taken: list[Rows] = []
        first = self.rows.first
        for left in joined(self.leave):
            taken.append(Rows(first, max(0, min(left.first, self.rows.end) - first)))
            first = max(first, left.end)
        taken.append(Rows(first, max(0, self.rows.end - first)))
        return tuple(rows for rows in taken if rows.count)


Stretch = tuple[str, int]
"""An outcome and how many rows in a row had it."""


def stretches(outcomes: Iterable[str]) -> tuple[Stretch, ...]:
    """Return the outcomes of rows as stretches.

    Examples
    --------
    >>> stretches(["deleted", "deleted", "touched"])
    (('deleted', 2), ('touched', 1))
    """
    return tuple((outcome, len(tuple(alike))) for outcome, alike in groupby(outcomes))


def fates_of(rows: Rows, outcomes: Iterable[Stretch]) -> Iterator[tuple[Rows, str]]:
    """Yield stretches of rows with the outcome of each."""
    first = rows.first
    for outcome, count in outcomes:
        yield Rows(first, count), outcome
        first += count


def rows_with(rows: Rows, outcomes: Iterable[Stretch], wanted: str) -> Iterator[Rows]:
    """Yield the rows that had an outcome."""
    return (stretch for stretch, outcome in fates_of(rows, outcomes) if outcome == wanted)


CAPS_WINDOW_S: Final = 20 * 3600.0
"""Caps hold for all runs within it: a daily run begins with none of them used, one that a broken
timer starts every minute does not."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What was deleted and counts against the caps.

    Attributes
    ----------
    bytes
        As the plan lists them, or as the remover found them where that is more: a size that the
        plan knew too small is no way round a cap, and one that it knew too large counts as listed.
    by_user
        Bytes by uid.
    times
        When how much of it was deleted: time in seconds since 1970, files, bytes, a batch each.
    """

    files: int = 0
    bytes: int = 0
    by_user: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    times: tuple[tuple[float, int, int], ...] = field(default=(), compare=False)

    def __add__(self, other: Spent) -> Spent:
        """Return both together."""
        by_user = dict(self.by_user)
        for uid, size in other.by_user.items():
            by_user[uid] = by_user.get(uid, 0) + size
        times = (*self.times, *other.times)
        return Spent(self.files + other.files, self.bytes + other.bytes, by_user, times)

    def free_at_s(self, most: Allowance) -> float | None:
        """Return when a run may delete again under caps; ``None``: now, or it is not known."""
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
    """Return what counts of so many files and bytes; ``by_user`` are files and bytes by uid."""
    times = () if at_s is None else ((at_s, files, size),)
    return Spent(files, size, {uid: held for uid, (_, held) in by_user.items()}, times)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most that may be spent, caps and shares made absolute; ``None`` is no limit.

    Attributes
    ----------
    user_fraction
        Of what a user holds. The first file of a user in a run may be larger than this share: it
        would be kept for ever else.
    user_bytes
        What each user holds, by uid, from the index. Who is not in it holds nothing, so that only
        a first file of theirs goes.
    """

    files: int | None = None
    bytes: int | None = None
    user_fraction: float | None = None
    user_bytes: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    def of_user(self, uid: int) -> int | None:
        """Return how many bytes of one user may go; ``None``: no limit."""
        if self.user_fraction is None:
            return None
        return share_of(self.user_fraction, self.user_bytes.get(uid, 0))


@dataclass(frozen=True, slots=True)
class Listed:
    """What the plan says of some rows.

    Attributes
    ----------
    uids, allocated_bytes
        One number a row.
    """

    rows: Rows
    uids: NDArray[np.uint32]
    allocated_bytes: NDArray[np.uint64]

    def part(self, rows: Rows) -> Listed:
        """Return the same of some of the rows."""
        start = rows.first - self.rows.first
        if start < 0 or rows.end > self.rows.end:
            raise UsageError(f"rows {rows} are not within {self.rows}", code="rows-out-of-range")
        chosen = slice(start, start + rows.count)
        return Listed(rows, self.uids[chosen], self.allocated_bytes[chosen])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a batch came to.

    Attributes
    ----------
    outcomes
        Of every row of the batch, those that were left alone too.
    files, bytes
        Deleted, or in a dry run what would be; bytes as the plan lists them.
    freed_bytes
        As the remover counts them; in a dry run as the plan lists them.
    by_user
        Files and listed bytes by uid.
    elapsed_s, latency_s_median, latency_s_p99
        How long it took, and one deletion in it; ``None`` where there was none. Quantiles are
        values of rows: the least that so many of them do not exceed.
    recovered
        It was begun by a run that was interrupted, and brought to its end by this one.
    outcome_bytes
        Bytes as the plan lists them, by outcome.
    """

    batch: Batch
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
        """By how much less has to go.

        What is gone of an interrupted batch may have been deleted by the host that had it, and its
        objects may still be destroyed: it is not to be made up for by other files.
        """
        return max(self.bytes, self.freed_bytes) if self.recovered else self.freed_bytes

    @property
    def spent(self) -> Spent:
        """What of it counts against the caps."""
        return spent_on(self.files, max(self.bytes, self.freed_bytes), self.by_user)

    def count(self, *wanted: str) -> int:
        """Return how many rows had one of the outcomes."""
        return sum(count for outcome, count in self.outcomes if outcome in wanted)

    @property
    def asked_rows(self) -> int:
        """Rows of which something was asked."""
        return self.batch.rows.count - self.count(CAPPED, NOT_BEGUN)

    def late_rows(self, limit_s: float) -> int:
        """Return how many rows took longer than a limit, at least, as the quantiles show."""
        if self.latency_s_median is not None and self.latency_s_median > limit_s:
            return self.asked_rows // 2 + 1
        late = self.latency_s_p99 is not None and self.latency_s_p99 > limit_s
        return self.asked_rows // 100 + 1 if late else 0

    def not_begun(self) -> tuple[Rows, ...]:
        """Return the rows that have to be done again."""
        return tuple(rows_with(self.batch.rows, self.outcomes, NOT_BEGUN))


def latency_of(calls: Sequence[tuple[int, float, float]]) -> tuple[float, float] | None:
    """Return median and 99th percentile of the rows of several calls, as far as theirs show them.

    Of a call of 16 rows the 99th percentile is the maximum: the worst of many short calls would
    be that of a single row.

    Parameters
    ----------
    calls
        Rows, median and 99th percentile of each; ``None`` is returned where there is none.

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
    """Return the latency that so many rows have reached, of latencies in falling order."""
    so_far = accumulate(count for _, count in known)
    return next(value_s for (value_s, _), sum_ in zip(known, so_far, strict=True) if sum_ >= rows)


def outcome_of(
    batch: Batch,
    listed: Listed,
    names: Iterable[str],
    *,
    freed_bytes: int,
    elapsed_s: float,
    latency_s: tuple[float, float] | None = None,
    recovered: bool = False,
    dry: bool = False,
    doubtful: Iterable[Rows] = (),
) -> Outcome:
    """Return what a batch came to, from the outcome of each of its rows.

    Of an interrupted batch a file that is gone counts as deleted against the caps: nobody can tell
    any more who removed it, and a cap is to err on the safe side.

    Parameters
    ----------
    names
        One a row, those that were left alone too.
    doubtful
        Rows that another host may have deleted after they were taken over from it: of them too, one
        that is gone counts.
    """
    outcomes = stretches(names)
    if sum(count for _, count in outcomes) != batch.rows.count:
        raise UsageError(
            f"the outcomes are not those of {batch.rows.count} rows", code="rows-out-of-range"
        )
    wanted = {WOULD_DELETE} if dry else {DELETED, GONE} if recovered else {DELETED}
    taken = [rows for name in wanted for rows in rows_with(batch.rows, outcomes, name)]
    if GONE not in wanted and not dry:
        taken += common(rows_with(batch.rows, outcomes, GONE), doubtful)
    files, size, by_user = counted(map(listed.part, taken))
    return Outcome(
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


def _bytes_by_outcome(listed: Listed, outcomes: Iterable[Stretch]) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for rows, outcome in fates_of(listed.rows, outcomes):
        sizes[outcome] += int(listed.part(rows).allocated_bytes.sum())
    return dict(sizes)


def counted(parts: Iterable[Listed]) -> tuple[int, int, dict[int, tuple[int, int]]]:
    """Return files and bytes of some rows, and the same by uid."""
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
