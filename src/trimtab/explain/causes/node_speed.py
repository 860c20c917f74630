"""Whether runs are as fast as their nodes: those of one half of the time foretell the other. Pure.

A run ends with its last node, so it is expected at the level of its slowest one; what a node's
level is, only the other half of the runs may say. If speed has nothing to do with the nodes, the
forecast is a guess however many nodes there are and however long good and bad hours last::

    first half      nid1 nid2: 100   nid2 nid3: 80   nid1 nid4: 100   ─▶  nid3 is slow
    second half     nid3 nid4: ?     nid1 nid2: ?                     ─▶  80, 100
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from trimtab.judge.array import Floats

Sized = tuple[Collection[str], float]
"""The nodes of a run, and its speed; in the order of time."""

RUNS_LEAST: Final = 24
"""A dozen runs to learn from, and a dozen to foretell."""


def follows_nodes(runs: Sequence[Sized]) -> tuple[float, float]:
    """Return the correlation of speeds with what their nodes foretell, and its weight.

    Notes
    -----
    Spearman's correlation r of n forecasts. The weight is log10 of the likelihood ratio at r, less
    the price of one free parameter (Schwarz): -m / 2 log10(1 - r^2) - log10(n) / 2; negative if
    speeds do not follow their nodes. m is n / 2: both halves foretell each other by the same pairs.
    """
    if len(runs) < RUNS_LEAST:
        return 0.0, 0.0
    half = len(runs) // 2
    halves = (runs[:half], runs[half:])
    parts = [_foretold(*halves), _foretold(*halves[::-1])]
    count = sum(len(part[0]) for part in parts)
    if count < RUNS_LEAST / 2:
        return 0.0, 0.0
    # Ranks within each half: a level that changed between them is no forecast.
    forecasts, speeds = (np.concatenate([_ranks(part[side]) for part in parts]) for side in (0, 1))
    spread = float(forecasts.std() * speeds.std())
    if spread == 0:
        return 0.0, 0.0
    r = float(np.mean(forecasts * speeds)) / spread
    gain = -count / 4 * math.log10(max(1 - r * r, 1e-9)) if r > 0 else 0.0
    return r, gain - math.log10(count) / 2


def _foretold(known: Sequence[Sized], others: Sequence[Sized]) -> tuple[Floats, Floats]:
    """Return what the known runs foretell of the others, and what these reached."""
    of_node: dict[str, list[float]] = {}
    for nodes, speed in known:
        for node in nodes:
            of_node.setdefault(node, []).append(speed)
    level = {node: float(np.mean(speeds)) for node, speeds in of_node.items()}
    pairs = [
        (min(level[node] for node in nodes if node in level), speed)
        for nodes, speed in others
        if any(node in level for node in nodes)
    ]
    columns = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _ranks(values: Floats) -> Floats:
    """Return ranks around 0, ties at their mean."""
    if not len(values):
        return values
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    return middle[place] - (len(values) - 1) / 2
