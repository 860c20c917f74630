"""What a run says by itself, over time, and against earlier ones: for each metric of a check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from trimtab.judge.baseline import compare_with_earlier
from trimtab.judge.variability import judge_history, judge_repetitions
from trimtab.measure.measurement import BANDWIDTH
from trimtab.model.run import METRIC_UNITS, Run
from trimtab.model.verdict import Comparison, HistoryPoint, Verdict

METRICS = tuple(BANDWIDTH.values())


def metrics_of(run: Run, history: Sequence[HistoryPoint]) -> tuple[str, ...]:
    """Return what a run is judged by: its bandwidths, or else everything that its like measure.

    Amounts of bytes are what was done, not how well.

    Parameters
    ----------
    history
        Runs of the same probe: one that did not finish has measured nothing itself.
    """
    metrics = {sample.metric for sample in run.samples if sample.is_total}
    metrics |= {point.metric for point in history}
    if not metrics or not metrics.isdisjoint(METRICS):
        return METRICS
    return tuple(name for name, unit in METRIC_UNITS.items() if name in metrics and unit != "B")


def by_metric(points: Sequence[HistoryPoint]) -> Iterator[tuple[str, list[HistoryPoint]]]:
    """Yield each metric with its points; amounts of bytes are what was done, not how well."""
    for metric in dict.fromkeys(point.metric for point in points):
        if METRIC_UNITS.get(metric) != "B":
            yield metric, [point for point in points if point.metric == metric]


def verdicts(run: Run, history: Sequence[HistoryPoint], *, goal: float) -> tuple[Verdict, ...]:
    """Return for each metric the verdict on the repetitions of a run and the one over time.

    Parameters
    ----------
    history
        Runs of the same probe, this one among them.
    goal
        The COV not to exceed, as a fraction.
    """
    name = probe_name(run)
    results = []
    for metric in metrics_of(run, history):
        judge = partial(judge_repetitions, metric=metric, probe=name, goal=goal)
        values, doubted = run.believed(metric), run.disbelieved(metric)
        results.append(judge(values, disbelieved=doubted, from_=run.at, to=run.until))
        results.append(judge_history(history, metric=metric, probe=name, goal=goal))
    return tuple(results)


def comparisons(run: Run, history: Sequence[HistoryPoint]) -> tuple[Comparison, ...]:
    """Return for each metric the run against the others of the same probe; none without any."""
    earlier = [point for point in history if point.run != run.id]
    if not earlier:
        return ()
    name = probe_name(run)
    return tuple(
        compare_with_earlier(run.believed(metric), earlier, metric=metric, probe=name)
        for metric in metrics_of(run, history)
    )


def probe_name(run: Run) -> str:
    """Return the probe as people read it: ``check (fio)``."""
    return f"{run.probe} ({run.kind})"
