"""``trimtab watch`` and ``trimtab alerts``: probes and snapshots on schedule, and their alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.show import command_options
from trimtab.show.screen_document import print_document, show, show_page

if TYPE_CHECKING:
    from trimtab.watch.start import Watched


@click.command("watch")
@click.argument("where", metavar="SITE")
@command_options.as_json
@command_options.store
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
        from trimtab.watch.alerting import alert_if_gone

        return alert_if_gone(where, store_url)
    from trimtab.watch.start import watched

    _show_slots(watched(where, store_url, once=once, log_form=log_format, log_level=log_level))


def _refuse_json_without(*, has_document: bool) -> None:
    if command_options.wants_json() and not has_document:
        raise click.UsageError("--json goes with --once, --status or --dry-run")


def _show_slots(watched: Watched) -> None:
    from trimtab.base.error import ToolError
    from trimtab.watch.page import slots_document, went_wrong
    from trimtab.watch.watch_state import WatchDocument

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
    from trimtab.watch.page import state_document
    from trimtab.watch.watch_state import WatchStateDocument, shown_state

    state, plans, standing = shown_state(where, store_url, dry_run=dry_run)
    show_page(
        lambda: WatchStateDocument(state, plans or ()),
        lambda: state_document(state, plans, standing),
    )


class _Alerts(click.Group):
    """A group whose first word may be a site: then it lists that site's alerts."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand, or the list."""
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["list", *args])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Allow options of the list before the site."""
        if args and args[0].startswith("--") and args[0] != "--help":
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("alerts", cls=_Alerts)
def alerts_command() -> None:
    """List the alerts of a site: trimtab alerts SITE.

    After each slot the watch decides on alerts by [alerts] of the site file: one per phase of a
    problem, and no more.
    """


@alerts_command.command("list")
@click.argument("where", metavar="SITE")
@command_options.output
@command_options.store
@command_options.since("Only alerts that were decided at or after this time.")
def list_(where: str, store_url: str | None, since: str | None) -> None:
    """List alerts, newest first: their receivers, and which still wait."""
    from trimtab.base.finding import Phase
    from trimtab.probe.site_standing import whole_standing
    from trimtab.site.place import opened
    from trimtab.watch.page import alerts_document
    from trimtab.watch.receiver import AlertsDocument, receivers_of

    with opened(where, store_url) as record:
        place = record.place
        alerts = record.store.alerts(place.name, since=place.moment(since))
        standing = whole_standing(record.store, place)
    sent = tuple(alert for alert in alerts if alert.phase is not Phase.NOTED)
    has_receivers = record.site is not None and bool(receivers_of(record.site))
    show_page(
        lambda: AlertsDocument(record.location, place.name, sent),
        lambda: alerts_document(standing, sent, has_receivers=has_receivers),
    )


@alerts_command.command("test")
@click.argument("where", metavar="[SITE]", required=False)
@command_options.output
def test(where: str | None) -> None:
    """Send a test message to every receiver of a site; exits with 3 if one did not accept it."""
    from trimtab.base.error import ToolError
    from trimtab.site.lookup import clock_of, only_site, open_site
    from trimtab.watch.page import trial_document
    from trimtab.watch.receiver import AlertsTestDocument, try_receivers

    site = (only_site() if where is None else open_site(where)).site
    tried = tuple(try_receivers(site, clock_of(site)()))
    failed = [entry.receiver for entry in tried if not entry.delivered]
    error = ToolError(f"not delivered to {', '.join(failed)}", code="alert-undelivered")
    show_page(
        lambda: AlertsTestDocument(site.name, tried),
        lambda: trial_document(site.name, tried),
        error=error if failed else None,
    )


@click.command("silence")
@click.argument("where", metavar="SITE")
@click.argument("alert", required=False)
@command_options.as_json
@command_options.store
@click.option("--until", metavar="TIME", help="When it ends by itself; at most 28 days away.")
@click.option("--why", metavar="TEXT", help="The reason, which others see.")
@click.option("--targets", metavar="SET", help="Only alerts about these: OST[0000-0003],MDT0000.")
@click.option("--end", is_flag=True, help="End the silence of the alert now.")
def silence_command(
    where: str,
    alert: str | None,
    store_url: str | None,
    *,
    until: str | None,
    why: str | None,
    targets: str | None,
    end: bool,
) -> None:
    """Hold back an alert: trimtab silence SITE target-degraded --until 2026-10-14 --why "ordered".

    What is not over at the end is sent then. Bad checksums and forged approvals are never held
    back. Without ALERT it lists the silences.
    """
    import getpass

    from trimtab.base.error import UsageError
    from trimtab.base.finding import Phase
    from trimtab.base.name_set import unfold_targets
    from trimtab.site.place import opened
    from trimtab.watch.page import silences_document
    from trimtab.watch.silence import SilencesDocument, ended, new_silence, row_of, silences_of

    with opened(where, store_url) as record:
        store, place, now = record.store, record.place, record.now
        named = () if targets is None else unfold_targets(targets)
        known = silences_of(store.alerts(place.name, phase=Phase.SILENCED))
        if alert is not None:
            last, who = place.moment(until, end=True), getpass.getuser()
            if end:
                silence = ended(known, alert, named, now=now)
            elif last is None or why is None:
                raise UsageError("a silence needs --until and --why", code="silence-without-reason")
            else:
                silence = new_silence(
                    place.name, alert, now=now, until=last, who=who, why=why, targets=named
                )
            store.add_alert(row_of(silence))
            known = silences_of(store.alerts(place.name, phase=Phase.SILENCED))
        elif until or why or targets or end:
            raise UsageError("name the alert: trimtab silence SITE ALERT", code="alert-unknown")
    holding = tuple(silence for silence in known if silence.until > now)
    show_page(
        lambda: SilencesDocument(record.location, place.name, holding),
        lambda: silences_document(place.name, holding),
    )
