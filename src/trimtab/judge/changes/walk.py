"""A walk along a series that tells at each run what could be known then, and nothing of later.

Estimates are renewed once a day from the runs before; the first tier looks after every run, the
second at the first run of every six hours while there is something to look for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trimtab.judge.changes.noise import Noise, noise_of, residuals, whitened
from trimtab.judge.changes.online import LENGTHS, scores
from trimtab.judge.changes.retrospective import DAY_S, Window, shifts
from trimtab.judge.changes.rhythm import WEEKS_MINIMUM, weekly_rhythm

if TYPE_CHECKING:
    from trimtab.judge.changes.runs import Floats, Runs

RUNS_MINIMUM: Final = 24
"""Runs before anything is said."""

HISTORY_S: Final = 60 * DAY_S
HISTORY_RUNS: Final = 200
"""How far back a level, its noise and its rhythm are looked at: two months, or so many runs."""

LOOK_S: Final = 6 * 3600.0

CONFIRM_S: Final = 96 * 3600.0
CONFIRM_RUNS: Final = 12
"""How long a suspect waits to be confirmed: four days, and a dozen runs."""

SUSPECT: Final = 4.2
SCREEN: Final = 3.5


@dataclass(slots=True)
class Found:
    """What was told of one change, by places among the runs."""

    place: int
    up: bool
    suspected: int | None = None
    confirmed: int | None = None
    dismissed: int | None = None


@dataclass(slots=True)
class Walk:
    """Where the walk stands.

    Attributes
    ----------
    level_from
        First run of the present level.
    armed_from
        A suspect has to begin here or later.
    """

    runs: Runs
    level_from: int = 0
    armed_from: int = 0
    open: Found | None = None
    found: list[Found] = field(default_factory=list)
    levels: list[int] = field(default_factory=lambda: [0])
    noise: Noise | None = None
    rhythm: Floats | None = None
    renewed_s: float = float("-inf")
    screened_s: float = float("-inf")

    def go(self) -> None:
        """Walk from the first run to the last."""
        import numpy as np

        time_s = self.runs.time_s
        if len(time_s) < RUNS_MINIMUM:
            return
        look = np.floor((time_s - time_s[0]) / LOOK_S)
        begins = np.flatnonzero(np.concatenate(([True], np.diff(look) != 0)))
        for begin, end in zip(begins, np.append(begins[1:], len(time_s)), strict=True):
            if begin >= RUNS_MINIMUM - 1:
                self._look(int(begin), int(end))

    def _look(self, begin: int, end: int) -> None:
        now_s = float(self.runs.time_s[begin])
        if now_s - self.renewed_s >= DAY_S:
            self._renew(begin, now_s)
        if self.noise is None:
            return
        if self.open is not None or now_s - self.screened_s >= DAY_S:
            self._confirm(begin, now_s)
        if self.open is not None:
            begin = self._expire(begin, end)
        if self.open is None and begin < end:
            self._suspect(begin, end)

    def _history(self, place: int) -> int:
        import numpy as np

        oldest_s = self.runs.time_s[place] - HISTORY_S
        first = int(np.searchsorted(self.runs.time_s, oldest_s))
        return max(0, min(first, place - HISTORY_RUNS))

    def _renew(self, place: int, now_s: float) -> None:
        """Estimate noise and rhythm from the runs before ``place``, each about its level."""
        import numpy as np

        first = self._history(place)
        heights = self.runs.height[first:place].copy()
        for begin, end in zip(self.levels, (*self.levels[1:], place), strict=True):
            part = slice(max(0, begin - first), max(0, end - first))
            if np.isfinite(heights[part]).any():
                heights[part] -= np.nanmedian(heights[part])
        if np.isfinite(heights).sum() < RUNS_MINIMUM // 2:
            return
        hour = self.runs.hour[first:place]
        enough = now_s - self.runs.time_s[first] >= WEEKS_MINIMUM * 7 * DAY_S
        if enough:
            rough = self.noise or noise_of(heights)
            about = heights / rough.scale - (0 if self.rhythm is None else self.rhythm[hour])
            clipped = np.clip(about, -3, 3) + (0 if self.rhythm is None else self.rhythm[hour])
            scaled = weekly_rhythm(clipped, hour, rough)
            heights = heights - scaled[hour] * rough.scale
            self.noise = noise_of(heights)
            self.rhythm = scaled * rough.scale / self.noise.scale
        else:
            self.noise = noise_of(heights)
        self.renewed_s = now_s

    def _window(self, end: int, known: int) -> tuple[int, Window]:
        """Return the present level's runs before ``end``, and the place of the first.

        The level is that of the runs before ``known``.
        """
        import numpy as np

        assert self.noise is not None
        first = max(self.level_from, self._history(end - 1))
        hour = self.runs.hour[first:end]
        heights = self.runs.height[first:end]
        if self.rhythm is not None:
            heights = heights - self.rhythm[hour] * self.noise.scale
        finished = heights[: known - first]
        finished = finished[np.isfinite(finished)]
        level = float(np.median(finished)) if len(finished) else 0.0
        return first, Window(self.runs.time_s[first:end], heights, hour, level)

    def _white(self, end: int, known: int) -> tuple[int, Floats]:
        assert self.noise is not None
        first, window = self._window(end, known)
        clipped = residuals(window.height, window.level, self.noise.scale)
        return first, whitened(clipped, self.noise.autocorrelation)

    def _suspect(self, begin: int, end: int) -> None:
        import numpy as np

        assert self.noise is not None
        begin = max(begin, self.level_from + 2)
        if begin >= end:
            return
        # Level and residuals as of the first of these runs: no run is judged by a later one.
        first, white = self._white(end, begin)
        ends = np.arange(begin, end) - first - 1
        lengths = np.array([m for m in LENGTHS if m <= ends[-1]])
        if not len(lengths):
            return
        found = scores(white, self.noise, ends, lengths)
        starts = ends[:, None] + 1 - lengths + first + 1
        found[starts < self.armed_from] = 0.0
        row = np.abs(found).max(axis=1)
        over = np.flatnonzero(row >= SUSPECT)
        if len(over):
            k = int(over[0])
            best = int(np.argmax(np.abs(found[k])))
            self.open = Found(int(starts[k, best]), found[k, best] > 0, suspected=begin + k)
            self.found.append(self.open)

    def _expire(self, begin: int, end: int) -> int:
        """Give the open suspect up when its time is over; return from where to look again."""
        assert self.open is not None
        assert self.open.suspected is not None
        raised = self.open.suspected
        for place in range(begin, end):
            waited_s = self.runs.time_s[place] - self.runs.time_s[raised]
            if waited_s >= CONFIRM_S and place - raised >= CONFIRM_RUNS:
                self.open.dismissed = place
                self.open = None
                self.armed_from = place
                return place + 1
        return end

    def _confirm(self, place: int, now_s: float) -> None:
        import numpy as np

        assert self.noise is not None
        self.screened_s = now_s
        first, window = self._window(place + 1, place + 1)
        if len(window.time_s) < RUNS_MINIMUM:
            return
        if self.open is None:
            _, white = self._white(place + 1, place + 1)
            end = len(white) - 1
            lengths = np.array([m for m in LENGTHS if m <= end])
            if np.abs(scores(white, self.noise, np.array([end]), lengths)).max() < SCREEN:
                return
        for shift in shifts(window, self.noise):
            self._told(first + shift.place, shift.up, place)

    def _told(self, place: int, up: bool, now: int) -> None:
        suspect, self.open = self.open, None
        if suspect is not None and suspect.up != up:
            suspect.dismissed = now
            suspect = None
        if suspect is None:
            suspect = Found(place, up)
            self.found.append(suspect)
        suspect.place, suspect.confirmed = place, now
        self.levels.append(place)
        self.level_from = self.armed_from = place
        self.renewed_s = float("-inf")
