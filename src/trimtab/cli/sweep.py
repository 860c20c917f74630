"""``trimtab sweep``: a probe over a matrix of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page
from trimtab.model.excluded_runs import doubts_text
from trimtab.report.sections import Section
from trimtab.report.text import levels_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.loop.sweep import SweepState
    from trimtab.model.site import Site
    from trimtab.model.sweep import Level
    from trimtab.site.sweep_file import Sweep


@click.command("sweep")
@click.argument("spec", metavar="SPEC.toml")
@options.store
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
@options.report
@options.output
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
    from trimtab.errors import UsageError
    from trimtab.judge.sweep import analyse_sweep, measured_points
    from trimtab.loop.sites import open_site
    from trimtab.loop.stores import with_store
    from trimtab.loop.sweep import points_of
    from trimtab.record.kept import value_of
    from trimtab.report.documents.judged import SweepDocument
    from trimtab.report.sweep import sweep_document
    from trimtab.site.sweep_file import levels_now, load_sweep

    sweep = load_sweep(spec)
    site = open_site(sweep.site).site
    levels, url = levels_now(sweep, now), with_store(site, store_url)
    for factor in workload:
        if factor not in {*sweep.factors, *sweep.manual}:
            raise UsageError(f"{factor!r} is not a factor of {sweep.name}", code="factor-unknown")
    if no_run:
        state, place = _state_of_store(sweep, site, url)
    else:
        state, place = _measured(sweep, site, url, levels)
    analysis = analyse_sweep(measured_points(points_of(state)), workload=workload)
    show_page(
        lambda: value_of(
            SweepDocument, state, store=place, site=site.name, name=sweep.name, analysis=analysis
        ),
        lambda: sweep_document(sweep.name, site.name, analysis, extent_sections(state)),
        report,
        more=[f"store: {place}"],
        error=state.error,
    )


def _state_of_store(sweep: Sweep, site: Site, url: str | None) -> tuple[SweepState, str]:
    """Return the progress of a sweep, and where it is stored."""
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
    """Measure everything possible now; return the progress, and where it is stored."""
    from trimtab.cli.render.progress import POINTS_KEPT, progress_bar
    from trimtab.loop.probing.probe_now import probe_of
    from trimtab.loop.probing.site_probe import runner_of
    from trimtab.loop.sites import reach_of
    from trimtab.loop.stores import open_store
    from trimtab.loop.sweep import SweepWork

    probe = probe_of(site, sweep.probe)
    with (
        open_store(url, create=True) as store,
        progress_bar(remains=POINTS_KEPT) as progress,
    ):
        reach = reach_of(site)
        runner = runner_of(site, store, reach)
        work = SweepWork(sweep, site, probe, store, runner, reach.clock, reach)
        return work.run(levels, progress), str(store.location)


_SETTINGS_SHOWN = 8


def extent_sections(state: SweepState) -> tuple[Section, ...]:
    """Return the progress of a sweep, which of its runs count, and what a person must do."""
    sweep = state.sweep
    measured = f"{state.measured} of {len(state.points)} runs measured, "
    count = sum(doubt.runs for doubt in state.doubts)
    doubts = (
        f"{count} of them hold{'s' * (count == 1)} no credible figure: {doubts_text(state.doubts)}"
    )
    other = f"{state.left_out} stored runs are left out: they belong to another probe"
    waiting = (
        f"{levels_text(levels)}: then add "
        + " ".join(f"--now {key}={value}" for key, value in levels.items())
        for levels in state.waiting[:_SETTINGS_SHOWN]
    )
    return (
        Section(
            "Measured so far",
            lines=(
                f"{measured}{len(sweep.points)} points, {sweep.rounds} rounds",
                *((f"always {levels_text(sweep.fixed)}",) if sweep.fixed else ()),
                *((doubts,) if state.doubts else ()),
                *((other,) if state.left_out else ()),
                *(f"failed: {failure}" for failure in state.failures),
            ),
        ),
        Section("to be set by hand before the rest can be measured", lines=tuple(waiting)),
    )
