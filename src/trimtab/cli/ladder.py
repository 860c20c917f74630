"""``trimtab ladder``: efficiency of each layer relative to what carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page

if TYPE_CHECKING:
    from trimtab.judge.ladder.build import Scale


@click.command("ladder")
@click.argument("where", metavar="SITE|FILE.toml")
@options.store
@options.margin("10%", "Loss that a layer may have without being called the bottleneck.")
@click.option(
    "--per",
    type=click.Choice(["whole", "server", "ost", "drive"]),
    help="Unit for rates. Default: the whole system if its size is known.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Run to use for its layer, by the beginning of its id. Repeatable.",
)
@options.report
@options.output
def ladder_command(
    where: str,
    *,
    store_url: str | None,
    margin: float,
    per: Scale | None,
    runs: tuple[str, ...],
    report: str | None,
) -> None:
    """Show the efficiency of each layer against the layer below.

    From the drives' data sheet to the clients: drives, RAID, OSTs, the network, clients,
    applications. Names the limiting layer if the numbers show it, and says how to measure
    what is missing. A file of published figures is computed in the same way, and each printed
    value is checked against the figures it should follow from.
    """
    from trimtab.loop.ladder import ladder_of
    from trimtab.report.ladder import ladder_document

    ladder = ladder_of(where, store_url=store_url, margin=margin, scale=per, runs=runs)
    show_page(lambda: ladder, lambda: ladder_document(ladder), report)
