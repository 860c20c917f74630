"""When the level of a series changed, told as early as it could be known and no earlier.

Two tiers. The first looks after every run whether the level has just moved, and raises a suspect.
The second looks back over weeks, hour by hour and day by day; where both of its detectors see a
change within a day of one another it is confirmed. A suspect that is not confirmed in four days is
dismissed. Between the two nothing more is raised: one alert per epoch.

Nothing that is told of a time rests on a later run: a series cut at T gives the suspects,
confirmations and dismissals up to T that the whole series gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from trimtab.judge.changes.change_point import change_point
from trimtab.judge.changes.retrospective import SEGMENT_RUNS
from trimtab.judge.changes.runs import Runs, of_frame, of_sequences
from trimtab.judge.changes.walk_forward import CONFIRM_RUNS, CONFIRM_S, RUNS_MINIMUM, WalkForward
from trimtab.model.series import ChangePoint

if TYPE_CHECKING:
    import polars

__all__ = ["Changes", "changes_among", "find_changes", "suspect_among", "suspect_now"]


RECENT_S: Final = 10 * 86400.0
RECENT_RUNS: Final = 30
"""How far back the open suspect is looked for: it waits for four days or for a dozen runs, and may
have had to wait for another one before it."""

SEASONALITY_MINIMUM: Final = 0.1
"""Share of the scatter from which on a weekly rhythm is worth a word."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of level of one series.

    Attributes
    ----------
    points
        By time.
    seasonal
        Whether a weekly rhythm was taken out at the end of the series.
    autocorrelation, scale
        Of neighbouring runs about their level, and how far runs scatter about it (a fraction), at
        the end of the series; 0 where there were too few runs to tell.
    reason
        In words: what was looked at, or why nothing could be.
    """

    points: tuple[ChangePoint, ...]
    seasonal: bool
    autocorrelation: float
    scale: float
    reason: str


def find_changes(
    frame: polars.DataFrame,
    *,
    more_is_better: bool = True,
    timezone: str = "UTC",
    dismissed: bool = False,
) -> Changes:
    """Return the changes of level of a series.

    Parameters
    ----------
    frame
        ``at`` (UTC), ``value`` (null where the run did not finish), ``unfinished``: a row a run.
    more_is_better
        True of bandwidths and rates, false of times: an unfinished run is the worst of either.
    timezone
        IANA name of the zone in which people's weeks run.
    dismissed
        Whether suspects that were given up are among them.
    """
    runs = of_frame(frame, more_is_better=more_is_better, timezone=timezone)
    return _changes(runs, dismissed=dismissed)


def changes_among(
    at: Sequence[datetime],
    values: Sequence[float | None],
    *,
    more_is_better: bool = True,
    timezone: str = "UTC",
    dismissed: bool = False,
) -> Changes:
    """Return the changes of level of runs at the given times; ``None`` did not finish."""
    runs = of_sequences(at, values, more_is_better=more_is_better, timezone=timezone)
    return _changes(runs, dismissed=dismissed)


def suspect_now(
    frame: polars.DataFrame, *, more_is_better: bool = True, timezone: str = "UTC"
) -> ChangePoint | None:
    """Return the suspect that is open at the end of a series, or ``None``.

    A month of history tells nearly what a year does, in a fraction of the time: the first tier
    looks at the last days, the second tells it once which level the days before them had.
    """
    return _open(of_frame(frame, more_is_better=more_is_better, timezone=timezone))


def suspect_among(
    at: Sequence[datetime],
    values: Sequence[float | None],
    *,
    more_is_better: bool = True,
    timezone: str = "UTC",
) -> ChangePoint | None:
    """Return the open suspect of runs at the given times; ``None`` did not finish."""
    return _open(of_sequences(at, values, more_is_better=more_is_better, timezone=timezone))


def _changes(runs: Runs, *, dismissed: bool) -> Changes:
    walk = WalkForward(runs)
    walk.go()
    points = _points(walk, dismissed=dismissed)
    noise = walk.noise
    if noise is None:
        finished = sum(math.isfinite(height) for height in runs.height.tolist())
        few = (
            f"{finished} of {len(runs)} runs have a value; changes are looked for among "
            f"{RUNS_MINIMUM} and more"
        )
        return Changes(points, False, 0.0, 0.0, few)
    seasonal = (
        walk.seasonality is not None
        and float(abs(walk.seasonality).max()) > SEASONALITY_MINIMUM * noise.scale
    )
    seasonality = "a weekly rhythm taken out" if seasonal else "no weekly rhythm"
    reason = (
        f"{len(runs)} runs, scatter {100 * noise.scale:.1f} %, "
        f"autocorrelation {noise.autocorrelation:.2f}, {seasonality}{_pace(runs)}"
    )
    return Changes(points, seasonal, noise.autocorrelation, noise.scale, reason)


def _pace(runs: Runs) -> str:
    """Return in words what takes longer than usual where runs are far apart."""
    gaps = sorted(b - a for a, b in pairwise(runs.time_s.tolist()))
    spacing_s = gaps[len(gaps) // 2]
    if spacing_s * CONFIRM_RUNS <= CONFIRM_S:
        return ""
    return (
        f"; runs are {spacing_s / 3600:.0f} h apart, so a level takes {SEGMENT_RUNS} of them and "
        f"a suspect waits for {CONFIRM_RUNS}"
    )


def _open(runs: Runs) -> ChangePoint | None:
    walk = WalkForward(runs)
    if len(runs):
        since_s = min(runs.time_s[-1] - RECENT_S, runs.time_s[-min(RECENT_RUNS, len(runs))])
        walk.go(since_s=float(since_s))
    if walk.open is None:
        return None
    begin = max((k for k in walk.levels if k < walk.open.place), default=0)
    return change_point(runs, walk.open, begin, len(runs))


def _points(walk: WalkForward, *, dismissed: bool) -> tuple[ChangePoint, ...]:
    """Return what is told of each change, its levels taken within the neighbouring regimes."""
    edges = [*walk.levels, len(walk.runs)]
    points: list[ChangePoint] = []
    for found in sorted(walk.found, key=lambda one: one.place):
        if found.dismissed is not None and not dismissed:
            continue
        begin = max((k for k in edges if k < found.place), default=0)
        end = min(k for k in edges if k > found.place)
        if found.dismissed is not None:
            end = min(end, found.dismissed + 1)
        points.append(change_point(walk.runs, found, begin, end))
    return tuple(points)
