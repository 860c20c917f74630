"""A ladder as text: a table for each metric, what limits it, and the printed values checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trimtab.cli.render.text import console
from trimtab.model.ladder import LEVEL_NAMES, Basis, CheckedClaim, Efficiency, Ladder, Step, Track
from trimtab.report.ladder_text import (
    DOUBT_SIGN,
    MATCH_WORDS,
    PARITY_SIGN,
    TRACK_NAMES,
    computed_text,
    efficiency_text,
    interval_text,
    limit_text,
    loss_text,
    rate_text,
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
    _print_signs(out, ladder)
    for note in ladder.notes:
        _wrapped(out, f"note: {visible(note)}")
    for absent in ladder.absent:
        _wrapped(
            out, f"no {LEVEL_NAMES[absent.layer]} rung ({_metrics(absent.metrics)}): {absent.hint}"
        )
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
    if step.shown is None:
        rate = f"({rate_text(step.rung.rate.value, unit)})"
        return name, rate, interval_text(step.rung.rate, unit), beneath, sheet, what
    rate = rate_text(step.shown.value, unit)
    return name, rate, interval_text(step.shown, unit), beneath, sheet, what


def _print_signs(out: Console, ladder: Ladder) -> None:
    """Explain the signs that the tables use, and the doubts one by one."""
    out.print()
    found = list(_efficiencies(ladder))
    if any(one.parity_counted for _, one in found):
        parity = ladder.hardware.parity
        factor = "" if parity is None else f"{parity.written_per_byte:g} "
        _wrapped(
            out,
            f"{PARITY_SIGN} parity counted ({parity}): a byte written is {factor}bytes to drives",
        )
    for text in dict.fromkeys(
        f"{DOUBT_SIGN} {LEVEL_NAMES[step.rung.layer]} of {LEVEL_NAMES[one.of]}: {doubt}"
        for step, one in found
        for doubt in one.doubts
    ):
        _wrapped(out, visible(text))
    for text in dict.fromkeys(
        f"- {LEVEL_NAMES[step.rung.layer]} of {LEVEL_NAMES[one.of]}: {one.reason}"
        for step, one in found
        if one.value is None
    ):
        _wrapped(out, visible(text))
    for text in dict.fromkeys(_of_rungs(ladder)):
        _wrapped(out, visible(text))
    bases = {step.rung.rate.basis for track in ladder.tracks for step in track.steps}
    if Basis.ROUNDING in bases:
        _wrapped(out, "intervals of printed figures are of their rounding; scatter is not printed")
    if Basis.REPETITIONS in bases:
        _wrapped(out, "intervals of repetitions say nothing about other days")


def _of_rungs(ladder: Ladder) -> Iterator[str]:
    """Yield what a reader should know of single rungs."""
    for track in ladder.tracks:
        for step in track.steps:
            name = LEVEL_NAMES[step.rung.layer]
            if step.shown_reason is not None:
                yield f"({name}) as measured: {step.shown_reason}"
            for note in step.rung.notes:
                yield f"{name}: {note}"


def _efficiencies(ladder: Ladder) -> Iterator[tuple[Step, Efficiency]]:
    for track in ladder.tracks:
        for step in track.steps:
            for one in step.beneath:
                yield step, one


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
        bound = "> " if one.claim.at_least else ""
        what = "; ".join(filter(None, (one.claim.what, one.claim.assumes)))
        table.add_row(
            visible(f"{bound}{one.claim.printed.text}"),
            value,
            bounds,
            MATCH_WORDS[one.match],
            visible(what),
        )
    return table


def _metrics(metrics: tuple[str, ...]) -> str:
    return ", ".join(TRACK_NAMES[metric] for metric in metrics)


def _wrapped(out: Console, text: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out.print(Padding(Text(text), (0, 0, 0, 2), expand=False))
