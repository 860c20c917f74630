"""The detectors of level changes: one online test after every run, and two retrospective ones.

The online tier: for each moment s within the last weeks, the runs since s are compared with
those before. A step of size d in an AR(1) series shows in the whitened residuals as d at s and as
d (1 - phi) in each run after it, which is what the statistic is matched to::

    residuals                     whitened
         ____                        |
    ____|                        ____|'''''''     first d, then d (1 - phi)

The generalised likelihood ratio of a step at s, with the level before it unknown, is Z^2 / 2; the
largest |Z| over all s is compared with a threshold (T. L. Lai, "Sequential changepoint
detection in quality control and dynamical systems", JRSS B 57 (1995)).

The retrospective tier looks for changes since the last confirmed one, given the runs up to now:
by hour with optimal partitioning (`cuts`), and by day with energy distance (`energy_ratio`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from trimtab.base.units import DAY_S
from trimtab.judge.array import Floats, Ints, log_likelihood_of_share, median
from trimtab.judge.noise import SeriesNoise, residuals, waves, whitened
from trimtab.judge.spread import usual_gap_s

LENGTHS: Final = (
    3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40, 48, 57, 68, 80, 96, 114, 135, 160, 192,
    228, 272, 336,
)  # fmt: skip
"""Runs since s: after a day every fifth hour is enough, since the statistic changes slowly."""

BEFORE_MINIMUM: Final = 18
"""Runs before s: with fewer there is no level to change from."""


def scores(
    white: Floats, noise: SeriesNoise, ends: Ints, lengths: Ints, before: int = BEFORE_MINIMUM
) -> Floats:
    """Return Z of a step ``lengths`` runs before each of ``ends``, one row per end.

    Parameters
    ----------
    white
        Whitened residuals of one level, from its second run on.
    ends
        Positions in ``white`` of the last run used.
    before
        Fewest runs in a level.

    Returns
    -------
    Floats
        Positive if the level went up; 0 if fewer runs precede.
    """
    running = np.concatenate(([0.0], np.cumsum(white)))
    whole = ends[:, None] + 1
    start = whole - lengths
    seen = start >= before
    start = np.where(seen, start, 0)
    share = 1 - noise.autocorrelation
    later = lengths - 1
    weight = 1 + share * later
    # Least squares of a step on an unknown level, both whitened.
    first = white[start] + share * (running[whole] - running[np.minimum(start + 1, whole)])
    excess = first - weight / whole * running[whole]
    norm = 1 + share * share * later - weight * weight / whole
    error = noise.innovation * np.sqrt(
        np.maximum(norm, 1e-9)
        * np.where(
            excess < 0,
            *(
                _inflation(lengths, *side, noise.slow)
                for side in zip(noise.runs, noise.hours, strict=True)
            ),
        )
    )
    return np.where(seen, excess / error, 0.0)


def _inflation(lengths: Ints, runs: float, hours: float, slow: float) -> Floats:
    """Return the excess variance of sums of ``lengths`` residuals relative to independent ones."""
    return np.interp(np.log(lengths), np.log([3, 12, 24]), [1.2 * runs, hours, max(hours, slow)])


SEGMENT_S: Final = 12 * 3600.0
SEGMENT_RUNS: Final = 6
"""The shortest stretch that counts as a level: half a day and half a dozen runs."""

PLACES: Final = 480
"""Maximum number of places in a window: 3 h apart for two months of hourly runs."""

LARGE: Final = 3.0
EXACT_RUNS: Final = 12
"""Scales from which single runs show a change, and how far from a rough place to search."""

PENALTY: Final = 21.0
"""Cost of a cut, in squares of whitened residuals: nearly the usual 3 ln n for the 1,440 hourly
runs of two months. Whitening removed the autocorrelation, which would raise it otherwise."""

ENERGY: Final = 5.5
"""At a given moment, Q of independent normal days without any change exceeds it, at the best of
three neighbouring splits, in 4 to 10 of 1,000 series of 60 to 20 days."""

STEP: Final = 3.7
"""|Z| of the step itself, in a young series after removing any weekly seasonality.

All three are calibrated on years of hourly series without any change: under 0.1 false changes a
year on average over the kinds of noise, and 0.5 in the worst of them."""


@dataclass(frozen=True, slots=True)
class LevelWindow:
    """The runs of one level and of whatever follows it.

    Attributes
    ----------
    time_s, height, hour
        Values of each run; heights without weekly seasonality.
    level
        Reference for residuals.
    young
        Whether there are too few weeks to estimate seasonality.
    """

    time_s: Floats
    height: Floats
    hour: Ints
    level: float
    young: bool


@dataclass(frozen=True, slots=True)
class Shift:
    """A level change that both detectors see: the position of its first run, and its direction."""

    place: int
    up: bool


def shifts(window: LevelWindow, noise: SeriesNoise) -> tuple[Shift, ...]:
    """Return the level changes in a window on which both detectors agree, by time."""
    clipped = residuals(window.height, window.level, noise.scale)
    white = whitened(clipped, noise)
    n = len(white)
    width = max(1, -(-n // PLACES))
    begins = np.arange(0, n, width)
    spacing_s = usual_gap_s(window.time_s.tolist())
    runs = max(SEGMENT_RUNS, round(SEGMENT_S / max(spacing_s, 1.0)))
    rough = cuts(
        np.add.reduceat(white, begins) / noise.innovation,
        np.diff(np.append(begins, n)),
        PENALTY * noise.longest,
        max(1, -(-runs // width)),
    )
    edges = (0, *(int(begins[cut]) + 1 for cut in rough), n + 1)
    agreed: list[Shift] = []
    begin = level = 0
    for rough_place, end in pairwise(edges[1:]):
        height, gaps = window.height[begin:end], np.diff(window.time_s[begin:end])
        place = begin + _sharpened(white[begin : end - 1], rough_place - begin, gaps, noise, width)
        place = begin + _exact(height, place - begin, gaps, noise)
        place = begin + _first_lost(height, white[begin : end - 1], place - begin, noise)
        shift = _agreed(window, clipped, (begin, place, end), noise)
        if shift is not None and begin > level:
            shift = _without(window, clipped, (level, begin, place, end), noise)
        if shift is not None:
            agreed.append(shift)
            level = place
        begin = place
    return tuple(agreed)


def _sharpened(white: Floats, rough: int, gaps: Floats, noise: SeriesNoise, width: int) -> int:
    """Return the most likely first run of the new level within a few places of a rough one.

    A change is equally likely in any hour, so more likely in a long gap before a run.

    Parameters
    ----------
    gaps
        Time before each run except the first.
    width
        Number of runs per place.
    """
    end = len(white) - 1
    reach = max(4 * width, 36)
    firsts = np.arange(max(1, rough - reach), min(end, rough + reach) + 1)
    # White residual k belongs to run k + 1, so run f begins at white residual f - 1.
    lengths = end - (firsts - 1) + 1
    strengths = np.abs(scores(white, noise, np.array([end]), lengths, SEGMENT_RUNS)[0])
    if strengths.max() <= 0:
        return rough
    return int(firsts[int(np.argmax(strengths**2 / 2 + _log_share(gaps)[firsts - 1]))])


def _log_share(gaps: Floats) -> Floats:
    """Return the logarithm of each gap in usual gaps: mostly 0, also for shorter ones."""
    return np.log(np.maximum(gaps / max(median(gaps), 1.0), 1.0))


def _exact(height: Floats, place: int, gaps: Floats, noise: SeriesNoise) -> int:
    """Return the first run of the new level if the change is far larger than the noise.

    The detectors see only the clipped part of large changes, which allows a few slow runs before
    them. The distances to the levels on both sides do not.
    """
    lowest = float(np.nanmin(height)) if np.isfinite(height).any() else 0.0
    whole = np.where(np.isnan(height), lowest - LARGE * noise.scale * 2, height)
    best, least = place, math.inf
    for first in range(max(1, place - EXACT_RUNS), min(len(whole) - 1, place + EXACT_RUNS) + 1):
        before, after = (median(side) for side in (whole[:first], whole[first:]))
        if abs(after - before) < LARGE * noise.scale:
            continue
        distance = np.abs(whole[:first] - before).sum() + np.abs(whole[first:] - after).sum()
        cost = float(distance - noise.scale * _log_share(gaps)[first - 1])
        if cost < least:
            best, least = first, cost
    return best


def _first_lost(height: Floats, white: Floats, place: int, noise: SeriesNoise) -> int:
    """Return the run from which more runs are lost, if a change has no other effect before it.

    Clipped, a lost run weighs little more than one that is slow by chance: a few slow runs before
    lost ones form one level with them. They are a level of their own if a cut at ``place`` is worth
    its `PENALTY` without the lost runs.

    Notes
    -----
    Of all ways to cut the runs in two, choose the one with the highest sum of log-likelihoods
    (`judge.array.log_likelihood_of_share`).
    """
    lost, n = np.isnan(height), len(height)
    if not lost[place:].any():
        return place
    runs = np.arange(n + 1)
    count = np.concatenate(([0], np.cumsum(lost)))
    likelihood = log_likelihood_of_share(count, runs)
    likelihood += log_likelihood_of_share(count[-1] - count, n - runs)
    first = int(np.argmax(likelihood))
    certain = 2 * (likelihood[first] - likelihood[0]) > PENALTY
    more = lost[:first].sum() * (n - first) < lost[first:].sum() * first
    if not certain or not more or first <= place:
        return place
    # White residual k belongs to run k + 1.
    ends, lengths = np.array([first - 2]), np.array([first - place])
    strength = float(scores(white[: first - 1], noise, ends, lengths)[0, 0])
    return place if strength**2 > PENALTY else first


def _agreed(
    window: LevelWindow, clipped: Floats, edges: tuple[int, int, int], noise: SeriesNoise
) -> Shift | None:
    """Return the change at the middle edge if the days support it and seasonality does not."""
    begin, place, end = edges
    part = clipped[begin:end]
    days, first = _days(part, window.time_s[begin:end])
    split = int(np.searchsorted(first, place - begin))
    near = [k for k in (split - 1, split, split + 1) if 2 <= k <= len(days) - 2]
    if not near or max(energy_ratio(days, k) for k in near) < ENERGY * _memory(days):
        return None
    step = _step(part, place - begin, window.hour[begin:end] if window.young else None, noise)
    return Shift(place, step > 0) if abs(step) >= STEP else None


def _without(
    window: LevelWindow, clipped: Floats, edges: tuple[int, int, int, int], noise: SeriesNoise
) -> Shift | None:
    """Return the change at the third edge if it remains one without the runs since the second.

    Those are not a level: at most one detector sees a change where they begin. A return from a dip
    to the level before it is no change.
    """
    level, begin, place, end = edges
    dip = slice(begin, place)
    rest = LevelWindow(
        np.delete(window.time_s, dip),
        np.delete(window.height, dip),
        np.delete(window.hour, dip),
        window.level,
        window.young,
    )
    shift = _agreed(rest, np.delete(clipped, dip), (level, begin, end - (place - begin)), noise)
    return None if shift is None else Shift(place, shift.up)


def _days(part: Floats, time_s: Floats) -> tuple[Floats, Ints]:
    """Return the medians of 24 h each, counted back from the last run, and where each begins."""
    day = np.floor((time_s[-1] - time_s) / DAY_S)
    first = np.flatnonzero(np.concatenate(([True], np.diff(day) != 0)))
    ends = np.append(first[1:], len(part))
    return np.array([median(part[a:b]) for a, b in zip(first, ends, strict=True)]), first


def _memory(days: Floats) -> float:
    """Return the factor by which correlation of neighbouring days raises chance values."""
    n = len(days)
    near, far = np.diff(days), days[2:] - days[:-2]
    size = median(np.abs(near)), median(np.abs(far))
    phi = (size[1] / size[0]) ** 2 - 1 - 2 / np.sqrt(n) if size[0] > 0 else 0.0
    phi = min(max(float(phi), 0.0), 0.8)
    return (1 + phi) / (1 - phi)


def _step(part: Floats, place: int, hour: Ints | None, noise: SeriesNoise) -> float:
    """Return Z of the step at ``place``; given hours, adjusted for weekly and daily waves."""
    phi = noise.autocorrelation
    step = np.zeros(len(part))
    step[place:] = 1.0
    beside = np.ones((len(part), 1))
    if hour is not None:
        beside = np.column_stack([beside, waves(hour)])
    rest = beside[1:] - phi * beside[:-1]
    basis, triangle = np.linalg.qr(rest)
    basis = basis[:, np.abs(np.diag(triangle)) > 1e-6 * len(part) ** 0.5]
    signal = step[1:] - phi * step[:-1]
    signal = signal - basis @ (basis.T @ signal)
    norm = float(signal @ signal)
    if norm < 1e-6:
        return 0.0
    return float(signal @ whitened(part, noise)) / (
        noise.innovation * np.sqrt(norm * noise.longest)
    )


def cuts(sums: Floats, counts: Ints, penalty: float, shortest: int) -> tuple[int, ...]:
    """Return the positions at which a new level begins, by time; none if one level is cheapest.

    Parameters
    ----------
    sums, counts
        Sum of each place's residuals in their standard deviations, and their number.
    penalty
        Cost of a cut, in squares.
    shortest
        Fewest places in a stretch.

    Notes
    -----
    A stretch costs its squares about its mean. The best cuts of the first t runs end in a last
    stretch from some s, preceded by the best cuts of the first s runs::

        F(t) = min over s of  F(s) + cost(s, t) + penalty

    (B. Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE SPL 12
    (2005).) PELT (R. Killick et al., JASA 107 (2012)) drops every s that can never win again. While
    nothing changes none is dropped; a window of weeks has at most a few hundred places, and the
    minimum over s is one array operation, so all are kept.
    """
    n = len(sums)
    if n < 2 * shortest:
        return ()
    total = np.concatenate(([0.0], np.cumsum(sums)))
    number = np.concatenate(([0], np.cumsum(counts))).astype(np.float64)
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    last = np.zeros(n + 1, dtype=np.int64)
    for t in range(shortest, n + 1):
        s = t - shortest + 1
        # The squares themselves are the same for every way of cutting and are left out.
        gain = total[t] - total[:s]
        costs = best[:s] - gain * gain / (number[t] - number[:s])
        where = int(costs.argmin())
        best[t] = costs[where] + penalty
        last[t] = where
    places: list[int] = []
    t = int(last[n])
    while t > 0:
        places.append(t)
        t = int(last[t])
    return tuple(reversed(places))


def energy_ratio(days: Floats, split: int) -> float:
    """Return Q of the days from ``split`` against those before, over the distance within.

    0 if either side has fewer than two days. Infinite if days are identical within both sides and
    differ between them.

    Notes
    -----
    The energy distance between two sets is twice the mean distance between them minus the mean
    distances within them: 0 only for equal distributions, whatever their shape (G. J. Szekely and
    M. L. Rizzo; used for changes by D. S. Matteson and N. A. James, JASA 109 (2014))::

        Q = n m / (n + m) (2 E|X - Y| - E|X - X'| - E|Y - Y'|)

    Daily medians have no hours, few dips and little autocorrelation left. Q over the mean distance
    within is dimensionless and has known chance values.
    """
    n, m = split, len(days) - split
    if n < 2 or m < 2:
        return 0.0
    before, after = np.sort(days[:split]), np.sort(days[split:])
    within = _pairs(before) + _pairs(after)
    both = _pairs(np.sort(days))
    between = both - within
    # The mean over ordered pairs counts each unordered pair twice, including equal ones.
    distance = 2 * between / (n * m) - 2 * _pairs(before) / n**2 - 2 * _pairs(after) / m**2
    unlike = n * m / (n + m) * max(0.0, distance)
    number = (n * (n - 1) + m * (m - 1)) / 2
    if within <= 0:
        return float("inf") if unlike > 0 else 0.0
    return unlike / (within / number)


def _pairs(rising: Floats) -> float:
    """Return the sum of distances over all unordered pairs of sorted numbers."""
    n = len(rising)
    return float(np.dot(2 * np.arange(n) - (n - 1), rising))
