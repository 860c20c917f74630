"""``trimtab sweep``: a probe over a matrix of settings."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import percent_text, table, value_text
from trimtab.loop.excluded_runs import doubts_text
from trimtab.model.run import METRIC_UNITS
from trimtab.report.text import levels_text, metric_text
from trimtab.units import format_percent, format_value
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from trimtab.loop.sweep import SweepState
    from trimtab.model.site import Site
    from trimtab.model.sweep import (
        BestSetting,
        FactorEffect,
        HeatMap,
        Level,
        Scaling,
        SettingResult,
        SweepAnalysis,
    )
    from trimtab.model.verdict import Interval
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
    help="Level of [manual] that is set now. Repeatable.",
)
@click.option(
    "--workload",
    metavar="FACTOR",
    multiple=True,
    help="Factor that is part of the workload: find the best of the others at each of its levels.",
)
@click.option("--no-run", is_flag=True, help="Measure nothing: show how far it is, and the result.")
@options.report
@options.extent_options
def command(
    spec: str,
    *,
    store_url: str | None,
    now: tuple[str, ...],
    workload: tuple[str, ...],
    no_run: bool,
    report: str | None,
) -> None:
    """Measure every combination of settings in SPEC.toml and find the best.

    Points are measured in shuffled rounds and kept one by one: interrupt it when you like, and
    start it again to go on. What a person has to set first (NPS, CPT, a BIOS) waits until --now
    says that it is set.
    """
    from trimtab.errors import UsageError
    from trimtab.loop.sites import open_site, with_store
    from trimtab.loop.sweep import analysed
    from trimtab.site.sweep_file import levels_now, load_sweep

    sweep = load_sweep(spec)
    site = open_site(sweep.site).site
    levels, url = levels_now(sweep, now), with_store(site, store_url)
    for factor in workload:
        if factor not in {*sweep.factors, *sweep.manual}:
            raise UsageError(f"{factor!r} is no factor of {sweep.name}", code="factor-unknown")
    if no_run:
        state, place = _state_of_store(sweep, site, url)
    else:
        state, place = _measured(sweep, site, url, levels)
    analysis = analysed(state, workload=workload)
    if report is not None:
        from trimtab.report.sweep import render_sweep
        from trimtab.report.write import write_report

        write_report(Path(report), render_sweep(sweep.name, site.name, analysis))
    show(
        lambda: _document(state, analysis, place, site.name, sweep.name),
        lambda: print_sweep(state, analysis, place),
        error=state.error,
    )


def _document(
    state: SweepState, analysis: SweepAnalysis, place: str, site: str, name: str
) -> SweepDocument:
    from trimtab.report.documents.judged import SweepDocument, SweepDoubt

    return SweepDocument(
        store=place,
        site=site,
        name=name,
        points=state.points,
        waiting=state.waiting,
        failures=state.failures,
        doubts=tuple(SweepDoubt(doubt.reason, doubt.runs) for doubt in state.doubts),
        analysis=analysis,
    )


def _state_of_store(sweep: Sweep, site: Site, url: str | None) -> tuple[SweepState, str]:
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


_SHADES = ("grey30", "dark_green", "green4", "green3", "bright_green")
_SETTINGS_SHOWN = 8


def print_sweep(state: SweepState, analysis: SweepAnalysis, store: str) -> None:
    """Print the best settings of a sweep, what matters, and with ``--all`` every table."""
    first = next(iter(analysis.best), None)
    sweep = state.sweep
    answer = f"{visible(sweep.name)}: {state.measured} of {len(state.points)} runs measured"
    if first is not None:
        answer = f"{metric_text(first.metric)}: {first.reason}"
    more = [f"store: {visible(store)}"]
    if not options.extent().everything:
        more.insert(0, "--all shows every setting, heat map and curve")
    print_screen(answer, partial(_print_body, state, analysis), more=more)


def _print_body(state: SweepState, analysis: SweepAnalysis, out: Console) -> None:
    _print_extent(out, state)
    for failure in state.failures:
        print_wrapped(out, f"failed: {failure}", "red", indent=2)
    _print_waiting(out, state.waiting)
    for place, best in enumerate(analysis.best):
        _print_best(out, best, reason=place > 0)
    for metric, effects in (analysis.effects or {}).items():
        _print_effects(out, metric, effects)
    for note in analysis.notes:
        print_wrapped(out, f"note: {note}", "dim")
    if options.extent().everything:
        for heat_map in analysis.maps:
            _print_map(out, heat_map)
        for curve in analysis.scaling:
            _print_scaling(out, curve)


def _print_extent(out: Console, state: SweepState) -> None:
    """Print how far the sweep is, and which of its runs count."""
    sweep = state.sweep
    line = f"{sweep.name}: {state.measured} of {len(state.points)} runs measured, "
    print_wrapped(out, f"{line}{len(sweep.points)} points, {sweep.rounds} rounds")
    if sweep.fixed:
        print_wrapped(out, f"always {levels_text(sweep.fixed)}", "dim", indent=2)
    if state.doubts:
        count = sum(doubt.runs for doubt in state.doubts)
        print_wrapped(
            out,
            f"{count} of them hold{'s' * (count == 1)} no figure that is believed: "
            f"{doubts_text(state.doubts)}",
            "yellow",
            indent=2,
        )
    if state.left_out:
        text = f"{state.left_out} stored runs are left out: their probe was another one"
        print_wrapped(out, text, indent=2)


_COLUMNS = (
    Column("setting", wraps=True),
    Column("n", right=True, drop=2),
    Column("value", right=True),
    Column("of the best", right=True),
    Column("95 % interval", right=True, drop=1),
    Column("may be the best", wraps=True),
)


def _print_best(out: Console, best: BestSetting, *, reason: bool) -> None:
    workload = f", {levels_text(best.workload)}" if best.workload else ""
    out.print(f"{metric_text(best.metric)}{visible(workload)}", style="bold")
    if reason:
        print_wrapped(out, best.reason, indent=2)
    shown = options.extent().rows(_SETTINGS_SHOWN)
    print_rows(out, _COLUMNS, [_row(s, best.unit) for s in best.settings[:shown]])
    if len(best.settings) > shown:
        out.print(f"  ... {len(best.settings) - shown:,} more settings: --all", style="dim")
    print_wrapped(out, best.method, "dim", indent=2)


def _row(setting: SettingResult, unit: str) -> tuple[str, ...]:
    interval = setting.of_best_interval
    return (
        visible(levels_text(setting.levels)),
        str(setting.n),
        value_text(setting.middle, unit),
        percent_text(setting.of_best),
        "-" if interval is None else _interval(interval, apart=setting.may_be_best is False),
        visible(setting.reason or {True: "yes", False: "no", None: "-"}[setting.may_be_best]),
    )


def _interval(interval: Interval, *, apart: bool) -> str:
    low, high = format_percent(interval.low), format_percent(interval.high)
    return f"{low} .. under {high}" if apart else f"{low} .. {high}"


def _print_effects(out: Console, metric: str, effects: Sequence[FactorEffect]) -> None:
    if not effects:
        return
    out.print(f"what matters for {metric_text(metric)}", style="bold")
    for effect in effects:
        ratio = "" if effect.ratio is None else f", best over worst level {effect.ratio:.2f}"
        word = {True: "matters", False: "not significant", None: "cannot tell"}
        print_wrapped(
            out,
            f"{' x '.join(effect.factors)}: {format_percent(effect.share)} of the scatter"
            f"{ratio}: {word[effect.matters]}",
            indent=2,
        )


def _print_map(out: Console, heat_map: HeatMap) -> None:
    from rich.text import Text

    known = [cell for row in heat_map.cells for cell in row if cell is not None]
    out.print()
    fixed = f", {levels_text(heat_map.fixed)}" if heat_map.fixed else ""
    out.print(visible(f"{metric_text(heat_map.metric)}{fixed}"), style="bold")
    levels = [f"{visible(str(level))}>!" for level in heat_map.columns]
    made = table(visible(f"{heat_map.row_factor} / {heat_map.column_factor}"), *levels)
    for level, cells in zip(heat_map.rows, heat_map.cells, strict=True):
        texts = [
            Text("-")
            if cell is None
            else Text(f" {format_value(cell, heat_map.unit)} ", style=_shade(cell, known))
            for cell in cells
        ]
        made.add_row(visible(str(level)), *texts)
    out.print(made)


def _shade(value: float, known: Sequence[float]) -> str:
    """Return the style of a cell: dark is the least, bright the most."""
    low, high = min(known), max(known)
    place = 0.0 if high == low else (value - low) / (high - low)
    shade = min(len(_SHADES) - 1, int(place * len(_SHADES)))
    return f"{'black' if shade >= 3 else 'white'} on {_SHADES[shade]}"


def _print_scaling(out: Console, curve: Scaling) -> None:
    fixed = f" ({levels_text(curve.fixed)})" if curve.fixed else ""
    out.print()
    out.print(visible(f"{metric_text(curve.metric)} against {curve.factor}{fixed}"), style="bold")
    points = ", ".join(
        f"{point.amount:g}: {format_value(point.middle, METRIC_UNITS[curve.metric])}"
        for point in curve.points
    )
    print_wrapped(out, points, indent=2, hang=0)
    print_wrapped(out, curve.reason, indent=2)


def _print_waiting(out: Console, waiting: Sequence[Mapping[str, Level]]) -> None:
    if not waiting:
        return
    out.print("to be set by hand before the rest can be measured", style="bold")
    for levels_waiting in waiting[:_SETTINGS_SHOWN]:
        now = " ".join(f"--now {key}={value}" for key, value in levels_waiting.items())
        print_wrapped(out, f"{levels_text(levels_waiting)}: then add {now}", indent=2)
