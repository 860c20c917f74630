"""Whether the variability of a metric meets its goal: for repetitions of a run, and for history.

``met``: the upper end of the interval is at or below the goal. ``missed``: the lower end is
above it (for the coverage see `spread.cov_interval_of_history`). An unfinished run counts as
bandwidth 0. In a time metric 0 would be the best value, so unfinished runs are excluded there
and the verdict cannot be ``met``.

Five back-to-back repetitions differed by 0.2 % (MLPerf Storage v1.0 results), while the same
benchmarks differ by 10 to 20 % from day to day (TOKIO's year on Edison and Mira). Repetitions
give the precision of this run, not the variability of the file system.

Where runs resemble their neighbours, the window is as long as that asks for (`judge.window`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, pairwise
from statistics import fmean, median, pvariance
from typing import Final

from trimtab.base.error import Message
from trimtab.base.run import METRIC_UNITS, higher_is_better
from trimtab.base.site import LIMITS
from trimtab.base.units import DAY_S, plural
from trimtab.base.verdict import HistoryPoint, Interval, Scope, Verdict, VerdictStatus
from trimtab.judge.spread import (
    OCCASIONS_MINIMUM,
    corrected_autocorrelation,
    cov,
    cov_interval,
    cov_interval_of_history,
    cov_text,
    effective_n_cov,
    effective_n_mean,
    independent_of_cov,
    is_vague,
    mad_cv,
    mean_interval,
    occasions,
)
from trimtab.judge.window import asked_s

SPAN_MINIMUM_S: Final = 36 * 3600.0
"""The goal covers day and night: fewer runs, or a shorter span, do not sample both."""

WINDOW_LONGEST_S: Final = 60 * DAY_S
"""Maximum look-back if the window has too few runs of a probe: two months of daily runs with half
of them lost. Beyond that a verdict would describe another season."""

_GAPS_MINIMUM: Final = 5

_FEW: Final = 4.0
"""Independent numbers below which the interval of a COV is vague without any outlier."""

SPACING_S: Final = 900.0
"""Occasions closer than this to the previous one do not count towards `OCCASIONS_MINIMUM`:
otherwise an hour of repeated ``trimtab check`` would pass for two days."""


def sense_of(metric: str, unit: str | None, more_is_better: bool | None) -> tuple[str, bool]:
    """Return the unit of a metric and whether higher is better; explicit values take precedence.

    Raises
    ------
    KeyError
        The metric is unknown and no unit is given.
    """
    known_unit = METRIC_UNITS[metric] if unit is None else unit
    return known_unit, known_unit != "s" if more_is_better is None else more_is_better


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
) -> Verdict:
    """Summarise the repetitions of one run; the status is always ``cannot_tell``.

    Parameters
    ----------
    values
        One credible value per repetition, in the metric's unit.
    metric
        A key of `METRIC_UNITS`.
    probe
        Name shown in the verdict.
    goal
        Highest COV allowed over the site's window, as a fraction.
    disbelieved
        The reason for each excluded repetition.
    target
        Name of the target measured; ``None``: the whole file system.
    from_, to
        Aware times of the first and last repetition.

    Returns
    -------
    Verdict
        Mean, median, COV and intervals of the repetitions, and the reason.

    Raises
    ------
    KeyError
        The metric is unknown.
    ValueError
        A value is not finite.
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
        mean_interval=_mean_interval(values),
        median=median(values) if values else None,
        slowest=slowest(values, metric),
        cov=k,
        cov_interval=None if k is None else cov_interval(k, n),
        goal=goal,
        mad_cv=mad_cv(values),
    )


def judge_history(
    points: Sequence[HistoryPoint],
    *,
    metric: str,
    probe: str,
    goal: float,
    window_s: float = LIMITS.window_s,
    target: str | None = None,
    unit: str | None = None,
    more_is_better: bool | None = None,
    level_from: datetime | None = None,
) -> Verdict:
    """Judge whether the COV of the runs in the last window meets ``goal``.

    Parameters
    ----------
    points
        Runs of one probe in any order, without invalid workloads. Duplicates count once.
    metric
        A key of `METRIC_UNITS`, or any name if ``unit`` is given.
    probe, target
        Names shown in the verdict; ``target`` is ``None`` for the whole file system.
    goal
        Highest COV allowed, a fraction.
    window_s
        Length of the window, which ends with the last run and excludes its own start; longer, with
        a note in the reason, if a probe's runs are too far apart for it (`_reach_s`) or too
        much alike (`judge.window`).
    unit, more_is_better
        For a custom metric; ``None``: as in `METRIC_UNITS`.
    level_from
        First run of the current level, aware. ``None``: unknown, and autocorrelation does not
        lengthen the window, since it might reach over a step.

    Returns
    -------
    Verdict
        Status with COV, confidence interval and reason.

    Raises
    ------
    KeyError, ValueError
        The metric is unknown and no unit is given; a value is not finite.
    """
    unit, more = sense_of(metric, unit, more_is_better)
    grouped = _by_occasion(points, metric)
    judged, alone = _windows(grouped, window_s, level_from, goal=goal, all_count=more)
    status, reason = _status(judged, window_s, alone)
    verdict = Verdict(
        metric=metric,
        unit=unit,
        probe=probe,
        scope=Scope.HISTORY,
        status=status,
        reason=reason,
        n=judged.evidence.n,
        target=target,
        goal=goal,
        window_s=judged.reach_s if judged.reach_s > window_s else None,
    )
    return _with_figures(verdict, judged, alone, more_is_better=more)


def _with_figures(
    verdict: Verdict, judged: _Window, alone: _Window | None, *, more_is_better: bool
) -> Verdict:
    """Return a verdict with the figures of its window, and of the requested one ``alone``."""
    evidence, every, values = judged.evidence, judged.every, judged.evidence.values
    return replace(
        verdict,
        from_=every[0].at if every else None,
        to=every[-1].at if every else None,
        mean=fmean(evidence.means) if values else None,
        mean_interval=_mean_interval(evidence.means, evidence.n_independent),
        median=median(values) if values else None,
        slowest=slowest(values, verdict.metric, more_is_better=more_is_better),
        cov=evidence.cov,
        cov_interval=evidence.interval,
        mad_cv=mad_cv(values),
        unfinished=evidence.unfinished,
        cov_finished=cov([p.value for p in every if not p.unfinished]),
        cov_of_window=None if alone is None else alone.evidence.cov,
        cov_of_window_interval=None if alone is None else alone.evidence.interval,
    )


def _windows(
    grouped: Sequence[Sequence[HistoryPoint]],
    window_s: float,
    level_from: datetime | None,
    *,
    goal: float,
    all_count: bool,
) -> tuple[_Window, _Window | None]:
    """Return the window to judge, and the requested one if autocorrelation asks for a longer."""
    requested = _Window.of(grouped, _reach_s(grouped, window_s), goal=goal, all_count=all_count)
    if level_from is None or not grouped:
        return requested, None
    counted = _counted(grouped, all_count=all_count)
    longer_s = asked_s(
        [runs[0].at for runs in counted],
        list(map(_mean, counted)),
        until=grouped[-1][-1].at,
        requested=len(requested.counted),
        window_s=window_s,
        level_from=level_from,
    )
    if longer_s < requested.reach_s + DAY_S / 2:  # it is in whole days: as good as the same
        return requested, None
    return _Window.of(grouped, longer_s, goal=goal, all_count=all_count), requested


@dataclass(frozen=True, slots=True)
class _Window:
    """The runs of the last ``reach_s`` seconds by occasion, those that count, and their evidence.

    Attributes
    ----------
    counted
        By occasion; without the unfinished runs of a time metric, and without empty occasions.
    """

    reach_s: float
    every: Sequence[HistoryPoint]
    counted: Sequence[Sequence[HistoryPoint]]
    evidence: _Evidence

    @staticmethod
    def of(
        grouped: Sequence[Sequence[HistoryPoint]], reach_s: float, *, goal: float, all_count: bool
    ) -> _Window:
        """Return the window that ends with the last run; ``all_count``: unfinished ones too."""
        begin = grouped[-1][-1].at - timedelta(seconds=reach_s) if grouped else None
        inside = [runs for runs in grouped if begin is not None and runs[0].at > begin]
        every, counted = list(chain.from_iterable(inside)), _counted(inside, all_count=all_count)
        return _Window(reach_s, every, counted, _evidence(counted, every, goal))


def _counted(
    grouped: Sequence[Sequence[HistoryPoint]], *, all_count: bool
) -> list[list[HistoryPoint]]:
    """Return the runs that count of each occasion that has any: unfinished ones may not."""
    counting = ([point for point in runs if all_count or not point.unfinished] for runs in grouped)
    return list(filter(None, counting))


def _mean(runs: Sequence[HistoryPoint]) -> float:
    """Return the mean of the runs of an occasion; lost ones are 0."""
    return fmean(0.0 if point.unfinished else point.value for point in runs)


@dataclass(frozen=True, slots=True)
class _Evidence:
    n: int
    values: Sequence[float]
    means: Sequence[float]
    n_independent: float
    memory: float
    unfinished: int
    left_out: int
    cov: float | None
    interval: Interval | None
    goal: float


def _evidence(
    counted: Sequence[Sequence[HistoryPoint]],
    window: Sequence[HistoryPoint],
    goal: float,
) -> _Evidence:
    """Return the evidence of the counted runs of a window, by occasion; lost runs are 0."""
    rates = [[0.0 if p.unfinished else p.value for p in runs] for runs in counted]
    n = sum(map(len, rates))
    means = [fmean(values) for values in rates]
    within = fmean(map(pvariance, rates)) if n > len(rates) else 0.0
    memory = corrected_autocorrelation(means, cautious=True)
    return _Evidence(
        n=n,
        values=list(chain.from_iterable(rates)),
        means=means,
        n_independent=effective_n_mean(len(means), memory),
        memory=memory,
        unfinished=sum(p.unfinished for p in window),
        left_out=len(window) - n,
        cov=cov(means, within),
        interval=cov_interval_of_history(means, within=within),
        goal=goal,
    )


def _mean_interval(values: Sequence[float], n_effective: float | None = None) -> Interval | None:
    """Return the interval of the mean, cut at 0: no metric is negative."""
    interval = mean_interval(values, n_effective=n_effective)
    return None if interval is None else replace(interval, low=max(0.0, interval.low))


def _by_occasion(points: Sequence[HistoryPoint], metric: str) -> list[list[HistoryPoint]]:
    """Return the runs of ``metric`` by occasion and time, each run once."""
    by_run = {point.run: point for point in points if point.metric == metric}
    runs = sorted(by_run.values(), key=lambda point: (point.at, point.run))
    starts = occasions([point.at.timestamp() for point in runs])
    return [runs[start:end] for start, end in pairwise([*starts, len(runs)])]


def _reach_s(grouped: Sequence[Sequence[HistoryPoint]], window_s: float) -> float:
    """Return the length of the window, longer if the requested one holds too few occasions.

    Occasions of a daily probe are up to 23 h further apart than a window of two days allows: the
    window is then as long as `OCCASIONS_MINIMUM` of them take.
    """
    starts = [runs[0] for runs in grouped]
    apart_s = _apart_s(starts)
    if apart_s is None or apart_s * (OCCASIONS_MINIMUM - 1) < window_s:
        return window_s
    first = starts[-min(OCCASIONS_MINIMUM, len(starts))]
    taken_s = (grouped[-1][-1].at - first.at).total_seconds() + 1.0
    enough = len(starts) >= OCCASIONS_MINIMUM
    longest_s = min(WINDOW_LONGEST_S, taken_s) if enough else WINDOW_LONGEST_S
    return max(window_s, longest_s)


def _status(
    judged: _Window, window_s: float, alone: _Window | None
) -> tuple[VerdictStatus, Message]:
    """Return status and reason; the reason mentions a window longer than requested.

    Parameters
    ----------
    alone
        The requested window, if autocorrelation asked for a longer one.
    """
    counted = judged.counted
    missing = _missing_history(counted, judged.reach_s)
    status, reason = (VerdictStatus.CANNOT_TELL, missing) if missing else _decide(judged.evidence)
    if judged.reach_s <= window_s or not counted:
        return status, reason
    if alone is not None:
        days = judged.reach_s / DAY_S
        short = _hours(window_s)
        if alone.reach_s > window_s:
            short = f"the last {plural(alone.evidence.n, 'run')}"
        because = f"autocorrelated: {short} alone give {_estimate(alone.evidence)}"
        return status, Message(reason.code, f"over the last {days:.0f} d ({because}): {reason}")
    days = (counted[-1][-1].at - counted[0][0].at).days
    runs = f"over the last {plural(judged.evidence.n, 'run')}, {days} d"
    because = f"{_hours(window_s)} hold too few runs of this probe"
    return status, Message(reason.code, f"{runs} ({because}): {reason}")


def _apart_s(starts: Sequence[HistoryPoint]) -> float | None:
    """Return the usual distance of the last occasions; ``None`` if there are too few."""
    last = starts[-OCCASIONS_MINIMUM:]
    gaps = [(later.at - point.at).total_seconds() for point, later in pairwise(last)]
    return median(gaps) if len(gaps) >= _GAPS_MINIMUM else None


def _spaced(counted: Sequence[Sequence[HistoryPoint]]) -> int:
    """Return the number of occasions at least `SPACING_S` apart."""
    count, last = 0, None
    for point, *_ in counted:
        if last is None or (point.at - last).total_seconds() >= SPACING_S:
            count, last = count + 1, point.at
    return count


def _missing_history(counted: Sequence[Sequence[HistoryPoint]], window_s: float) -> Message | None:
    """Return what the history lacks for a verdict; ``None`` if it is long enough."""
    n, spaced = sum(map(len, counted)), _spaced(counted)
    span_s = (counted[-1][-1].at - counted[0][0].at).total_seconds() if counted else 0.0
    if spaced >= OCCASIONS_MINIMUM and span_s >= SPAN_MINIMUM_S:
        return None
    required = f"a verdict needs at least {OCCASIONS_MINIMUM} runs over {_hours(SPAN_MINIMUM_S)}"
    if window_s <= SPAN_MINIMUM_S:
        return Message(
            "window-too-short",
            f"the window of {_hours(window_s)} is too short: {required}",
        )
    lacks = []
    if spaced < OCCASIONS_MINIMUM:
        lacks.append(plural(OCCASIONS_MINIMUM - spaced, "more run"))
    if span_s < SPAN_MINIMUM_S:
        lacks.append(f"{_hours(SPAN_MINIMUM_S - span_s)} more")
    recorded = f"{plural(n, 'run')} over {_hours(span_s)} in the last {_hours(window_s)}"
    if len(counted) < n:
        recorded += f" on {plural(len(counted), 'occasion')}"
    if spaced < len(counted):
        recorded += f", {spaced} of them at least {SPACING_S / 60:.0f} min apart"
    return Message("too-few-runs", f"{recorded}; {required}: {' and '.join(lacks)} needed")


def _decide(evidence: _Evidence) -> tuple[VerdictStatus, Message]:
    """Return status and reason for a history that is long enough."""
    if evidence.cov is None or evidence.interval is None:
        if evidence.unfinished == evidence.n:
            return VerdictStatus.MISSED, Message(
                "none-finished", f"none of the {evidence.n} runs finished in time"
            )
        return VerdictStatus.CANNOT_TELL, Message(
            "mean-zero", "the mean is 0: the COV is undefined"
        )
    if evidence.cov == 0:
        return _decide_constant(evidence)
    low, high, goal = evidence.interval.low, evidence.interval.high, evidence.goal
    estimate, runs = _estimate(evidence), _runs_in_words(evidence)
    if low > goal:
        return VerdictStatus.MISSED, Message(
            "goal-missed", f"{estimate} exceeds the goal of {cov_text(goal)}; {runs}"
        )
    if high > goal and is_vague(evidence.interval):
        return VerdictStatus.CANNOT_TELL, Message(
            "too-few-independent-runs", estimate + _unfinished_in_words(evidence)
        )
    if high > goal:
        return VerdictStatus.CANNOT_TELL, Message(
            "goal-in-interval",
            f"{estimate}: inconclusive, the interval includes the goal of {cov_text(goal)}; {runs}",
        )
    return _met_unless_left_out(
        evidence,
        Message("goal-met", f"{estimate} meets the goal of {cov_text(goal)}; {runs}"),
    )


def _estimate(evidence: _Evidence) -> str:
    """Return the COV with its interval, or what is known of it if that says nothing."""
    k, interval, goal = evidence.cov, evidence.interval, evidence.goal
    if k is None or interval is None:
        return "no COV"
    if not is_vague(interval):
        return f"COV {cov_text(k)} ({cov_text(interval.low)} to {cov_text(interval.high)})"
    if interval.low > goal:
        return f"COV {cov_text(k)} (at least {cov_text(interval.low)})"
    if interval.high <= goal:
        return f"COV {cov_text(k)} (at most {cov_text(interval.high)})"
    return f"no usable COV: {_vagueness(evidence)}"


def _vagueness(evidence: _Evidence) -> str:
    """Return why the interval of the COV is vague (`spread.is_vague`)."""
    independent = plural(round(independent_of_cov(evidence.means)), "independent one")
    if effective_n_cov(len(evidence.means), evidence.memory) < _FEW:
        because = "they are autocorrelated"
    else:
        because = "a few outliers make most of the variance"
    return f"{plural(evidence.n, 'run')} count as {independent}, since {because}"


def _decide_constant(evidence: _Evidence) -> tuple[VerdictStatus, Message]:
    # A simulation without noise is constant. So are copies of one result: the reason says so.
    return _met_unless_left_out(
        evidence,
        Message(
            "constant-values",
            f"all {evidence.n} runs gave exactly the same value, which real measurements rarely "
            "do: check that they are separate runs",
        ),
    )


def _met_unless_left_out(evidence: _Evidence, reason: Message) -> tuple[VerdictStatus, Message]:
    if not evidence.left_out:
        return VerdictStatus.MET, reason
    left_out = plural(evidence.left_out, "unfinished run")
    return VerdictStatus.CANNOT_TELL, Message(
        "unfinished-not-counted", f"{reason}; {left_out} cannot be counted in a time metric"
    )


def _runs_in_words(evidence: _Evidence) -> str:
    text = plural(evidence.n, "run")
    if len(evidence.means) < evidence.n:
        text += f" on {plural(len(evidence.means), 'occasion')}"
    independent = effective_n_cov(len(evidence.means), evidence.memory)
    if independent < 0.5 * len(evidence.means):
        text += f", autocorrelated: they count as {independent:.0f} independent runs"
    return text + _unfinished_in_words(evidence)


def _unfinished_in_words(evidence: _Evidence) -> str:
    if evidence.unfinished <= evidence.left_out:
        return ""
    return f", {evidence.unfinished} of them unfinished and counted as 0"


def _reason_of_repetitions(
    values: Sequence[float], k: float | None, goal: float, disbelieved: Sequence[str]
) -> Message:
    left_out = _disbelief(len(values), disbelieved)
    if not values:
        if left_out is None:
            return Message("no-repetition", "no repetition to judge")
        return Message("no-believed-repetition", left_out)
    parts = [left_out] if left_out else []
    code = "repetitions-only"
    if len(values) == 1:
        code = "one-repetition"
        parts.append("one repetition has no variance")
    elif k is None:
        code = "mean-zero"
        parts.append("the mean is 0: the COV is undefined")
    parts.append(
        "back-to-back repetitions do not show day-to-day variability (0.2 % against 10 to 20 % in "
        f"public data), so the goal of {cov_text(goal)} cannot be judged"
    )
    return Message(code, "; ".join(parts))


def _disbelief(n_believed: int, reasons: Sequence[str]) -> str | None:
    """Return how many repetitions were excluded and why, most common reason first."""
    if not reasons:
        return None
    total = n_believed + len(reasons)
    if total == 1:
        excluded = "the only repetition is not credible"
    elif n_believed == 0:
        excluded = f"none of the {total} repetitions is credible"
    else:
        excluded = f"{len(reasons)} of {total} repetitions are not credible"
    (commonest, _), *others = Counter(reasons).most_common()
    more = f" (and {plural(len(others), 'other reason')})" if others else ""
    return f"{excluded}: {commonest}{more}"


def _hours(duration_s: float) -> str:
    return f"{duration_s / 3600:.1f}".removesuffix(".0") + " h"
