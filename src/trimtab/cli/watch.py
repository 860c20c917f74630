"""``trimtab watch``: probes and snapshots on schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.render.document import print_document, show, show_page

if TYPE_CHECKING:
    from trimtab.errors import UsageError
    from trimtab.model.run import Run
    from trimtab.model.site import Site
    from trimtab.model.standing import SiteStanding
    from trimtab.record.slots import Slot
    from trimtab.site.load import LoadedSite


@click.command("watch")
@click.argument("where", metavar="SITE")
@options.as_json
@options.store
@click.option("--once", is_flag=True, help="Run what is due once, then exit.")
@click.option("--status", is_flag=True, help="Show what ran last and what comes next, then exit.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="As --status, and show what the armed policies would change now. Changes nothing.",
)
@click.option(
    "--check",
    is_flag=True,
    help="If no process watches the site and a slot is overdue: alert, and exit with 3. Else "
    "prints nothing. For cron.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json", "journal"]),
    help="One line per event: text, JSON, or fields for journald. Default: text on a terminal, "
    "else JSON.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least severe events that are logged.",
)
def watch_command(
    where: str,
    store_url: str | None,
    *,
    once: bool,
    status: bool,
    dry_run: bool,
    check: bool,
    log_format: str | None,
    log_level: str,
) -> None:
    """Run a site's probes, take its snapshots and apply its armed policies, on schedule.

    Judges each run.

    Runs in the foreground and logs to standard error, as JSON unless that is a terminal. It may be
    stopped at any moment: the next watch resumes where this one stopped. One watch per site.

    With --once: takes a snapshot, runs each probe whose last slot is not done, and exits.
    """
    from trimtab.launch.notify import from_environment
    from trimtab.loop.event_log import Place
    from trimtab.loop.probing.site_probe import runner_of
    from trimtab.loop.sites import open_driver, reach_of
    from trimtab.loop.standing import whole_standing
    from trimtab.loop.stores import open_store
    from trimtab.loop.watching.agenda import items
    from trimtab.loop.watching.log import configured
    from trimtab.loop.watching.looking import look_elsewhere
    from trimtab.loop.watching.observers import observers_of
    from trimtab.loop.watching.watch import Watch

    if once + status + dry_run + check > 1:
        raise click.UsageError("--once, --status, --dry-run and --check exclude each other")
    _refuse_json_without(has_document=once or status or dry_run)
    if status or dry_run:
        return _show_state(where, store_url, dry_run=dry_run)
    if check:
        return _check(where, store_url)
    loaded = _site_to_watch(where)
    site = loaded.site
    if not once and not items(site):
        raise _nothing_scheduled(site)
    reach = reach_of(site)
    log = configured(form=log_format, level=log_level, clock=reach.clock, site=site.name)
    for warning in loaded.warnings:
        log.warning(warning)
    with open_store(store_url, site, create=True) as store:
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
        )
        observers = observers_of(site, store, log=log, clock=reach.clock)
        watch.observe(observers, looks=None if once else look_elsewhere)
        slots = watch.run(once=once)
        place = str(store.location)
        runs = {slot.run: store.run(slot.run) for slot in slots if slot.run is not None}
        standing = whole_standing(store, Place(site.name, site)) if once else None
    _show_slots(site.name, place, slots, runs, standing)


def _refuse_json_without(*, has_document: bool) -> None:
    if options.wants_json() and not has_document:
        raise click.UsageError("--json goes with --once, --status or --dry-run")


def _nothing_scheduled(site: Site) -> UsageError:
    from trimtab.errors import UsageError

    return UsageError(
        f"nothing is scheduled for {site.name}: there is nothing to wait for",
        code="schedule-missing",
        hint="give [snapshot] or a [probe.NAME] of its site file a schedule, or use --once",
    )


def _show_slots(
    site: str,
    place: str,
    slots: Sequence[Slot],
    runs: Mapping[str, Run],
    standing: SiteStanding | None,
) -> None:
    from trimtab.errors import ToolError
    from trimtab.loop import documents
    from trimtab.report.watch import slots_document, went_wrong

    failed = ", ".join(
        dict.fromkeys(
            f"{slot.item} ({slot.state.value})" for slot in slots if went_wrong(slot, runs)
        )
    )
    error = ToolError(f"{site}: slots failed: {failed}", code="slots-failed")
    show(
        lambda: documents.kept.WatchDocument(site, place, tuple(slots)),
        lambda: (
            None
            if standing is None
            else print_document(slots_document(place, slots, runs, standing))
        ),
        error=error if failed else None,
    )


def _site(where: str) -> LoadedSite:
    from trimtab.loop.sites import open_site, site_file

    return site_file(where, only_sites=True) or open_site(where)


def _site_to_watch(where: str) -> LoadedSite:
    """Return a site for a process that may run for months, with one thread."""
    from trimtab.loop.workers import frames_for_months

    frames_for_months()
    return _site(where)


def _show_state(where: str, store_url: str | None, *, dry_run: bool) -> None:
    """Show the state of the watch, and with ``dry_run`` what armed policies would change."""
    from trimtab.loop import documents, event_log
    from trimtab.loop.acting.session import Place
    from trimtab.loop.sites import clock_of, open_driver
    from trimtab.loop.standing import whole_standing
    from trimtab.loop.stores import open_store
    from trimtab.loop.watching.policies import plans_of
    from trimtab.loop.watching.upcoming import watch_state
    from trimtab.report.watch import state_document

    site = _site(where).site
    clock = clock_of(site)
    with open_store(store_url, site) as store:
        state = watch_state(site, store, clock())
        standing = whole_standing(store, event_log.Place(site.name, site))
        plans = None
        if dry_run:
            plans = plans_of(Place(site, store, clock), open_driver(site, clock=clock))
    show_page(
        lambda: documents.acting.WatchStateDocument(state, plans or ()),
        lambda: state_document(state, plans, standing),
    )


def _check(where: str, store_url: str | None) -> None:
    """Alert and raise if no process watches a site and a slot is overdue."""
    from trimtab.errors import ToolError
    from trimtab.loop.alerting.alerting import Alerting
    from trimtab.loop.sites import clock_of
    from trimtab.loop.stores import open_store
    from trimtab.loop.watching.log import configured
    from trimtab.loop.watching.upcoming import overdue

    site = _site(where).site
    clock = clock_of(site)
    with open_store(store_url, site) as store:
        late = overdue(site, store, clock())
        if not late:
            return
        item, due_at = min(late.items(), key=lambda entry: entry[1])
        slot = item.replace(":", " ")
        log = configured(level="error", clock=clock, site=site.name)
        alerting = Alerting(site, store, log=log, clock=clock, threads=False)
        alerting.watch_gone(slot, due_at)
        raise ToolError(
            f"no process watches {site.name}: the {slot} of {due_at:%Y-%m-%d %H:%M} UTC was not "
            "started",
            code="watch-gone",
            hint=f"systemctl status trimtab-watch@{site.name}; it resumes where it stopped",
        )
