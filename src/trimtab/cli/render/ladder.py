"""A ladder as text: a table for each metric, what limits it, and the printed values checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.cli.render.text import console
from trimtab.model.ladder import LEVEL_NAMES, CheckedClaim, Ladder, Step, Track
from trimtab.report.ladder_text import (
    MATCH_WORDS,
    TRACK_NAMES,
    absent_text,
    claim_text,
    computed_text,
    efficiency_text,
    explanations,
    interval_text,
    limit_text,
    loss_text,
    printed_text,
    shown_text,
    what_text,
)
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_ladder(ladder: Ladder) -> None:
    """Print a ladder, the highest layer first, as it stands in the stack."""
    out = console()
    out.print(f"{visible(ladder.name)}", style="bold")
    if ladder.source:
        _wrapped(out, visible(ladder.source))
    out.print(f"rates are of {ladder.scale}; MB are 1,000,000 bytes")
    for track in ladder.tracks:
        out.print()
        _print_track(out, track)
    if not ladder.tracks:
        out.print("Nothing is kept that a ladder is made of.")
    out.print()
    for line in explanations(ladder):
        _wrapped(out, visible(line))
    for note in ladder.notes:
        _wrapped(out, f"note: {visible(note)}")
    for absent in ladder.absent:
        _wrapped(out, absent_text(absent))
    if ladder.claims:
        out.print()
        out.print("printed values, and what the values printed beside them give", style="bold")
        out.print(_claims(ladder.claims))


def _print_track(out: Console, track: Track) -> None:
    out.print(TRACK_NAMES[track.metric], style="bold")
    out.print(_table(track))
    _wrapped(out, f"limit: {visible(limit_text(track.limit))}")
    _wrapped(out, f"largest loss: {visible(loss_text(track.loss))}")


def _table(track: Track) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("layer", "rate", "interval", "of what carries it", "of data sheet", "measured by"):
        right = name in {"rate", "interval", "of data sheet"}
        table.add_column(
            name,
            justify="right" if right else "left",
            no_wrap=name != "measured by",
            overflow="fold",
        )
    for step in reversed(track.steps):
        table.add_row(*_cells(step, track.unit))
    return table


def _cells(step: Step, unit: str) -> tuple[str, ...]:
    name = LEVEL_NAMES[step.rung.layer]
    sheet = "-" if step.of_data_sheet is None else efficiency_text(step.of_data_sheet, named=False)
    what = visible(what_text(step))
    beneath = "\n".join(efficiency_text(one) for one in step.beneath) or "-"
    shown = step.shown or step.rung.rate
    return name, shown_text(step, unit), interval_text(shown, unit), beneath, sheet, what


def _claims(claims: tuple[CheckedClaim, ...]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("printed", "inputs give", "within rounding", "", "what"):
        right = name in {"printed", "inputs give", "within rounding"}
        table.add_column(
            name, justify="right" if right else "left", no_wrap=name != "what", overflow="fold"
        )
    for one in claims:
        value, bounds = computed_text(one)
        table.add_row(
            visible(printed_text(one)),
            value,
            bounds,
            MATCH_WORDS[one.match],
            visible(claim_text(one)),
        )
    return table


def _wrapped(out: Console, text: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out.print(Padding(Text(text), (0, 0, 0, 2), expand=False))
