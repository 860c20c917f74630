"""``trimtab sweep``: a probe over a matrix of settings."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options


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
    as_json: bool,
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
    from trimtab.cli.render.progress import progress_bar
    from trimtab.errors import UsageError
    from trimtab.judge.sweep import analyse_sweep, measured_points
    from trimtab.launch.process import utc_now
    from trimtab.loop.place import refuse_wrong_place
    from trimtab.loop.probe_now import probe_of
    from trimtab.loop.site_probe import SiteProbeRunner
    from trimtab.loop.sites import kept_identity, know_site, open_site, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.sweep import SweepWork, points_of, state_of
    from trimtab.site.sweep_file import levels_now, load_sweep

    sweep = load_sweep(spec)
    site = open_site(sweep.site).site
    probe, levels = probe_of(site, sweep.probe), levels_now(sweep, now)
    for factor in workload:
        if factor not in {*sweep.factors, *sweep.manual}:
            raise UsageError(f"{factor!r} is no factor of {sweep.name}")
    with (
        open_store(with_store(site, store_url), create=not no_run) as store,
        progress_bar(silent=as_json) as progress,
    ):
        if no_run:
            state = state_of(sweep, site, store)
        else:
            refuse_wrong_place(site, kept_identity(store, site))
            runner = SiteProbeRunner(site, utc_now, know_site(store, site))
            state = SweepWork(sweep, site, probe, store, runner, utc_now).run(levels, progress)
        place = str(store.location)
    analysis = analyse_sweep(measured_points(points_of(state)), workload=workload)
    if report_path is not None:
        from trimtab.report.sweep import render_sweep
        from trimtab.report.write import write_report

        write_report(report_path, render_sweep(sweep.name, site.name, analysis))
    if as_json:
        from trimtab.report.documents.sweep import Progress, sweep_document

        points = [(point.levels, point.round, point.run) for point in state.points]
        progress_of = Progress(points, state.waiting, state.failures)
        document = sweep_document(place, site.name, sweep.name, progress_of, analysis)
        click.echo(document.to_json())
    else:
        from trimtab.cli.render.sweep import print_sweep

        print_sweep(state, analysis, place)
