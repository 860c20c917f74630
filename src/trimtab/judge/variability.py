"""Whether a metric keeps the goal: verdicts of repetitions and of history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import fmean, median
from typing import Final

from trimtab.judge.spread import (
    corrected_autocorrelation,
    cov,
    cov_interval,
    cov_interval_of_history,
    effective_n_mean,
    mad_cv,
    mean_interval,
)
from trimtab.model.check import HistoryPoint
from trimtab.model.run import METRIC_UNITS
from trimtab.model.verdict import Interval, Scope, Verdict, VerdictStatus
from trimtab.units import plural

RUNS_MINIMUM: Final = 24
SPAN_MINIMUM_S: Final = 36 * 3600.0
"""The goal is about day and night: fewer runs, or over less time, have not seen both."""

SPACING_S: Final = 900.0
"""Runs closer than this to the one before are repetitions of it: they do not count as further
runs towards `RUNS_MINIMUM`, or an hour of typing `trimtab check` would pass for two days."""


def higher_is_better(metric: str) -> bool:
    """Return whether more of it is better: true of rates and bandwidths, false of times."""
    return METRIC_UNITS[metric] != "s"


def sense_of(metric: str, unit: str | None, more_is_better: bool | None) -> tuple[str, bool]:
    """Return unit and sense of a metric: as told, else as known of it, else as its unit has it.

    Raises
    ------
    KeyError
        The metric is not known and no unit is told.
    """
    own = METRIC_UNITS[metric] if unit is None else unit
    return own, own != "s" if more_is_better is None else more_is_better


def slowest(
    values: Sequence[float], metric: str, *, more_is_better: bool | None = None
) -> float | None:
    """Return the worst value: the lowest bandwidth or rate, the longest time."""
    if not values:
        return None
    more = higher_is_better(metric) if more_is_better is None else more_is_better
    return min(values) if more else max(values)


def judge_repetitions(
    values: Sequence[float],
    *,
    metric: str,
    probe: str,
    goal: float,
    disbelieved: Sequence[str] = (),
    target: str | None = None,
    from_: datetime | None = None,
    to: datetime | None = None,
    level: float = 0.95,
) -> Verdict:
    """Return what the repetitions of one run say: numbers, and always ``cannot_tell``.

    Parameters
    ----------
    values
        One believed value for each repetition, in the metric's unit.
    goal
        The COV not to exceed over the site's window, as a fraction.
    disbelieved
        The reason of each repetition that is left out.

    Raises
    ------
    KeyError
        The metric is not known.
    ValueError
        A value is not finite.

    Notes
    -----
    Five repetitions back to back differed by 0.2 % (MLPerf Storage v1.0 results) where the same
    benchmarks differ by 10 to 20 % from day to day (TOKIO's year on Edison and Mira). They say
    how well this run knows its own figure, nothing about how steady the file system is.
    """
    k = cov(values)
    n = len(values)
    return Verdict(
        metric=metric,
        unit=METRIC_UNITS[metric],
        probe=probe,
        scope=Scope.REPETITIONS,
        status=VerdictStatus.CANNOT_TELL,
        reason=_reason_of_repetitions(values, k, goal, disbelieved),
        n=n,
        target=target,
        from_=from_,
        to=to,
        mean=fmean(values) if values else None,
        mean_interval=_mean_interval(values, level),
        median=median(values) if values else None,
        slowest=slowest(values, metric),
        cov=k,
        cov_interval=None if k is None else cov_interval(k, n, level),
        goal=goal,
        mad_cv=mad_cv(values),
    )


def judge_history(
    points: Sequence[HistoryPoint],
    *,
    metric: str,
    probe: str,
    goal: float,
    window_s: float = 48 * 3600.0,
    target: str | None = None,
    level: float = 0.95,
    unit: str | None = None,
    more_is_better: bool | None = None,
) -> Verdict:
    """Return whether the runs of the last window keep the COV under ``goal``.

    Parameters
    ----------
    points
        Runs of one probe in any order; those of other metrics are passed over, and a run that
        is there twice counts once. Runs with an invalid workload must not be among them.
    window_s
        The window ends with the last run and leaves its own beginning out, so that consecutive
        windows share no run.
    unit, more_is_better
        Of a metric of somebody else's; ``None``: as `METRIC_UNITS` has it.

    Raises
    ------
    KeyError
        The metric is not known and no unit is told.
    ValueError
        A value is not finite.

    Notes
    -----
    ``met`` when the upper end of the interval is at or under the goal, ``missed`` when its lower
    end is over it (`spread.cov_interval_of_history` says how far that can be trusted). A run
    that did not finish counts as bandwidth 0. In a metric that is a time 0 would be splendid
    instead: there unfinished runs are left out, and the verdict can no longer be ``met``.
    """
    unit, more = sense_of(metric, unit, more_is_better)
    window = _window(points, metric, window_s)
    counted = [p for p in window if more or not p.unfinished]
    values = [0.0 if p.unfinished else p.value for p in counted]
    evidence = _evidence(values, window, goal=goal, level=level)
    missing = _what_is_missing(counted, window_s)
    status, reason = (VerdictStatus.CANNOT_TELL, missing) if missing else _decide(evidence)
    return Verdict(
        metric=metric,
        unit=unit,
        probe=probe,
        scope=Scope.HISTORY,
        status=status,
        reason=reason,
        n=evidence.n,
        target=target,
        from_=window[0].at if window else None,
        to=window[-1].at if window else None,
        mean=fmean(values) if values else None,
        mean_interval=_mean_interval(values, level, evidence.n_independent),
        median=median(values) if values else None,
        slowest=slowest(values, metric, more_is_better=more),
        cov=evidence.cov,
        cov_interval=evidence.interval,
        goal=goal,
        mad_cv=mad_cv(values),
        unfinished=evidence.unfinished,
        cov_finished=cov([p.value for p in window if not p.unfinished]),
    )


def _evidence(
    values: Sequence[float], window: Sequence[HistoryPoint], *, goal: float, level: float
) -> _Evidence:
    n = len(values)
    return _Evidence(
        n=n,
        n_independent=effective_n_mean(n, corrected_autocorrelation(values, cautious=True)),
        unfinished=sum(p.unfinished for p in window),
        left_out=len(window) - n,
        cov=cov(values),
        interval=cov_interval_of_history(values, level),
        goal=goal,
    )


def _mean_interval(
    values: Sequence[float], level: float, n_effective: float | None = None
) -> Interval | None:
    """Return the interval of the mean cut at 0: no metric is ever negative."""
    interval = mean_interval(values, level, n_effective=n_effective)
    return None if interval is None else replace(interval, low=max(0.0, interval.low))


@dataclass(frozen=True, slots=True)
class _Evidence:
    n: int
    n_independent: float
    unfinished: int
    left_out: int
    cov: float | None
    interval: Interval | None
    goal: float


def _window(
    points: Sequence[HistoryPoint], metric: str, window_s: float
) -> tuple[HistoryPoint, ...]:
    """Return the points of ``metric`` in the last window, by time, each run once."""
    runs = {point.run: point for point in points if point.metric == metric}
    if not runs:
        return ()
    begin = max(point.at for point in runs.values()) - timedelta(seconds=window_s)
    return tuple(sorted((p for p in runs.values() if p.at > begin), key=lambda p: (p.at, p.run)))


def _spaced(points: Sequence[HistoryPoint]) -> int:
    """Return how many runs remain when those within `SPACING_S` of a counted one do not count."""
    count, last = 0, None
    for point in points:
        if last is None or (point.at - last).total_seconds() >= SPACING_S:
            count, last = count + 1, point.at
    return count


def _what_is_missing(points: Sequence[HistoryPoint], window_s: float) -> str | None:
    """Return what history still lacks for a verdict, in words; ``None`` when nothing."""
    n, spaced = len(points), _spaced(points)
    span_s = (points[-1].at - points[0].at).total_seconds() if points else 0.0
    if spaced >= RUNS_MINIMUM and span_s >= SPAN_MINIMUM_S:
        return None
    needed = f"a verdict needs at least {RUNS_MINIMUM} runs over {_hours(SPAN_MINIMUM_S)}"
    if window_s <= SPAN_MINIMUM_S:
        return f"the window is {_hours(window_s)}: {needed}, so it has to be longer"
    lacks = []
    if spaced < RUNS_MINIMUM:
        lacks.append(plural(RUNS_MINIMUM - spaced, "more run"))
    if span_s < SPAN_MINIMUM_S:
        lacks.append(f"{_hours(SPAN_MINIMUM_S - span_s)} more")
    seen = f"{plural(n, 'run')} over {_hours(span_s)} in the last {_hours(window_s)}"
    if spaced < n:
        seen += f", {spaced} of them at least {SPACING_S / 60:.0f} min apart"
    return f"{seen}; {needed}: {' and '.join(lacks)} to go"


def _decide(evidence: _Evidence) -> tuple[VerdictStatus, str]:
    """Return status and reason for a history that is long enough."""
    if evidence.cov is None or evidence.interval is None:
        if evidence.unfinished == evidence.n:
            return VerdictStatus.MISSED, f"none of the {evidence.n} runs finished in its time"
        return VerdictStatus.CANNOT_TELL, "the mean is 0: COV is not defined"
    if evidence.cov == 0:
        return _decide_constant(evidence)
    low, high, goal = evidence.interval.low, evidence.interval.high, evidence.goal
    found = f"COV {_percent(evidence.cov)} ({_percent(low)} to {_percent(high)})"
    runs = _runs_in_words(evidence)
    if low > goal:
        return VerdictStatus.MISSED, f"{found} is over the goal of {_percent(goal)} in {runs}"
    if high > goal:
        why = f"{found}: the goal of {_percent(goal)} lies within the interval from {runs}"
        return VerdictStatus.CANNOT_TELL, why
    return _met_unless_left_out(evidence, f"{found} keeps the goal of {_percent(goal)} in {runs}")


def _decide_constant(evidence: _Evidence) -> tuple[VerdictStatus, str]:
    # A simulation without noise is constant and steady. So are lines of one result copied: say it.
    return _met_unless_left_out(
        evidence,
        f"all {evidence.n} runs gave the very same value, which measurements hardly ever do: "
        "steady if they are separate runs",
    )


def _met_unless_left_out(evidence: _Evidence, reason: str) -> tuple[VerdictStatus, str]:
    if not evidence.left_out:
        return VerdictStatus.MET, reason
    left_out = plural(evidence.left_out, "run")
    return VerdictStatus.CANNOT_TELL, (
        f"{reason}, but {left_out} that did not finish cannot be counted in a time"
    )


def _runs_in_words(evidence: _Evidence) -> str:
    text = plural(evidence.n, "run")
    if evidence.n_independent < 0.5 * evidence.n:
        text += (
            f", which resemble their neighbours and count as {evidence.n_independent:.0f} "
            "independent ones"
        )
    if evidence.unfinished > evidence.left_out:
        text += f", {evidence.unfinished} of them unfinished and counted as 0"
    return text


def _reason_of_repetitions(
    values: Sequence[float], k: float | None, goal: float, disbelieved: Sequence[str]
) -> str:
    left_out = _disbelief(len(values), disbelieved)
    if not values:
        return left_out or "there is no repetition to judge"
    parts = [left_out] if left_out else []
    if len(values) == 1:
        parts.append("one repetition has no spread")
    elif k is None:
        parts.append("the mean is 0: COV is not defined")
    parts.append(
        "repetitions back to back say nothing of variability from day to day (0.2 % against "
        f"10 to 20 % in public data), so they cannot meet or miss the goal of {_percent(goal)}"
    )
    return "; ".join(parts)


def _disbelief(n_believed: int, reasons: Sequence[str]) -> str | None:
    """Return how many repetitions were left out and why, the commonest reason first."""
    if not reasons:
        return None
    total = n_believed + len(reasons)
    if len(reasons) < total:
        who = f"{len(reasons)} of {total} repetitions were"
    else:
        who = "the only repetition was" if total == 1 else f"none of the {total} repetitions was"
    verb = "to be believed" if n_believed == 0 and total > 1 else "not to be believed"
    (first, _), *others = Counter(reasons).most_common()
    more = f" (and {plural(len(others), 'other reason')})" if others else ""
    return f"{who} {verb}: {first}{more}"


def _hours(duration_s: float) -> str:
    return f"{duration_s / 3600:.1f}".removesuffix(".0") + " h"


def _percent(fraction: float) -> str:
    """Return per cent with two figures at least, so that 7.98 % is not printed as the goal."""
    return f"{100 * fraction:.3g} %"
