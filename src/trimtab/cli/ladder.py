"""``trimtab ladder``: efficiency of each layer against what carries it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show

if TYPE_CHECKING:
    from trimtab.judge.ladder.build import Scale


@click.command("ladder")
@click.argument("where", metavar="SITE|FILE.toml")
@options.as_json
@options.store
@click.option(
    "--margin",
    type=options.FRACTION,
    default="10%",
    show_default=True,
    help="What a layer may lose without being called the bottleneck.",
)
@click.option(
    "--per",
    type=click.Choice(["whole", "server", "ost", "drive"]),
    help="What rates are brought to. Default: the whole where its size is known.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Take this run for its layer: the beginning of its id. May be given several times.",
)
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the ladder as an HTML page with charts.",
)
def command(
    where: str,
    *,
    store_url: str | None,
    margin: float,
    per: Scale | None,
    runs: tuple[str, ...],
    report_path: Path | None,
) -> None:
    """Show what each layer delivers of what the one beneath it could carry.

    From the drives' data sheet to the clients: drives, RAID, OSTs, network beside them, clients,
    applications. Names the layer that limits where the numbers show it, and says how to measure
    what is missing. A file of published figures is computed in the same way, and each value that
    it prints is held against the figures that it should follow from.
    """
    from trimtab.cli.render.ladder import print_ladder
    from trimtab.errors import UsageError
    from trimtab.loop.ladder import ladder_of
    from trimtab.report import documents

    if not 0 < margin < 1:
        raise UsageError("--margin has to be over 0 and under 100%")
    found = ladder_of(where, store_url=store_url, margin=margin, scale=per, runs=runs)
    if report_path is not None:
        from trimtab.report.ladder import render_ladder
        from trimtab.report.write import write_report

        write_report(report_path, render_ladder(found))
    show(lambda: documents.judged.LadderDocument(found), lambda: print_ladder(found))
