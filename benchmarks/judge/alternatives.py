"""Other detectors on given series: runs in an environment of its own, knows nothing of Trimtab.

``alternatives.py SERIES.npz`` reads lines of tasks (JSON: detector, threshold, number of a series,
the first and last end up to which it is judged, the step after which no more is needed) and
answers each line with what was said, whenever it differed from before:
``[end, [[index, direction], ...]]``.

- ``otava``: Apache Otava 0.8.0, `compute_change_points` as its `AnalyzedSeries.append` calls it,
  every 6 runs; window 50 (its default), minimum magnitude 0; threshold: largest p-value (default
  0.001). ``otava_daily``: on medians of 24 runs, once a day.
- ``ruptures``: ruptures 1.1.10, penalised least squares with segments of 12 runs at least, after
  every run; threshold: penalty, in squares of the robust standard deviation of differences. Its
  makers leave the penalty to the user; 3 ln n is the usual advice. One forward pass gives the
  optimum up to every run; it is checked against `KernelCPD` (linear kernel) of ruptures itself as
  it goes, and any difference ends the program. ``ruptures_daily``: on medians of 24 runs, once a
  day, segments of two days at least. ``ruptures_whole``: `KernelCPD` with its own smallest
  segment, two values, on the whole series once; ``ruptures_spread``: likewise, the penalty in
  squares of the standard deviation of the whole series.
- ``chart``: a control chart as the application kernels of Open XDMoD draw it (AppKernelDb.php of
  ubccr/xdmod-appkernels, commit b5009cf8: baseline = the first 20 points, limits = mean +- 3
  standard deviations, the mean of the last 5 points is held against them); threshold: how many
  standard deviations. ``chart_week``: baseline of 168 points; ``chart_week_day``: and the mean of
  the last 24.
- ``fixed``: a reference, the median of the first 168 runs, and every run held against it, as
  references in ReFrame are; threshold: the fraction allowed (0.1).

Charts and fixed references alarm when they leave the band; they alarm again only after having
been within it for 24 runs.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

Found = list[tuple[int, int]]
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Detect = Callable[[Floats, float, int], Iterator[tuple[int, Found]]]
"""Of a series, a threshold and the first end: each end with what is said there."""

DAY = 24
QUIET_RUNS = 24


def main() -> int:
    """Answer every line of tasks on standard input with a line on standard output."""
    every = np.load(sys.argv[1])["values"]
    for line in sys.stdin:
        answer = [_answer(task, every[task["series"]]) for task in json.loads(line)]
        print(json.dumps(answer), flush=True)
    return 0


def _answer(task: dict[str, Any], values: Floats) -> list[tuple[int, Found]]:
    told = list[tuple[int, Found]]()
    first, last = task["ends"]
    for end, found in DETECTORS[task["detector"]](values[:last], task["threshold"], first):
        if found != (told[-1][1] if told else []):
            told.append((end, found))
        if task["until"] is not None:
            at, way, tolerance = task["until"]
            if any(way == other and abs(place - at) <= tolerance for place, other in found):
                break  # it was told: later reruns add nothing
    return told


def _otava(every: int) -> Detect:
    def detect(values: Floats, threshold: float, first: int) -> Iterator[tuple[int, Found]]:
        from otava.analysis import compute_change_points  # pyrefly: ignore[missing-import]

        series, known, before = values.tolist(), None, 0
        for end in range(max(first, 8), len(series) + 1, every):
            new = None if known is None else end - before
            with np.errstate(all="ignore"):
                points, known = compute_change_points(
                    series[:end],
                    window_len=50,
                    max_pvalue=threshold,
                    min_magnitude=0.0,
                    new_data=new,
                    old_weak_cp=known,
                )
            before = end
            yield (
                end,
                [(int(p.index), 1 if p.stats.mean_2 > p.stats.mean_1 else -1) for p in points],
            )

    return detect


def _ruptures(min_size: int, check_every: int) -> Detect:
    def detect(values: Floats, threshold: float, first: int) -> Iterator[tuple[int, Found]]:
        from ruptures import KernelCPD  # pyrefly: ignore[missing-import]

        scaled = (values - np.median(values)) / _noise(values)
        sums = np.concatenate([[0.0], np.cumsum(scaled)])
        for end, borders in _forward(scaled, threshold, min_size):
            if end < max(first, 2 * min_size):
                continue
            if end % check_every == 0:
                theirs = KernelCPD(kernel="linear", min_size=min_size).fit(scaled[:end])
                if list(theirs.predict(pen=threshold))[:-1] != borders:
                    raise SystemExit(f"not what ruptures finds, at run {end}")
            yield end, _with_ways(sums, borders, end)

    return detect


def _ruptures_whole(scale: Callable[[Floats], float]) -> Detect:
    def detect(values: Floats, threshold: float, _: int) -> Iterator[tuple[int, Found]]:
        from ruptures import KernelCPD  # pyrefly: ignore[missing-import]

        scaled = (values - np.median(values)) / scale(values)
        borders = KernelCPD(kernel="linear", min_size=2).fit(scaled).predict(pen=threshold)[:-1]
        sums = np.concatenate([[0.0], np.cumsum(scaled)])
        yield len(values), _with_ways(sums, [int(place) for place in borders], len(values))

    return detect


def _with_ways(sums: Floats, borders: list[int], end: int) -> Found:
    """Return borders with where the mean goes at each, from sums of the values up to the end."""
    means = [(sums[b] - sums[a]) / (b - a) for a, b in pairwise([0, *borders, end])]
    ways = [1 if after > before else -1 for before, after in pairwise(means)]
    return list(zip(borders, ways, strict=True))


def _noise(values: Floats) -> float:
    """Return the robust standard deviation, by differences of neighbours; if 0, the usual one."""
    jumps = np.diff(values)
    scale = 1.4826 * np.median(np.abs(jumps - np.median(jumps))) / math.sqrt(2)
    return float(scale) or _spread(values)


def _spread(values: Floats) -> float:
    return float(np.std(values))


def _forward(scaled: Floats, penalty: float, min_size: int) -> Iterator[tuple[int, list[int]]]:
    """Yield each end with the borders of the best segmentation up to it.

    Optimal partitioning with PELT's pruning (R. Killick, P. Fearnhead, I. A. Eckley, JASA 107
    (2012)): the best cost up to every end is known on the way to the last.
    """
    n = len(scaled)
    first = np.concatenate([[0.0], np.cumsum(scaled)])
    second = np.concatenate([[0.0], np.cumsum(scaled * scaled)])
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    before = np.zeros(n + 1, dtype=np.int64)
    starts = np.array([0])
    for end in range(min_size, n + 1):
        if end >= 2 * min_size:
            starts = np.append(starts, end - min_size)
        sums = first[end] - first[starts]
        costs = best[starts] + second[end] - second[starts] - sums * sums / (end - starts)
        least = int(np.argmin(costs))
        best[end], before[end] = costs[least] + penalty, starts[least]
        starts = starts[costs <= best[end]]
        borders, place = list[int](), int(before[end])
        while place > 0:
            borders.append(place)
            place = int(before[place])
        yield end, borders[::-1]


def _daily(detect: Detect) -> Detect:
    """Return the detector on medians of whole days; a change lies where its day begins."""

    def on_days(values: Floats, threshold: float, first: int) -> Iterator[tuple[int, Found]]:
        days = len(values) // DAY
        medians = np.median(values[: days * DAY].reshape(days, DAY), axis=1)
        for end, found in detect(medians, threshold, first // DAY):
            yield end * DAY, [(index * DAY, way) for index, way in found]

    return on_days


def _chart(baseline: int, average: int) -> Detect:
    def chart(values: Floats, threshold: float, _: int) -> Iterator[tuple[int, Found]]:
        first = values[:baseline]
        middle, reach = float(np.mean(first)), threshold * float(np.std(first, ddof=1))
        sums = np.cumsum(np.concatenate([[0.0], values]))
        running = (sums[average:] - sums[:-average]) / average  # that of the run [k + average - 1]
        begin = baseline - average + 1
        outside = np.sign(running) * 0
        outside[running > middle + reach] = 1
        outside[running < middle - reach] = -1
        yield len(values), _episodes(outside[begin:], baseline)

    return chart


def _fixed(values: Floats, threshold: float, _: int) -> Iterator[tuple[int, Found]]:
    baseline = 168
    ratio = values / float(np.median(values[:baseline])) - 1
    outside = np.where(ratio > threshold, 1, np.where(ratio < -threshold, -1, 0))
    yield len(values), _episodes(outside[baseline:], baseline)


def _episodes(outside: Floats, offset: int) -> Found:
    """Return where the band was left, on either side, after 24 runs within it on that side."""
    found = []
    for way in (1, -1):
        last = -QUIET_RUNS - 1
        for place in np.flatnonzero(outside == way):
            if place - last > QUIET_RUNS:
                found.append((int(place) + offset, way))
            last = int(place)
    return sorted(found)


DETECTORS: dict[str, Detect] = {
    "otava": _otava(every=6),
    "otava_daily": _daily(_otava(every=1)),
    "ruptures": _ruptures(min_size=12, check_every=1700),
    "ruptures_daily": _daily(_ruptures(min_size=2, check_every=60)),
    "ruptures_whole": _ruptures_whole(_noise),
    "ruptures_spread": _ruptures_whole(_spread),
    "chart": _chart(20, 5),
    "chart_week": _chart(168, 5),
    "chart_week_day": _chart(168, 24),
    "fixed": _fixed,
}


if __name__ == "__main__":
    sys.exit(main())
