"""``trimtab watch``: probes and snapshots on schedule."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.text import console, moment
from trimtab.units import format_value
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimtab.model.run import Run
    from trimtab.record.slots import Slot


@click.command("watch")
@click.argument("where", metavar="SITE")
@options.as_json
@options.store
@click.option("--once", is_flag=True, help="Run what is due once, then exit.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json", "journal"]),
    help="One line an event: text, JSON, or fields for journald. Default: text on a terminal, "
    "else JSON.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least severe events that are logged.",
)
def command(
    where: str, store_url: str | None, once: bool, log_format: str | None, log_level: str
) -> None:
    """Run a site's probes and take its snapshots on schedule, and judge each run.

    Runs in the foreground and logs to standard error, as JSON where that is no terminal. It may be
    ended at any moment: the next watch goes on where this one stopped. One watch a site.

    With --once: takes a snapshot, runs each probe whose last slot is not done, and ends.
    """
    from trimtab.errors import ToolError, UsageError
    from trimtab.launch.notify import from_environment
    from trimtab.loop.probing.site_probe import runner_of
    from trimtab.loop.sites import open_driver, open_site, reach_of, site_file, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.watching.companions import observers_of
    from trimtab.loop.watching.log import configured
    from trimtab.loop.watching.watch import Watch, items
    from trimtab.report import documents

    if options.wants_json() and not once:
        raise click.UsageError("--json goes with --once: a continuous watch prints no document")
    loaded = site_file(where, only_sites=True) or open_site(where)
    site = loaded.site
    if not once and not items(site):
        raise UsageError(
            f"nothing is scheduled for {site.name}: there is nothing to wait for",
            code="schedule-missing",
            hint="give [snapshot] or a [probe.NAME] of its site file a schedule, or take --once",
        )
    reach = reach_of(site)
    level = getattr(logging, log_level.upper())
    log = configured(form=log_format, level=level, clock=reach.clock, site=site.name)
    for warning in loaded.warnings:
        log.warning(warning)
    with open_store(with_store(site, store_url), create=True) as store:
        runner = runner_of(site, store, reach)
        watch = Watch(
            site,
            store,
            open_driver(site, clock=reach.clock),
            runner,
            clock=reach.clock,
            sleep=reach.sleep,
            elapsed_s=reach.elapsed_s,
            log=log,
            notify=from_environment(),
            observers=observers_of(site, store, log=log, clock=reach.clock),
        )
        slots = watch.run(once=once)
        place = str(store.location)
        runs = {slot.run: store.run(slot.run) for slot in slots if slot.run is not None}
    failed = _failed(slots, runs)
    error = ToolError(f"{site.name}: not as it should be: {failed}", code="slots-failed")
    show(
        lambda: documents.kept.WatchDocument(site.name, place, tuple(slots)),
        lambda: print_slots(site.name, place, slots, runs) if once else None,
        error=error if failed else None,
    )


def _failed(slots: Sequence[Slot], runs: Mapping[str, Run]) -> str:
    """Return what did not go well, in words; empty: all did."""
    from trimtab.model.run import RunStatus
    from trimtab.record.slots import SlotState

    failed = [slot for slot in slots if slot.run and runs[slot.run].status is not RunStatus.OK]
    failed += [slot for slot in slots if slot.run is None and slot.state is not SlotState.DONE]
    return ", ".join(dict.fromkeys(f"{slot.item} ({slot.state.value})" for slot in failed))


def print_slots(site: str, store: str, slots: Sequence[Slot], runs: Mapping[str, Run]) -> None:
    """Print each slot with its run and verdicts."""
    out = console()
    out.print(visible(site), style="bold")
    for slot in slots:
        out.print(f"  {visible(slot.item)}, due {moment(slot.due_at)}: {slot.state.value}")
        if slot.detail:
            out.print(f"    {visible(slot.detail)}", style="dim", soft_wrap=True)
        run = None if slot.run is None else runs.get(slot.run)
        if run is not None:
            problem = "" if run.problem is None else f": {run.problem}"
            out.print(f"    run {run.id}: {run.status.value}{visible(problem)}", soft_wrap=True)
        for verdict in slot.verdicts:
            mean = "-" if verdict.mean is None else format_value(verdict.mean, verdict.unit)
            out.print(
                f"    {verdict.metric} ({verdict.scope.value}) {mean}: "
                f"{verdict.status.value.replace('_', ' ')} ({visible(verdict.reason)})",
                soft_wrap=True,
            )
    if not slots:
        out.print("  nothing was due")
    out.print(f"  kept in {visible(store)}", style="dim", soft_wrap=True)
