"""``trimtab probe``: a probe of the site file, now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.check import print_verdicts
from trimtab.cli.render.text import console, moment
from trimtab.measure.plain import as_dict
from trimtab.units import format_bytes, format_duration
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimtab.loop.probing.probe_now import ProbeNow
    from trimtab.model.run import Run


@click.command("probe")
@click.argument("name", metavar="NAME")
@click.option("--site", "where", metavar="SITE", help="Whose probe. Default: the only site here.")
@options.as_json
@options.store
@click.option("--trim", is_flag=True, help="Trim every target first, where its driver can.")
def command(name: str, where: str | None, store_url: str | None, trim: bool) -> None:
    """Run the probe NAME of a site file now, keep the run and judge it.

    On this host, as an MPI job or as a batch job, as its launcher says. Its files are removed in
    every case, and the nodes of a job are given back.
    """
    from trimtab.cli.render.progress import RUN_KEPT, progress_bar
    from trimtab.loop.probing.probe_now import probe_now, probe_of
    from trimtab.loop.probing.site_probe import runner_of
    from trimtab.loop.sites import only_site, open_driver, open_site, reach_of, with_store
    from trimtab.loop.stores import open_store
    from trimtab.report import documents

    site = open_site(where).site if where is not None else only_site().site
    probe = probe_of(site, name)
    with (
        open_store(with_store(site, store_url), create=True) as store,
        progress_bar(remains=RUN_KEPT) as progress,
    ):
        reach = reach_of(site)
        runner, driver = runner_of(site, store, reach), open_driver(site, clock=reach.clock)
        terms = {"clock": reach.clock, "progress": progress, "trim": trim}
        made = probe_now(site, probe, store, driver, runner, **terms)
        place = str(store.location)
    show(
        lambda: documents.measured.ProbeDocument(
            place,
            (made.run, *made.others),
            tuple(made.verdicts),
            tuple(made.comparisons),
            tuple(made.notes),
            made.error,
        ),
        lambda: print_probe(made, place),
        error=made.error,
    )


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
        amount = ", ".join(filter(None, moved)) or "how much it wrote is not known"
        lines.append(amount + spent)
    return lines


def _others(runs: Sequence[Run]) -> list[str]:
    """Return a line for each of the other runs, with its figures of the whole."""
    lines = []
    for run in runs:
        figures = [
            f"{sample.metric} {sample.value:.6g} "
            f"{sample.unit if sample.unit != '1' else ''}".rstrip()
            for sample in run.samples
            if sample.believed and sample.is_total
        ]
        why = "" if run.problem is None else f" ({run.problem})"
        lines.append(f"{run.probe}: {run.status.value}{why}  {', '.join(figures)}".rstrip())
    return lines
