"""The page of a comparison: by how much B differs from A, largest difference first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from trimtab.base.finding import Tone
from trimtab.base.units import format_percent, format_value, plural
from trimtab.base.visible import visible
from trimtab.judge.comparison_result import (
    Basis,
    Change,
    CompareResult,
    Effect,
    EffectSide,
    SeriesComparison,
)
from trimtab.judge.series_level import size_of
from trimtab.show import text
from trimtab.show.document import Cell, Document, Row, Section, row, table

_WORDS: Final[dict[Change, tuple[str, Tone]]] = {
    Change.WORSE: ("worse", "critical"),
    Change.BETTER: ("better", "healthy"),
    Change.CANNOT_TELL: ("cannot tell", "unclear"),
    Change.NO_DIFFERENCE: ("no difference", "healthy"),
}
"""In the order of the listed metrics."""
_NAMED: Final = 3
_COLUMNS: Final = ("metric", "A>", "B>", "B over A>", "answer")
_DETECTABLE: Final = "detectable: the smallest difference that this many runs can show"


def compare_document(result: CompareResult) -> Document:
    """Return the page of a comparison."""
    effects = [effect for series in result.series for effect in series.effects]
    first = min((effect.change for effect in effects), key=list(_WORDS).index, default=None)
    notes = (
        *(f"only A has {name}" for name in result.only_before),
        *(f"only B has {name}" for name in result.only_after),
        *result.notes,
    )
    return Document(
        kind="compare",
        heading="B against A",
        subtitle=f"A is {_side_text(result.before)}; B is {_side_text(result.after)}",
        tone="unclear" if first is None else _WORDS[first][1],
        answer=_answer(result),
        sections=(
            *(
                _section(series, result.series)
                for series in sorted(result.series, key=lambda each: min(map(_rank, each.effects)))
            ),
            *((Section("Notes", lines=notes),) if notes else ()),
        ),
    )


def _answer(result: CompareResult) -> str:
    effects = sorted(
        (
            (_name(series, effect.metric or "-", result.series), effect)
            for series in result.series
            for effect in series.effects
        ),
        key=lambda pair: _rank(pair[1]),
    )
    parts = [
        f"{_WORDS[effect.change][0]} {name} {text.change_text(effect.ratio)}".rstrip()
        for name, effect in effects
        if effect.change in (Change.WORSE, Change.BETTER)
    ]
    more = len(parts) - _NAMED
    parts[_NAMED:] = [f"{more} more differ"] if more > 0 else []
    if not parts and effects and effects[0][1].change is Change.CANNOT_TELL:
        name, effect = effects[0]
        parts.append(f"cannot tell: {name} {text.change_text(effect.ratio)}, {effect.reason}")
        effects = effects[1:]
    counts = Counter(effect.change for _, effect in effects)
    for change, words in (
        (Change.NO_DIFFERENCE, "without a difference"),
        (Change.CANNOT_TELL, "cannot tell"),
    ):
        if counts[change]:
            other = "other " if parts and parts[0].startswith("cannot") else ""
            parts.append(f"{plural(counts[change], f'{other}metric')} {words}")
    return f"B against A: {visible('; '.join(parts)) or 'no metric in common'}."


def _name(series: SeriesComparison, metric: str, compared: Sequence[SeriesComparison]) -> str:
    """Return a metric of a series as text, with what distinguishes it from the other series."""
    apart = _apart(series, compared)
    return f"{series.probe} {text.metric_text(metric)}" + (f" ({apart})" if apart else "")


def _apart(series: SeriesComparison, compared: Sequence[SeriesComparison]) -> str:
    alike = [other.asked for other in compared if other.probe == series.probe]
    return text.levels_text(
        {
            name: value
            for name, value in series.asked.items()
            if any(other.get(name) != value for other in alike)
        }
    )


def _rank(effect: Effect) -> tuple[int, float]:
    """Return the sort key of a metric: worse first, then by the size of the difference."""
    return list(_WORDS).index(effect.change), -size_of(effect.ratio)


def _side_text(names: str) -> str:
    sides = names.split(",")
    return names if len(sides) <= _NAMED else f"{sides[0]} to {sides[-1]}, {len(sides)} in all"


def _section(series: SeriesComparison, compared: Sequence[SeriesComparison]) -> Section:
    probe = series.probe
    if series.probe_after != probe:
        probe = f"{probe} against {series.probe_after}"
    layer = "" if series.layer is None else f", layer {series.layer}"
    apart = _apart(series, compared)
    return Section(
        f"{probe} ({series.kind}){layer}" + (f", {apart}" if apart else ""),
        lines=tuple(
            f"{each.name}: {_plain(each.before)} against {_plain(each.after)}"
            for each in series.differences
        ),
        tables=(table(_COLUMNS, map(_row, sorted(series.effects, key=_rank)), _DETECTABLE),),
    )


def _row(effect: Effect) -> Row:
    word, tone = _WORDS[effect.change]
    detectable = effect.detectable
    return row(
        effect.metric or "-",
        _side_cell(effect.before, effect.unit),
        _side_cell(effect.after, effect.unit),
        Cell(text.change_text(effect.ratio) or "-", text.change_range_text(effect.ratio_interval)),
        Cell(
            word + (" *" if _is_provisional(effect) else ""),
            "" if detectable is None else f"detectable {format_percent(detectable)}",
            tone,
        ),
        note=text.sentence("; ".join(_texts(effect))),
    )


def _side_cell(side: EffectSide, unit: str) -> Cell:
    cov = "" if side.cov is None else f", COV {format_percent(side.cov)}"
    return Cell(format_value(side.middle, unit), f"n {side.n}{cov}")


def _is_provisional(effect: Effect) -> bool:
    """Return whether runs may cover less than a week on either side."""
    return effect.basis is Basis.RUNS and effect.provisional is not False


def _texts(effect: Effect) -> Iterator[str]:
    if _is_provisional(effect):
        yield "* provisional: a side may have lasted less than a week"
    if effect.change is Change.CANNOT_TELL:
        yield effect.reason
    if effect.taken_out is not None:
        yield effect.taken_out.reason
        if (remaining := effect.taken_out.remaining) is not None:
            interval = text.change_range_text(effect.taken_out.remaining_interval)
            left = f"if so, {text.change_text(remaining)} would remain"
            yield f"{left} ({interval})" if interval else left
    if effect.ratio != effect.ratio_measured and effect.ratio_measured is not None:
        yield f"as measured {text.change_text(effect.ratio_measured)}"
    yield effect.method
    for label, side in (("A", effect.before), ("B", effect.after)):
        if about := ", ".join(_of_side(side)):
            yield f"{label}: {about}"
    if effect.weighted is not None:
        yield effect.weighted


def _of_side(side: EffectSide) -> Iterator[str]:
    if side.from_ is not None:
        yield f"{text.moment_text(side.from_)} to {text.moment_text(side.to)}"
    if side.n_effective is not None and side.n_effective < 0.9 * side.n:
        yield f"counts as {side.n_effective:.0f} independent runs"
    if side.unfinished:
        yield f"{side.unfinished} unfinished, counted as 0"
    if side.washed_out:
        yield f"{side.washed_out} left out after the change"


def _plain(value: object) -> str:
    return "not set" if value is None else str(value)
