"""``trimtab alerts``: the alerts of a site, and a test of its receivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import show_page
from trimtab.model.alert import DeliveryState
from trimtab.report.headline import headline
from trimtab.report.kit import ALL, ROWS, row, table
from trimtab.report.sections import Document, Section
from trimtab.report.text import local_moment, local_times
from trimtab.units import plural

if TYPE_CHECKING:
    from trimtab.model.alert import Alert
    from trimtab.model.standing import SiteStanding
    from trimtab.report.documents.kept import ReceiverRow


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
@options.output
@options.store
@options.since("Only alerts that were decided at or after this time.")
def list_(where: str, store_url: str | None, since: str | None) -> None:
    """List alerts, newest first: their receivers, and which still wait."""
    from trimtab.loop import documents
    from trimtab.loop.alerting.receivers import receivers_of
    from trimtab.loop.standing import whole_standing
    from trimtab.model.alert import Phase

    with opened(where, store_url) as record:
        place = record.place
        alerts = record.store.alerts(place.name, since=place.moment(since))
        standing = whole_standing(record.store, place)
    sent = tuple(alert for alert in alerts if alert.phase is not Phase.NOTED)
    has_receivers = record.site is not None and bool(receivers_of(record.site))
    show_page(
        lambda: documents.kept.AlertsDocument(record.location, place.name, sent),
        lambda: alerts_document(standing, sent, has_receivers=has_receivers),
    )


@alerts_command.command("test")
@click.argument("where", metavar="[SITE]", required=False)
@options.output
def test(where: str | None) -> None:
    """Send a test message to every receiver of a site; exits with 3 if one did not accept it."""
    from trimtab.errors import ToolError
    from trimtab.loop import documents
    from trimtab.loop.alerting.receivers import try_receivers
    from trimtab.loop.sites import clock_of, only_site, open_site

    site = (only_site() if where is None else open_site(where)).site
    tried = tuple(try_receivers(site, clock_of(site)()))
    failed = [entry.receiver for entry in tried if not entry.delivered]
    error = ToolError(f"not delivered to {', '.join(failed)}", code="alert-undelivered")
    show_page(
        lambda: documents.kept.AlertsTestDocument(site.name, tried),
        lambda: trial_document(site.name, tried),
        error=error if failed else None,
    )


def trial_document(site: str, tried: Sequence[ReceiverRow]) -> Document:
    """Return how many receivers accepted the message, and each one's answer."""
    taken = sum(entry.delivered for entry in tried)
    if tried:
        answer = f"{taken} of {plural(len(tried), 'receiver')} accepted the test message."
    else:
        answer = "no receiver: alerts are not sent; add [alerts.mail] or [webhook.NAME]."
    rows = (
        row(entry.receiver, "delivered" if entry.delivered else f"not delivered: {entry.reason}")
        for entry in sorted(tried, key=lambda entry: entry.delivered)
    )
    receivers = table(("receiver", "answer"), rows, first=ALL)
    return Document(f"{site}: {answer}", (Section(tables=(receivers,)),))


def alerts_document(
    standing: SiteStanding, alerts: Sequence[Alert], *, has_receivers: bool = True
) -> Document:
    """Return the state of a site and its alerts, newest first, with the number that wait.

    Parameters
    ----------
    has_receivers
        Whether the site file names receivers.
    """
    newest = alerts[::-1]
    rows = (
        row(
            at,
            alert.severity.value,
            alert.phase.value,
            alert.title,
            ", ".join(f"{each.receiver} {each.state.value}" for each in alert.deliveries),
        )
        for alert, at in zip(newest, local_times([alert.at for alert in newest]), strict=True)
    )
    columns = ("at", "severity", "phase??", "alert", "delivery")
    test = f"trimtab alerts test {options.site_argument(standing.site)} sends a test message"
    return Document(
        headline(standing),
        (Section(tables=(table(columns, rows, first=ROWS),)),),
        details=(_sent(standing.site, alerts),),
        more=(test,) if has_receivers else (),
    )


def _sent(site: str, alerts: Sequence[Alert]) -> str:
    if not alerts:
        return f"{site}: no alert was sent."
    last = alerts[-1]
    states = Counter(each.state for alert in alerts for each in alert.deliveries)
    undelivered = ", ".join(
        f"{count:,} {state.value}"
        for state, count in states.items()
        if state is not DeliveryState.DELIVERED
    )
    return (
        f"{site}: {plural(len(alerts), 'alert', ',')}"
        + (f", deliveries {undelivered}" if undelivered else "")
        + f"; the last, {local_moment(last.at)}: {last.title.rstrip('.')}."
    )
