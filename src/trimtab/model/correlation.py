"""Correlation of telemetry with performance. A correlation is not a cause."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.message import Message
from trimtab.model.series import SeriesKey
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class Correlation:
    """Correlation of one telemetry series with the performance of one probe.

    Attributes
    ----------
    name
        Name of the telemetry.
    n
        Number of runs with a telemetry value near in time.
    n_effective
        Effective number of independent pairs, given the autocorrelation of both series.
    rho
        Spearman's rank correlation, -1 to 1; positive: higher telemetry values go with higher
        rates, or with longer times. ``None`` if undefined.
    rho_without_rhythm
        The same after removing the median of each hour of the day from both; ``None`` with too
        few days. Near 0 if only the hour of the day connects them.
    p_value, q_value
        p-value for independent series with the same autocorrelation; q-value after
        Benjamini-Hochberg over all telemetry.
    moves_with
        Whether the q-value is at most the requested level.
    beside, rho_beside
        The other telemetry that correlates most with performance, and the partial rank
        correlation after allowing for it.
    apart_s
        Median distance in seconds between a run and its telemetry value.
    alike
        Other telemetry that ranks the runs identically (counters that differ by a constant):
        one finding together with this.
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
    alike: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CorrelatedSeries:
    """One series with the correlations of all telemetry, most significant first.

    Attributes
    ----------
    runs
        Number of runs of the series.
    from_, to
        First and last run, aware UTC.
    """

    key: SeriesKey
    runs: int
    from_: datetime
    to: datetime
    correlations: tuple[Correlation, ...]


@dataclass(frozen=True, slots=True)
class Correlated:
    """Correlations of telemetry with the performance of a site.

    Attributes
    ----------
    store
        Location of the store.
    snapshots
        Number of snapshots that the telemetry comes from.
    """

    store: str
    site: str
    snapshots: int
    series: tuple[CorrelatedSeries, ...]


shape(CorrelatedSeries, inline={"key": ("probe", "kind", "metric", "unit")})
