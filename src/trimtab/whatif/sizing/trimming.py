"""How often to trim: what each schedule gives, and where trimming stops to help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from trimtab.whatif.sizing.amplifying import Amplified, Case
from trimtab.whatif.sizing.figure import Figure, Section
from trimtab.whatif.sizing.request import DAY_S, SizingRequest, TrimWord

WORDS: Final[tuple[TrimWord, ...]] = ("never", "weekly", "nightly", "discard")
_DAYS: Final = {"weekly": 7.0, "nightly": 1.0}
PERIODS: Final = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)
"""Capacities of writes between two trims."""


def case_of(word: TrimWord, spare: float, fullness: float, daily: float) -> Case:
    """Return a schedule in capacities of writes.

    Parameters
    ----------
    daily
        Capacities that a day writes.
    """
    if word == "never":
        return Case(spare, fullness)
    if word == "discard":
        return Case(spare, fullness, discard=True)
    return Case(spare, fullness, trim_every=_DAYS[word] * daily)


def longest_useful(never: float, trimmed: Sequence[tuple[float, float]]) -> float | None:
    """Return the period that keeps half of what the shortest gives.

    Parameters
    ----------
    never
        Write amplification without trims.
    trimmed
        Period and write amplification, periods rising.

    Returns
    -------
    float or None
        Between two periods by a straight line over their logarithm; ``None`` where the longest
        keeps more than half, or trimming gives nothing.

    Examples
    --------
    >>> round(longest_useful(2.0, [(0.01, 1.5), (0.1, 1.7), (1.0, 1.8)]), 3)
    0.316
    """
    half = (never - trimmed[0][1]) / 2
    if half <= 0:
        return None
    for (short, better), (long, worse) in pairwise(trimmed):
        if never - worse < half:
            part = (never - half - better) / (worse - better)
            return math.exp(math.log(short) + part * (math.log(long) - math.log(short)))
    return None


def section(
    request: SizingRequest, daily: float, never: Amplified, trimmed: Sequence[Amplified]
) -> Section:
    """Return how far apart trims may be."""
    points = [(point.case.trim_every or math.inf, point.simulated) for point in trimmed]
    period = longest_useful(never.simulated, points)
    gain = never.simulated - points[0][1]
    why = None
    if period is None:
        why = (
            "trimming changes nothing here"
            if gain <= 0
            else f"one trim in {points[-1][0]:g} capacities still keeps more than half of it"
        )
    figures = (
        Figure("daily_capacities", "capacities written a day", daily, "",
               "(daily writes + probes) / usable_bytes", "spread evenly over OSTs"),
        Figure("trim_gain", "amplification that trimming takes away at most", gain, "",
               "never - a trim each 1/64 of a capacity", "simulated, at this fullness"),
        Figure("trim_period_capacities", "trims further apart lose half of that", period, "",
               "simulated at 1/64 to 1 capacity of writes between trims",
               "a next-fit allocator, which writes all addresses in turn, needs 0.5 or less", why),
        Figure("trim_period_s", "the same in time", None if period is None
               else period / daily * DAY_S, "s", "trim_period_capacities / daily_capacities",
               "at this rate of writes", why),
    )  # fmt: skip
    return Section("trim", figures)
