"""Which instruments have data within an incident, and what each could have detected.

A probe limited by its clients cannot see a target that loses half; a survey of single targets can.
An explanation that relies on the probe alone says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

import polars as pl

from trimtab.explain.breadth import breadth, surveys_within
from trimtab.explain.context import Context, RunFact
from trimtab.explain.telemetry import OSTS, observe
from trimtab.judge.sensitivity import StripedProbe, probe_limit, survey_limit
from trimtab.judge.spread import corrected_autocorrelation, cov
from trimtab.message import Message
from trimtab.model.incident import Instrument
from trimtab.model.run import RunStatus

_MOVED: Final = {"write_bandwidth": "bytes_written", "read_bandwidth": "bytes_read"}
_RUNS_LEAST: Final = 8
"""Fewest runs for a usual bandwidth and its spread."""
_OVERHEAD_MOST: Final = 0.95
"""A lag-1 autocorrelation from so few runs is no more certain than this."""
_SURVEYS_LEAST: Final = 3
_LIMIT: Final = "detection-limit"
"""Code of a limit given as text."""


def instruments(context: Context) -> tuple[Instrument, ...]:
    """Return every probe's metrics and the survey of single targets, with their detection limits.

    Notes
    -----
    A probe's limit assumes its files are spread evenly over all open targets
    (`trimtab.judge.sensitivity`); a probe that does not report its bytes has none.
    """
    targets = _open_targets(context)
    probes = [
        _probe(name, metric, runs, targets, context)
        for (name, metric), runs in _by_metric(context.runs).items()
    ]
    return (*probes, *_surveys(context))


def _by_metric(runs: Sequence[RunFact]) -> dict[tuple[str, str], list[RunFact]]:
    probes: dict[str, list[RunFact]] = {}
    for run in runs:
        probes.setdefault(run.probe, []).append(run)
    return {
        (name, metric): of_probe
        for name, of_probe in sorted(probes.items())
        for metric in sorted({metric for run in of_probe for metric in run.values})
    }


def _open_targets(context: Context) -> int | None:
    """Return the number of targets that accept data, in the bad hours if known."""
    seen = observe(context).values("create_enabled", kinds=OSTS)
    if seen.is_empty():
        return len(context.home) or None
    last = seen.filter(at=seen["at"].max())
    return int((last["value"] > 0).sum()) or None


def _probe(
    name: str, metric: str, runs: Sequence[RunFact], targets: int | None, context: Context
) -> Instrument:
    within = [run for run in runs if context.is_bad(run.at)]
    saw = any(metric in run.values or run.status is RunStatus.UNFINISHED for run in within)
    usual = [run for run in runs if metric in run.values and context.is_good(run.at)]
    limit = None
    moved = _MOVED.get(metric)
    values = [run.values[metric] for run in usual if run.values[metric] > 0]
    bytes_moved = [] if moved is None else [size for run in usual if (size := getattr(run, moved))]
    if moved is None:
        reason = Message("counts-operations", "it counts operations, not bytes per target")
    elif targets is None or not bytes_moved:
        lacking = "what it moves" if targets is not None else "how many targets are open"
        reason = Message("quantity-unknown", f"{lacking} is unknown")
    elif len(values) < _RUNS_LEAST:
        reason = Message(
            "too-few-runs", f"{len(values)} runs of good hours are too few for its spread"
        )
    else:
        limits = probe_limit(
            StripedProbe(
                bytes_moved=median(bytes_moved),
                targets=targets,
                bandwidth_bytes_per_s=median(values),
                cov=cov(values) or 0.0,
                autocorrelation=min(_OVERHEAD_MOST, corrected_autocorrelation(values)),
            ),
            runs=max(1, sum(metric in run.values for run in within)),
            runs_before=len(values),
        )
        limit = limits.notices_below_bytes_per_s
        reason = Message(_LIMIT, limits.reason)
    return Instrument(name=name, metric=metric, notices_below=limit, saw=saw, reason=reason)


def _surveys(context: Context) -> list[Instrument]:
    """Return the survey of single targets, once per metric."""
    frame = surveys_within(context)
    metrics = sorted(frame["metric"].unique().to_list())
    seen = breadth(context)
    if not metrics:
        return [_survey("each target by itself", None, seen.surveyed, seen.reason)]
    return [_of_metric(context, frame, metric) for metric in metrics]


def _of_metric(context: Context, frame: pl.DataFrame, metric: str) -> Instrument:
    of_metric = frame.filter(metric=metric)
    bad, good = (of_metric.filter(bad=side) for side in (True, False))
    spread = (
        good.filter(pl.col("value") > 0)
        .group_by("target")
        .agg(middle=pl.median("value"), n=pl.len(), sd=pl.col("value").std())
        .filter(pl.col("n") >= _SURVEYS_LEAST)
    )
    saw = not bad.is_empty()
    if spread.is_empty():
        return _survey(
            metric,
            None,
            saw,
            Message("too-few-surveys", "too few surveys of good hours for its spread"),
        )
    middle = float(spread["middle"].median())  # pyrefly: ignore[bad-argument-type]
    relative = (spread["sd"] / spread["middle"]).median()
    limits = survey_limit(
        middle,
        float(relative),  # pyrefly: ignore[bad-argument-type]
        runs=max(1, bad["run"].n_unique()),
        runs_before=good["run"].n_unique(),
    )
    limit, reason = limits.notices_below_bytes_per_s, Message(_LIMIT, limits.reason)
    return _survey(metric, limit, saw, reason)


def _survey(metric: str, limit: float | None, saw: bool, reason: Message) -> Instrument:
    return Instrument("survey of single targets", metric, limit, saw, reason)
