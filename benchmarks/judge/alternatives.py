"""Other detectors on given series: runs in an environment of its own, knows nothing of Trimtab.

Reads a job (JSON on standard input: path of an .npz with one series a row, which detectors, their
thresholds, and at which ends each series is judged) and writes what each of them said: for every
series, threshold and end the change points or alarms as ``[index, direction]``.

- ``otava``: Apache Otava 0.8.0, `compute_change_points`, window 50 (its default), minimum
  magnitude 0; threshold: largest p-value (default 0.001). ``otava_daily``: on medians of 24 runs.
- ``ruptures``: ruptures 1.1.10, `KernelCPD` with the linear kernel and a penalty, which is PELT
  with a quadratic cost, exact and in C; segments of 12 runs at least; values scaled by their
  robust standard deviation from differences; threshold: penalty. Its makers leave the penalty to
  the user; 3 ln n is the usual advice. ``ruptures_daily``: on medians of 24 runs.
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
from collections.abc import Callable
from itertools import pairwise

import numpy as np

Found = list[tuple[int, int]]
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

DAY = 24
QUIET_RUNS = 24


def main() -> int:
    """Run the job on standard input and write its answer to standard output."""
    job = json.load(sys.stdin)
    every = np.load(job["series"])["values"]
    answer = []
    for task in job["tasks"]:
        detect = DETECTORS[task["detector"]]
        values = every[task["series"]]
        told = [[end, detect(values[:end], task["threshold"])] for end in task["ends"]]
        answer.append(told)
    json.dump(answer, sys.stdout)
    return 0


def otava(values: Floats, threshold: float) -> Found:
    """Return Otava's change points of the series."""
    from otava.analysis import compute_change_points  # pyright: ignore[reportMissingImports]

    if len(values) < 4:
        return []
    with np.errstate(all="ignore"):
        points, _ = compute_change_points(
            values.tolist(), window_len=50, max_pvalue=threshold, min_magnitude=0.0
        )
    return [(int(p.index), 1 if p.stats.mean_2 > p.stats.mean_1 else -1) for p in points]


def ruptures(values: Floats, threshold: float) -> Found:
    """Return the change points of exact penalised least squares."""
    return _penalised(values, threshold, min_size=12)


def _penalised(values: Floats, threshold: float, min_size: int) -> Found:
    from ruptures import KernelCPD  # pyright: ignore[reportMissingImports]

    if len(values) < 2 * min_size:
        return []
    jumps = np.diff(values)
    scale = 1.4826 * np.median(np.abs(jumps - np.median(jumps))) / math.sqrt(2)
    scaled = (values - np.median(values)) / scale
    ends = KernelCPD(kernel="linear", min_size=min_size).fit(scaled).predict(pen=threshold)
    borders = [0, *ends]
    means = [float(np.mean(scaled[a:b])) for a, b in pairwise(borders)]
    return [
        (int(borders[k]), 1 if means[k] > means[k - 1] else -1) for k in range(1, len(borders) - 1)
    ]


def _daily(detect: Callable[[Floats, float], Found]) -> Callable[[Floats, float], Found]:
    """Return the detector on medians of whole days; a change lies where its day begins."""

    def on_days(values: Floats, threshold: float) -> Found:
        days = len(values) // DAY
        medians = np.median(values[: days * DAY].reshape(days, DAY), axis=1)
        return [(index * DAY, way) for index, way in detect(medians, threshold)]

    return on_days


def _chart(baseline: int, average: int) -> Callable[[Floats, float], Found]:
    def chart(values: Floats, threshold: float) -> Found:
        if len(values) < baseline + average:
            return []
        first = values[:baseline]
        middle, reach = float(np.mean(first)), threshold * float(np.std(first, ddof=1))
        sums = np.cumsum(np.concatenate([[0.0], values]))
        running = (sums[average:] - sums[:-average]) / average  # that of the run [k + average - 1]
        begin = baseline - average + 1
        outside = np.sign(running) * 0
        outside[running > middle + reach] = 1
        outside[running < middle - reach] = -1
        return _episodes(outside[begin:], baseline)

    return chart


def fixed(values: Floats, threshold: float) -> Found:
    """Return when runs left the band about a fixed reference."""
    baseline = 168
    if len(values) <= baseline:
        return []
    ratio = values / float(np.median(values[:baseline])) - 1
    outside = np.where(ratio > threshold, 1, np.where(ratio < -threshold, -1, 0))
    return _episodes(outside[baseline:], baseline)


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


DETECTORS: dict[str, Callable[[Floats, float], Found]] = {
    "otava": otava,
    "otava_daily": _daily(otava),
    "ruptures": ruptures,
    "ruptures_daily": _daily(lambda values, pen: _penalised(values, pen, min_size=2)),
    "chart": _chart(20, 5),
    "chart_week": _chart(168, 5),
    "chart_week_day": _chart(168, 24),
    "fixed": fixed,
}


if __name__ == "__main__":
    sys.exit(main())
