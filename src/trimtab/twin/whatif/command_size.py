"""``trimtab size``: size a file system."""

from __future__ import annotations

from typing import Any

import click

from trimtab.show import command_options
from trimtab.show.screen_document import show_page


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
    from trimtab.twin.whatif.screen_size import size_document
    from trimtab.twin.whatif.sizing import size
    from trimtab.twin.whatif.sizing_request import sizing_request

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
