"""Tables of runs and of the figures of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from trimtab.model.run import Run, Sample
from trimtab.report.kit import Cell, Table, row, table
from trimtab.report.text import metric_text, minute_text
from trimtab.units import format_value, value_or_dash


def runs_table(runs: Sequence[Run], labels: Mapping[str, str]) -> Table | None:
    """Return a row for each run; ``labels`` as in `series_table`."""
    length = telling_length([run.id for run in runs])
    columns = ("run", "at", "probe", "status", "write>", "read>")
    return table(
        columns,
        (
            row(
                run.id[:length],
                "-" if run.at is None else minute_text(run.at),
                Cell(f"{labels.get(run.site, '')} {run.probe}".strip(),
                     f"{run.kind} {run.tool_version or ''}".strip()),
                run.status.value,
                _median(run, "write_bandwidth"),
                _median(run, "read_bandwidth"),
            )
            for run in runs
        ),
    )  # fmt: skip


def samples_table(samples: Iterable[Sample]) -> Table | None:
    """Return a row for each figure of a run, with the line of output that it was read from."""
    return table(
        ("metric", "value>", "target", "statistic", "read from"),
        (
            row(
                metric_text(sample.metric),
                Cell(value_or_dash(sample.value, sample.unit),
                     sample.reason or ""),
                sample.target or "-",
                Cell(sample.statistic, "" if sample.repetition is None
                     else f"repetition {sample.repetition}"),
                "-" if sample.line is None else f"output {sample.output}, line {sample.line}",
            )
            for sample in samples
        ),
    )  # fmt: skip


def _median(run: Run, metric: str) -> str:
    values = run.believed(metric)
    return format_value(median(values), "B/s") if values else "-"


def telling_length(identifiers: Sequence[str]) -> int:
    """Return how many characters tell these ids apart, at least as many as hold their time."""
    for length in (13, 18, 23, 28):
        if len({identifier[:length] for identifier in identifiers}) == len(identifiers):
            return length
    return 36
