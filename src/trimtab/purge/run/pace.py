"""Adapt the size of batches to the latency that other users experience too.

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

from dataclasses import dataclass, field, replace
from typing import Final

from trimtab.errors import UsageError
from trimtab.purge.run.state import Outcome


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


def next_pace(pace: Pace, limits: PaceLimits, outcome: Outcome) -> Pace:
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
