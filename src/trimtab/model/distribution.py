"""The runs on both sides of a change as distributions: the seeds' figures 3 and 4."""

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
        First and last run; ``None`` where there is none.
    n, unfinished
        Runs, and those of them that did not finish.
    mean, standard_deviation
        Unfinished runs as 0, as in the seeds; of a time they are left out.
    quantiles
        Fraction to value (0.05, 0.25, 0.5, 0.75, 0.95), of the finished runs; empty where there
        is none.
    counts
        Finished runs in each bin between neighbouring ``edges`` of the whole.
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
    """Both sides of a time, and by how much they differ.

    Attributes
    ----------
    edges
        Of the bins that both sides share, in the unit of the series.
    ratio_of_means
        Mean after over mean before, as the seeds give it; ``None`` where it is not defined.
    effect
        The ratio of medians with its interval; it says whether it is provisional.
    """

    at: datetime
    metric: str
    unit: str
    before: Distribution
    after: Distribution
    edges: tuple[float, ...]
    ratio_of_means: float | None
    effect: Effect
