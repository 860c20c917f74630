"""``trimtab alerts``: the alerts of a site, and a test of its receivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.output import show
from trimtab.cli.render.text import console, moment, table
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.loop.alerting.trial import Tried
    from trimtab.model.alert import Alert


class _Alerts(click.Group):
    """A group whose first word may be a site: then its alerts are listed."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand, or the list."""
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["list", *args])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let an option of the list come before the site."""
        if args and args[0].startswith("--") and args[0] != "--help":
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("alerts", cls=_Alerts)
def command() -> None:
    """List the alerts of a site: trimtab alerts SITE.

    The watch decides on alerts after each slot, by [alerts] of the site file: one for each phase
    of a problem, and no more.
    """


@command.command("list")
@click.argument("where", metavar="SITE")
@options.as_json
@options.store
@options.since("Only alerts that were decided at or after this time.")
def list_(where: str, store_url: str | None, since: str | None) -> None:
    """List alerts, the oldest first: who got each, and which still wait."""
    from trimtab.model.alert import Phase
    from trimtab.report import documents

    with opened(where, store_url) as record:
        place = record.place
        alerts = record.store.alerts(place.name, since=place.moment(since))
    sent = tuple(alert for alert in alerts if alert.phase is not Phase.NOTED)
    show(
        lambda: documents.alerted.AlertsDocument(record.location, place.name, sent),
        lambda: print_alerts(sent),
    )


@command.command("test")
@click.argument("where", metavar="[SITE]", required=False)
@options.as_json
def test(where: str | None) -> None:
    """Send a test message to every receiver of a site; exits with 3 where one did not take it."""
    from trimtab.errors import ToolError
    from trimtab.loop.alerting.trial import try_receivers
    from trimtab.loop.sites import clock_of, only_site, open_site
    from trimtab.report import documents

    site = (only_site() if where is None else open_site(where)).site
    tried = tuple(try_receivers(site, clock_of(site)()))
    failed = [entry.receiver for entry in tried if entry.reason is not None]
    error = ToolError(f"not delivered to {', '.join(failed)}", code="alert-undelivered")
    receivers = tuple(
        documents.alerted.ReceiverRow(entry.receiver, entry.reason is None, entry.reason)
        for entry in tried
    )
    show(
        lambda: documents.alerted.AlertsTestDocument(site.name, receivers),
        lambda: print_trial(tried),
        error=error if failed else None,
    )


def print_trial(tried: Sequence[Tried]) -> None:
    """Print each receiver and its answer."""
    out = console()
    for entry in tried:
        text = "delivered" if entry.reason is None else f"not delivered: {visible(entry.reason)}"
        out.print(f"{visible(entry.receiver)}  {text}", soft_wrap=True)


def print_alerts(alerts: Sequence[Alert]) -> None:
    """Print the ledger, the oldest first."""
    out = console()
    if not alerts:
        out.print("No alert was sent.")
        out.print("hint: trimtab alerts test SITE sends a test message", style="dim")
        return
    rows = table("at", "severity", "phase", "alert", "delivery")
    for alert in alerts:
        delivery = ", ".join(f"{each.receiver} {each.state.value}" for each in alert.deliveries)
        row = (moment(alert.at), alert.severity.value, alert.phase.value, alert.title, delivery)
        rows.add_row(*map(visible, row))
    out.print(rows)
