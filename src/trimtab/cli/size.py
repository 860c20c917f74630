"""``trimtab size``: how large a file system has to be."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import print_screen, print_wrapped
from trimtab.units import format_bytes, format_bytes_per_s, format_duration, format_percent, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from trimtab.twin.scenario.model import DriveModel, Raid
    from trimtab.whatif.sizing.figures import Figure
    from trimtab.whatif.sizing.sizing import Sizing


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
@click.option("--osts", type=int, metavar="N", help="So many OSTs, in place of a capacity.")
@click.option(
    "--daily-writes",
    "daily_writes_bytes",
    type=options.LARGE_SIZE,
    required=True,
    help="What users write a day: 2.5PB.",
)
@click.option(
    "--daily-probe-writes",
    "daily_probe_writes_bytes",
    type=options.LARGE_SIZE,
    default=0,
    help="What benchmarks write a day, in hourly runs.",
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
    help="Growth of stored data per year; in place of --kept.",
)
@click.option("--drive", metavar="NAME", help="pm1733 (default), pm1733a, pm1735, pm1743 ...")
@click.option(
    "--drive-capacity", type=options.LARGE_SIZE, help="Capacity of a drive, in place of its own."
)
@click.option("--drive-write", type=_RATE, help="Sequential, as one server sees it.")
@click.option("--spare", type=options.FRACTION, help="Usable spare of the flash.")
@click.option("--dwpd", type=float, help="Drive writes a day that it is sold for, five years.")
@click.option(
    "--family", type=click.Choice(["classic", "optimize-scan", "el9"]), default="classic",
    show_default=True, help="Block allocator of the servers' kernel.",
)  # fmt: skip
@click.option(
    "--thresholds", default="25/15/5", show_default=True, metavar="C1/C2/C3",
    help="mb_c1, c2 and c3_threshold in per cent; of classic only.",
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
    show_default=True, help="When free space is handed to the drives.",
)  # fmt: skip
@click.option(
    "--write-bandwidth", "write_bytes_per_s", type=_RATE, help='Wanted of the whole: "4 TB/s".'
)
@click.option(
    "--mean-file", "mean_file_bytes", type=options.SIZE, help="Mean size of a file, for inodes."
)
@click.option("--files", type=float, help="Number of files, in place of --mean-file.")
@click.option(
    "--stripe-count", type=click.IntRange(1, 2000), default=1, show_default=True,
    help="Objects of a file.",
)  # fmt: skip
@click.option("--years", type=float, default=5.0, show_default=True, help="That it is to last.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True,
    help="The same seed gives the same figures.",
)  # fmt: skip
@click.option("--explain", "explained", is_flag=True, help="The formula beside each figure.")
@options.as_json
@options.extent_options
def command(explained: bool, **options_given: Any) -> None:
    """Size a file system: drives and OSTs, endurance, trim schedule, capacity.

    Write amplification is simulated on a miniature of one OST, which takes some twenty seconds, and
    a minute beside a probe. Every figure is a simulation or a formula with its source (--explain),
    and the assumptions are listed.
    """
    from trimtab.cli.render.progress import progress_bar
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
    show(
        lambda: sizing,
        lambda: print_sizing(sizing, explained=explained),
    )


def _thresholds(text: str) -> tuple[float, float, float]:
    """Return the free parts that ``25/15/5`` names.

    Raises
    ------
    UsageError
        It names none.
    """
    from trimtab.units import parse_fraction
    from trimtab.whatif.vary import settings_of

    c1, c2, c3 = (parse_fraction(part) for part in settings_of("thresholds", text).values())
    return c1, c2, c3


def _drive(name: str | None, **figures: float | None) -> DriveModel:
    """Return a known drive, with other figures where they are given."""
    from dataclasses import replace

    from trimtab.twin.scenario.drives import preset

    base = preset(name or "pm1733").model
    changed: Any = {key: value for key, value in figures.items() if value is not None}
    return replace(base, name=f"{base.name}, changed", **changed) if changed else base


def _raid(text: str, drives: int) -> Raid:
    """Return the layout that ``8+2+1`` names.

    Raises
    ------
    UsageError
        It names none.
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


def print_sizing(sizing: Sizing, *, explained: bool) -> None:
    """Print the figures that decide, or all; ``explained`` prints formula and source of each."""
    drive = sizing.request.drive
    head = f"{plural(sizing.osts, 'OST', ',')} of {sizing.request.raid.drives} x {drive.name}"
    unmet = plural(len(sizing.shortfalls), "requirement")
    answer = f"{unmet} not met" if sizing.shortfalls else "all requirements met"
    full = format_percent(sizing.fullness, 0)
    everything = explained or options.extent().everything
    more = ["all of it is simulation: try it on one real target first"]
    if not everything:
        more.insert(0, "--all shows every figure and assumption, --explain the formula of each")
    print_screen(
        f"{head}, {full} full, simulated: {answer}",
        partial(_print_everything if everything else _print_figures, sizing, explained=explained),
        more=more,
        whole=everything,
    )


DECIDING: Final = (
    *("drives", "raw_bytes", "usable_bytes", "stored_bytes", "write_amplification"),
    *("safe_fullness", "fullness_for_allocator", "purge_horizon_s", "life_years", "worn"),
    *("flash_drive_writes_per_day", "write_bytes_per_s", "mean_write_bytes_per_s"),
    *("fullness_for_bandwidth", "inodes", "mdt_bytes"),
)
"""Figures that a decision rests on: the screen has them, ``--all`` has the others too."""


def _print_figures(sizing: Sizing, out: Console, *, explained: bool) -> None:
    _print_shortfalls(out, sizing)
    for section in sizing.sections:
        figures = [
            figure
            for figure in section.figures
            if figure.name in DECIDING and figure.value is not None
        ]
        _print_section(out, section.title, figures, explained=explained)
    _print_schedules(out, sizing)


def _print_shortfalls(out: Console, sizing: Sizing) -> None:
    for sentence in sizing.shortfalls:
        print_wrapped(out, sentence, "yellow", indent=2)


def _print_section(out: Console, title: str, figures: Sequence[Figure], *, explained: bool) -> None:
    if not figures:
        return
    out.print(title, style="bold")
    for figure in figures:
        print_wrapped(out, f"{figure.title:<46} {shown(figure)}", indent=2, hang=4)
        if explained and figure.formula:
            print_wrapped(out, f"{figure.formula}; {figure.source}", "dim", indent=6)


def _print_everything(sizing: Sizing, out: Console, *, explained: bool) -> None:
    _print_shortfalls(out, sizing)
    for section in sizing.sections:
        _print_section(out, section.title, section.figures, explained=explained)
    _print_schedules(out, sizing)
    _print_curve(out, sizing)
    _print_comparison(out, sizing)
    out.print("assumed", style="bold")
    for sentence in sizing.assumptions:
        print_wrapped(out, sentence, "dim", indent=2)


def shown(figure: Figure) -> str:
    """Return a figure's value in people's units, or why there is none."""
    value = figure.value
    if value is None:
        return f"- ({figure.reason})"
    match figure.unit:
        case "B":
            return f"{format_bytes(value)} ({_decimal(value)})"
        case "B/s":
            return format_bytes_per_s(value)
        case "s":
            return format_duration(value)
        case "1":
            return format_percent(value)
        case "DWPD":
            return f"{value:.3g}"
        case "years":
            return f"{value:.1f} years"
        case _:
            return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _decimal(value: float) -> str:
    return format_bytes_per_s(value).removesuffix("/s")


def _print_schedules(out: Console, sizing: Sizing) -> None:
    out.print("write amplification of each trim schedule, simulated", style="bold")
    for word, amplified in sizing.amplified.items():
        error = "" if amplified.error is None else f" (standard error {amplified.error:.3f})"
        mark = " <- asked" if word == sizing.request.trim else ""
        out.print(f"  {word:<8} {amplified.simulated:.2f}{error}{mark}")
    requested = sizing.amplified[sizing.request.trim]
    print_wrapped(
        out,
        f"formulas for writes at random: {requested.trimmed:.2f} with all that is free trimmed, "
        f"{requested.untrimmed:.2f} with nothing",
        "dim",
        indent=2,
    )


def _print_curve(out: Console, sizing: Sizing) -> None:
    out.print(f"with trim {sizing.request.trim}, by fullness", style="bold")
    parts = [
        f"{format_percent(point.case.fullness, 0)} {point.simulated:.2f}" for point in sizing.curve
    ]
    print_wrapped(out, ", ".join(parts), indent=2, hang=0)


def _print_comparison(out: Console, sizing: Sizing) -> None:
    comparison, trim = sizing.comparison, sizing.request.trim
    peer, drive = comparison.peer, sizing.request.drive
    out.print("the same flash with other spare, holding the same bytes", style="bold")
    print_wrapped(
        out,
        f"this drive, {format_percent(drive.spare)} spare, {format_percent(sizing.fullness, 0)}"
        f" full: {comparison.own_never.simulated:.2f} never trimmed,"
        f" {comparison.own_trimmed.simulated:.2f} trim {trim}",
        indent=2,
    )
    other = (
        f"{peer.name}, {format_percent(peer.spare)} spare,"
        f" {_decimal(peer.capacity_bytes)}, {format_percent(peer.fullness, 0)} full"
    )
    if comparison.peer_never is None or comparison.peer_trimmed is None:
        print_wrapped(out, f"{other}: it does not hold these bytes", indent=2)
        return
    print_wrapped(
        out,
        f"{other}: {comparison.peer_never.simulated:.2f} never trimmed,"
        f" {comparison.peer_trimmed.simulated:.2f} trim {trim}",
        indent=2,
    )
