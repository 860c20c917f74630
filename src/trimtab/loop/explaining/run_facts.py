"""Kept runs as an explanation needs them: figures, tails, where they ran, what they moved."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from trimtab.explain.context import CpuProfile, RunFact
from trimtab.measure.plain import as_dict, as_list, as_number
from trimtab.model.run import Run, Sample
from trimtab.record.comparability import ASKED

PERF_KIND = "perf"


def run_fact(run: Run, series: str) -> RunFact | None:
    """Return a kept run as a fact; ``None`` for one without a time, which explains nothing.

    Parameters
    ----------
    series
        Its comparability.
    """
    if run.at is None:
        return None
    parameters = run.parameters
    job, cost = as_dict(parameters.get("job")), as_dict(parameters.get("cost"))
    asked = as_dict(parameters.get(ASKED))
    totals, tails = _figures(run.samples)
    nodes = tuple(str(name) for name in as_list(job.get("nodes")))
    return RunFact(
        id=run.id,
        at=run.at,
        until=run.until,
        probe=run.probe,
        kind=run.kind,
        series=series,
        status=run.status,
        values=totals,
        tails=tails,
        disbelieved=tuple(dict.fromkeys(one.reason for one in run.samples if one.reason)),
        problem=run.problem,
        hosts=nodes or (() if run.host is None else (run.host,)),
        bytes_written=_moved(totals, cost, "bytes_written"),
        bytes_read=_moved(totals, cost, "bytes_read"),
        nodes=_count(asked.get("nodes")) or len(nodes) or None,
        tasks=_count(asked.get("tasks")),
    )


def profile_of(run: Run) -> CpuProfile | None:
    """Return an imported output of perf as where a server's CPU time went, ``None`` for others."""
    if run.kind != PERF_KIND:
        return None
    told = as_dict(run.parameters.get("told"))
    shares = {
        str(name): share
        for name, value in as_dict(told.get("shares")).items()
        if (share := as_number(value)) is not None
    }
    server = told.get("server") or run.host or ""
    return CpuProfile(run.at, str(server), shares, run.path or run.id) if shares else None


def _figures(samples: Iterable[Sample]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median of each metric over repetitions, and of each other statistic of it."""
    totals: dict[str, list[float]] = {}
    tails: dict[str, list[float]] = {}
    for one in samples:
        if one.target is not None or not one.believed or one.value is None:
            continue
        if one.statistic == "total":
            totals.setdefault(one.metric, []).append(one.value)
        else:
            tails.setdefault(f"{one.metric}:{one.statistic}", []).append(one.value)
    return (
        {name: median(values) for name, values in totals.items()},
        {name: median(values) for name, values in tails.items()},
    )


def _moved(totals: dict[str, float], cost: dict[str, Any], name: str) -> float | None:
    moved = totals.get(name, as_number(cost.get(name)))
    return None if moved is None else float(moved)


def _count(value: object) -> int | None:
    number = as_number(value)
    return None if number is None or number < 1 else int(number)
