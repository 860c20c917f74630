"""Correlation of telemetry with performance, with autocorrelation taken into account.

Two autocorrelated series (a slow afternoon, a full week) move together for hours by chance, and
the usual significance test, which assumes independent pairs, finds something everywhere. Here the
effective number of pairs is the smaller of two estimates:

- circular shifts: performance against the same telemetry rotated by every number of runs. The
  shifts remove any connection but keep autocorrelation and seasonality; the scatter of their
  correlations is that of chance;
- Bartlett's formula: the variance of a correlation of independent series is 1/n times the sum
  over all lags of the product of their autocorrelations.

A correlation is never called a cause: the same load may explain both series.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.encode import shape
from trimtab.base.error import Message
from trimtab.base.series import SeriesKey
from trimtab.judge.bootstrap import block_length
from trimtab.judge.quantile import t_above
from trimtab.judge.series_frame import normalised
from trimtab.judge.spread import OCCASIONS_MINIMUM

if TYPE_CHECKING:
    import polars as pl

    from trimtab.judge.array import Floats


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


LEVEL: Final = 0.05
"""False discovery rate: share of the reported telemetry that may be due to chance."""

_DAYS_MINIMUM: Final = 7
"""With fewer days an effect of the hour cannot be distinguished from chance."""

_ALIKE: Final = 0.9999
"""Rank correlation from which two telemetry series count as one: the same except for rounding. A
falling counter of what is left equals a rising one of what is used."""

_NEARLY_ONE: Final = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Runs with the nearest value of one telemetry series: ranks, centred, of length 1.

    ``hours`` is the hour of the day of each run in the site's time zone.
    """

    runs: tuple[int, ...]
    performance: Floats
    telemetry: Floats
    hours: Sequence[int]
    days: int
    apart_s: float


def correlate(
    frame: pl.DataFrame,
    telemetry: Mapping[str, pl.DataFrame],
    *,
    more_is_better: bool = True,
    tolerance_s: float = 1800.0,
    timezone: str = "UTC",
) -> tuple[Correlation, ...]:
    """Correlate each telemetry series with performance, most significant first.

    Parameters
    ----------
    frame
        ``at`` (Datetime, UTC), ``value`` (null for an unfinished run), ``unfinished``; one row per
        run. An unfinished run ranks as the worst.
    telemetry
        Name to a frame of ``at`` (UTC) and ``value``. Convert counters to rates with `rate_of`.
    more_is_better
        True for bandwidths and rates, false for times.
    tolerance_s
        Largest distance in seconds between a run and its nearest telemetry value.
    timezone
        IANA name of the time zone for hours of the day.

    Returns
    -------
    tuple of Correlation
        One per telemetry series, with p- and q-values and the reason. Series that rank the runs
        alike are merged under the first name: testing one thing several times would make it look
        more certain, and each would explain the others away.

    Raises
    ------
    UsageError
        The frame lacks a column or a column has the wrong type.

    Notes
    -----
    Spearman's rank correlation at the same time, no lags. Telemetry of independent AR(1) series
    (phi 0 / 0.5 / 0.9 / 0.97, 2,000 pairs each) falls below p = 0.05 in 4 / 4 / 3 / 1 % for 168
    runs and below p = 0.005 in 0.4 / 0.4 / 0.1 / 0 %; by the usual formula in 5 / 12 / 50 / 70 %
    and 0.4 / 3 / 34 / 57 %.
    """
    tidy, _ = normalised(frame)
    pairs = {
        name: _pairs(tidy, readings, more_is_better, tolerance_s, timezone)
        for name, readings in telemetry.items()
    }
    alike = _alike(pairs)
    pairs = {name: pairs[name] for name in alike}
    correlations = [
        replace(_correlation(name, of), alike=alike[name]) for name, of in pairs.items()
    ]
    correlations = _beside(_corrected(correlations), pairs)
    results = [replace(result, reason=_reason(result)) for result in correlations]
    return tuple(
        sorted(
            results,
            key=lambda result: (_or_one(result.q_value), -abs(result.rho or 0), result.name),
        )
    )


def rate_of(counter: pl.DataFrame) -> pl.DataFrame:
    """Convert a counter to a rate.

    Parameters
    ----------
    counter
        ``at`` (Datetime), ``value``; one row per reading, in any order.

    Returns
    -------
    polars.DataFrame
        ``at`` of the later of two readings and ``value``, the increase per second. A falling
        counter was reset, and gives no row.
    """
    import polars as pl

    rises = pl.col("value").diff()
    took_s = pl.col("at").diff().dt.total_microseconds() / 1e6
    readings = counter.drop_nulls(["at", "value"]).sort("at")
    rated = readings.select("at", value=pl.when((rises >= 0) & (took_s > 0)).then(rises / took_s))
    return rated.drop_nulls()


def _pairs(
    tidy: pl.DataFrame,
    telemetry: pl.DataFrame,
    more_is_better: bool,
    tolerance_s: float,
    timezone: str,
) -> _Pairs:
    import polars as pl

    worst = -1.0 if more_is_better else math.inf  # below or above every finite value
    readings = (
        telemetry.filter(pl.col("value").cast(pl.Float64).is_finite())
        .select(
            pl.col("at").dt.convert_time_zone("UTC").cast(pl.Datetime("us", "UTC")),
            seen=pl.col("value").cast(pl.Float64),
        )
        .drop_nulls("at")
        .sort("at")
        .with_columns(seen_at=pl.col("at"))
    )
    performance = pl.when("unfinished").then(worst).otherwise("value")
    local = pl.col("at").dt.convert_time_zone(timezone)
    joined = (
        tidy.with_row_index("place")
        .sort("at")
        .with_columns(value=performance)
        .join_asof(readings, on="at", strategy="nearest", tolerance=f"{round(tolerance_s * 1e6)}us")
        .drop_nulls("seen")
        .with_columns(
            hour=local.dt.hour(),
            day=local.dt.date(),
            apart=(pl.col("at") - pl.col("seen_at")).abs().dt.total_microseconds() / 1e6,
        )
    )
    return _Pairs(
        runs=tuple(joined["place"]),
        performance=_ranks(joined["value"].to_numpy()),
        telemetry=_ranks(joined["seen"].to_numpy()),
        hours=joined["hour"].to_list(),
        days=joined["day"].n_unique(),
        apart_s=float(joined["apart"].quantile(0.5) or 0.0) if joined.height else 0.0,
    )


def _ranks(values: Floats) -> Floats:
    """Return ranks (shared by ties), centred and of length 1; zeros if all are equal."""
    import polars as pl

    return _unit(pl.Series(values).rank("average").to_numpy())


def _unit(values: Floats) -> Floats:
    import numpy as np

    if not len(values):
        return values
    centred = values - values.mean()
    length = float(np.sqrt((centred**2).sum()))
    return centred / length if length > 1e-9 * len(values) else np.zeros(len(values))


def _alike(pairs: Mapping[str, _Pairs]) -> dict[str, tuple[str, ...]]:
    """Return each distinct telemetry series with the names of those that rank alike."""
    import numpy as np

    groups: dict[str, list[str]] = {}
    for name, of_name in pairs.items():
        first = next(
            (
                other
                for other in groups
                if pairs[other].runs == of_name.runs
                and of_name.telemetry.any()
                and float(np.abs(pairs[other].telemetry @ of_name.telemetry)) >= _ALIKE
            ),
            name,
        )
        groups.setdefault(first, []).append(name)
    return {first: tuple(names[1:]) for first, names in groups.items()}


def _correlation(name: str, pairs: _Pairs) -> Correlation:
    n = len(pairs.runs)
    blank = Correlation(
        name=name,
        n=n,
        n_effective=None,
        rho=None,
        rho_without_rhythm=None,
        p_value=None,
        q_value=None,
        moves_with=False,
        beside=None,
        rho_beside=None,
        apart_s=pairs.apart_s if n else None,
        reason=Message(
            "too-few-runs",
            f"{n} runs have a value near in time; at least {OCCASIONS_MINIMUM} needed",
        ),
    )
    if n < OCCASIONS_MINIMUM:  # fewer pairs do not reveal their autocorrelation
        return blank
    for quantity, ranks in (("telemetry", pairs.telemetry), ("performance", pairs.performance)):
        if not ranks.any():
            reason = Message(f"{quantity}-constant", f"{quantity} never changed in {n} runs")
            return replace(blank, reason=reason)
    rho = float(pairs.performance @ pairs.telemetry)
    p_value, counts_as = significance(pairs.performance, pairs.telemetry)
    return replace(
        blank,
        n_effective=counts_as,
        rho=rho,
        rho_without_rhythm=_without_rhythm(pairs),
        p_value=p_value,
    )


def significance(first: Floats, second: Floats) -> tuple[float, float]:
    """Return the p-value of a correlation of two series and their effective number of pairs.

    Parameters
    ----------
    first, second
        By time; centred and of length 1, so their product is the correlation.

    Notes
    -----
    Shifts by less than a block (`bootstrap.block_length`) are left out: they still show any real
    connection. The tail is Student's of Fisher's z.
    """
    import numpy as np

    n = len(first)
    around = np.fft.irfft(np.fft.rfft(first) * np.conj(np.fft.rfft(second)), n)
    gap = block_length(n)
    shifted = around[gap : n - gap + 1]
    by_shifts = 1 / max(float((shifted**2).mean()), 1 / n) if len(shifted) else 3.0
    counts_as = max(3.0, min(float(n), by_shifts, _bartlett(first, second)))
    rho = min(abs(float(first @ second)), _NEARLY_ONE)
    z = math.atanh(rho) * math.sqrt(max(counts_as - 3, 0.25))
    return 2 * t_above(z, max(1.0, counts_as - 2)), counts_as


def _bartlett(first: Floats, second: Floats) -> float:
    """Return the effective number of independent pairs, from the autocorrelations."""
    import numpy as np

    n = len(first)
    lags = n // 3
    products = _autocorrelation(first, lags) * _autocorrelation(second, lags)
    weights = 1 - np.arange(1, lags) / n
    return n / max(1 + 2 * float(weights @ products[1:]), 0.2)


def _autocorrelation(values: Floats, lags: int) -> Floats:
    import numpy as np

    padded = np.concatenate([values, np.zeros(len(values))])
    return np.fft.irfft(np.abs(np.fft.rfft(padded)) ** 2)[:lags]


def _without_rhythm(pairs: _Pairs) -> float | None:
    """Return the correlation of both after removing the median rank of each hour of the day."""
    import numpy as np

    if pairs.days < _DAYS_MINIMUM:
        return None
    hours = np.asarray(pairs.hours)
    left = []
    for ranks in (pairs.performance, pairs.telemetry):
        remaining = ranks.copy()
        for hour in np.unique(hours):
            remaining[hours == hour] -= np.median(remaining[hours == hour])
        left.append(_ranks(remaining))
    return float(left[0] @ left[1])


def _corrected(correlations: Sequence[Correlation]) -> list[Correlation]:
    """Return the correlations with q-values over all that have a p-value."""
    import numpy as np

    from trimtab.judge.array import benjamini_hochberg

    known = [correlation.p_value for correlation in correlations if correlation.p_value is not None]
    q_values = iter(benjamini_hochberg(np.array(known)).tolist())
    corrected = []
    for correlation in correlations:
        if correlation.p_value is None:
            corrected.append(correlation)
            continue
        q = next(q_values)
        corrected.append(replace(correlation, q_value=q, moves_with=q <= LEVEL))
    return corrected


def _beside(correlations: Sequence[Correlation], pairs: Mapping[str, _Pairs]) -> list[Correlation]:
    """Return the correlations with what remains after allowing for the strongest one."""
    moving = sorted(
        (correlation for correlation in correlations if correlation.moves_with),
        key=lambda correlation: -abs(correlation.rho or 0),
    )
    completed = []
    for correlation in correlations:
        other = next((o for o in moving if o.name != correlation.name), None)
        if correlation.moves_with and other is not None:
            left = _partial(pairs[correlation.name], pairs[other.name])
            completed.append(replace(correlation, beside=other.name, rho_beside=left))
        else:
            completed.append(correlation)
    return completed


def _partial(pairs: _Pairs, other: _Pairs) -> float | None:
    """Return the partial rank correlation of performance and ``own`` given ``other``."""
    import numpy as np

    _, mine, theirs = np.intersect1d(pairs.runs, other.runs, return_indices=True)
    if len(mine) < OCCASIONS_MINIMUM:
        return None
    y, x, z = (
        _ranks(values)
        for values in (pairs.performance[mine], pairs.telemetry[mine], other.telemetry[theirs])
    )
    xy, xz, yz = float(x @ y), float(x @ z), float(y @ z)
    rest = (1 - xz * xz) * (1 - yz * yz)
    return None if rest < 1e-9 else (xy - xz * yz) / math.sqrt(rest)


def _reason(result: Correlation) -> Message:
    if result.rho is None or result.q_value is None or result.n_effective is None:
        return result.reason
    estimate = f"rank correlation {result.rho:+.2f} over {result.n} runs"
    if result.n_effective < 0.5 * result.n:
        estimate += f", which count as {result.n_effective:.0f} independent pairs"
    if not result.moves_with:
        return Message(
            "no-more-than-chance",
            f"{estimate}: not significant (q {result.q_value:.2g}, level {LEVEL:g})",
        )
    text = f"{estimate} (q {result.q_value:.2g}): moves with performance, not necessarily its cause"
    without_hours = result.rho_without_rhythm
    if without_hours is not None and abs(without_hours) < abs(result.rho) / 2:
        text += f"; {without_hours:+.2f} without the hour of the day"
    if result.rho_beside is not None and abs(result.rho_beside) < abs(result.rho) / 2:
        text += f"; {result.rho_beside:+.2f} after allowing for {result.beside}"
    return Message("moves-with", text)


def _or_one(value: float | None) -> float:
    return 2.0 if value is None else value
