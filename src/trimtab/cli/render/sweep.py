"""A sweep as text: how far it is, the best settings, what matters, heat maps and knees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.text import console, percent_text, print_more, table, value_text
from trimtab.loop.excluded_runs import doubts_text
from trimtab.model.run import METRIC_UNITS
from trimtab.model.sweep import BestSetting, FactorEffect, HeatMap, Level, Scaling, SweepAnalysis
from trimtab.model.verdict import Interval
from trimtab.report.text import levels_text, metric_text
from trimtab.units import format_percent, format_value
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.loop.sweep import SweepState

_SHADES = ("grey30", "dark_green", "green4", "green3", "bright_green")
_SETTINGS_SHOWN = 8


def print_sweep(state: SweepState, analysis: SweepAnalysis, store: str) -> None:
    """Print a sweep on standard output."""
    out, sweep = console(), state.sweep
    out.print(
        f"{visible(sweep.name)}: {state.measured} of {len(state.points)} runs measured, "
        f"{len(sweep.points)} points, {sweep.rounds} rounds",
        style="bold",
    )
    if sweep.fixed:
        out.print(f"  always {visible(levels_text(sweep.fixed))}", style="dim")
    if state.doubts:
        count = sum(one.runs for one in state.doubts)
        out.print(
            f"  {count} of them hold{'s' * (count == 1)} no figure that is believed: "
            f"{visible(doubts_text(state.doubts))}",
            style="yellow",
        )
    if state.left_out:
        out.print(f"  {state.left_out} kept runs are left out: their probe was another one")
    for failure in state.failures:
        out.print(f"  failed: {visible(failure)}", style="red")
    for best in analysis.best:
        _print_best(out, best)
    for metric, effects in (analysis.effects or {}).items():
        _print_effects(out, metric, effects)
    for one in analysis.maps:
        _print_map(out, one)
    for curve in analysis.scaling:
        _print_scaling(out, curve)
    for note in analysis.notes:
        out.print(f"note: {visible(note)}", style="dim")
    _print_waiting(out, state.waiting)
    out.print(f"store     {visible(store)}", style="dim", soft_wrap=True)


def _print_best(out: Console, best: BestSetting) -> None:
    workload = f", {levels_text(best.workload)}" if best.workload else ""
    out.print()
    out.print(f"{metric_text(best.metric)}{visible(workload)}", style="bold")
    out.print(f"  {visible(best.reason)}")
    numbers = ("n>!", "value>!", "of the best>!", "95 % interval>!")
    made = table("setting", *numbers, "may be the best")
    for one in best.settings[:_SETTINGS_SHOWN]:
        interval = one.of_best_interval
        made.add_row(
            visible(levels_text(one.levels)),
            str(one.n),
            value_text(one.middle, best.unit),
            percent_text(one.of_best),
            "-" if interval is None else _interval(interval, apart=one.may_be_best is False),
            visible(one.reason or {True: "yes", False: "no", None: "-"}[one.may_be_best]),
        )
    out.print(made)
    print_more(out, best.settings, _SETTINGS_SHOWN)
    out.print(f"  {visible(best.method)}", style="dim")


def _interval(interval: Interval, *, apart: bool) -> str:
    low, high = format_percent(interval.low), format_percent(interval.high)
    return f"{low} .. under {high}" if apart else f"{low} .. {high}"


def _print_effects(out: Console, metric: str, effects: Sequence[FactorEffect]) -> None:
    if not effects:
        return
    out.print()
    out.print(f"what matters for {metric_text(metric)}", style="bold")
    for one in effects:
        ratio = "" if one.ratio is None else f", best over worst level {one.ratio:.2f}"
        word = {True: "matters", False: "cannot be told from chance", None: "cannot tell"}
        out.print(
            f"  {visible(' x '.join(one.factors))}: {format_percent(one.share)} of the scatter"
            f"{ratio}: {word[one.matters]}"
        )


def _print_map(out: Console, one: HeatMap) -> None:
    from rich.text import Text

    known = [cell for row in one.cells for cell in row if cell is not None]
    out.print()
    fixed = f", {levels_text(one.fixed)}" if one.fixed else ""
    out.print(visible(f"{metric_text(one.metric)}{fixed}"), style="bold")
    levels = [f"{visible(str(level))}>!" for level in one.columns]
    made = table(visible(f"{one.row_factor} / {one.column_factor}"), *levels)
    for level, cells in zip(one.rows, one.cells, strict=True):
        shown = [
            Text("-") if cell is None else Text(_cell(cell, one.unit), style=_shade(cell, known))
            for cell in cells
        ]
        made.add_row(visible(str(level)), *shown)
    out.print(made)


def _cell(value: float, unit: str) -> str:
    return f" {format_value(value, unit)} "


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
    out.print(f"  {points}")
    out.print(f"  {visible(curve.reason)}")


def _print_waiting(out: Console, waiting: Sequence[Mapping[str, Level]]) -> None:
    if not waiting:
        return
    out.print()
    out.print("to be set by hand before the rest can be measured", style="bold")
    for one in waiting[:_SETTINGS_SHOWN]:
        now = " ".join(f"--now {key}={value}" for key, value in one.items())
        out.print(f"  {visible(levels_text(one))}: then add {visible(now)}")
