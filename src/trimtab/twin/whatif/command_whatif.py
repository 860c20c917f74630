"""``trimtab whatif``: try policies on the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.show import command_options
from trimtab.show.screen_document import show_page


@click.command("whatif", cls=command_options.GroupedCommand)
@click.argument("where", metavar="SCENARIO|SITE")
@click.option(
    "--vary", metavar="NAME=VALUES", multiple=True,
    help="trim=never,weekly,nightly or fullness=0.6:0.9:0.1; several make every combination.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=5, show_default=True, metavar="N",
    help="Runs of each combination; from 5 on they give intervals.",
)  # fmt: skip
@click.option(
    "--until",
    "until_s",
    type=command_options.SIMULATED_TIME,
    help="Simulated time: 9mo, 60d. Default: all of it.",
)
@click.option(
    "--classes", type=click.IntRange(1, 100_000), metavar="N",
    help="Simulated OSTs that represent all; default as in the scenario.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 1024), metavar="N",
    help="Processes; default one per processor. The figures are the same.",
)  # fmt: skip
@command_options.dask_or_site
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
@click.option("--again", is_flag=True, help="Recompute everything, and store nothing.")
@command_options.keep
@command_options.report
@command_options.output
def whatif_command(
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
    wbt, writes) or a dotted key of the scenario. It can be interrupted and restarted.
    """
    from trimtab.base.error import UsageError
    from trimtab.reach.report_file import check_report_path, write_report
    from trimtab.show.screen_document import NOTHING_KEPT, progress_bar
    from trimtab.twin.whatif.page_whatif import whatif_document
    from trimtab.twin.whatif.whatif import WhatIf, what_if
    from trimtab.twin.whatif.whatif_figure import results_file
    from trimtab.twin.whatif.whatif_sweep import WhatIfDocument

    if again and results is not None:
        raise UsageError("--again stores nothing: leave --results out", code="options-exclusive")
    file, note = (None, None) if again else results_file(results)
    if note is not None:
        click.echo(f"note: {note}", err=True)
    terms = WhatIf(where=where, results=file, **options_given)
    for path in (report, runs):
        if path is not None:
            check_report_path(Path(path))
    remains = "completed runs are stored: the same command continues with the others"
    with progress_bar(remains=NOTHING_KEPT if again else remains) as progress:
        scenario, swept = what_if(terms, progress)
    if keep is not None:
        from trimtab.base.event import utc_now
        from trimtab.site.lookup import keep_result
        from trimtab.twin.whatif.whatif_sweep import whatif_result

        keep_result(keep, None, whatif_result(scenario, swept), utc_now())
    if runs is not None:
        from trimtab.twin.whatif.page_whatif import runs_parquet

        write_report(Path(runs), runs_parquet(swept))
    show_page(
        lambda: WhatIfDocument(scenario, swept),
        lambda: whatif_document(scenario.name, swept, scenario.assumption_lines),
        report,
    )
