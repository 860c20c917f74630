"""How much is done at a time: gently, by the latency that others feel too.

The metadata server of a busy file system answers late whoever asks, so the latency of the
deletions themselves says when to do less. As TCP does with its window (Chiu and Jain, "Analysis of
the increase and decrease algorithms for congestion avoidance", 1989): more by a constant while all
is well, half of it as soon as it is not, which shares fairly with others who do the same and
never swings up. A batch that has shrunk to its least is followed by a pause that doubles, and
that every good batch halves.

A late row is no late file system: the 99th percentile of 16 rows is their maximum, so that one row
in a thousand would hold small batches back for ever. Rows are therefore judged a hundred together,
or those of a second where they are slower than that, and never by a single late row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from trimtab.errors import UsageError
from trimtab.purge.run.state import Outcome


@dataclass(frozen=True, slots=True)
class PaceLimits:
    """Within what the pace moves.

    Attributes
    ----------
    rows_min, rows_max, rows_step
        Rows of a batch, and how many more after one that went well.
    latency_s_max
        Of one deletion, at the 99th percentile.
    batch_s_max
        Of one batch: so long at most between two looks at the kill switch, as far as the one
        before can tell.
    pause_s_step, pause_s_max
        The first pause, and the longest.
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
                f"batches of {self.rows_min} to {self.rows_max} rows cannot be made",
                code="value-out-of-range",
            )
        if not (self.latency_s_max > 0 and self.batch_s_max > 0):
            raise UsageError(
                "the latency and the length of a batch have to be above 0",
                code="value-out-of-range",
            )
        if not 0 < self.pause_s_step <= self.pause_s_max:
            raise UsageError(
                "a pause has to be above 0, and its step within it", code="value-out-of-range"
            )


JUDGED_ROWS: Final = 100
JUDGED_S: Final = 1.0
"""Rows are judged once there are so many, or once they took so long."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Rows since the last judgement; of some batches it takes several.

    Attributes
    ----------
    late_rows
        Rows that were late for certain: quantiles of a batch show how many at least.
    """

    rows: int = 0
    late_rows: int = 0
    elapsed_s: float = 0.0

    def is_late(self) -> bool | None:
        """Return whether more than one row in a hundred is late; ``None``: too few to tell."""
        if self.rows < JUDGED_ROWS and (self.elapsed_s < JUDGED_S or self.late_rows == 1):
            return None
        return self.late_rows > max(1.0, self.rows / 100)


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rows come next, and after what pause."""

    rows: int
    pause_s: float = 0.0
    unjudged: Unjudged = field(default_factory=Unjudged)


def first_pace(limits: PaceLimits) -> Pace:
    """Return the pace of a first batch, of which nothing is known yet: a hundredth of the most."""
    return Pace(max(limits.rows_min, limits.rows_max // 100))


def next_pace(pace: Pace, limits: PaceLimits, outcome: Outcome) -> Pace:
    """Return the pace after a batch.

    A batch in which nothing was asked of the file system (all of it left alone) changes nothing.
    One that took too long, of rows that were not late, only makes the next one shorter.
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
