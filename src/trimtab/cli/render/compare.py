"""Two sides against each other as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.text import console, moment, percent_text, table
from trimtab.model.compare import Basis, Change, CompareResult, Effect, SeriesComparison, Side
from trimtab.model.verdict import Interval
from trimtab.units import format_value
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WORDS = {
    Change.BETTER: ("better", "green"),
    Change.WORSE: ("worse", "bold red"),
    Change.NO_DIFFERENCE: ("no difference", "green"),
    Change.CANNOT_TELL: ("cannot tell", "yellow"),
}


def print_compare(result: CompareResult) -> None:
    """Print what two sides have in common, and by how much the second differs."""
    out = console()
    out.print(f"A  {visible(result.before)}", style="bold")
    out.print(f"B  {visible(result.after)}", style="bold")
    for series in result.series:
        out.print()
        _print_series(out, series)
    out.print()
    for name, alone in (("A", result.only_before), ("B", result.only_after)):
        for one in alone:
            out.print(f"only {name} has  {visible(one)}", style="dim")
    for note in result.notes:
        out.print(f"note  {visible(note)}", style="dim")


def _print_series(out: Console, series: SeriesComparison) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out.print(_title(series), style="bold")
    for one in series.differences:
        before, after = (_plain(value) for value in (one.before, one.after))
        out.print(Padding(Text(f"{visible(one.name)}: {before} against {after}"), (0, 0, 0, 2)))
    numbers = ("A>", "B>", "B over A>", "interval>", "detectable>", "COV>", "n>")
    made = table("metric", *numbers, "answer")
    for effect in series.effects:
        made.add_row(*_row(effect))
    out.print(made)
    for line in _lines(series.effects):
        out.print(Padding(Text(line, style="dim"), (0, 0, 0, 2)))


def _title(series: SeriesComparison) -> str:
    probe = visible(series.probe)
    if series.probe_after != series.probe:
        probe = f"{probe} against {visible(series.probe_after)}"
    layer = "" if series.layer is None else f", layer {series.layer}"
    return f"{probe} ({visible(series.kind)}){layer}"


def _row(effect: Effect) -> tuple[str | Text, ...]:
    from rich.text import Text

    word, style = _WORDS[effect.change]
    ratio, interval = effect.ratio, effect.ratio_interval
    return (
        effect.metric or "-",
        format_value(effect.before.middle, effect.unit),
        format_value(effect.after.middle, effect.unit),
        "-" if ratio is None else f"{(ratio - 1) * 100:+.1f} %",
        "-"
        if interval is None
        else f"{(interval.low - 1) * 100:+.1f} to {(interval.high - 1) * 100:+.1f} %",
        percent_text(effect.detectable),
        f"{percent_text(effect.before.cov)} | {percent_text(effect.after.cov)}",
        f"{effect.before.n} | {effect.after.n}",
        Text(word + (" *" if _is_provisional(effect) else ""), style=style, no_wrap=True),
    )


def _is_provisional(effect: Effect) -> bool:
    """Return whether runs are not known to cover a week on either side."""
    return effect.basis is Basis.RUNS and effect.provisional is not False


def _lines(effects: Sequence[Effect]) -> list[str]:
    """Return what stands beneath the rows, each line once, with the metrics that it is of."""
    holds: dict[str, list[str]] = {}
    for effect in effects:
        for text in _texts(effect):
            holds.setdefault(text, []).append(effect.metric or effect.unit)
    return [
        visible(f"{text}." if len(names) == len(effects) else f"{', '.join(names)}: {text}.")
        for text, names in holds.items()
    ]


def _texts(effect: Effect) -> Iterator[str]:
    if _is_provisional(effect):
        yield "* provisional: a side is not known to have lasted a week"
    if effect.change is Change.CANNOT_TELL:
        yield effect.reason
    if effect.taken_out is not None:
        yield effect.taken_out.reason
        if (remaining := effect.taken_out.remaining) is not None:
            yield f"were it so, {_remaining(remaining, effect.taken_out.remaining_interval)}"
    if effect.ratio != effect.ratio_measured and effect.ratio_measured is not None:
        yield f"as measured {(effect.ratio_measured - 1) * 100:+.1f} %"
    yield effect.method
    for label, side in (("A", effect.before), ("B", effect.after)):
        if (about := _of_side(side)) is not None:
            yield f"{label}: {about}"
    if effect.weighted is not None:
        yield effect.weighted


def _remaining(ratio: float, interval: Interval | None) -> str:
    text = f"{(ratio - 1) * 100:+.1f} % would be left beside it"
    if interval is None:
        return text
    return f"{text} ({(interval.low - 1) * 100:+.1f} to {(interval.high - 1) * 100:+.1f} %)"


def _of_side(side: Side) -> str | None:
    parts = []
    if side.from_ is not None:
        parts.append(f"{moment(side.from_)} to {moment(side.to)}")
    if side.n_effective is not None and side.n_effective < 0.9 * side.n:
        parts.append(f"counts as {side.n_effective:.0f} independent runs")
    if side.unfinished:
        parts.append(f"{side.unfinished} unfinished, counted as 0")
    if side.washed_out:
        parts.append(f"{side.washed_out} left out after the change")
    return ", ".join(parts) or None


def _plain(value: object) -> str:
    return "not set" if value is None else visible(str(value))
