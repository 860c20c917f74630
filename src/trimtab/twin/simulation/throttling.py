"""The effect of writeback throttling on writes, from windows of seconds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from functools import cache

import numpy as np

from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import DriveModel, Queue, Raid, Scenario
from trimtab.twin.windows import Terms, slowdown

_NODES = (1.0, 1.4, 1.9, 2.5, 3.5)
"""Amplifications that are simulated; the factor is interpolated linearly between them."""


def throttling(scenario: Scenario, amplification: Array) -> Array:
    """Return the throttling factor on each column's writes; 1 without it.

    It is the rate with throttling over the rate without: waiting for the slowest drive, which
    occurs in both cases, belongs to the array's efficiency.
    """
    if not scenario.queue.writeback_throttling:
        return np.ones_like(amplification)
    first = max(0, bisect_right(_NODES, float(amplification.min())) - 1)
    last = min(len(_NODES) - 1, bisect_left(_NODES, float(amplification.max())))
    nodes, left = _table(scenario.osts.drive, scenario.osts.raid, scenario.queue, first, last)
    return np.interp(amplification, nodes, left)


@cache
def _table(
    drive: DriveModel, raid: Raid, queue: Queue, first: int, last: int
) -> tuple[Array, Array]:
    """Return some nodes and their throttling factors."""
    nodes = _NODES[first : last + 1]
    return np.array(nodes), np.array([_left(drive, raid, queue, node) for node in nodes])


@cache
def _left(drive: DriveModel, raid: Raid, queue: Queue, amplification: float) -> float:
    """Return the throttling factor at one amplification; 1 if drives copy nothing."""
    if amplification == 1.0:
        return 1.0
    terms = Terms(drive, raid, queue, amplification)
    off = replace(queue, writeback_throttling=False)
    without = slowdown(replace(terms, queue=off)).write_bytes_per_s
    return min(1.0, slowdown(terms).write_bytes_per_s / without)
