"""Which telemetry moves with performance. That two things move together makes neither a cause."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.message import Message
from trimtab.model.series import SeriesKey


@dataclass(frozen=True, slots=True)
class Correlation:
    """One telemetry series beside the performance of one probe.

    Attributes
    ----------
    name
        Of the telemetry, as it was given.
    n
        Runs that have a value of it near in time.
    n_effective
        As how many independent pairs they count, both series having a memory.
    rho
        Spearman's rank correlation, -1 to 1; positive: more of it goes with better performance
        of a rate, or with longer times. ``None`` where it is not defined.
    rho_without_rhythm
        The same after the median of each hour of the day was taken out of both; ``None`` where
        there are too few days. Near 0 where only the clock connects them.
    p_value, q_value
        Of independent series as long and with the same memory; after Benjamini-Hochberg over all
        telemetry of the question.
    moves_with
        Whether the q-value is within the level asked for.
    beside, rho_beside
        The telemetry among those that move with performance that does so most, this one left out,
        and what is left of the correlation once that is allowed for (a partial rank correlation).
    apart_s
        Median distance in time between a run and the value that it was held against.
    reason
        Codes: ``moves-with``, ``no-more-than-chance``, ``too-few-runs``, ``telemetry-constant``,
        ``performance-constant``.
    """

    name: str
    n: int
    n_effective: float | None
    rho: float | None
    rho_without_rhythm: float | None
    p_value: float | None
    q_value: float | None
    moves_with: bool
    beside: str | None
    rho_beside: float | None
    apart_s: float | None
    reason: Message


@dataclass(frozen=True, slots=True)
class CorrelatedSeries:
    """One series with all telemetry that was held against it, the surest first."""

    key: SeriesKey
    runs: int
    from_: datetime
    to: datetime
    correlations: tuple[Correlation, ...]


@dataclass(frozen=True, slots=True)
class Correlated:
    """What moves with the performance of a site, from so many snapshots."""

    store: str
    site: str
    snapshots: int
    series: tuple[CorrelatedSeries, ...]
