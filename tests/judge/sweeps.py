"""Sweeps as they might be measured: rates that are known, rounds and chance on top of them."""

import math
from itertools import product

import numpy as np

from trimtab.judge.sweep_result import MeasuredPoint

METRIC = "write_bandwidth"


def sweep(levels, rate, *, rounds=3, scatter=0.03, drift=0.1, seed=1, metric=METRIC):
    """Every combination of levels, with rounds that are faster and slower as a whole."""
    rng = np.random.default_rng(seed)
    of_round = rng.normal(0, drift, rounds)
    return [
        MeasuredPoint(
            dict(zip(levels, combination, strict=True)),
            {
                metric: tuple(
                    1e9 * rate(*combination) * math.exp(of_round[r] + rng.normal(0, scatter))
                    for r in range(rounds)
                )
            },
        )
        for combination in product(*levels.values())
    ]
