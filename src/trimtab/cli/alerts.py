"""``trimtab alerts``: the alerts of a site, and a test of its receivers."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.render.document import show_page


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
    from trimtab.cli.render.alerts import alerts_document
    from trimtab.loop.alerting.receivers import AlertsDocument, receivers_of
    from trimtab.loop.standing import whole_standing
    from trimtab.model.alert import Phase

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
@options.output
def test(where: str | None) -> None:
    """Send a test message to every receiver of a site; exits with 3 if one did not accept it."""
    from trimtab.cli.render.alerts import trial_document
    from trimtab.errors import ToolError
    from trimtab.loop.alerting.receivers import AlertsTestDocument, try_receivers
    from trimtab.loop.sites import clock_of, only_site, open_site

    site = (only_site() if where is None else open_site(where)).site
    tried = tuple(try_receivers(site, clock_of(site)()))
    failed = [entry.receiver for entry in tried if not entry.delivered]
    error = ToolError(f"not delivered to {', '.join(failed)}", code="alert-undelivered")
    show_page(
        lambda: AlertsTestDocument(site.name, tried),
        lambda: trial_document(site.name, tried),
        error=error if failed else None,
    )
