"""How good what a detector told is: the same rules for every detector."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

Found = Sequence[tuple[int, int]]
"""(index of the first run after the change, or of the alarm; 1 up, -1 down)."""

SAME = 48
"""Runs within which two reruns that place a change speak of the same one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step in one series: index of the first run after it, and 1 up or -1 down.

    ``tolerance``: how many runs from it a change may be placed.
    """

    at: int
    way: int
    tolerance: int


def false_alarms(told: Sequence[tuple[int, Found]]) -> int:
    """Return how many changes were ever told of a series in which there is none.

    ``told``: at each end up to which the series was judged, what was said. A change that a later
    rerun places within `SAME` runs, going the same way, is the same.
    """
    count, known = 0, list[tuple[int, int]]()
    for _, found in sorted(told, key=lambda one: one[0]):
        new = [(place, way) for place, way in found if not _near(place, way, known)]
        count += len(new)
        known += new
    return count


def _near(place: int, way: int, known: Found) -> bool:
    return any(way == other and abs(place - at) <= SAME for at, other in known)


def rerun_delay(told: Sequence[tuple[int, Found]], step: Step) -> int | None:
    """Return after how many runs a rerun first placed a change at the step; ``None``: never.

    What a rerun already placed there before the first run after the step was luck: it does not
    count, nor does any later one.
    """
    for end, found in sorted(told, key=lambda one: one[0]):
        if any(way == step.way and abs(place - step.at) <= step.tolerance for place, way in found):
            return end - step.at if end > step.at else None
    return None


def alarm_delay(found: Found, step: Step) -> int | None:
    """Return after how many runs the first alarm that goes the step's way came; ``None``: never."""
    after = [place - step.at + 1 for place, way in found if way == step.way and place >= step.at]
    return min(after, default=None)


def loosest_within(rates: Sequence[tuple[float, float]], allowed: float) -> float | None:
    """Return the loosest threshold whose false alarms, and every stricter one's, are allowed.

    ``rates``: (threshold, false alarms per series-year), the strictest first. ``None`` where even
    the strictest has too many.
    """
    kept = None
    for threshold, rate in rates:
        if rate > allowed:
            break
        kept = threshold
    return kept


def median_delay(delays: Sequence[float | None]) -> float | None:
    """Return the median delay where what was never told counts as later than all; may be never."""
    middle = median(math.inf if delay is None else delay for delay in delays)
    return middle if math.isfinite(middle) else None


def sign_test(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Return the two-sided p-value that two detectors hit alike, from where just one of them did.

    Examples
    --------
    >>> sign_test([True] * 6, [False] * 6)
    0.03125
    """
    ours = sum(a and not b for a, b in zip(first, second, strict=True))
    theirs = sum(b and not a for a, b in zip(first, second, strict=True))
    n, few = ours + theirs, min(ours, theirs)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(few + 1)) / 2**n)


def f_measure(
    annotations: Sequence[Sequence[int]], places: Sequence[int], *, margin: int = 5
) -> float:
    """Return F1 of change points against those of several annotators.

    Precision: the share of the places that somebody marked; recall: of each annotator's, averaged.
    Everybody marks 0, so that who marks nothing else can be agreed with. Each place counts once,
    for the nearest mark within the margin.

    Notes
    -----
    G. J. J. van den Burg, C. K. I. Williams, arXiv:2003.06222 (2020), section 3.2.

    Examples
    --------
    >>> f_measure([[], [10], [50]], [])
    0.8
    """
    marked = [{0, *places_of} for places_of in annotations]
    detected = {0, *places}
    precision = _matched(set().union(*marked), detected, margin) / len(detected)
    recalls = [_matched(marks, detected, margin) / len(marks) for marks in marked]
    recall = sum(recalls) / len(recalls)
    return 2 * precision * recall / (precision + recall)


def _matched(marks: Collection[int], detected: Collection[int], margin: int) -> int:
    """Return how many marks have a detected place of their own within the margin."""
    free, count = set(detected), 0
    for mark in sorted(marks):
        near = [(abs(mark - place), place) for place in free if abs(mark - place) <= margin]
        if near:
            free.remove(min(near)[1])
            count += 1
    return count


def covering(annotations: Sequence[Sequence[int]], places: Sequence[int], n: int) -> float:
    """Return how well the segments between places cover those of annotators, averaged.

    Each segment of an annotator counts with its length and its best Jaccard index.

    Notes
    -----
    P. Arbelaez et al., IEEE PAMI 33 (2011), as van den Burg and Williams use it.

    Examples
    --------
    >>> covering([[5]], [], 10)
    0.5
    """
    ours = _segments(places, n)
    covers = [
        (b - a) * max(_jaccard((a, b), segment) for segment in ours)
        for marks in annotations
        for a, b in _segments(marks, n)
    ]
    return sum(covers) / n / len(annotations)


def _segments(places: Sequence[int], n: int) -> list[tuple[int, int]]:
    return list(pairwise(sorted({0, n, *places})))


def _jaccard(first: tuple[int, int], second: tuple[int, int]) -> float:
    common = min(first[1], second[1]) - max(first[0], second[0])
    return max(0, common) / (max(first[1], second[1]) - min(first[0], second[0]))
