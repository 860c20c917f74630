"""Change points of the level of a series, reported as early as possible without looking ahead.

Two tiers. The online tier tests after every run whether the level has just changed, and raises a
suspect. The retrospective tier looks back over weeks, hour by hour and day by day; where both of
its detectors see a change within a day of each other it is confirmed. A suspect that is not
confirmed in four days is dismissed. While one is open no other is raised: one alert per change.

What is walked along are occasions (`judge.occasions`): runs made close together are one.

A report for a time uses no later run: a series cut at T gives the same suspects, confirmations and
dismissals up to T as the full series, as far as neither has more than `RUNS_MOST` occasions, and
as both have the same ones: that runs are a burst may only be seen later.
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
"""How far back to search for the open suspect: it waits for four days or a dozen runs, and may
have had to wait for an earlier one."""

RUNS_MOST: Final = 100_000
"""Occasions that are walked along one by one: eleven years of every hour, ten weeks of every
minute. Of more, several that follow one another are taken as one, their median."""

SEASONALITY_MINIMUM: Final = 0.1
"""Amplitude of weekly seasonality, as a share of the scatter, from which it is reported."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of level of one series.

    Attributes
    ----------
    points
        By time.
    seasonal
        Whether weekly seasonality was removed at the end of the series.
    autocorrelation, scale
        Lag-1 autocorrelation about the level, and the scatter about it (a fraction), at the end of
        the series; 0 where nothing could be detected.
    untested
        Why no change could be looked for; ``None``: it was.
    walked
        What a look at this series and later runs goes on with.
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
    """Detect the changes of level of a series.

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
        `Changes.walked` of a look at the first of these runs: the same changes, found sooner.

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
    """Return all places that the report of a change rests on."""
    from trimtab.judge.changes.change_point import NEAR_RUNS

    place = detection.place
    when = detection.suspected, detection.confirmed, detection.dismissed
    near = max(begin, place - NEAR_RUNS), min(end, place + NEAR_RUNS)
    return (place, int(detection.up), *when, *near)


def _settled(
    points: Mapping[Places, ChangePoint], place: int
) -> Iterator[tuple[Places, ChangePoint]]:
    """Yield the changes that rest on the runs before a place alone."""
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
        Beginnings of suspects that need not be reported again.
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
    """Return each change with the runs that its levels are taken from, by time.

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
