"""Runs that are kept, as text: ``runs`` and ``show``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final

from trimtab.cli.render.screen import Column, print_rows, print_wrapped
from trimtab.cli.render.text import (
    console,
    local_times,
    moment,
    print_facts,
    site_labels,
)
from trimtab.model.run import Run, Sample
from trimtab.units import format_bytes, format_duration, format_value, plural
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.loop.show import Shown


def print_runs(runs: Sequence[Run], *, requested: int) -> None:
    """Print runs, the newest first; ``requested`` is how many were asked for."""
    out = console()
    if not runs:
        out.print("No run is kept.")
        return
    statuses = Counter(run.status.value for run in runs)
    each = ", ".join(f"{count} {status}" for status, count in statuses.items())
    last = "last " if len(runs) == requested else ""
    print_wrapped(out, f"{plural(len(runs), f'{last}run', ',')}: {each}.", "bold")
    print_run_rows(out, runs, site=len({run.site for run in runs}) > 1)
    out.print("trimtab show RUN traces every number of one; --top N lists more", style="dim")


def print_show(shown: Shown) -> None:
    """Print a run with its samples, and the command and raw output behind each."""
    out, run = console(), shown.run
    out.print(f"run {run.id}", style="bold")
    print_facts(out, _facts(run, shown.store))
    out.print()
    _print_samples(out, run.samples)
    out.print()
    _print_outputs(out, shown)


def _facts(run: Run, store: str) -> list[tuple[str, str]]:
    status = run.status.value if run.problem is None else f"{run.status.value}: {run.problem}"
    at = moment(run.at) if run.at is not None else f"not known: {run.at_reason}"
    facts = [
        ("site", run.site),
        ("path", run.path or "-"),
        ("host", run.host or "-"),
        ("probe", run.probe),
        ("benchmark", f"{run.kind} {run.tool_version or '(version not known)'}"),
        ("at", f"{at} to {moment(run.until)}"),
        ("status", status),
        ("trimtab", run.trimtab_version or "-"),
        ("store", store),
    ]
    spec = run.parameters.get("spec")
    if isinstance(spec, dict):
        facts.insert(5, ("asked", ", ".join(f"{key} {value}" for key, value in spec.items())))
    reported = run.parameters.get("told")
    if isinstance(reported, dict) and not run.samples:  # what explains others is all in there
        facts.insert(
            -2, ("told", ", ".join(f"{key} {_in_short(value)}" for key, value in reported.items()))
        )
    return facts


def _in_short(value: object) -> str:
    """Return a value as it is, and a series of numbers in short."""
    if not isinstance(value, list) or not value or not isinstance(value[0], (int, float)):
        return str(value)
    return f"{plural(len(value), 'value')} (mean {fmean(value):.3g}, most {max(value):.3g})"


def _print_outputs(out: Console, shown: Shown) -> None:
    out.print("raw outputs (trimtab show RUN --output N prints one)", style="bold")
    for output in shown.outputs:
        took = "-" if output.elapsed_s is None else format_duration(output.elapsed_s)
        out.print(
            f"  {output.ordinal}  {visible(output.label)}: exit code {output.exit_code}, {took}, "
            f"{format_bytes(output.stdout_bytes)}, sha256 {output.stdout_sha256[:16]}"
        )
        out.print(f"     {shell_text(output.argv)}", style="cyan", soft_wrap=True)
        out.print(f"     {visible(shown.files[output.ordinal])}", style="dim", soft_wrap=True)


_RUN_COLUMNS: Final = (
    Column("run"),
    Column("at"),
    Column("site", drop=3, wraps=True),
    Column("probe", wraps=True),
    Column("benchmark", drop=4),
    Column("status", drop=1),
    Column("write", right=True),
    Column("read", right=True),
)


def print_run_rows(out: Console, runs: Sequence[Run], *, site: bool = True) -> None:
    """Print a row for each run; without ``site``, all are of one."""
    length = telling_length([run.id for run in runs])
    labels = site_labels([run.site for run in runs])
    times = local_times([run.at for run in runs])
    rows = [
        (
            run.id[:length],
            at,
            visible(labels[run.site]) if site else "",
            visible(run.probe),
            visible(f"{run.kind} {run.tool_version or ''}".strip()),
            run.status.value,
            _median(run, "write_bandwidth"),
            _median(run, "read_bandwidth"),
        )
        for run, at in zip(runs, times, strict=True)
    ]
    print_rows(out, _RUN_COLUMNS, rows)


def telling_length(identifiers: Sequence[str]) -> int:
    """Return how many characters tell these ids apart, at least as many as hold their time."""
    for length in (13, 18, 23, 28):
        if len({identifier[:length] for identifier in identifiers}) == len(identifiers):
            return length
    return 36


_SAMPLE_COLUMNS: Final = (
    Column("metric", wraps=True),
    Column("target"),
    Column("repetition", right=True, drop=2),
    Column("statistic", drop=3),
    Column("value", right=True),
    Column("output", right=True, drop=1),
    Column("line", right=True, drop=1),
    Column("note", wraps=True),
)


def _print_samples(out: Console, samples: Sequence[Sample]) -> None:
    rows = [
        (
            sample.metric,
            visible(sample.target or "-"),
            "-" if sample.repetition is None else str(sample.repetition),
            sample.statistic,
            format_value(sample.value, sample.unit),
            "-" if sample.output is None else str(sample.output),
            "-" if sample.line is None else str(sample.line),
            visible(sample.reason or ""),
        )
        for sample in samples
    ]
    print_rows(out, _SAMPLE_COLUMNS, rows)


def _median(run: Run, metric: str) -> str:
    from statistics import median

    values = run.believed(metric)
    return format_value(median(values), "B/s") if values else "-"
