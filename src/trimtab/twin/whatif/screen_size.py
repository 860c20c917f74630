"""The page of a sizing: the deciding figures, the others folded, and the assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from trimtab.base.units import (
    format_bytes,
    format_bytes_per_s,
    format_percent,
    format_value,
    plural,
)
from trimtab.show.document import Cell, Document, Row, Section, row, table

if TYPE_CHECKING:
    from trimtab.twin.whatif.sizing import Sizing
    from trimtab.twin.whatif.sizing_figure import SizingFigure
    from trimtab.twin.whatif.sizing_figure import SizingSection as Figures

DECIDING: Final = (
    *("drives", "raw_bytes", "usable_bytes", "stored_bytes", "write_amplification"),
    *("safe_fullness", "fullness_for_allocator", "purge_horizon_s", "life_years", "worn"),
    *("flash_drive_writes_per_day", "write_bytes_per_s", "mean_write_bytes_per_s"),
    *("fullness_for_bandwidth", "inodes", "mdt_bytes"),
)
"""Figures that decide; the others are folded."""


def size_document(sizing: Sizing, *, explained: bool = False) -> Document:
    """Return the page of a sizing; ``explained`` adds formula and source to each figure."""
    request, trim = sizing.request, sizing.request.trim
    osts = f"{plural(sizing.osts, 'OST', ',')} of {request.raid.drives} x {request.drive.name}"
    full = f"{format_percent(sizing.fullness, 0)} full"
    unmet = plural(len(sizing.shortfalls), "requirement")
    answer = f"{unmet} not met" if sizing.shortfalls else "all requirements met"
    requested = sizing.amplified[trim]
    formulas = (
        f"formulas for random writes: {requested.trimmed:.2f} with all free space trimmed, "
        f"{requested.untrimmed:.2f} with none"
    )
    curve = ", ".join(
        f"{format_percent(point.case.fullness, 0)} {point.simulated:.2f}" for point in sizing.curve
    )
    return Document(
        kind="size",
        heading=request.drive.name,
        subtitle="all of it is simulation: try it on one real target first",
        tone="warning" if sizing.shortfalls else "healthy",
        answer=f"{osts}, {full}, simulated: {answer}",
        details=sizing.shortfalls,
        sections=(
            *(_section(part, explained=explained) for part in sizing.sections),
            Section(
                "write amplification per trim schedule, simulated",
                tables=(table(("", "", ""), _schedules(sizing)),),
                notes=(formulas,),
            ),
            Section(f"with trim {trim}, by fullness", lines=(curve,), folded=True),
            Section(
                "the same flash with other spare, holding the same bytes",
                lines=tuple(_comparison(sizing)),
                folded=True,
            ),
            Section("assumed", notes=sizing.assumptions, folded=True),
        ),
    )


def _section(part: Figures, *, explained: bool) -> Section:
    deciding = [
        figure for figure in part.figures if figure.name in DECIDING and figure.value is not None
    ]
    columns = ("", "")
    rest = table(columns, (_row(each, explained) for each in part.figures if each not in deciding))
    return Section(
        part.title,
        tables=(table(columns, (_row(figure, explained) for figure in deciding)),),
        folds=() if rest is None else (("more", rest),),
        folded=not deciding,
    )


def _row(figure: SizingFigure, explained: bool) -> Row:
    note = f"{figure.formula}; {figure.source}" if explained and figure.formula else ""
    return row(figure.title, shown(figure), note=note)


def shown(figure: SizingFigure) -> str:
    """Return a figure's value in readable units, or why there is none."""
    value = figure.value
    if value is None:
        return f"- ({figure.reason})"
    if figure.unit == "B":
        return f"{format_bytes(value)} ({_decimal(value)})"
    if figure.unit in {"B/s", "s", "1"}:
        return format_value(value, figure.unit)
    if figure.unit == "years":
        return f"{value:.1f} years"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _decimal(value: float) -> str:
    return format_bytes_per_s(value).removesuffix("/s")


def _schedules(sizing: Sizing) -> Iterator[Row]:
    for word, amplified in sizing.amplified.items():
        error = "" if amplified.error is None else f"standard error {amplified.error:.3f}"
        requested = word == sizing.request.trim
        simulated = Cell(f"{amplified.simulated:.2f}", error)
        yield row(word, simulated, "<- asked" if requested else "", marked=requested)


def _comparison(sizing: Sizing) -> Iterator[str]:
    comparison, trim = sizing.comparison, sizing.request.trim
    peer, drive = comparison.peer, sizing.request.drive
    yield (
        f"this drive, {format_percent(drive.spare)} spare, {format_percent(sizing.fullness, 0)}"
        f" full: {comparison.own_never.simulated:.2f} never trimmed,"
        f" {comparison.own_trimmed.simulated:.2f} trim {trim}"
    )
    other = (
        f"{peer.name}, {format_percent(peer.spare)} spare,"
        f" {_decimal(peer.capacity_bytes)}, {format_percent(peer.fullness, 0)} full"
    )
    if comparison.peer_never is None or comparison.peer_trimmed is None:
        yield f"{other}: too small for these bytes"
        return
    yield (
        f"{other}: {comparison.peer_never.simulated:.2f} never trimmed,"
        f" {comparison.peer_trimmed.simulated:.2f} trim {trim}"
    )
