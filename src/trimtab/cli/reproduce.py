"""``trimtab reproduce``: the documents' figures beside the twin's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import print_wrapped
from trimtab.cli.render.text import console, table

if TYPE_CHECKING:
    from rich.table import Table

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


def print_reproduction(reproduction: Reproduction, report: str | None = None) -> None:
    """Print a table a document, what contradicts itself, and how many rows are met."""
    from trimtab.report.reproduce import headline, others_text, sections

    out = console()
    print_wrapped(out, headline(reproduction.summary), "bold")
    print_wrapped(out, others_text(reproduction.summary))
    for title, rows in sections(reproduction):
        out.print(title, style="bold")
        out.print(_table(rows))
    for tension in reproduction.tensions:
        out.print()
        out.print(f"{tension.title} ({tension.document}): {tension.verdict}", style="bold")
        out.print(tension.text)
    if report is not None:
        click.echo(f"report    {report}")


def _table(rows: list[SeededRow]) -> Table:
    from trimtab.report.reproduce import class_text, error_text, printed_text, twin_text

    names = ("row", "quantity", "printed>", "twin>", "error>!", "class")
    grid = table(*names, padding=(0, 2, 0, 0), header_style="bold")
    for column in grid.columns[2:4]:
        column.max_width = 32
    for row in rows:
        style = "red" if row.missed else None
        grid.add_row(
            row.row.id,
            row.row.quantity,
            printed_text(row),
            twin_text(row),
            error_text(row),
            class_text(row),
            style=style,
        )
    return grid
