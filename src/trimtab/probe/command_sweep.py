"""``trimtab sweep``: a probe over a matrix of settings."""

from __future__ import annotations

import click

from trimtab.show import command_options
from trimtab.show.screen_document import show_page


@click.command("sweep")
@click.argument("spec", metavar="SPEC.toml")
@command_options.store
@click.option(
    "--now",
    metavar="NAME=LEVEL",
    multiple=True,
    help="Level of [manual] that is set now. Repeatable.",
)
@click.option(
    "--workload",
    metavar="FACTOR",
    multiple=True,
    help="Factor that is part of the workload: find the best of the others at each of its levels.",
)
@click.option("--no-run", is_flag=True, help="Measure nothing: show progress and result.")
@command_options.report
@command_options.output
def sweep_command(
    spec: str,
    *,
    store_url: str | None,
    now: tuple[str, ...],
    workload: tuple[str, ...],
    no_run: bool,
    report: str | None,
) -> None:
    """Measure every combination of settings in SPEC.toml and find the best.

    Points are measured in shuffled rounds and stored one by one: interrupt it at any time, and
    start it again to continue. What a person must set first (NPS, CPT, a BIOS option) waits until
    --now says that it is set.
    """
    from trimtab.base.error import UsageError
    from trimtab.judge.sweep_analysis import analyse_sweep, measured_points
    from trimtab.probe.page_sweep import extent_sections, sweep_document
    from trimtab.probe.sweep import document_of_sweep, measure_sweep, points_of, state_in_store
    from trimtab.probe.sweep_file import levels_now, load_sweep
    from trimtab.show.screen_document import POINTS_KEPT, progress_bar
    from trimtab.site.lookup import open_site, with_store

    sweep = load_sweep(spec)
    site = open_site(sweep.site).site
    levels, url = levels_now(sweep, now), with_store(site, store_url)
    for factor in workload:
        if factor not in {*sweep.factors, *sweep.manual}:
            raise UsageError(f"{factor!r} is not a factor of {sweep.name}", code="factor-unknown")
    if no_run:
        state, place = state_in_store(sweep, site, url)
    else:
        with progress_bar(remains=POINTS_KEPT) as progress:
            state, place = measure_sweep(sweep, site, url, levels, progress)
    analysis = analyse_sweep(measured_points(points_of(state)), workload=workload)
    show_page(
        lambda: document_of_sweep(state, analysis, store=place, site=site.name),
        lambda: sweep_document(sweep.name, site.name, analysis, extent_sections(state)),
        report,
        more=[f"store: {place}"],
        error=state.error,
    )
