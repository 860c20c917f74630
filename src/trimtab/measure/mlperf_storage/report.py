"""Reads a report: the means of several runs, and of all."""

from __future__ import annotations

import re
from typing import Any

from trimtab.measure.measurement import Measurement, missing
from trimtab.measure.mlperf_storage.document import KIND, Document, mean_reason, whole
from trimtab.measure.plain import as_dict, as_number, present
from trimtab.message import Message
from trimtab.model.run import RunStatus, Sample
from trimtab.units import MIB


def read_report(document: Document) -> tuple[Measurement, ...]:
    """Return the runs of a report in the order of their names, then ``overall``."""
    runs = sorted(as_dict(document.value.get("runs")), key=_natural)
    problem = _report_problem(document, runs)
    measurements = [_reported(document, ("runs", name), problem) for name in runs]
    if as_dict(document.value.get("overall")):
        measurements.append(_reported(document, ("overall",), problem))
    return tuple(measurements)


def _reported(document: Document, path: tuple[str, ...], problem: str | None) -> Measurement:
    """Return a report's figures for one run, or for all runs (then means of runs)."""
    overall = path == ("overall",)
    figures: dict[str, Any] = document.value
    for part in path:
        figures = as_dict(figures.get(part))
    middle = "_mean" if overall else ""
    samples: list[Sample] = []
    for metric, key, unit in (
        ("samples_rate", f"train_throughput{middle}_samples_per_second", 1.0),
        ("read_bandwidth", f"train_throughput{middle}_MB_per_second", MIB),
    ):
        value, reason = as_number(figures.get(key)), problem
        if value is None:
            reason = problem or Message("no-figure", "the report has no value here")
        rate, line = None if value is None else value * unit, document.lines.get((*path, key))
        repetition, statistic = (None, "mean") if overall else (0, "total")
        samples.append(Sample(metric, rate, repetition, None, statistic, 0, line, reason))
    keys = {"model": "model", "accelerator": "accelerator", "files": "num_files_train"}
    keys |= {"samples_per_file": "num_samples_per_file", "tasks": "train_num_accelerators"}
    requested = {name: figures.get(key) for name, key in keys.items()}
    requested["tasks"] = whole(requested["tasks"])
    failure = next((sample.reason for sample in samples if sample.reason), None)
    reason = "a report has the mean of each run; its epochs are in the summary.json of the run"
    return Measurement(
        kind=KIND,
        status=RunStatus.OK if failure is None else RunStatus.FAILED,
        problems=() if failure is None else (failure,),
        name=path[-1],
        layer="application",
        requested=present(requested),
        reported={"runs": len(as_dict(document.value.get("runs")))} if overall else {},
        samples=tuple(samples),
        missing=(missing("accelerator_utilization", "epochs-elsewhere", reason),),
    )


def _report_problem(document: Document, runs: list[str]) -> str | None:
    """Return why a report contradicts itself: the overall figures must be the means of runs."""
    for unit in ("samples_per_second", "MB_per_second"):
        figures = [document.number("runs", name, f"train_throughput_{unit}") for name in runs]
        mean = document.number("overall", f"train_throughput_mean_{unit}")
        reason = mean_reason(unit, figures, mean)
        if reason is not None:
            return reason
    return None


def _natural(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*?)([0-9]{1,9})?", name, re.DOTALL)
    return (name, 0) if match is None else (match[1], int(match[2] or 0))
