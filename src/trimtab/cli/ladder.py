"""``trimtab ladder``: efficiency of each layer against what carries it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import print_screen, print_wrapped
from trimtab.cli.render.text import GAP, fixed_table, natural_width, taken_width
from trimtab.model.ladder import LEVEL_NAMES, Match
from trimtab.report.ladder_text import (
    DOUBT_SIGN,
    MATCH_WORDS,
    PARITY_SIGN,
    TRACK_NAMES,
    absent_text,
    answer_text,
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
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    from rich.console import Console
    from rich.table import Table

    from trimtab.judge.ladder.build import Scale
    from trimtab.model.ladder import CheckedClaim, Ladder, Step, Track


@click.command("ladder")
@click.argument("where", metavar="SITE|FILE.toml")
@options.as_json
@options.store
@click.option(
    "--margin",
    type=options.FRACTION,
    default="10%",
    show_default=True,
    help="Loss that a layer may have without being called the bottleneck.",
)
@click.option(
    "--per",
    type=click.Choice(["whole", "server", "ost", "drive"]),
    help="Unit for rates. Default: the whole system where its size is known.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Run to use for its layer, by the beginning of its id. Repeatable.",
)
@options.report
@options.extent_options
def command(
    where: str,
    *,
    store_url: str | None,
    margin: float,
    per: Scale | None,
    runs: tuple[str, ...],
    report: str | None,
) -> None:
    """Show the efficiency of each layer against the layer below.

    From the drives' data sheet to the clients: drives, RAID, OSTs, network beside them, clients,
    applications. Names the layer that limits where the numbers show it, and says how to measure
    what is missing. A file of published figures is computed in the same way, and each value that
    it prints is held against the figures that it should follow from.
    """
    from trimtab.errors import UsageError
    from trimtab.loop.ladder import ladder_of
    from trimtab.report import documents

    if not 0 < margin < 1:
        problem = "--margin must be greater than 0 and less than 100%"
        raise UsageError(problem, code="margin-out-of-range")
    ladder = ladder_of(where, store_url=store_url, margin=margin, scale=per, runs=runs)
    if report is not None:
        from trimtab.report.ladder import render_ladder
        from trimtab.report.write import write_report

        write_report(Path(report), render_ladder(ladder))
    show(lambda: documents.judged.LadderDocument(ladder), lambda: print_ladder(ladder))


_COLUMNS: Final = (
    *("layer", "rate", "interval", "of what carries it", "of data sheet", "measured by"),
)
_CLAIM_COLUMNS: Final = ("printed", "inputs give", "within rounding", "", "what")
_NUMBERS: Final = frozenset(
    {"rate", "interval", "of data sheet", "printed", "inputs give", "within rounding"}
)
_DROPPED: Final = ("interval", "of data sheet", "within rounding")
"""What gives way on a terminal that is narrower than its table; `--json` and the page have all."""
_WORDS_MINIMUM: Final = 24
"""Characters: in fewer no sentence can be read."""


def print_ladder(ladder: Ladder) -> None:
    """Print a ladder, the highest layer first, as it stands in the stack."""
    answers = [visible(answer_text(track)) for track in ladder.tracks]
    answers = answers or ["Nothing is kept that a ladder is made of."]
    everything = options.extent().everything
    body = partial(_print_body, ladder, answers[1:], everything=everything)
    print_screen(answers[0], body, more=() if everything else _more(ladder))


def _more(ladder: Ladder) -> Iterator[str]:
    if not ladder.tracks:
        return
    text = "--all shows what measured each rate, and why each limit is named"
    if ladder.claims:
        counts = Counter(claim.match for claim in ladder.claims)
        text += f"; {counts[Match.NOT_GIVEN]} of {len(ladder.claims)} printed values do not follow"
        text += " from those beside them"
    yield text


def _print_body(ladder: Ladder, answers: Sequence[str], out: Console, *, everything: bool) -> None:
    for answer in answers:
        print_wrapped(out, answer)
    out.print(visible(ladder.name), style="bold")
    if ladder.source and everything:
        _print_indented(out, visible(ladder.source))
    print_wrapped(out, f"rates are of {ladder.scale}; MB are 1,000,000 bytes", "dim")
    for track in ladder.tracks:
        if everything:
            out.print()
        _print_track(out, track, everything=everything)
    if everything:
        out.print()
    # What a sign means stands wherever the sign does.
    for line in explanations(ladder):
        if everything or line.startswith((PARITY_SIGN, DOUBT_SIGN, "(")):
            _print_indented(out, visible(line))
    for absent in ladder.absent:
        _print_indented(out, absent_text(absent))
    if everything:
        _print_notes(out, ladder)


def _print_notes(out: Console, ladder: Ladder) -> None:
    for note in ladder.notes:
        _print_indented(out, f"note: {visible(note)}")
    if ladder.claims:
        out.print()
        out.print("printed values, and what the values printed beside them give", style="bold")
        _print_claims(out, ladder.claims)


def _print_track(out: Console, track: Track, *, everything: bool) -> None:
    out.print(TRACK_NAMES[track.metric], style="bold")
    rows = [_cells(step, track.unit) for step in reversed(track.steps)]
    if not everything:
        _print_table(out, _COLUMNS, [(*row[:-1], "") for row in rows])
        return
    _print_table(out, _COLUMNS, rows)
    _print_indented(out, f"limit: {visible(limit_text(track.limit))}")
    _print_indented(out, f"largest loss: {visible(loss_text(track.loss))}")


def _print_indented(out: Console, text: str, indent: int = 2) -> None:
    print_wrapped(out, text, indent=indent, hang=0)


def _cells(step: Step, unit: str) -> tuple[str, ...]:
    name = LEVEL_NAMES[step.rung.layer]
    sheet = "-" if step.of_data_sheet is None else efficiency_text(step.of_data_sheet, named=False)
    explained = visible(what_text(step))
    beneath = "\n".join(efficiency_text(efficiency) for efficiency in step.beneath) or "-"
    shown = step.shown or step.rung.rate
    return name, shown_text(step, unit), interval_text(shown, unit), beneath, sheet, explained


def _print_claims(out: Console, claims: tuple[CheckedClaim, ...]) -> None:
    rows = []
    for claim in claims:
        value, bounds = computed_text(claim)
        match, explained = MATCH_WORDS[claim.match], visible(claim_text(claim))
        rows.append((visible(printed_text(claim)), value, bounds, match, explained))
    _print_table(out, _CLAIM_COLUMNS, rows)


def _print_table(out: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows whose last cell is words: beside the others, or below where there is no room."""
    natural = [natural_width((name, *cells)) for name, *cells in zip(names, *rows, strict=True)]
    widths = dict(enumerate(natural[:-1]))
    taken = taken_width(widths.values())
    worded = any(row[-1] for row in rows)
    if worded and taken + min(natural[-1], _WORDS_MINIMUM) <= out.width:
        table = _table(names, widths, out.width - taken)
        for row in rows:
            table.add_row(*row)
        out.print(table)
        return
    for name in _DROPPED:
        if name in names and taken_width(widths.values()) - GAP > out.width:
            del widths[names.index(name)]
    for number, row in enumerate(rows):
        # Tables of one row each, of the same widths: a table has no lines across its columns.
        table = _table(names, widths, header=number == 0)
        table.add_row(*(row[index] for index in widths))
        out.print(table)
        if row[-1]:
            _print_indented(out, row[-1], indent=4)


def _table(
    names: Sequence[str], widths: Mapping[int, int], beside: int = 0, *, header: bool = True
) -> Table:
    columns = [
        (f"{names[index]}>" if names[index] in _NUMBERS else names[index], width)
        for index, width in widths.items()
    ]
    return fixed_table(columns, names[-1], beside, show_header=header)
