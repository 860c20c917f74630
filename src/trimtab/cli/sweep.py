"""``trimtab sweep``: a probe over a matrix of settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show

if TYPE_CHECKING:
    from trimtab.loop.sweep import SweepState
    from trimtab.model.site import Site
    from trimtab.model.sweep import Level, SweepAnalysis
    from trimtab.report.documents.judged import SweepDocument
    from trimtab.site.sweep_file import Sweep


@click.command("sweep")
@click.argument("spec", metavar="SPEC.toml")
@options.as_json
@options.store
@click.option(
    "--now",
    metavar="NAME=LEVEL",
    multiple=True,
    help="A level of [manual] that is set now. May be given several times.",
)
@click.option(
    "--workload",
    metavar="FACTOR",
    multiple=True,
    help="A factor that is no choice: the best of the rest is looked for at each of its levels.",
)
@click.option("--no-run", is_flag=True, help="Measure nothing: show how far it is, and the result.")
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result as an HTML page with heat maps.",
)
def command(
    spec: str,
    *,
    store_url: str | None,
    now: tuple[str, ...],
    workload: tuple[str, ...],
    no_run: bool,
    report_path: Path | None,
) -> None:
    """Measure every combination of settings in SPEC.toml, and say which is best.

    Points are measured in shuffled rounds and kept one by one: interrupt it when you like, and
    start it again to go on. What a person has to set first (NPS, CPT, a BIOS) waits until --now
    says that it is set.
    """
    from trimtab.cli.render.sweep import print_sweep
    from trimtab.errors import UsageError
    from trimtab.judge.sweep import analyse_sweep, measured_points
    from trimtab.loop.sites import open_site, with_store
    from trimtab.loop.sweep import points_of
    from trimtab.site.sweep_file import levels_now, load_sweep

    sweep = load_sweep(spec)
    site = open_site(sweep.site).site
    levels, url = levels_now(sweep, now), with_store(site, store_url)
    for factor in workload:
        if factor not in {*sweep.factors, *sweep.manual}:
            raise UsageError(f"{factor!r} is no factor of {sweep.name}")
    if no_run:
        state, place = _kept(sweep, site, url)
    else:
        state, place = _measured(sweep, site, url, levels)
    analysis = analyse_sweep(measured_points(points_of(state)), workload=workload)
    if report_path is not None:
        from trimtab.report.sweep import render_sweep
        from trimtab.report.write import write_report

        write_report(report_path, render_sweep(sweep.name, site.name, analysis))
    show(
        lambda: _document(state, analysis, place, site.name, sweep.name),
        lambda: print_sweep(state, analysis, place),
        error=state.error,
    )


def _document(
    state: SweepState, analysis: SweepAnalysis, place: str, site: str, name: str
) -> SweepDocument:
    from trimtab.report.documents.judged import SweepDocument, SweepDoubt, SweepPoint

    return SweepDocument(
        store=place,
        site=site,
        name=name,
        points=tuple(
            SweepPoint(
                point.levels,
                point.round,
                None if point.run is None else point.run.id,
                None if point.run is None else point.run.status,
            )
            for point in state.points
        ),
        waiting=tuple(state.waiting),
        failures=tuple(state.failures),
        doubts=tuple(SweepDoubt(doubt.reason, doubt.runs) for doubt in state.doubts),
        analysis=analysis,
    )


def _kept(sweep: Sweep, site: Site, url: str | None) -> tuple[SweepState, str]:
    """Return how far the sweep is, and where that is kept."""
    from trimtab.loop.probing.probe_now import probe_of
    from trimtab.loop.stores import nothing_kept, open_store
    from trimtab.loop.sweep import state_of

    probe = probe_of(site, sweep.probe)
    if (place := nothing_kept(url)) is not None:
        return state_of(sweep, site, probe, None), place
    with open_store(url) as store:
        return state_of(sweep, site, probe, store), str(store.location)


def _measured(
    sweep: Sweep, site: Site, url: str | None, levels: Mapping[str, Level]
) -> tuple[SweepState, str]:
    """Measure what can be measured now; return how far the sweep is, and where that is kept."""
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.probing.mount_check import refuse_wrong_mount
    from trimtab.loop.probing.probe_now import probe_of
    from trimtab.loop.probing.site_probe import SiteProbeRunner
    from trimtab.loop.sites import kept_identity, know_site, reach_of
    from trimtab.loop.stores import open_store
    from trimtab.loop.sweep import SweepWork

    probe = probe_of(site, sweep.probe)
    with open_store(url, create=True) as store, progress_bar() as progress:
        reach = reach_of(site)
        refuse_wrong_mount(site, kept_identity(store, site), reach)
        runner = SiteProbeRunner(site, reach.clock, know_site(store, site), reach)
        work = SweepWork(sweep, site, probe, store, runner, reach.clock, reach)
        return work.run(levels, progress), str(store.location)
