"""A sizing as text: figures in sections, what is missing, what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.cli.render.text import console
from trimtab.units import (
    format_bytes,
    format_bytes_per_s,
    format_duration,
    format_percent,
    plural,
)
from trimtab.visible import visible
from trimtab.whatif.sizing.figure import Figure
from trimtab.whatif.sizing.sizing import Sizing

if TYPE_CHECKING:
    from rich.console import Console


def print_sizing(found: Sizing, *, explained: bool) -> None:
    """Print all figures; ``explained`` prints formula and source beneath each."""
    out = console()
    drive = found.request.drive
    head = f"{plural(found.osts, 'OST', ',')} of {found.request.raid.drives} x {drive.name}"
    out.print(visible(f"{head}, simulated, {format_percent(found.fullness, 0)} full"), style="bold")
    for section in found.sections:
        out.print(f"\n{section.title}", style="bold")
        for figure in section.figures:
            out.print(f"  {figure.title:<46} {shown(figure)}", soft_wrap=True)
            if explained and figure.formula:
                out.print(f"      {figure.formula}; {figure.source}", style="dim", soft_wrap=True)
    _print_schedules(out, found)
    _print_curve(out, found)
    _print_comparison(out, found)
    if found.shortfalls:
        out.print("\nnot met", style="bold yellow")
        for sentence in found.shortfalls:
            out.print(f"  {sentence}", soft_wrap=True)
    out.print("\nassumed", style="bold")
    for sentence in found.assumptions:
        out.print(f"  {sentence}", style="dim", soft_wrap=True)


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


def _print_schedules(out: Console, found: Sizing) -> None:
    out.print("\nwrite amplification of each trim schedule, simulated", style="bold")
    for word, one in found.amplified.items():
        error = "" if one.error is None else f" (standard error {one.error:.3f})"
        mark = " <- asked" if word == found.request.trim else ""
        out.print(f"  {word:<8} {one.simulated:.2f}{error}{mark}")
    one = found.amplified[found.request.trim]
    out.print(
        f"  formulas for writes at random: {one.trimmed:.2f} with all that is free trimmed, "
        f"{one.untrimmed:.2f} with nothing",
        style="dim",
    )


def _print_curve(out: Console, found: Sizing) -> None:
    out.print(f"\nwith trim {found.request.trim}, by fullness", style="bold")
    parts = [f"{format_percent(one.case.fullness, 0)} {one.simulated:.2f}" for one in found.curve]
    out.print(f"  {', '.join(parts)}", soft_wrap=True)


def _print_comparison(out: Console, found: Sizing) -> None:
    one, trim = found.comparison, found.request.trim
    peer = one.peer
    out.print("\nthe same flash with other spare, holding the same bytes", style="bold")
    own = found.request.drive
    out.print(
        f"  this drive, {format_percent(own.spare)} spare, {format_percent(found.fullness, 0)}"
        f" full: {one.own_never.simulated:.2f} never trimmed,"
        f" {one.own_trimmed.simulated:.2f} trim {trim}",
        soft_wrap=True,
    )
    other = (
        f"{peer.name}, {format_percent(peer.spare)} spare,"
        f" {_decimal(peer.capacity_bytes)}, {format_percent(peer.fullness, 0)} full"
    )
    if one.peer_never is None or one.peer_trimmed is None:
        out.print(f"  {other}: it does not hold these bytes", soft_wrap=True)
        return
    out.print(
        f"  {other}: {one.peer_never.simulated:.2f} never trimmed,"
        f" {one.peer_trimmed.simulated:.2f} trim {trim}",
        soft_wrap=True,
    )
