"""``trimtab reproduce``: the documents' figures beside the twin's."""

from __future__ import annotations

from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("reproduce")
@click.argument("names", metavar="[nersc24|sc21|eth21|hpe25]...", nargs=-1)
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, metavar="N",
    help="Runs of each simulation; what they say lies between least and greatest.",
)  # fmt: skip
@click.option("--layers", "layers_only", is_flag=True, help="Only what needs no time: a second.")
@click.option(
    "--until",
    type=options.SIMULATED_TIME,
    help="Simulated time of Perlmutter and ETH. Default: all.",
)
@click.option(
    "--classes", type=click.IntRange(1, 100_000), metavar="N",
    help="Simulated OSTs that stand for Perlmutter's; default as in its scenario.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 1024), metavar="N",
    help="Processes; default one a processor. The figures are the same.",
)  # fmt: skip
@click.option("--report", metavar="FILE", help="Also write a page with charts.")
@options.as_json
def command(names: tuple[str, ...], report: str | None, **asked: Any) -> None:
    """Set every printed number that lies in the model beside the twin's, and name the misses.

    nersc24 is NERSC's paper of nine months and its slides, sc21 Perlmutter's architecture, eth21
    ETH's move to flash, hpe25 the E2000. Without one it is all of them: a few minutes.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.reproduce import print_reproduction
    from trimtab.loop.reproduce import reproduced
    from trimtab.report import documents
    from trimtab.whatif.reproduce.reproduce import DOCUMENTS, Terms

    terms = Terms(
        documents=tuple(dict.fromkeys(names)) or tuple(DOCUMENTS),
        seeds=asked["seeds"],
        until_s=asked["until"],
        classes=asked["classes"],
        layers_only=asked["layers_only"],
    )
    with progress_bar() as progress:
        found = reproduced(terms, workers=asked["workers"], report=report, progress=progress)
    show(
        lambda: documents.simulated.ReproduceDocument(found, report),
        lambda: print_reproduction(found, report),
    )
