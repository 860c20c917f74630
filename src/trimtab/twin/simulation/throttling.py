"""What writeback throttling takes of writes, from windows of seconds, for a whole simulation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.scenario.model import DriveModel, Queue, Raid, Scenario
from trimtab.twin.windows import Terms, slowdown

Array = NDArray[np.float64]

_NODES = (1.0, 1.4, 1.9, 2.5, 3.5)
"""Amplifications that are simulated; between them the factor is a straight line."""


def throttling(scenario: Scenario, amplification: Array) -> Array:
    """Return what throttling leaves of each column's writes; 1 without it.

    It is the write with throttling over the write without: what waiting for the slowest drive
    takes in either case is left to the efficiency of the array.
    """
    if not scenario.queue.writeback_throttling:
        return np.ones_like(amplification)
    osts, nodes = scenario.osts, np.array(_NODES)
    first = max(0, int(np.searchsorted(nodes, amplification.min(), side="right")) - 1)
    last = min(len(nodes) - 1, int(np.searchsorted(nodes, amplification.max())))
    needed = nodes[first : last + 1]
    left = [_left(osts.drive, osts.raid, scenario.queue, float(node)) for node in needed]
    return np.interp(amplification, needed, left)


@cache
def _left(drive: DriveModel, raid: Raid, queue: Queue, amplification: float) -> float:
    """Return what throttling leaves at one amplification; all where drives copy nothing."""
    if amplification == 1.0:
        return 1.0
    terms = Terms(drive, raid, queue, amplification)
    off = replace(queue, writeback_throttling=False)
    without = slowdown(replace(terms, queue=off)).write_bytes_per_s
    return min(1.0, slowdown(terms).write_bytes_per_s / without)
