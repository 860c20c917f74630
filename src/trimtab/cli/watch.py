"""``trimtab watch``: probes and snapshots on schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.render.document import print_document, show, show_page

if TYPE_CHECKING:
    from trimtab.loop.watching.start import Watched


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
    if once + status + dry_run + check > 1:
        raise click.UsageError("--once, --status, --dry-run and --check exclude each other")
    _refuse_json_without(has_document=once or status or dry_run)
    if status or dry_run:
        return _show_state(where, store_url, dry_run=dry_run)
    if check:
        from trimtab.loop.alerting.alerting import alert_if_gone

        return alert_if_gone(where, store_url)
    from trimtab.loop.watching.start import watched

    _show_slots(watched(where, store_url, once=once, log_form=log_format, log_level=log_level))


def _refuse_json_without(*, has_document: bool) -> None:
    if options.wants_json() and not has_document:
        raise click.UsageError("--json goes with --once, --status or --dry-run")


def _show_slots(watched: Watched) -> None:
    from trimtab.errors import ToolError
    from trimtab.loop.watching.upcoming import WatchDocument
    from trimtab.report.watch import slots_document, went_wrong

    slots, runs, standing = watched.slots, watched.runs, watched.standing
    failed = ", ".join(
        dict.fromkeys(
            f"{slot.item} ({slot.state.value})" for slot in slots if went_wrong(slot, runs)
        )
    )
    error = ToolError(f"{watched.site}: slots failed: {failed}", code="slots-failed")
    show(
        lambda: WatchDocument(watched.site, watched.store, slots),
        lambda: (
            None
            if standing is None
            else print_document(slots_document(watched.store, slots, runs, standing))
        ),
        error=error if failed else None,
    )


def _show_state(where: str, store_url: str | None, *, dry_run: bool) -> None:
    """Show the state of the watch, and with ``dry_run`` what armed policies would change."""
    from trimtab.loop.watching.upcoming import WatchStateDocument, shown_state
    from trimtab.report.watch import state_document

    state, plans, standing = shown_state(where, store_url, dry_run=dry_run)
    show_page(
        lambda: WatchStateDocument(state, plans or ()),
        lambda: state_document(state, plans, standing),
    )
