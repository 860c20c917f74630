"""Walk forward along a series: each run is judged with the runs up to it.

Noise and seasonality are re-estimated every day or two from the runs before; the online tier tests
every run, the retrospective tier the first run of every six hours while a suspect is open and once
a day otherwise, if there is anything to test. Each result depends only on the runs up to it, so a
series cut there gives the same result.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trimtab.base.series import ChangePoint
from trimtab.base.units import DAY_S
from trimtab.judge.array import Bools, Floats, median
from trimtab.judge.change import Runs
from trimtab.judge.change_tier import (
    LARGE,
    LENGTHS,
    SEGMENT_RUNS,
    STEP,
    LevelWindow,
    Shift,
    scores,
    shifts,
)
from trimtab.judge.noise import (
    CLIP,
    WEEKS_MINIMUM,
    SeriesNoise,
    noise_of,
    residuals,
    split_of,
    weekly_seasonality,
    whitened,
)
from trimtab.judge.spread import OCCASIONS_MINIMUM

HISTORY_S: Final = 60 * DAY_S
HISTORY_RUNS: Final = 200
"""History for a level, its noise and its seasonality: two months, or this many runs."""

LOOK_S: Final = 6 * 3600.0

CONFIRM_S: Final = 96 * 3600.0
CONFIRM_RUNS: Final = 12
"""Longest wait of a suspect for confirmation: four days and a dozen runs."""

SHORTEST: Final = 3
"""Runs in a level that was left again."""

SUSPECT: Final = 3.7
"""|Z| that raises a suspect. Measured on years of hourly series without any change: it gives 2 to 5
a year in normal noise at every autocorrelation up to 0.85, and under 10 in the worst of the others
(Student's t with 3 degrees of freedom, autocorrelation 0.7). 3.6 gives one and a half times as
many, 3.8 half as many."""

DOUBT: Final = 1.5
"""|Z| below which an open suspect is dismissed at once; it was 3.7 when raised."""

SCREEN: Final = 3.5
"""If |Z| of every moment of the last weeks is below this, the retrospective tier is skipped: it
needs 4.5."""

SETTLED_RUNS: Final = 240
"""Runs of history from which the last four days are excluded from the noise estimate: they may
belong to a change not yet reported."""

YOUNG_S: Final = 21 * DAY_S
"""Age of a series up to which a change is confirmed only if seasonality cannot explain it."""

_SEASONALITY_CLIP: Final = 3.0


Places = tuple[int | None, ...]
"""Indices of the runs on which the report of a change depends, and its direction."""


@dataclass(slots=True)
class Detection:
    """The status of one change, by run index."""

    place: int
    up: bool
    suspected: int | None = None
    confirmed: int | None = None
    dismissed: int | None = None


@dataclass(frozen=True, slots=True)
class Walked:
    """The state of a walk before its last look: later runs may still join that look.

    Attributes
    ----------
    place
        The first run of that look.
    runs
        Digest of the runs before it.
    points
        Changes whose report depends only on these runs, by their positions.
    is_open
        Whether the last detection is still open.
    renewed_s
        ``None``: estimate noise and seasonality at once.
    """

    place: int
    runs: str
    levels: tuple[int, ...]
    armed_from: int
    is_open: bool
    detections: tuple[Detection, ...]
    noise: SeriesNoise | None
    seasonality: tuple[float, ...] | None
    renewed_s: float | None
    looked_back_s: float | None
    points: tuple[tuple[Places, ChangePoint], ...] = ()


@dataclass(slots=True)
class WalkForward:
    """State of the walk.

    Attributes
    ----------
    levels
        First run of each confirmed level, the current one last.
    armed_from
        A suspect must begin here or later.
    open
        The suspect that is neither confirmed nor dismissed: at most one.
    seasonality
        Effect of each hour of the week on a run, a logarithm; ``None`` before it is estimated.
    """

    runs: Runs
    levels: list[int] = field(default_factory=lambda: [0])
    armed_from: int = 0
    open: Detection | None = None
    detections: list[Detection] = field(default_factory=list)
    noise: SeriesNoise | None = None
    seasonality: Floats | None = None
    renewed_s: float = float("-inf")
    looked_back_s: float = float("-inf")
    resumed: bool = False

    def go(self, since_s: float = float("-inf"), after: Walked | None = None) -> Walked | None:
        """Walk to the last run, testing from ``since_s`` (seconds since 1970).

        Earlier changes are found at the first test, by the retrospective tier alone.

        Parameters
        ----------
        after
            Result of an earlier walk, continued if its runs are a prefix of these.

        Returns
        -------
        Walked | None
            State for continuing with these and later runs; ``None``: too few runs.
        """
        time_s = self.runs.time_s
        # Runs with the same time have no order: none is before a change.
        if len(time_s) < OCCASIONS_MINIMUM or time_s[-1] == time_s[0]:
            return None
        look = np.floor((time_s - time_s[0]) / LOOK_S)
        begins = np.flatnonzero(np.concatenate(([True], np.diff(look) != 0)))
        walked, place = None, 0
        if after is not None and after.runs == _digest(self.runs, after.place):
            place, self.resumed = after.place, True
            self._resume(after)
        for begin, end in zip(begins, np.append(begins[1:], len(time_s)), strict=True):
            if begin < place:
                continue
            if end == len(time_s):
                walked = self._walked(int(begin))
            first = max(int(begin), OCCASIONS_MINIMUM - 1)
            if first < end and time_s[first] >= since_s:
                self._look(first, int(end))
        return walked

    def _walked(self, place: int) -> Walked:
        """Return the state before a look."""
        return Walked(
            place,
            _digest(self.runs, place),
            tuple(self.levels),
            self.armed_from,
            self.open is not None,
            tuple(map(replace, self.detections)),
            self.noise,
            None if self.seasonality is None else tuple(self.seasonality.tolist()),
            _finite(self.renewed_s),
            _finite(self.looked_back_s),
        )

    def _resume(self, walked: Walked) -> None:
        self.levels, self.armed_from = [*walked.levels], walked.armed_from
        self.detections = [*map(replace, walked.detections)]
        # Only the last can be open: while one is, no other is raised.
        self.open = self.detections[-1] if walked.is_open else None
        self.noise = walked.noise
        self.seasonality = None if walked.seasonality is None else np.array(walked.seasonality)
        never = float("-inf")
        self.renewed_s = never if walked.renewed_s is None else walked.renewed_s
        self.looked_back_s = never if walked.looked_back_s is None else walked.looked_back_s

    def _look(self, begin: int, end: int) -> None:
        now_s = float(self.runs.time_s[begin])
        self._renew(begin, now_s)
        if self.noise is None:
            return
        if self.open is not None or now_s - self.looked_back_s >= DAY_S:
            self._look_back(self.noise, begin, now_s)
        if self.open is not None:
            begin = self._wait(self.noise, self.open, begin, end)
        if self.open is None:
            self._suspect(self.noise, begin, end)

    # --- noise, seasonality and level ------------------------------------------------------------

    def _history(self, place: int) -> int:
        oldest_s = self.runs.time_s[place] - HISTORY_S
        first = int(np.searchsorted(self.runs.time_s, oldest_s))
        return max(0, min(first, place - HISTORY_RUNS))

    def _renew(self, place: int, now_s: float) -> None:
        """Estimate noise and seasonality from the runs before ``place``, around their levels."""
        first = self._history(place)
        age_s = now_s - float(self.runs.time_s[first])
        if now_s - self.renewed_s < (DAY_S if age_s < HISTORY_S / 2 else 2 * DAY_S):
            return
        settled = self._settled(first, place)
        heights, running = self._about_levels(first, place, settled is None)
        if np.isfinite(heights[running]).sum() < OCCASIONS_MINIMUM // 2:
            return
        if settled is not None:
            running[settled:] = False
        if age_s >= WEEKS_MINIMUM * 7 * DAY_S:
            noise = self.noise or noise_of(heights[running])
            self.seasonality = self._seasonality(heights, first, noise)
            heights -= self.seasonality[self.runs.hour[first:place]]
        self.noise = noise_of(heights[running])
        self.renewed_s = now_s

    def _about_levels(self, first: int, place: int, short: bool) -> tuple[Floats, Bools]:
        """Return heights around the level of their time, and which to use for the noise.

        A level at which most runs do not finish says nothing about the scatter of those that do.

        Parameters
        ----------
        short
            Whether to use the last runs: they may belong to a level not yet reported.
        """
        heights = self.runs.height[first:place].copy()
        running = np.ones(len(heights), dtype=np.bool_)
        levels = self.levels
        if short:
            begin = max(levels[-1], first)
            split = split_of(heights[begin - first :])
            levels = levels if split is None else [*levels, begin + split]
        for begin, end in zip(levels, (*levels[1:], place), strict=True):
            part = slice(max(0, begin - first), max(0, end - first))
            finished = np.isfinite(heights[part])
            if finished.any():
                heights[part] -= median(heights[part][finished])
            running[part] = finished.mean() >= 0.5 if len(finished) else True
        return heights, running

    def _seasonality(self, heights: Floats, first: int, noise: SeriesNoise) -> Floats:
        """Return the seasonality of heights around their levels, given the last estimate."""
        place = first + len(heights)
        hour = self.runs.hour[first:place]
        age_s = self.runs.time_s[place - 1] - self.runs.time_s[first:place]
        known = np.zeros(len(heights)) if self.seasonality is None else self.seasonality[hour]
        known = known / noise.scale
        about = (
            np.clip(heights / noise.scale - known, -_SEASONALITY_CLIP, _SEASONALITY_CLIP) + known
        )
        week = (age_s // (7 * DAY_S)).astype(np.int64)
        return weekly_seasonality(about, hour, week, noise) * noise.scale

    def _settled(self, first: int, place: int) -> int | None:
        """Return the number of history runs too old for an unreported change.

        ``None`` if there are too few: then all are used.
        """
        recent_s = self.runs.time_s[place] - CONFIRM_S
        settled = int(np.searchsorted(self.runs.time_s, recent_s)) - first
        return settled if settled >= SETTLED_RUNS else None

    def _window(self, end: int, known: int) -> tuple[int, LevelWindow]:
        """Return the runs of the current level before ``end``, and the index of the first.

        The level is computed from the runs before ``known``.
        """
        first = max(self.levels[-1], self._history(end - 1))
        hour = self.runs.hour[first:end]
        heights = self.runs.height[first:end]
        if self.seasonality is not None:
            heights = heights - self.seasonality[hour]
        finished = heights[: max(0, known - first)]
        finished = finished[np.isfinite(finished)]
        # If none finished, any run that does is infinitely better.
        level = median(finished) if len(finished) else float("-inf")
        age_s = self.runs.time_s[end - 1] - self.runs.time_s[0]
        young = bool(age_s < YOUNG_S)
        return first, LevelWindow(self.runs.time_s[first:end], heights, hour, level, young)

    def _white(self, noise: SeriesNoise, end: int, known: int) -> tuple[int, Floats]:
        first, window = self._window(end, known)
        return first, whitened(residuals(window.height, window.level, noise.scale), noise)

    # --- the online tier -------------------------------------------------------------------------

    def _suspect(self, noise: SeriesNoise, begin: int, end: int) -> None:
        begin = max(begin, self.levels[-1] + 2)
        if begin >= end:
            return
        # The level comes from the runs before these: no run is tested with a later one.
        first, white = self._white(noise, end, begin)
        # White residual k belongs to run k + 1.
        ends = np.arange(begin, end) - first - 1
        lengths = np.array([length for length in LENGTHS if length <= ends[-1]], dtype=np.int64)
        if not len(lengths):
            return
        z = scores(white, noise, ends, lengths)
        starts = ends[:, None] + 1 - lengths + first + 1
        z[starts < self.armed_from] = 0.0
        over = np.flatnonzero(np.abs(z).max(axis=1) >= SUSPECT)
        if len(over):
            row = int(over[0])
            best = int(np.argmax(np.abs(z[row])))
            up = bool(z[row, best] > 0)
            self.open = Detection(int(starts[row, best]), up, suspected=begin + row)
            self.detections.append(self.open)

    def _wait(self, noise: SeriesNoise, suspect: Detection, begin: int, end: int) -> int:
        """Dismiss the open suspect when its time is over or its signal is gone.

        Return the run from which to search for another.
        """
        raised = suspect.suspected or 0
        if begin > raised and self._strength(noise, suspect, begin) < DOUBT:
            self._dismiss(suspect, begin)
            return begin + 1
        for place in range(begin, end):
            waited_s = self.runs.time_s[place] - self.runs.time_s[raised]
            if waited_s >= CONFIRM_S and place - raised >= CONFIRM_RUNS:
                self._dismiss(suspect, place)
                return place + 1
        return end

    def _strength(self, noise: SeriesNoise, suspect: Detection, place: int) -> float:
        """Return Z of the suspect for the runs up to ``place``, in its own direction."""
        _, white = self._white(noise, place + 1, place + 1)
        end = len(white) - 1
        length = place + 1 - suspect.place
        z = float(scores(white, noise, np.array([end]), np.array([length]))[0, 0])
        return z if suspect.up else -z

    def _dismiss(self, suspect: Detection, place: int) -> None:
        suspect.dismissed = place
        self.open = None
        self.armed_from = place

    # --- the retrospective tier ------------------------------------------------------------------

    def _look_back(self, noise: SeriesNoise, place: int, now_s: float) -> None:
        self.looked_back_s = now_s
        back = self._returned(noise, place)
        if back is not None:
            self._confirm([back], place)
            return
        first, window = self._window(place + 1, place + 1)
        if len(window.time_s) < OCCASIONS_MINIMUM:
            return
        if self.open is None:
            _, white = self._white(noise, place + 1, place + 1)
            end = len(white) - 1
            lengths = np.array([length for length in LENGTHS if length <= end], dtype=np.int64)
            screened = scores(white, noise, np.array([end]), lengths, SEGMENT_RUNS)
            if np.abs(screened).max() < SCREEN:
                return
        sure = shifts(window, noise)
        if sure:
            self._confirm([Shift(first + shift.place, shift.up) for shift in sure], place)

    def _returned(self, noise: SeriesNoise, place: int) -> Shift | None:
        """Return the change that restores the level before the last one, if that was short.

        A level of a day or two has too few days for both detectors: its end would never be
        confirmed, and equal levels before and after it would be reported as a change. A return to
        the previous level is likelier than any other change: it is confirmed when the runs since,
        at least a day and a dozen, are nearer to it by `STEP` standard errors.
        """
        if len(self.levels) < 2:
            return None
        begin, time_s = self.levels[-1], self.runs.time_s
        heights = self.runs.height[max(self.levels[-2], self._history(begin)) : place + 1]
        known = heights[np.isfinite(heights)]
        if not len(known) or place - begin < CONFIRM_RUNS:
            return None
        whole = np.where(np.isnan(heights), known.min() - 2 * LARGE * noise.scale, heights)
        before, since = np.split(whole, [begin - place - 1])
        scale = noise.scale
        usual, short = _middle(before, scale), _middle(since[:CONFIRM_RUNS], scale)
        end = 0
        for _ in range(2):
            is_back = (since - (usual + short) / 2) * (usual - short) > 0
            # For each candidate as the first run that is back: runs on the wrong side of the
            # middle.
            wrong = np.concatenate(([0], np.cumsum(is_back))) + np.concatenate(
                (np.cumsum(~is_back[::-1])[::-1], [0])
            )
            end = int(np.argmin(wrong))
            if end < SHORTEST or len(since) - end < CONFIRM_RUNS:
                return None
            short = _middle(since[:end], scale)
        first = begin + end
        if time_s[first] - time_s[begin] > CONFIRM_S or time_s[place] - time_s[first] < DAY_S:
            return None
        now = _middle(since[end:], scale)
        # Error of a level relative to the distance of the levels, with the runs' autocorrelation.
        runs = 1 / (len(since) - end) + (1 / end + 1 / len(before)) / 4
        memory = (1 + noise.autocorrelation) / (1 - noise.autocorrelation) * noise.longest
        error = 1.25 * noise.scale * math.sqrt(runs * memory)
        nearer = (now - (usual + short) / 2) * (1 if usual > short else -1)
        return Shift(first, bool(usual > short)) if nearer > STEP * error else None

    def _confirm(self, sure: list[Shift], now: int) -> None:
        """Confirm changes; the open suspect is one of them or is dismissed."""
        suspect = self.open
        for shift in sure:
            if suspect is not None and self._same(suspect, shift):
                detection, suspect = suspect, None
            else:
                detection = Detection(shift.place, shift.up)
                self.detections.append(detection)
            detection.place, detection.confirmed = shift.place, now
            self.levels.append(shift.place)
        if suspect is not None:
            suspect.dismissed = now
        self.open = None
        self.armed_from = self.levels[-1]
        self.renewed_s = float("-inf")

    def _same(self, suspect: Detection, shift: Shift) -> bool:
        """Return whether a suspect belongs to this change: never if raised before it."""
        raised = suspect.suspected or 0
        apart_s = abs(float(self.runs.time_s[suspect.place] - self.runs.time_s[shift.place]))
        near = apart_s <= 2 * DAY_S or abs(suspect.place - shift.place) <= 2
        return suspect.up == shift.up and raised >= shift.place and near


def _digest(runs: Runs, place: int) -> str:
    """Return a digest that changes if any of the first runs does."""
    digest = hashlib.sha256(runs.time_s[:place].tobytes())
    digest.update(runs.value[:place].tobytes())
    digest.update(runs.count[:place].tobytes())
    digest.update(np.array([at.timestamp() for at in runs.until[:place]]).tobytes())
    return digest.hexdigest()


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _middle(heights: Floats, scale: float) -> float:
    """Return the level of heights: their mean without outliers.

    The median of a mixture (half of the runs on slower nodes) jumps from one half to the other.
    """
    about = median(heights)
    return float(np.clip(heights, about - CLIP * scale, about + CLIP * scale).mean())
