"""Whether nodes predict the speed of runs: each half of the runs predicts the other. Pure.

A run ends when its last node does, so its prediction is the level of its slowest node. Levels are
estimated from the other half of the runs only: if speed does not depend on nodes, the prediction is
a guess, however many nodes there are and however long good and bad hours last::

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
"""The nodes of a run, and its speed."""

RUNS_LEAST: Final = 24
"""A dozen runs to learn from, and a dozen to predict."""


def follows_nodes(runs: Sequence[Sized]) -> tuple[float, float]:
    """Return the correlation of speeds with predictions from their nodes, and its weight.

    ``runs`` are in order of time.

    Notes
    -----
    Spearman's correlation r of n predictions. The weight is log10 of the likelihood ratio at r,
    less the price of one free parameter (Schwarz): -m / 2 log10(1 - r^2) - log10(n) / 2; negative
    if speed does not depend on nodes. m is n / 2: the halves predict each other from the same
    pairs.
    """
    if len(runs) < RUNS_LEAST:
        return 0.0, 0.0
    half = len(runs) // 2
    halves = (runs[:half], runs[half:])
    parts = [_predicted(*halves), _predicted(*halves[::-1])]
    count = sum(len(part[0]) for part in parts)
    if count < RUNS_LEAST / 2:
        return 0.0, 0.0
    # Ranks within each half: a change of level between the halves predicts nothing.
    predictions, speeds = (
        np.concatenate([_ranks(part[side]) for part in parts]) for side in (0, 1)
    )
    spread = float(predictions.std() * speeds.std())
    if spread == 0:
        return 0.0, 0.0
    r = float(np.mean(predictions * speeds)) / spread
    gain = -count / 4 * math.log10(max(1 - r * r, 1e-9)) if r > 0 else 0.0
    return r, gain - math.log10(count) / 2


def mean_weight(weights: Sequence[float], of: int) -> float:
    """Return log10 of the mean likelihood ratio of ``of`` nodes; it is 1 for those not listed."""
    most = max(*weights, 0.0) if len(weights) > 1 else max(weights[0], 0.0)
    total = sum(10 ** (weight - most) for weight in weights) + (of - len(weights)) * 10**-most
    return math.log10(total / of) + most if total > 0 else -math.inf


def _predicted(known: Sequence[Sized], others: Sequence[Sized]) -> tuple[Floats, Floats]:
    """Return what the known runs predict of the others, and what these reached."""
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
