"""``trimtab whatif``: policies tried on the twin."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import ROWS, Column, print_rows, print_screen, print_wrapped
from trimtab.units import format_duration, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from trimtab.twin.scenario.model import Scenario
    from trimtab.whatif.sweep import Row, SummedFigure, Swept


@click.command("whatif", cls=options.GroupedCommand)
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
@options.dask_or_site
@click.option(
    "--most", type=click.IntRange(1, 100_000), default=200, show_default=True, metavar="N",
    help="Largest number of combinations.",
)  # fmt: skip
@click.option(
    "--results", metavar="FILE",
    help="File that caches figures of runs; default in the user's cache.",
)  # fmt: skip
@click.option(
    "--runs", metavar="FILE",
    help="Also write every run to a Parquet file: its settings, seed and figures.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Work everything out anew, and keep nothing.")
@options.keep
@options.report
@options.as_json
@options.extent_options
def command(
    where: str,
    *,
    results: str | None,
    runs: str | None,
    again: bool,
    keep: str | None,
    report: str | None,
    **options_given: Any,
) -> None:
    """Simulate each combination of settings with several seeds.

    SCENARIO is one of `trimtab twin list` or a file; SITE is one whose driver is the twin. NAME is
    a word (trim, fullness, thresholds, reset, discard, purge, gating, drive, spare, placement,
    wbt, writes) or a dotted key of the scenario. It can be interrupted and started again.
    """
    from trimtab.cli.render.progress import NOTHING_KEPT, progress_bar
    from trimtab.errors import UsageError
    from trimtab.loop.whatif import WhatIf, results_file, what_if
    from trimtab.report import documents
    from trimtab.report.whatif import render_whatif
    from trimtab.report.write import check_report_path, write_report

    if again and results is not None:
        raise UsageError("--again keeps nothing: leave --results out", code="options-exclusive")
    file, note = (None, None) if again else results_file(results)
    if note is not None:
        click.echo(f"note: {note}", err=True)
    terms = WhatIf(where=where, results=file, **options_given)
    for path in (report, runs):
        if path is not None:
            check_report_path(Path(path))
    remains = "runs that ended are kept: the same command goes on with the others"
    with progress_bar(remains=NOTHING_KEPT if again else remains) as progress:
        scenario, swept = what_if(terms, progress)
    if keep is not None:
        from trimtab.launch.process import utc_now
        from trimtab.loop.results import keep_result, whatif_result

        keep_result(keep, None, whatif_result(scenario, swept), utc_now())
    if report is not None:
        write_report(Path(report), render_whatif(scenario, swept))
    if runs is not None:
        from trimtab.report.whatif import runs_parquet

        write_report(Path(runs), runs_parquet(swept))
    show(
        lambda: documents.simulated.WhatIfDocument(scenario, swept),
        lambda: print_swept(scenario, swept, report),
    )


def print_swept(scenario: Scenario, swept: Swept, report: str | None = None) -> None:
    """Print the best policy, and a row for each; with ``--all`` every figure of each too."""
    from trimtab.report.whatif import whatif_answers

    answer, *idle = whatif_answers(swept)
    more = [] if options.extent().everything else ["--all shows every figure, and what is assumed"]
    if report is not None:
        more.append(f"report: {visible(report)}")
    print_screen(answer, partial(_print_body, scenario, swept, idle), more=more)


def _print_body(scenario: Scenario, swept: Swept, idle: Sequence[str], out: Console) -> None:
    from trimtab.whatif.sweep import SEEDS_LEAST

    taken = f", {plural(swept.taken_up, 'run')} taken up" if swept.taken_up else ""
    terms = (
        f"simulated: {scenario.name}, {format_duration(swept.until_s)}, "
        f"{plural(len(swept.rows), 'combination')}, {plural(swept.seeds, 'seed')} each{taken}"
    )
    print_wrapped(out, terms, "dim")
    if swept.seeds < SEEDS_LEAST:
        out.print(f"no intervals: {plural(swept.seeds, 'seed')}, at least {SEEDS_LEAST} are needed")
    for sentence in idle:
        print_wrapped(out, sentence, "yellow")
    print_wrapped(out, swept.assumptions[0], "dim")
    _print_policies(out, swept)
    if not options.extent().everything:
        return
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


def _cell(figure: SummedFigure, unit: str) -> str:
    """Return a figure, its interval on a line of its own."""
    from trimtab.report.whatif import with_interval

    if figure.median is None:
        return "-"
    return with_interval(figure.median, figure.interval, unit).replace(" (", "\n(", 1)


def _print_policies(out: Console, swept: Swept) -> None:
    """Print a row for each policy: the best first, then in its order, figures that differ."""
    from trimtab.report.whatif import policy_kinds, ranked
    from trimtab.whatif.best import best_of

    best = best_of(swept)
    kinds = policy_kinds(swept, best)
    columns = [Column("policy", wraps=True, least=12), Column("")]
    columns += [
        Column(kind.title, right=True, drop=place, wraps=True, least=12)
        for place, kind in enumerate(kinds)
    ]
    shown = options.extent().rows(ROWS)
    rows = []
    for number in ranked(swept, best)[:shown]:
        row = swept.rows[number]
        word = "first" if number == 0 else ""
        if best is not None:
            word = "best" if number == best.row else "tied" if number in best.tied else word
        cells = (_cell(row.figure(kind.name), kind.unit) for kind in kinds)
        rows.append((visible(row.combination.title), word, *cells))
    print_rows(out, columns, rows)
    if len(swept.rows) > shown:
        out.print(f"... {len(swept.rows) - shown:,} more combinations: --all", style="dim")
    print_wrapped(out, "medians over seeds, with their intervals", "dim")


def _lines(row: Row, *, first: bool) -> list[str]:
    from trimtab.report.whatif import change_text, is_nothing, with_interval
    from trimtab.whatif.figures import KINDS

    lines = []
    for kind in KINDS:
        figure = row.figure(kind.name)
        if figure.median is None:
            continue
        text = f"{kind.title:<38} {with_interval(figure.median, figure.interval, kind.unit)}"
        if not first and figure.difference is not None and not is_nothing(figure):
            text += f"; against the first {change_text(figure, kind.unit)}"
        lines.append(text)
    missing = [kind.title for kind in KINDS if row.figure(kind.name).median is None]
    if missing:
        lines.append(f"no simulated data for: {', '.join(missing)}")
    return lines
