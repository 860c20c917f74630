"""``trimtab reproduce``: the documents' figures beside the twin's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import ROWS, Column, print_rows, print_screen, print_wrapped
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.validation.statements import SeededRow
    from trimtab.whatif.reproduce.reproduce import Reproduction


@click.command("reproduce")
@click.argument("names", metavar="[nersc24|sc21|eth21|hpe25]...", nargs=-1)
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N",
    help="Runs of each simulation, for intervals; fewer than 10 are not scored.",
)  # fmt: skip
@click.option("--layers", "layers_only", is_flag=True, help="Only what needs no time: a second.")
@click.option(
    "--until",
    "until_s",
    type=options.SIMULATED_TIME,
    help="Simulated time of Perlmutter and ETH; less than all is not scored.",
)
@click.option(
    "--classes", type=click.IntRange(1, 100_000), metavar="N",
    help="Simulated OSTs that stand for Perlmutter's, not scored. Default: all of them.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 1024), metavar="N",
    help="Processes; default one a processor. The figures are the same.",
)  # fmt: skip
@options.dask
@options.report
@options.as_json
@options.extent_options
def command(
    names: tuple[str, ...],
    report: str | None,
    workers: int | None,
    dask: str | None,
    **options_given: Any,
) -> None:
    """Compare every printed number within the model with the twin, and list the misses.

    nersc24 is NERSC's paper of nine months and its slides, sc21 Perlmutter's architecture, eth21
    ETH's move to flash, hpe25 the E2000. Without one it is all of them: up to an hour.

    Only predictions count. Met: all seeds are within a tenth of what is printed; open: some;
    missed: none. A bound has no tenth.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.reproduce import reproduced
    from trimtab.report import documents
    from trimtab.whatif.reproduce.reproduce import DOCUMENTS, Terms

    terms = Terms(tuple(dict.fromkeys(names)) or tuple(DOCUMENTS), **options_given)
    with progress_bar() as progress:
        reproduction = reproduced(
            terms, workers=workers, dask=dask, report=report, progress=progress
        )
    show(
        lambda: documents.simulated.ReproduceDocument(reproduction, report),
        lambda: print_reproduction(reproduction, report),
    )


_COLUMNS: Final = (
    Column("row", drop=1),
    Column("quantity", wraps=True, least=16),
    Column("printed", right=True, wraps=True, least=10),
    Column("twin", right=True, wraps=True, least=12),
    Column("error", right=True),
    Column("class", drop=2),
)


def print_reproduction(reproduction: Reproduction, report: str | None = None) -> None:
    """Print the predictions, misses first; with ``--all`` every row of each document."""
    from trimtab.report.reproduce import headline

    more = [] if options.extent().everything else ["--all shows every row of each document"]
    if report is not None:
        more.append(f"report: {visible(report)}")
    print_screen(headline(reproduction.summary), partial(_print_body, reproduction), more=more)


def _print_body(reproduction: Reproduction, out: Console) -> None:
    from trimtab.report.reproduce import others_text, predictions, sections

    print_wrapped(out, others_text(reproduction.summary))
    everything, shown = options.extent().everything, options.extent().rows(ROWS)
    if not everything:
        rows = predictions(reproduction)
        _print_rows(out, rows[:shown])
        if len(rows) > shown:
            out.print(f"... {len(rows) - shown:,} more predictions: --all", style="dim")
        return
    for title, rows in sections(reproduction):
        out.print(title, style="bold")
        _print_rows(out, rows)
    for tension in reproduction.tensions:
        title = f"{tension.title} ({tension.document}): {tension.verdict}"
        print_wrapped(out, title, "bold")
        print_wrapped(out, tension.text)


def _print_rows(out: Console, rows: Sequence[SeededRow]) -> None:
    from rich.text import Text

    from trimtab.report.reproduce import class_text, error_text, printed_text, twin_text

    cells = [
        (
            row.row.id,
            row.row.quantity,
            printed_text(row),
            twin_text(row),
            Text(error_text(row) or "-", style="red" if row.missed else ""),
            class_text(row),
        )
        for row in rows
    ]
    print_rows(out, _COLUMNS, cells)
