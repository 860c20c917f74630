"""``trimtab alerts``: the alerts of a site, and a test of its receivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.output import show
from trimtab.cli.render.screen import ROWS, Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import local_times, moment, site_argument
from trimtab.model.alert import DeliveryState
from trimtab.report.headline import headline
from trimtab.units import plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.model.alert import Alert
    from trimtab.model.site import Site
    from trimtab.model.standing import SiteStanding
    from trimtab.report.documents.kept import ReceiverRow


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
@options.extent_options
@options.as_json
@options.store
@options.since("Only alerts that were decided at or after this time.")
def list_(where: str, store_url: str | None, since: str | None) -> None:
    """List alerts, the newest first: who got each, and which still wait."""
    from trimtab.loop.standing import whole_standing
    from trimtab.model.alert import Phase
    from trimtab.report import documents

    with opened(where, store_url) as record:
        place = record.place
        alerts = record.store.alerts(place.name, since=place.moment(since))
        standing = whole_standing(record.store, place)
    sent = tuple(alert for alert in alerts if alert.phase is not Phase.NOTED)
    show(
        lambda: documents.kept.AlertsDocument(record.location, place.name, sent),
        lambda: print_alerts(standing, sent, has_receivers=_has_receivers(record.site)),
    )


@command.command("test")
@click.argument("where", metavar="[SITE]", required=False)
@options.extent_options
@options.as_json
def test(where: str | None) -> None:
    """Send a test message to every receiver of a site; exits with 3 where one did not take it."""
    from trimtab.errors import ToolError
    from trimtab.loop.alerting.receivers import try_receivers
    from trimtab.loop.sites import clock_of, only_site, open_site
    from trimtab.report import documents

    site = (only_site() if where is None else open_site(where)).site
    tried = tuple(try_receivers(site, clock_of(site)()))
    failed = [entry.receiver for entry in tried if not entry.delivered]
    error = ToolError(f"not delivered to {', '.join(failed)}", code="alert-undelivered")
    show(
        lambda: documents.kept.AlertsTestDocument(site.name, tried),
        lambda: print_trial(site.name, tried),
        error=error if failed else None,
    )


def print_trial(site: str, tried: Sequence[ReceiverRow]) -> None:
    """Print how many receivers took the message, and each with its answer."""
    taken = sum(entry.delivered for entry in tried)
    if tried:
        answer = f"{taken} of {plural(len(tried), 'receiver')} took the test message."
    else:
        answer = "no receiver: nobody gets alerts; add [alerts.mail] or [webhook.NAME]."
    rows = [
        (
            visible(entry.receiver),
            "delivered" if entry.delivered else f"not delivered: {visible(str(entry.reason))}",
        )
        for entry in sorted(tried, key=lambda entry: entry.delivered)
    ]
    print_screen(f"{visible(site)}: {answer}", partial(_print_receivers, rows))


def _print_receivers(rows: Sequence[tuple[str, str]], out: Console) -> None:
    print_rows(out, (Column("receiver"), Column("answer", wraps=True)), rows)


def _has_receivers(site: Site | None) -> bool:
    from trimtab.loop.alerting.receivers import receivers_of

    return site is not None and bool(receivers_of(site))


def print_alerts(
    standing: SiteStanding, alerts: Sequence[Alert], *, has_receivers: bool = True
) -> None:
    """Print how a site stands, how many alerts there were and how many wait, then the newest.

    Parameters
    ----------
    has_receivers
        Whether the site file names some.
    """
    test = f"trimtab alerts test {site_argument(standing.site)} sends a test message"
    sent = _answer(standing.site, alerts)
    print_screen(
        headline(standing),
        partial(_print_alerts, sent, alerts),
        more=[test] if has_receivers else [],
    )


def _answer(site: str, alerts: Sequence[Alert]) -> str:
    if not alerts:
        return f"{visible(site)}: no alert was sent."
    last = alerts[-1]
    states = Counter(each.state for alert in alerts for each in alert.deliveries)
    undelivered = ", ".join(
        f"{count:,} {state.value}"
        for state, count in states.items()
        if state is not DeliveryState.DELIVERED
    )
    return (
        f"{visible(site)}: {plural(len(alerts), 'alert', ',')}"
        + (f", deliveries {undelivered}" if undelivered else "")
        + f"; the last, {moment(last.at)}: {visible(last.title).rstrip('.')}."
    )


_COLUMNS = (
    Column("at"),
    Column("severity"),
    Column("phase", drop=1),
    Column("alert", wraps=True),
    Column("delivery", wraps=True, least=12),
)


def _print_alerts(sent: str, alerts: Sequence[Alert], out: Console) -> None:
    print_wrapped(out, sent)
    newest = alerts[::-1]
    shown = newest[: options.extent().rows(ROWS)]
    rows = [
        (
            at,
            alert.severity.value,
            alert.phase.value,
            visible(alert.title),
            visible(", ".join(f"{each.receiver} {each.state.value}" for each in alert.deliveries)),
        )
        for alert, at in zip(shown, local_times([alert.at for alert in shown]), strict=True)
    ]
    print_rows(out, _COLUMNS, rows)
    if len(newest) > len(shown):
        out.print(f"... {len(newest) - len(shown):,} earlier alerts: --all", style="dim")
