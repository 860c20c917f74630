"""Distributions of the runs on both sides of a change (seeds, figures 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.model.compare import Effect


@dataclass(frozen=True, slots=True)
class Distribution:
    """The runs of one side.

    Attributes
    ----------
    from_, to
        First and last run, aware; ``None`` for an empty side.
    n, unfinished
        Number of runs, and of unfinished ones among them.
    mean, standard_deviation
        In the unit of the series; unfinished runs count as 0, in a time metric they are excluded.
    quantiles
        Pairs of fraction (0.05, 0.25, 0.5, 0.75, 0.95) and value in the unit of the series, over
        the finished runs; empty where none finished.
    counts
        Finished runs in each bin between neighbouring ``edges``: one count fewer than edges.
    """

    from_: datetime | None
    to: datetime | None
    n: int
    unfinished: int
    mean: float | None
    standard_deviation: float | None
    quantiles: tuple[tuple[float, float], ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """The distributions before and after a time, and the effect.

    Attributes
    ----------
    at
        The time of the change, aware; a run at this time is on the later side.
    metric, unit
        Of all values.
    edges
        Bin edges that both sides share, ascending, in the unit of the series.
    ratio_of_means
        Mean after over mean before; ``None`` where it is undefined.
    effect
        The ratio of medians with its interval, and whether it is provisional.
    """

    at: datetime
    metric: str
    unit: str
    before: Distribution
    after: Distribution
    edges: tuple[float, ...]
    ratio_of_means: float | None
    effect: Effect
