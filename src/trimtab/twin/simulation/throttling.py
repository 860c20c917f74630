"""What writeback throttling takes of writes, from windows of seconds, for a whole simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.scenario.model import Scenario
from trimtab.twin.windows import Terms, slowdown

Array = NDArray[np.float64]

_NODES = (1.0, 1.4, 1.9, 2.5, 3.5)
"""Amplifications that are simulated; between them the factor is a straight line."""


def throttling(scenario: Scenario, amplification: Array) -> Array:
    """Return what throttling leaves of each column's writes; 1 without it.

    It is the write with throttling over the write without: what waiting for the slowest drive
    takes in either case is left to the efficiency of the array. Windows are kept by their terms,
    so a simulation asks for ten of them.
    """
    if not scenario.queue.writeback_throttling:
        return np.ones_like(amplification)
    off = replace(scenario.queue, writeback_throttling=False)
    left = []
    for node in _NODES:
        terms = Terms(scenario.osts.drive, scenario.osts.raid, scenario.queue, node)
        without = slowdown(replace(terms, queue=off)).write_bytes_per_s
        left.append(min(1.0, slowdown(terms).write_bytes_per_s / without))
    return np.interp(amplification, _NODES, left)
