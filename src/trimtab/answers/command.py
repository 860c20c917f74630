"""``trimtab status``, ``correlate``, ``targets``, ``snapshot``, ``report``: a site as a whole."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.show import command_options
from trimtab.show.screen_document import print_document, show, show_page


@click.command("status")
@click.argument("where", metavar="[PATH|SITE]", required=False)
@command_options.output
@command_options.store
@command_options.cov_goal
@command_options.window
def status_command(
    where: str | None, store_url: str | None, cov_goal: float | None, window_s: float | None
) -> None:
    """Show the state of one file system, or of all, from the stored runs.

    Shows the last runs, and for each series of comparable runs its mean, COV with interval,
    verdict and trend. Measures nothing.
    """
    from trimtab.answers.page import status_document
    from trimtab.base.site import LIMITS
    from trimtab.explain.headline import site_troubles
    from trimtab.explain.status import StatusDocument
    from trimtab.probe.site_standing import standings_of
    from trimtab.probe.site_status import status_of
    from trimtab.show.screen_document import QUIET_S, progress_bar
    from trimtab.site.lookup import site_of
    from trimtab.site.place import opened

    with opened(where, store_url) as record, progress_bar(quiet_s=QUIET_S) as progress:
        limits = LIMITS if record.site is None else record.site.limits
        name = where if record.site is None else record.site.name
        state = status_of(
            record.store,
            None if name is None else site_of(record.store, name),
            goal=limits.cov if cov_goal is None else cov_goal,
            window_s=limits.window_s if window_s is None else window_s,
            timezone="UTC" if record.site is None else record.site.timezone,
            progress=progress,
        )
        standings = standings_of(record.store, state, record.site)
    troubles = {standing.site: site_troubles(standing) for standing in standings}
    more = []
    if state.series:
        site = command_options.site_argument(state.series[0].site)
        more = [f"trimtab judge {site} shows changes over months, trimtab incidents {site} causes"]
    show_page(
        lambda: StatusDocument(state, troubles),
        lambda: status_document(
            state, standings, command_options.site_argument(where) if where else ""
        ),
        more=more,
    )


@click.command("correlate")
@click.argument("where", metavar="SITE")
@command_options.since("Start of the analysis. Default: 90 days before the last run.")
@command_options.until
@command_options.series
@command_options.output
@command_options.store
def correlate_command(where: str, store_url: str | None, **limits: str | None) -> None:
    """Correlate telemetry with performance, with significance. Correlation is not cause.

    The significance allows for autocorrelation in both series and for multiple testing.
    """
    from trimtab.answers.page import correlated_document
    from trimtab.answers.site_correlation import correlate_site
    from trimtab.show.screen_document import progress_bar
    from trimtab.site.place import opened

    with opened(where, store_url) as record, progress_bar() as progress:
        result = correlate_site(record.store, record.place, progress=progress, **limits)
    show_page(lambda: result, lambda: correlated_document(result))


@click.command("targets")
@click.argument("where", metavar="PATH|SITE")
@click.argument("names", metavar="[TARGET]...", nargs=-1)
@command_options.output
@command_options.store
@click.option(
    "--at",
    metavar="TIME",
    help="Show the last snapshot stored at this time. Default: query now, store nothing.",
)
def targets_command(
    where: str, names: tuple[str, ...], store_url: str | None, at: str | None
) -> None:
    """List the targets of a site, troubled ones first, or show some in full.

    Queries the client's tools and every server once, each with a deadline; names what does not
    answer. Changes nothing.
    """
    from dataclasses import replace

    from trimtab.answers.page import target_document, targets_document
    from trimtab.base.units import parse_moment
    from trimtab.probe.site_look import chosen_of, look, recall, refuse_silence
    from trimtab.site.lookup import kept_site, open_driver, open_site, open_store, with_store

    site = open_site(where).site if at is None else kept_site(where, store_url)
    if at is None:
        standing = look(site, open_driver(site), with_store(site, store_url))
    else:
        with open_store(store_url, site) as store:
            standing = recall(site, store, parse_moment(at, site.timezone, end=True))
    state = standing.state
    assert state is not None  # a look and a recall both have it
    chosen = chosen_of(state, names)
    of_chosen = tuple(target for target in state.targets if target in chosen or not chosen)
    site = command_options.site_argument(state.site)
    more = [f"trimtab targets {site} TARGET shows all values of one"]
    show(
        lambda: replace(state, targets=of_chosen),
        lambda: (
            [print_document(target_document(state, target)) for target in chosen]
            if chosen
            else print_document(targets_document(standing), more)
        ),
    )
    refuse_silence(state, reported=command_options.wants_json())


@click.command("snapshot")
@click.argument("where", metavar="PATH|SITE")
@command_options.output
@command_options.store
def snapshot_command(where: str, store_url: str | None) -> None:
    """Take a snapshot of every target and machine of a site, and store it.

    One round trip to each server. `trimtab targets SITE --at TIME` shows it again.
    """
    from trimtab.answers.page import snapshot_document
    from trimtab.explain.status import SnapshotDocument
    from trimtab.probe.site_look import keep, refuse_silence
    from trimtab.site.lookup import open_driver, open_site, open_store

    site = open_site(where).site
    with open_store(store_url, site, create=True) as store:
        identifier, standing = keep(site, open_driver(site), store)
        place = str(store.location)
    state = standing.state
    assert state is not None  # it was stored just now
    show_page(
        lambda: SnapshotDocument(place, identifier, state),
        lambda: snapshot_document(identifier, place, standing),
    )
    refuse_silence(state, reported=command_options.wants_json())


@click.command("holders")
@click.argument("where", metavar="SITE")
@command_options.output
@command_options.store
def holders_command(where: str, store_url: str | None) -> None:
    """Show who holds the space: users, groups and projects, with their limits and grace.

    Reads the quota accounts of every server, one query each. Keeps the result once a week, without
    names, to show growth since a month ago.
    """
    from trimtab.answers.holders import holders_of
    from trimtab.answers.page_holders import holders_document
    from trimtab.site.lookup import open_driver, open_site, open_store

    site = open_site(where).site
    with open_store(store_url, site, create=True) as store:
        made = holders_of(site, open_driver(site).holders(), store)
    show_page(lambda: made, lambda: holders_document(made))


@click.command("report")
@click.argument("where", metavar="SITE")
@click.option("--month", metavar="MONTH", help="Such as 2026-10. Default: the last complete one.")
@click.option(
    "--out", required=True, type=command_options.PATH, metavar="FILE",
    help="Output file; its name ends in .html or .md.",
)  # fmt: skip
@command_options.place
@command_options.as_json
@command_options.store
def report_command(
    where: str, store_url: str | None, month: str | None, out: Path, place: str | None
) -> None:
    """Write the report of one month.

    Contains the verdicts, the incidents with their causes, space and purges, the cost of the
    probes, and the actions.
    """
    from trimtab.answers.month import MonthDocument, month_of, month_of_site
    from trimtab.answers.page_month import check_out, monthly_document, write_monthly
    from trimtab.show.document import Document
    from trimtab.show.screen_document import progress_bar
    from trimtab.site.place import opened

    check_out(out)
    with opened(where, store_url) as record, progress_bar() as progress:
        span = month_of(month, record.place.timezone, record.now)
        site, purges = record.place.name, None if place is None else Path(place)
        known = month_of_site(
            record.store, record.place, span, now=record.now, purges=purges, progress=progress
        )
        document = monthly_document(known)
        location = record.location
    write_monthly(out, document)

    show_page(
        lambda: MonthDocument(
            location, site, f"{span.first:%Y-%m}", str(out), document.answer, document.details
        ),
        lambda: Document(document.answer, details=document.details),
        more=(f"report: {out}",),
    )
