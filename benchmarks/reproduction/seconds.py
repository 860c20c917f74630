"""What seconds of one array say: latency of writes that meet collection, and who is throttled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from benchmarks.reproduction.aging import THREE_QUARTERS, Point, point_at
from benchmarks.reproduction.statements import SeededRow, seeded_row

from trimtab.twin.scenario import Scenario
from trimtab.twin.simulation.ost_rate import ThrottledWindow, ThrottlingTerms, slowdown

_LIGHT: Final = 0.3
"""Load of the array at which latency is looked at: at more, writes wait for each other."""


def window(
    scenario: Scenario, amplification: float, *, load: float = 1.0, throttled: bool = True
) -> ThrottledWindow:
    """Return seconds of one array of a scenario's drives."""
    queue = replace(scenario.queue, writeback_throttling=throttled)
    return slowdown(
        ThrottlingTerms(scenario.osts.drive, scenario.osts.raid, queue, amplification, load=load)
    )


def amplification_at(curves: Sequence[Sequence[Point]]) -> float:
    """Return the write amplification three quarters full, mean over seeds."""
    return fmean(point_at(curve, THREE_QUARTERS).amplification for curve in curves)


def latency_rows(scenario: Scenario, curves: Sequence[Sequence[Point]]) -> list[SeededRow]:
    """Return how much longer the slowest writes take where drives collect, and how many they are.

    Parameters
    ----------
    curves
        Before the mitigations, one a seed.
    """
    amplification = amplification_at(curves)
    quiet = window(scenario, 1.0, load=_LIGHT)
    busy = window(scenario, amplification, load=_LIGHT)
    writes, met = busy.figures["writes"], busy.figures["met"]
    if not quiet.figures["writes"] or not writes or met is None:
        return [seeded_row("7-latency", [None]), seeded_row("7-few", [None])]
    at = f"at an amplification of {amplification:.1f} and {_LIGHT:.0%} load"
    median_s, slow_s = quiet.figures["writes"]["p50_s"], writes["p9999_s"]
    slowest = seeded_row(
        "7-latency",
        [slow_s / median_s],
        f"one write in 10,000 takes {1e3 * slow_s:.1f} ms {at}, the median "
        f"{1e6 * median_s:.0f} us without collection",
    )
    return [slowest, seeded_row("7-few", [met], at)]


def part_of_time(of: ThrottledWindow, what: str) -> float:
    """Return the part of the time that something was so, as the window was looked at."""
    sampled = of.figures["sampled"]
    return sampled[what] / sampled["looks"]


def throttled_text(scenario: Scenario, curves: Sequence[Sequence[Point]]) -> str:
    """Return how much of the time drives stand by that do not collect, in a sentence."""
    amplification = amplification_at(curves)
    on = window(scenario, amplification)
    off = window(scenario, amplification, throttled=False)
    starved_on, starved_off = (part_of_time(each, "starved_quiet") for each in (on, off))
    return (
        f"At an amplification of {amplification:.1f} a drive of the simulated array stands by, "
        f"neither collecting nor with anything to do, {starved_on:.0%} of the time with "
        f"throttling and {starved_off:.0%} without; a writer is held for a drive that does "
        f"not collect {part_of_time(on, 'held_quiet'):.1%} of the time."
    )
