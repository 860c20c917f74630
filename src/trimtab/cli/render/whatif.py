"""A sweep as text: a block for each combination, with intervals and differences."""

from __future__ import annotations

from trimtab.cli.render.text import console
from trimtab.model.verdict import Interval
from trimtab.twin.scenario.model import Scenario
from trimtab.units import format_duration, format_value, plural
from trimtab.visible import visible
from trimtab.whatif.figures import KINDS
from trimtab.whatif.sweep import Row, SummedFigure, Swept


def print_swept(scenario: Scenario, swept: Swept) -> None:
    """Print each combination: mean with interval over seeds, difference from the first."""
    out = console()
    taken = f", {plural(swept.taken_up, 'run')} taken up" if swept.taken_up else ""
    out.print(
        visible(
            f"simulated: {scenario.name}, {format_duration(swept.until_s)}, "
            f"{plural(len(swept.rows), 'combination')}, {plural(swept.seeds, 'seed')} each{taken}"
        ),
        style="bold",
    )
    for number, row in enumerate(swept.rows):
        out.print()
        out.print(visible(row.combination.title), style="bold")
        for line in _lines(row, first=number == 0):
            out.print(f"  {line}", soft_wrap=True)
    out.print("\nassumed", style="bold")
    for sentence in swept.assumptions:
        out.print(f"  {sentence}", style="dim", soft_wrap=True)
    for key, why in sorted(scenario.assumptions.items()):
        out.print(visible(f"  {key}: {why}"), style="dim", soft_wrap=True)


def _lines(row: Row, *, first: bool) -> list[str]:
    lines = []
    for kind in KINDS:
        told = row.figure(kind.name)
        if told.mean is None:
            continue
        text = f"{kind.title:<38} {_with(told.mean, told.interval, kind.unit)}"
        if not first and told.difference is not None and not _is_nothing(told):
            text += f"; against the first {_change(told, kind.unit)}"
        lines.append(text)
    missing = [kind.title for kind in KINDS if row.figure(kind.name).mean is None]
    if missing:
        lines.append(f"nothing tells: {', '.join(missing)}")
    return lines


def _with(value: float, interval: Interval | None, unit: str) -> str:
    text = _shown(value, unit)
    if interval is None or interval.high == interval.low:
        return text
    return f"{text} ({_shown(interval.low, unit)} to {_shown(interval.high, unit)})"


def _is_nothing(told: SummedFigure) -> bool:
    """Return whether a difference is one of rounding."""
    assert told.mean is not None
    return told.difference is None or abs(told.difference) <= 1e-9 * abs(told.mean)


def _change(told: SummedFigure, unit: str) -> str:
    assert told.difference is not None
    assert told.mean is not None
    size, before = abs(told.difference), told.mean - told.difference
    text = "+" if told.difference > 0 else "-"
    text += f"{100 * size:.1f} points" if unit == "1" else _shown(size, unit)
    if unit != "1" and before > 0:
        text += f" ({told.difference / before:+.1%})"
    interval = told.difference_interval
    if interval is not None and interval.low <= 0 <= interval.high:
        text += ", within chance"
    return text


def _shown(value: float, unit: str) -> str:
    return f"{value:.3f}" if unit == "B/B" else format_value(value, unit)
