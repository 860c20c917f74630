"""What a run says by itself, over time, and against earlier ones: for each metric of a check."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.judge.comparison import compare_with_earlier
from trimtab.judge.variability import judge_history, judge_repetitions
from trimtab.measure.measurement import BANDWIDTH
from trimtab.model.check import HistoryPoint
from trimtab.model.run import Run
from trimtab.model.verdict import Comparison, Verdict

METRICS = tuple(BANDWIDTH.values())


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
    found = []
    for metric in METRICS:
        found.append(
            judge_repetitions(
                run.believed(metric),
                metric=metric,
                probe=name,
                goal=goal,
                disbelieved=run.disbelieved(metric),
                from_=run.at,
                to=run.until,
            )
        )
        found.append(judge_history(history, metric=metric, probe=name, goal=goal))
    return tuple(found)


def comparisons(run: Run, history: Sequence[HistoryPoint]) -> tuple[Comparison, ...]:
    """Return for each metric the run against the others of the same probe; none without any."""
    earlier = [point for point in history if point.run != run.id]
    if not earlier:
        return ()
    name = probe_name(run)
    return tuple(
        compare_with_earlier(run.believed(metric), earlier, metric=metric, probe=name)
        for metric in METRICS
    )


def probe_name(run: Run) -> str:
    """Return the probe as people read it: ``check (fio)``."""
    return f"{run.probe} ({run.kind})"
