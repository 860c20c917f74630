"""A probe that was run now, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.check import print_verdicts
from trimtab.cli.render.text import console, moment
from trimtab.measure.plain import as_dict
from trimtab.model.run import Run
from trimtab.units import format_bytes, format_duration
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.loop.probing.probe_now import ProbeNow


def print_probe(made: ProbeNow, store: str) -> None:
    """Print what came of a probe on standard output."""
    out, run = console(), made.run
    head = f"{run.site}: probe {run.probe} ({run.kind}), {run.status.value}, {moment(run.at)}"
    out.print(visible(head), style="bold")
    for line in (*_job(run), *made.notes):
        out.print(f"  {visible(line)}", style="dim")
    print_verdicts(out, run, made.verdicts, made.comparisons)
    for line in _others(made.others):
        out.print(f"  {visible(line)}")
    out.print()
    out.print(f"run       {run.id}   (trimtab show {run.id[:13]})", style="dim")
    out.print(f"store     {visible(store)}", style="dim", soft_wrap=True)


def _job(run: Run) -> list[str]:
    """Return where it ran and what it cost."""
    job, cost = as_dict(run.parameters.get("job")), as_dict(run.parameters.get("cost"))
    lines = []
    if job.get("job_id") is not None:
        waited = job.get("queued_s")
        queue = "" if waited is None else f", {format_duration(waited)} in the queue"
        lines.append(f"{job.get('launcher')} job {job['job_id']} on {job.get('node_list')}{queue}")
    if cost:
        hours = cost.get("node_hours")
        spent = "" if hours is None else f", {hours:.3g} node-hours"
        moved = [
            f"{format_bytes(cost[key])} {word}" if cost.get(key) is not None else None
            for key, word in (("bytes_written", "written"), ("bytes_read", "read"))
        ]
        told = ", ".join(filter(None, moved)) or "how much it wrote is not known"
        lines.append(told + spent)
    return lines


def _others(runs: Sequence[Run]) -> list[str]:
    """Return a line for each of the other runs, with its figures of the whole."""
    lines = []
    for run in runs:
        figures = [
            f"{one.metric} {one.value:.6g} {one.unit if one.unit != '1' else ''}".rstrip()
            for one in run.samples
            if one.believed and one.statistic == "total" and one.target is None
        ]
        why = "" if run.problem is None else f" ({run.problem})"
        lines.append(f"{run.probe}: {run.status.value}{why}  {', '.join(figures)}".rstrip())
    return lines
