"""Pages that compare: B with A, largest difference first, and the layers of one ladder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trimtab.base import text
from trimtab.base.error import visible
from trimtab.base.finding import Tone
from trimtab.base.site_hardware import Figure
from trimtab.base.units import format_bytes_per_s, format_percent, format_value, parse_unit, plural
from trimtab.judge.comparison_result import (
    Basis,
    Change,
    CompareResult,
    Effect,
    EffectSide,
    SeriesComparison,
)
from trimtab.judge.efficiency_ladder import (
    LEVEL_NAMES,
    NOMINAL_LEVELS,
    RAW_LEVELS,
    Absent,
    CheckedClaim,
    Efficiency,
    Estimate,
    IntervalBasis,
    Ladder,
    LadderLimit,
    LadderStep,
    LimitKind,
    Loss,
    Match,
    Track,
)
from trimtab.judge.series_level import size_of
from trimtab.show import chart as looks
from trimtab.show.chart import (
    ACCENT,
    INK,
    MUTED,
    SECOND,
    Chart,
    Key,
    Scale,
    bandwidth_scale,
    data,
    layered,
    round_top,
)
from trimtab.show.document import Cell, Document, Row, Section, Table, row, table

if TYPE_CHECKING:
    import altair


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
        tables=(table(_COLUMNS, map(_side_row, sorted(series.effects, key=_rank)), _DETECTABLE),),
    )


def _side_row(effect: Effect) -> Row:
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


_WIDTH = looks.WIDTH - 50
_ROW_HEIGHT = 30
_LABEL_EXTENT = 110
MATCHES: Final[dict[Match, tuple[str, Tone]]] = {
    Match.GIVEN: ("given", "healthy"),
    Match.GIVEN_IF_ROUNDED: ("only if zeros are filling", "info"),
    Match.ASSUMED: ("only with an assumption", "info"),
    Match.NOT_GIVEN: ("NOT given", "critical"),
    Match.NO_INPUTS: ("no inputs printed", "unclear"),
}
"""Word and tone for the computed value relative to the printed one."""


def ladder_document(ladder: Ladder) -> Document:
    """Return the page of a ladder: the limit of each metric first."""
    answers = [answer_text(track) for track in ladder.tracks]
    named = any(track.limit.kind is not LimitKind.CANNOT_TELL for track in ladder.tracks)
    source = f"{text.sentence(ladder.source)} " if ladder.source else ""
    return Document(
        kind="ladder",
        heading=ladder.name,
        subtitle=f"{source}Rates are for {ladder.scale}; MB are 1,000,000 bytes.",
        tone="info" if named else "unclear",
        answer=answers[0] if answers else "No stored data for a ladder.",
        details=tuple(answers[1:]),
        sections=tuple(_sections(ladder)),
    )


def _sections(ladder: Ladder) -> Iterator[Section]:
    for track in ladder.tracks:
        yield Section(
            text.metric_title(track.metric),
            lines=(
                f"Limit: {limit_text(track.limit)}",
                f"Largest loss: {loss_text(track.loss)}",
            ),
            charts=(partial(ladder_chart, ladder, track),),
            tables=(track_table(ladder, track),),
        )
    notes = [
        *explanations(ladder),
        *ladder.notes,
        *map(absent_text, ladder.absent),
    ]
    if notes:
        yield Section("Notes", notes=tuple(notes))
    if ladder.claims:
        yield Section(
            "Printed values, and the results of their printed inputs",
            tables=(claims_table(ladder.claims),),
        )


def track_table(ladder: Ladder, track: Track) -> Table | None:
    """Return the layers of one metric, highest first, with the limiting one marked."""
    columns = ("layer", "rate>", "interval>", "of what carries it", "of data sheet>", "measured by")
    rows = [_step_row(ladder, track, step) for step in reversed(track.steps)]
    return table(columns, rows)


def _step_row(ladder: Ladder, track: Track, step: LadderStep) -> Row:
    limits = step.rung.layer == track.limit.layer
    parity = "" if step.shown is None else _parity_text(ladder, track, step, step.shown)
    beneath = ", ".join(map(efficiency_text, step.beneath)) or "-"
    sheet = step.of_data_sheet
    return row(
        Cell(LEVEL_NAMES[step.rung.layer], _limit_word(track.limit) if limits else ""),
        Cell(shown_text(step, track.unit), parity),
        interval_text(step.shown or step.rung.rate, track.unit),
        beneath,
        "-" if sheet is None else efficiency_text(sheet, named=False),
        text.one_line(what_text(step)) or "-",
        marked=limits,
    )


def _limit_word(limit: LadderLimit) -> str:
    return "the rate is lost here" if limit.kind is LimitKind.LAYER else "this layer limits"


def _user_part(ladder: Ladder, track: Track, step: LadderStep) -> float:
    """Return the user data part of a layer's rate: less than 1 where parity is written."""
    parity = ladder.hardware.parity
    counts = track.metric == "write_bandwidth" and step.rung.layer in RAW_LEVELS
    return 1 / parity.written_per_byte if counts and parity is not None else 1.0


def _parity_text(ladder: Ladder, track: Track, step: LadderStep, rate: Estimate) -> str:
    part = _user_part(ladder, track, step)
    if part == 1:
        return ""
    return f"{rate_text(part * rate.value, track.unit)} without parity"


def claims_table(claims: tuple[CheckedClaim, ...]) -> Table | None:
    """Return printed values beside the results of their inputs."""
    columns = ("what", "printed>", "inputs give>", "within rounding>", "")
    return table(
        columns,
        (
            row(
                text.one_line(claim_text(claim)),
                printed_text(claim),
                *computed_text(claim),
                Cell(MATCHES[claim.match][0], tone=MATCHES[claim.match][1]),
            )
            for claim in claims
        ),
    )


def ladder_chart(ladder: Ladder, track: Track) -> Chart | None:
    """Return the rates of one metric as bars from the drives up, ``None`` if none is known.

    Where parity is written, a bar is divided into user data and parity, like the table.
    """
    shown = [(step, step.shown) for step in track.steps if step.shown is not None]
    if not shown:
        return None
    largest = max(rate.high or rate.value for _, rate in shown)
    scale = bandwidth_scale(largest) if track.unit == "B/s" else Scale(1000.0, "kIOPS")
    rows = [_row(ladder, track, step, rate, scale) for step, rate in reversed(shown)]
    layers = _layers(rows, scale, round_top(largest / scale.divisor * 1.02))
    keys = [Key("bar", "accent", "measured"), Key("bar", "muted", "nominal")]
    if any(entry["user"] < entry["value"] for entry in rows):
        keys.append(Key("light-bar", "ink", "of it parity"))
    if any(entry["limits"] for entry in rows):
        keys.append(Key("bar", "second", _limit_word(track.limit)))
    keys.append(Key("line", "ink", "interval"))
    return Chart(
        name=f"ladder-{track.metric}",
        title=f"{text.metric_title(track.metric)} by layer",
        caption=f"Rates for {ladder.scale}.",
        specification=layered(layers, _WIDTH, _ROW_HEIGHT * len(rows)),
        legend=tuple(keys),
    )


def _row(
    ladder: Ladder, track: Track, step: LadderStep, rate: Estimate, scale: Scale
) -> dict[str, Any]:
    limits = step.rung.layer == track.limit.layer
    nominal = step.rung.layer in NOMINAL_LEVELS
    value = rate.value / scale.divisor
    return {
        "layer": LEVEL_NAMES[step.rung.layer] + (" (limit)" if limits else ""),
        "value": value,
        "user": value * _user_part(ladder, track, step),
        "low": None if rate.low is None else rate.low / scale.divisor,
        "high": None if rate.high is None else rate.high / scale.divisor,
        "colour": SECOND if limits else MUTED if nominal else ACCENT,
        "limits": limits,
    }


def _layers(rows: list[dict[str, Any]], scale: Scale, top: float) -> list[altair.Chart]:
    import altair as alt

    order = [entry["layer"] for entry in rows]
    # The drawing engine measures text narrower than browsers do: labels would be cut.
    y_axis = alt.Axis(tickSize=0, domain=False, minExtent=_LABEL_EXTENT)
    y = alt.Y("layer:N", sort=order, title=None, axis=y_axis)
    x_axis = alt.Axis(tickCount=5, grid=True)
    x = alt.X("value:Q", title=scale.unit, scale=alt.Scale(domain=[0, top]), axis=x_axis)
    color = alt.Color("colour:N", scale=None)
    spans = [entry for entry in rows if entry["low"] is not None and entry["low"] != entry["high"]]
    return [
        data(rows).mark_bar(height=14, opacity=0.35).encode(x=x, y=y, color=color),
        data(rows).mark_bar(height=14).encode(x="user:Q", y=y, color=color),
        data(spans).mark_rule(color=INK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y),
    ]


# Words and figures for terminal, page and Markdown alike

_PRINTED: Final = re.compile(r"\s*[0-9]+(?:\.([0-9]+))?[0-9.\s+±-]*(?:to[0-9.\s]+)?(\S*)")
PARITY_SIGN: Final = "*"
DOUBT_SIGN: Final = "?"


def rate_text(value: float, unit: str) -> str:
    """Return a rate: ``38.4 GB/s``, ``1,600 kIOPS``; always decimal units."""
    if unit == "B/s":
        return format_bytes_per_s(value)
    return f"{value / 1000:,.4g} kIOPS" if value >= 1000 else f"{value:,.4g} IOPS"


def interval_text(rate: Estimate, unit: str) -> str:
    """Return the interval of a rate, ``-`` if there is none."""
    if rate.low is None or rate.high is None:
        return "-"
    if rate.low == rate.high:
        return "exact"
    low, high = rate_text(rate.low, unit), rate_text(rate.high, unit)
    if low == high:
        return "to all digits"
    number, unit_of_low = low.split(" ")
    return f"{number if unit_of_low == high.split(' ')[1] else low} .. {high}"


def efficiency_text(efficiency: Efficiency, *, named: bool = True) -> str:
    """Return ``102.0 %* of drive``, with its marks, or why there is none."""
    name = f" of {LEVEL_NAMES[efficiency.of]}" if named else ""
    if efficiency.value is None:
        return f"-{name}"
    signs = (PARITY_SIGN if efficiency.parity_counted else "") + (
        DOUBT_SIGN if efficiency.doubts else ""
    )
    return f"{format_percent(efficiency.value)}{signs}{name}"


def answer_text(track: Track) -> str:
    """Return what limits one metric, and where most is lost, in one sentence."""
    # The limit is that of the system: an application is slow if it requests little.
    system = [step for step in track.steps if step.rung.layer != "application"]
    top = (system or track.steps or [None])[-1]
    rate = ""
    if top is not None:
        rate = f" {shown_text(top, track.unit)} at the {LEVEL_NAMES[top.rung.layer]}"
    loss = ""
    if track.loss.layer is not None and track.loss.efficiency is not None:
        efficiency = efficiency_text(track.loss.efficiency)
        loss = f"; most is lost at the {LEVEL_NAMES[track.loss.layer]}, {efficiency}"
    limit = track.limit
    kind = limit.kind.value
    if limit.kind is LimitKind.CANNOT_TELL:
        kind = "its limit is not known"
    if limit.kind is LimitKind.LAYER and limit.layer is not None:
        kind = f"lost in the {LEVEL_NAMES[limit.layer]}"
    return f"{text.metric_title(track.metric)}{rate}: {kind}{loss}."


def limit_text(limit: LadderLimit) -> str:
    """Return what limits the topmost rate, in one line."""
    kind = limit.kind.value
    if limit.kind is LimitKind.LAYER and limit.layer is not None:
        kind = f"bottleneck: {LEVEL_NAMES[limit.layer]}"
    return f"{kind} ({limit.reason})"


def loss_text(loss: Loss) -> str:
    """Return where most is lost, in one line."""
    name = "no layer can be named" if loss.layer is None else LEVEL_NAMES[loss.layer]
    return f"{name} ({loss.reason})"


def what_text(step: LadderStep) -> str:
    """Return the tool, its place in the stack, and the figure as printed."""
    rung = step.rung
    parts = [part for part in (rung.tool, rung.source, rung.printed) if part]
    return ", ".join(parts)


def shown_text(step: LadderStep, unit: str) -> str:
    """Return the rate at the ladder's scale; else as measured, in brackets."""
    if step.shown is None:
        return f"({rate_text(step.rung.rate.value, unit)})"
    return rate_text(step.shown.value, unit)


def absent_text(absent: Absent) -> str:
    """Return which layer was not measured, and how to measure it."""
    metrics = ", ".join(text.metric_text(metric) for metric in absent.metrics)
    noun = "" if absent.layer == "data_sheet" else " rung"
    return f"no {LEVEL_NAMES[absent.layer]}{noun} ({metrics}): {absent.hint}"


def explanations(ladder: Ladder) -> Iterator[str]:
    """Yield the meaning of the marks, each doubt, and notes about single rungs."""
    steps = [step for track in ladder.tracks for step in track.steps]
    efficiencies = [(step, efficiency) for step in steps for efficiency in step.beneath]
    if any(efficiency.parity_counted for _, efficiency in efficiencies):
        parity = ladder.hardware.parity
        factor = "" if parity is None else f"{parity.written_per_byte:g} "
        yield f"{PARITY_SIGN} parity counted ({parity}): a byte written is {factor}bytes to drives"
    lines: list[str] = []
    for step, efficiency in efficiencies:
        pair = f"{LEVEL_NAMES[step.rung.layer]} of {LEVEL_NAMES[efficiency.of]}"
        lines += [f"{DOUBT_SIGN} {pair}: {doubt}" for doubt in efficiency.doubts]
        lines += [f"- {pair}: {efficiency.reason}"] if efficiency.value is None else []
    for step in steps:
        name = LEVEL_NAMES[step.rung.layer]
        if step.shown_reason is not None:
            lines.append(f"({name}) as measured: {step.shown_reason}")
        lines += [f"{name}: {note}" for note in step.rung.notes]
    yield from dict.fromkeys(lines)
    bases = {step.rung.rate.basis for step in steps if step.rung.layer not in NOMINAL_LEVELS}
    if IntervalBasis.ROUNDING in bases:
        yield "intervals of printed figures come from rounding; scatter is not printed"
    if IntervalBasis.REPETITIONS in bases:
        yield "intervals of repetitions say nothing about other days"


def printed_text(checked: CheckedClaim) -> str:
    """Return the printed text."""
    return f"{'> ' if checked.claim.at_least else ''}{checked.claim.printed.text}"


def claim_text(checked: CheckedClaim) -> str:
    """Return the meaning of a printed value, and the assumptions behind it."""
    return "; ".join(filter(None, (checked.claim.what, checked.claim.assumes)))


def computed_text(checked: CheckedClaim) -> tuple[str, str]:
    """Return the result of the inputs in the printed unit: value, and interval of rounding.

    The interval is the one that decides the match.
    """
    if checked.value is None or checked.low is None or checked.high is None:
        return "-", "-"
    printed = checked.claim.printed
    factor, unit, digits = _as_printed(printed)
    bounds = (checked.low, checked.high)
    if (
        checked.match is Match.GIVEN_IF_ROUNDED
        and checked.loose_low is not None
        and checked.loose_high
    ):
        bounds = (checked.loose_low, checked.loose_high)
    value, low, high = (f"{x / factor:,.{digits}f}" for x in (checked.value, *bounds))
    return f"{value} {unit}", f"{low} .. {high}" if low != high else low


def _as_printed(printed: Figure) -> tuple[float, str, int]:
    """Return the factor and the unit of a printed text, and one digit more than it has."""
    match = _PRINTED.match(printed.text or "")
    if match is None:
        return 1.0, printed.unit, 1
    decimals, unit = match.groups()
    return float(parse_unit(unit)[0]), unit, len(decimals or "") + 1
