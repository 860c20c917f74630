"""``trimtab whatif``: policies tried on the twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import print_wrapped
from trimtab.cli.render.text import console
from trimtab.units import format_duration, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.verdict import Interval
    from trimtab.twin.scenario.model import Scenario
    from trimtab.whatif.sweep import Row, SummedFigure, Swept


@click.command("whatif")
@click.argument("where", metavar="SCENARIO|SITE")
@click.option(
    "--vary", metavar="NAME=VALUES", multiple=True,
    help="trim=never,weekly,nightly or fullness=0.6:0.9:0.1; several make every combination.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=5, show_default=True, metavar="N",
    help="Runs of each combination; intervals are over them, from 5 on.",
)  # fmt: skip
@click.option(
    "--until",
    "until_s",
    type=options.SIMULATED_TIME,
    help="Simulated time: 9mo, 60d. Default: all of it.",
)
@click.option(
    "--classes", type=click.IntRange(1, 100_000), metavar="N",
    help="Simulated OSTs that stand for all; default as in the scenario.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 1024), metavar="N",
    help="Processes; default one a processor. The figures are the same.",
)  # fmt: skip
@click.option(
    "--most", type=click.IntRange(1, 100_000), default=200, show_default=True, metavar="N",
    help="Largest number of combinations.",
)  # fmt: skip
@click.option(
    "--results", metavar="FILE",
    help="File that caches figures of runs; default in the user's cache.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Work everything out anew, and keep nothing.")
@options.as_json
def command(where: str, results: str | None, again: bool, **options_given: Any) -> None:
    """Simulate each combination of settings with several seeds.

    SCENARIO is one of `trimtab twin list` or a file; SITE is one whose driver is the twin. NAME is
    a word (trim, fullness, thresholds, reset, discard, purge, gating, drive, spare, placement,
    wbt, writes) or a dotted key of the scenario. It can be interrupted and started again.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.errors import UsageError
    from trimtab.loop.whatif import WhatIf, default_results, what_if
    from trimtab.report import documents

    if again and results is not None:
        raise UsageError("--again keeps nothing: leave --results out", code="options-exclusive")
    file = None if again else Path(results) if results is not None else default_results()
    terms = WhatIf(where=where, results=file, **options_given)
    with progress_bar() as progress:
        scenario, swept = what_if(terms, progress)
    show(
        lambda: documents.simulated.WhatIfDocument(scenario, swept),
        lambda: print_swept(scenario, swept),
    )


def print_swept(scenario: Scenario, swept: Swept) -> None:
    """Print each combination: median with interval over seeds, difference from the first."""
    from trimtab.whatif.sweep import SEEDS_LEAST

    out = console()
    taken = f", {plural(swept.taken_up, 'run')} taken up" if swept.taken_up else ""
    out.print(
        visible(
            f"simulated: {scenario.name}, {format_duration(swept.until_s)}, "
            f"{plural(len(swept.rows), 'combination')}, {plural(swept.seeds, 'seed')} each{taken}"
        ),
        style="bold",
    )
    if swept.seeds < SEEDS_LEAST:
        out.print(f"no intervals: {plural(swept.seeds, 'seed')}, at least {SEEDS_LEAST} are needed")
    for name, why in swept.without_effect.items():
        out.print(visible(f"{name} has no effect in any run: {why}"), style="yellow")
    for number, row in enumerate(swept.rows):
        out.print()
        out.print(visible(row.combination.title), style="bold")
        for line in _lines(row, first=number == 0):
            print_wrapped(out, line, indent=2, hang=4)
    out.print("\nassumed", style="bold")
    for sentence in swept.assumptions:
        print_wrapped(out, sentence, "dim", indent=2)
    for key, why in sorted(scenario.assumptions.items()):
        print_wrapped(out, f"{key}: {why}", "dim", indent=2)


def _lines(row: Row, *, first: bool) -> list[str]:
    from trimtab.whatif.figures import KINDS

    lines = []
    for kind in KINDS:
        figure = row.figure(kind.name)
        if figure.median is None:
            continue
        text = f"{kind.title:<38} {_with(figure.median, figure.interval, kind.unit)}"
        if not first and figure.difference is not None and not _is_nothing(figure):
            text += f"; against the first {_change(figure, kind.unit)}"
        lines.append(text)
    missing = [kind.title for kind in KINDS if row.figure(kind.name).median is None]
    if missing:
        lines.append(f"nothing tells: {', '.join(missing)}")
    return lines


def _with(value: float, interval: Interval | None, unit: str) -> str:
    text = _shown(value, unit)
    if interval is None or interval.high == interval.low:
        return text
    return f"{text} ({_shown(interval.low, unit)} to {_shown(interval.high, unit)})"


def _is_nothing(figure: SummedFigure) -> bool:
    """Return whether a difference is one of rounding."""
    assert figure.median is not None
    return figure.difference is None or abs(figure.difference) <= 1e-9 * abs(figure.median)


def _change(figure: SummedFigure, unit: str) -> str:
    assert figure.difference is not None
    assert figure.median is not None
    size, before = abs(figure.difference), figure.median - figure.difference
    text = "+" if figure.difference > 0 else "-"
    text += f"{100 * size:.1f} points" if unit == "1" else _shown(size, unit)
    if unit != "1" and before > 0:
        text += f" ({figure.difference / before:+.1%})"
    interval = figure.difference_interval
    if interval is not None and interval.low <= 0 <= interval.high:
        text += ", within chance"
    return text


def _shown(value: float, unit: str) -> str:
    return f"{value:.3f}" if unit == "B/B" else format_value(value, unit)
