"""``trimtab whatif``: policies tried on the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("whatif")
@click.argument("where", metavar="SCENARIO|SITE")
@click.option(
    "--vary", "vary", metavar="NAME=VALUES", multiple=True,
    help="trim=never,weekly,nightly or fullness=0.6:0.9:0.1; several make every combination.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, metavar="N",
    help="Runs of each combination; intervals are over them.",
)  # fmt: skip
@click.option(
    "--until", type=options.SIMULATED_TIME, help="Simulated time: 9mo, 60d. Default: all of it."
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
    help="Combinations that are not refused as too many.",
)  # fmt: skip
@click.option(
    "--results", metavar="FILE",
    help="Where figures of runs are kept and found again; default in the user's cache.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Work everything out anew, and keep nothing.")
@options.as_json
def command(where: str, results: str | None, again: bool, **asked: Any) -> None:
    """Say what a policy would do: each combination of settings, simulated with several seeds.

    SCENARIO is one of `trimtab twin list` or a file; SITE is one whose driver is the twin. NAME is
    a word (trim, fullness, thresholds, reset, discard, purge, gating, drive, spare, placement,
    wbt, writes) or a dotted key of the scenario. It can be interrupted and started again.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.whatif import print_swept
    from trimtab.errors import UsageError
    from trimtab.loop.whatif import WhatIf, default_results, what_if
    from trimtab.report import documents

    if again and results is not None:
        raise UsageError("--again keeps nothing: leave --results out")
    file = None if again else Path(results) if results is not None else default_results()
    terms = WhatIf(
        where=where,
        vary=asked["vary"],
        seeds=asked["seeds"],
        until_s=asked["until"],
        classes=asked["classes"],
        workers=asked["workers"],
        most=asked["most"],
        results=file,
    )
    with progress_bar() as progress:
        scenario, swept = what_if(terms, progress)
    show(
        lambda: documents.simulated.WhatIfDocument(scenario, swept),
        lambda: print_swept(scenario, swept),
    )
