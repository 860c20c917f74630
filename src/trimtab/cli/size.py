"""``trimtab size``: size a file system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page

if TYPE_CHECKING:
    from trimtab.twin.scenario.model import DriveModel, Raid


def _rate(text: str) -> float:
    from trimtab.model.hardware import parse_figure

    return parse_figure(text, "B/s").value


_RATE = options.Quantity("rate", _rate, example_units=("GB/s", "TB/s"))


def _fullness() -> float:
    from trimtab.model.site import LIMITS

    return LIMITS.fullness


@click.command("size", cls=options.GroupedCommand)
@click.option(
    "--capacity", "capacity_bytes", type=options.LARGE_SIZE, help="Usable, as df shows it: 33PiB."
)
@click.option("--osts", type=int, metavar="N", help="Number of OSTs, instead of a capacity.")
@click.option(
    "--daily-writes",
    "daily_writes_bytes",
    type=options.LARGE_SIZE,
    required=True,
    help="Bytes users write per day: 2.5PB.",
)
@click.option(
    "--daily-probe-writes",
    "daily_probe_writes_bytes",
    type=options.LARGE_SIZE,
    default=0,
    help="Bytes benchmarks write per day, in hourly runs.",
)
@click.option(
    "--kept", "kept_share", type=options.FRACTION, default=1.0,
    help="Part of the daily writes that owners do not delete themselves; default all.",
)  # fmt: skip
@click.option(
    "--retention",
    "retention_s",
    type=options.POSITIVE_DURATION,
    help="Retention time of data: 90d.",
)
@click.option(
    "--growth",
    "growth_bytes_per_year",
    type=options.LARGE_SIZE,
    help="Growth of stored data per year; instead of --kept.",
)
@click.option("--drive", metavar="NAME", help="pm1733 (default), pm1733a, pm1735, pm1743 ...")
@click.option(
    "--drive-capacity", type=options.LARGE_SIZE, help="Capacity of a drive, instead of its own."
)
@click.option("--drive-write", type=_RATE, help="Sequential write rate seen by one server.")
@click.option("--spare", type=options.FRACTION, help="Usable spare of the flash.")
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
    "--fullness", "limit", type=options.FRACTION, default=_fullness, help="Highest fullness."
)
@click.option(
    "--trim", type=click.Choice(["never", "weekly", "nightly", "discard"]), default="nightly",
    show_default=True, help="When free space is trimmed.",
)  # fmt: skip
@click.option(
    "--write-bandwidth", "write_bytes_per_s", type=_RATE, help='Required in total: "4 TB/s".'
)
@click.option(
    "--mean-file", "mean_file_bytes", type=options.SIZE, help="Mean size of a file, for inodes."
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
@options.output
def size_command(explained: bool, **options_given: Any) -> None:
    """Size a file system: drives and OSTs, endurance, trim schedule, capacity.

    Write amplification is simulated on a miniature of one OST, which takes some twenty seconds, or
    a minute while a probe runs. Every figure is a simulation or a formula with its source
    (--explain), and the assumptions are listed.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.report.size import size_document
    from trimtab.whatif.sizing.request import SizingRequest
    from trimtab.whatif.sizing.sizing import size

    drive = _drive(
        options_given.pop("drive"),
        capacity_bytes=options_given.pop("drive_capacity"),
        write_bytes_per_s=options_given.pop("drive_write"),
        spare=options_given.pop("spare"),
        drive_writes_per_day=options_given.pop("dwpd"),
    )
    options_given["thresholds"] = _thresholds(options_given["thresholds"])
    raid = _raid(options_given.pop("raid"), options_given.pop("drives_per_ost"))
    request = SizingRequest(drive=drive, raid=raid, **options_given)
    with progress_bar() as progress:
        sizing = size(request, progress)
    if explained:
        options.print_everything()
    show_page(
        lambda: sizing,
        lambda: size_document(sizing, explained=explained),
        more=() if explained else ("--explain shows the formula of each figure",),
    )


def _thresholds(text: str) -> tuple[float, float, float]:
    """Parse the free fractions in ``25/15/5``.

    Raises
    ------
    UsageError
        The text has another form.
    """
    from trimtab.units import parse_fraction
    from trimtab.whatif.vary import settings_of

    c1, c2, c3 = (parse_fraction(part) for part in settings_of("thresholds", text).values())
    return c1, c2, c3


def _drive(name: str | None, **figures: float | None) -> DriveModel:
    """Return a known drive, with the given figures replaced."""
    from dataclasses import replace

    from trimtab.twin.scenario.drives import preset

    base = preset(name or "pm1733").model
    changed: Any = {key: value for key, value in figures.items() if value is not None}
    return replace(base, name=f"{base.name}, changed", **changed) if changed else base


def _raid(text: str, drives: int) -> Raid:
    """Parse the layout in ``8+2+1``.

    Raises
    ------
    UsageError
        The text has another form.
    """
    from trimtab.errors import UsageError
    from trimtab.twin.scenario.model import Raid

    parts = text.split("+")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 4 for part in parts):
        raise UsageError(
            f"--raid: {text[:40]!r} is not DATA+PARITY+SPARES",
            code="raid-malformed",
            hint="8+2+1; without spares 8+2",
        )
    data, parity, spares = (*map(int, parts), *([0] * (3 - len(parts))))
    return Raid(drives=drives, data=data, parity=parity, spares=spares)
