"""A probe that was run now, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimtab.cli.render.check import print_verdicts
from trimtab.cli.render.text import console, moment
from trimtab.model.run import Run
from trimtab.units import format_bytes, format_duration
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.loop.probe_now import ProbeNow


def print_probe(made: ProbeNow, store: str) -> None:
    """Print what came of a probe on standard output."""
    out, run = console(), made.run
    head = f"{run.site}: probe {run.probe} ({run.kind}), {run.status.value}, {moment(run.at)}"
    out.print(visible(head), style="bold")
    for line in (*_job(run), *made.notes):
        out.print(f"  {visible(line)}", style="dim")
    print_verdicts(out, run, made.verdicts, made.comparisons)
    out.print()
    out.print(f"run       {run.id}   (trimtab show {run.id[:13]})", style="dim")
    out.print(f"store     {visible(store)}", style="dim", soft_wrap=True)


def _job(run: Run) -> list[str]:
    """Return where it ran and what it cost."""
    job, cost = _dict(run.parameters.get("job")), _dict(run.parameters.get("cost"))
    lines = []
    if job.get("job_id") is not None:
        waited = job.get("queued_s")
        queue = "" if waited is None else f", {format_duration(waited)} in the queue"
        lines.append(f"{job.get('launcher')} job {job['job_id']} on {job.get('node_list')}{queue}")
    if cost:
        hours = cost.get("node_hours")
        spent = "" if hours is None else f", {hours:.3g} node-hours"
        written, read = cost.get("bytes_written") or 0, cost.get("bytes_read") or 0
        lines.append(f"{format_bytes(written)} written, {format_bytes(read)} read{spent}")
    return lines


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
