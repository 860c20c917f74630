"""``trimtab whatif``, to try policies on the twin, and ``trimtab size``, to size a file system."""

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
    from trimtab.reach.bounded import check_report_path, write_report
    from trimtab.show.screen_document import NOTHING_KEPT, progress_bar
    from trimtab.twin.whatif.page import whatif_document
    from trimtab.twin.whatif.whatif_figure import results_file
    from trimtab.twin.whatif.whatif_sweep import WhatIf, WhatIfDocument, what_if

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
        from trimtab.twin.whatif.page import runs_parquet

        write_report(Path(runs), runs_parquet(swept))
    show_page(
        lambda: WhatIfDocument(scenario, swept),
        lambda: whatif_document(scenario.name, swept, scenario.assumption_lines),
        report,
    )


def _rate(text: str) -> float:
    from trimtab.base.site_hardware import parse_figure

    return parse_figure(text, "B/s").value


_RATE = command_options.Quantity("rate", _rate, example_units=("GB/s", "TB/s"))


def _fullness() -> float:
    from trimtab.base.site import LIMITS

    return LIMITS.fullness


@click.command("size", cls=command_options.GroupedCommand)
@click.option(
    "--capacity",
    "capacity_bytes",
    type=command_options.LARGE_SIZE,
    help="Usable, as df shows it: 33PiB.",
)
@click.option("--osts", type=int, metavar="N", help="Number of OSTs, instead of a capacity.")
@click.option(
    "--daily-writes",
    "daily_writes_bytes",
    type=command_options.LARGE_SIZE,
    required=True,
    help="Bytes users write per day: 2.5PB.",
)
@click.option(
    "--daily-probe-writes",
    "daily_probe_writes_bytes",
    type=command_options.LARGE_SIZE,
    default=0,
    help="Bytes benchmarks write per day, in hourly runs.",
)
@click.option(
    "--kept", "kept_share", type=command_options.FRACTION, default=1.0,
    help="Part of the daily writes that owners do not delete themselves; default all.",
)  # fmt: skip
@click.option(
    "--retention",
    "retention_s",
    type=command_options.POSITIVE_DURATION,
    help="Retention time of data: 90d.",
)
@click.option(
    "--growth",
    "growth_bytes_per_year",
    type=command_options.LARGE_SIZE,
    help="Growth of stored data per year; instead of --kept.",
)
@click.option("--drive", metavar="NAME", help="pm1733 (default), pm1733a, pm1735, pm1743 ...")
@click.option(
    "--drive-capacity",
    type=command_options.LARGE_SIZE,
    help="Capacity of a drive, instead of its own.",
)
@click.option("--drive-write", type=_RATE, help="Sequential write rate seen by one server.")
@click.option("--spare", type=command_options.FRACTION, help="Usable spare of the flash.")
@click.option("--dwpd", type=float, help="Rated drive writes per day, over five years.")
@click.option(
    "--family", type=click.Choice(["classic", "optimize-scan", "el9"]), default="classic",
    show_default=True, help="Block allocator of the servers' kernel.",
)  # fmt: skip
@click.option(
    "--thresholds", default="25/15/5", show_default=True, metavar="C1/C2/C3",
    help="mb_c1, c2 and c3_threshold in per cent; classic only.",
)  # fmt: skip
@click.option(
    "--server", "generation", type=click.Choice(["e1000", "e2000"]), default="e1000",
    show_default=True, help="Generation of the servers: memory, cores, fabric.",
)  # fmt: skip
@click.option("--raid", default="8+2+1", show_default=True, help="Data, parity, spare drives.")
@click.option(
    "--drives-per-ost", type=click.IntRange(1, 1000), default=12, show_default=True,
    help="Drives per OST.",
)  # fmt: skip
@click.option(
    "--fullness",
    "limit",
    type=command_options.FRACTION,
    default=_fullness,
    help="Highest fullness.",
)
@click.option(
    "--trim", type=click.Choice(["never", "weekly", "nightly", "discard"]), default="nightly",
    show_default=True, help="When free space is trimmed.",
)  # fmt: skip
@click.option(
    "--write-bandwidth", "write_bytes_per_s", type=_RATE, help='Required in total: "4 TB/s".'
)
@click.option(
    "--mean-file",
    "mean_file_bytes",
    type=command_options.SIZE,
    help="Mean size of a file, for inodes.",
)
@click.option("--files", type=float, help="Number of files, instead of --mean-file.")
@click.option(
    "--stripe-count", type=click.IntRange(1, 2000), default=1, show_default=True,
    help="Objects per file.",
)  # fmt: skip
@click.option("--years", type=float, default=5.0, show_default=True, help="Lifetime in years.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True,
    help="The same seed gives the same figures.",
)  # fmt: skip
@click.option("--explain", "explained", is_flag=True, help="Show the formula of each figure.")
@command_options.output
def size_command(explained: bool, **options_given: Any) -> None:
    """Size a file system: drives and OSTs, endurance, trim schedule, capacity.

    Write amplification is simulated on a miniature of one OST, which takes some twenty seconds, or
    a minute while a probe runs. Every figure is a simulation or a formula with its source
    (--explain), and the assumptions are listed.
    """
    from trimtab.show.screen_document import progress_bar
    from trimtab.twin.page import size_document
    from trimtab.twin.whatif.sizing import size
    from trimtab.twin.whatif.whatif_request import sizing_request

    request = sizing_request(**options_given)
    with progress_bar() as progress:
        sizing = size(request, progress)
    if explained:
        command_options.print_everything()
    show_page(
        lambda: sizing,
        lambda: size_document(sizing, explained=explained),
        more=() if explained else ("--explain shows the formula of each figure",),
    )
