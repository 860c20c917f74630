"""Change points of a series' level, reported as early as possible without looking ahead.

Two tiers. The online tier tests after every run whether the level has just changed, and raises a
suspect. The retrospective tier looks back over weeks, by hour and by day; if both its detectors see
a change within a day of each other, it is confirmed. A suspect that is not confirmed within four
days is dismissed. While one is open no other is raised: one alert per change.

The unit is the occasion (`judge.occasions`): runs made close together are one.

A report for a time uses no later run: a series cut at T gives the same suspects, confirmations and
dismissals up to T as the full series, as long as neither has more than `RUNS_MOST` occasions and
both have the same ones: that runs form a burst may only show later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.judge.changes.runs import Runs, by_occasion, of_frame, of_sequences
from trimtab.judge.occasions import OCCASIONS_MINIMUM
from trimtab.message import Message
from trimtab.model.series import ChangePoint

if TYPE_CHECKING:
    import polars

    from trimtab.judge.changes.walk_forward import Detection, Places, Walked, WalkForward

__all__ = [
    "Changes",
    "find_changes",
    "suspect_among",
]


RECENT_S: Final = 10 * 86400.0
RECENT_RUNS: Final = 30
"""How far back to search for the open suspect: it waits for four days or a dozen runs, possibly
after waiting for an earlier one."""

RUNS_MOST: Final = 100_000
"""Maximum number of single occasions: eleven years of every hour, ten weeks of every minute. Beyond
that, several consecutive ones are merged into their median."""

SEASONALITY_MINIMUM: Final = 0.1
"""Weekly amplitude, as a share of the scatter, from which seasonality is reported."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The level changes of one series.

    Attributes
    ----------
    points
        By time.
    seasonal
        Whether weekly seasonality was removed at the end of the series.
    autocorrelation, scale
        Lag-1 autocorrelation around the level, and the scatter around it (a fraction), at the end
        of the series; 0 if nothing could be detected.
    untested
        Why changes could not be searched; ``None``: they were.
    walked
        State for continuing with this series and later runs.
    """

    points: tuple[ChangePoint, ...]
    seasonal: bool
    autocorrelation: float
    scale: float
    untested: Message | None = None
    walked: Walked | None = field(default=None, compare=False)


def find_changes(
    frame: polars.DataFrame,
    *,
    more_is_better: bool = True,
    timezone: str = "UTC",
    dismissed: bool = False,
    after: Walked | None = None,
) -> Changes:
    """Detect the level changes of a series.

    Parameters
    ----------
    frame
        ``at`` (UTC), ``value`` (null for an unfinished run), ``unfinished``; one row per run.
    more_is_better
        True for bandwidths and rates, false for times; an unfinished run is the worst of either.
    timezone
        IANA name of the time zone for weekly seasonality.
    dismissed
        Whether to include dismissed suspects.
    after
        `Changes.walked` for a prefix of these runs: the same changes, found faster.

    Returns
    -------
    Changes
        Change points by time, with the noise of the series.
    """
    from trimtab.judge.changes.change_point import change_point
    from trimtab.judge.changes.walk_forward import WalkForward

    runs = of_frame(frame, more_is_better=more_is_better, timezone=timezone)
    walk = WalkForward(by_occasion(runs, RUNS_MOST))
    walked = walk.go(after=after)
    earlier = dict(after.points) if after is not None and walk.resumed else {}
    known: dict[Places, ChangePoint] = {}
    for detection, begin, end in _detected(walk, dismissed=dismissed):
        places = _places(detection, begin, end)
        known[places] = earlier.get(places) or change_point(walk.runs, detection, begin, end)
    if walked is not None:
        walked = replace(walked, points=tuple(_settled(known, walked.place)))
    points, noise = tuple(known.values()), walk.noise
    if noise is None:
        return Changes(points, False, 0.0, 0.0, _untested(walk.runs), walked)
    seasonal = (
        walk.seasonality is not None
        and float(abs(walk.seasonality).max()) > SEASONALITY_MINIMUM * noise.scale
    )
    return Changes(points, seasonal, noise.autocorrelation, noise.scale, None, walked)


def _places(detection: Detection, begin: int, end: int) -> Places:
    """Return all positions on which the report of a change depends."""
    from trimtab.judge.changes.change_point import NEAR_RUNS

    place = detection.place
    when = detection.suspected, detection.confirmed, detection.dismissed
    near = max(begin, place - NEAR_RUNS), min(end, place + NEAR_RUNS)
    return (place, int(detection.up), *when, *near)


def _settled(
    points: Mapping[Places, ChangePoint], place: int
) -> Iterator[tuple[Places, ChangePoint]]:
    """Yield the changes that depend only on the runs before a position."""
    for places, point in points.items():
        *earlier, end = (0 if at is None else at for at in places)
        if end <= place and max(earlier) < place:
            yield places, point


def suspect_among(
    at: Sequence[datetime],
    values: Sequence[float | None],
    *,
    more_is_better: bool = True,
    timezone: str = "UTC",
    known: Collection[datetime] = (),
) -> ChangePoint | None:
    """Return the open suspect of runs at the given times; ``None`` is an unfinished run.

    Parameters
    ----------
    known
        Begin times of suspects that need not be reported again.
    """
    from trimtab.judge.changes.change_point import change_point
    from trimtab.judge.changes.walk_forward import WalkForward

    runs = of_sequences(at, values, more_is_better=more_is_better, timezone=timezone)
    walk = WalkForward(by_occasion(runs, RUNS_MOST))
    runs = walk.runs
    if len(runs):
        since_s = min(runs.time_s[-1] - RECENT_S, runs.time_s[-min(RECENT_RUNS, len(runs))])
        walk.go(since_s=float(since_s))
    if walk.open is None or runs.at[walk.open.place] in known:
        return None
    begin = max((k for k in walk.levels if k < walk.open.place), default=0)
    return change_point(runs, walk.open, begin, len(runs))


def _untested(runs: Runs) -> Message:
    if len(runs) >= OCCASIONS_MINIMUM:
        return Message("too-few-runs", "too few finished runs to look for a change")
    unit = "" if int(runs.count.sum()) == len(runs) else " occasions"
    return Message(
        "too-few-runs",
        f"too few runs to look for a change ({len(runs)} of {OCCASIONS_MINIMUM}{unit})",
    )


def _detected(walk: WalkForward, *, dismissed: bool) -> list[tuple[Detection, int, int]]:
    """Return each change with the runs used for its levels, by time.

    They are within the neighbouring regimes.
    """
    edges = [*walk.levels, len(walk.runs)]
    detected: list[tuple[Detection, int, int]] = []
    for detection in sorted(walk.detections, key=lambda detection: detection.place):
        if detection.dismissed is not None and not dismissed:
            continue
        begin = max((k for k in edges if k < detection.place), default=0)
        end = min(k for k in edges if k > detection.place)
        if detection.dismissed is not None:
            end = min(end, detection.dismissed + 1)
        detected.append((detection, begin, end))
    return detected
