"""Runs that are kept, as text: ``runs`` and ``show``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from trimtab.cli.render.document import print_table
from trimtab.cli.render.screen import print_wrapped
from trimtab.cli.render.text import console, moment, print_facts
from trimtab.model.run import Run
from trimtab.report.runs import runs_table, samples_table
from trimtab.report.text import site_labels
from trimtab.units import format_bytes, format_duration, plural
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.report.documents.kept import ShowDocument


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
    labels = site_labels(run.site for run in runs)
    print_table(out, runs_table(runs, labels if len(labels) > 1 else {}), requested)
    out.print("trimtab show RUN traces every number of one; --top N lists more", style="dim")


def print_show(shown: ShowDocument) -> None:
    """Print a run with its samples, and the command and raw output behind each."""
    out, run = console(), shown.run
    out.print(f"run {run.id}", style="bold")
    print_facts(out, _facts(run, shown.store))
    out.print()
    print_table(out, samples_table(run.samples), len(run.samples))
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


def _print_outputs(out: Console, shown: ShowDocument) -> None:
    out.print("raw outputs (trimtab show RUN --output N prints one)", style="bold")
    for entry in shown.outputs:
        output = entry.output
        took = "-" if output.elapsed_s is None else format_duration(output.elapsed_s)
        out.print(
            f"  {output.ordinal}  {visible(output.label)}: exit code {output.exit_code}, {took}, "
            f"{format_bytes(output.stdout_bytes)}, sha256 {output.stdout_sha256[:16]}"
        )
        out.print(f"     {shell_text(output.argv)}", style="cyan", soft_wrap=True)
        out.print(f"     {visible(entry.stdout_file)}", style="dim", soft_wrap=True)
