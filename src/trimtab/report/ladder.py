"""The page of one ladder: a drawing and a table for each metric, in one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from trimtab.model.ladder import (
    LEVEL_NAMES,
    NOMINAL_LEVELS,
    RAW_LEVELS,
    CheckedClaim,
    Estimate,
    Ladder,
    Limit,
    LimitKind,
    Match,
    Step,
    Track,
)
from trimtab.report import chart as looks
from trimtab.report import ladder_text, text
from trimtab.report.chart import ACCENT, INK, MUTED, SECOND, Chart, data, layered
from trimtab.report.kit import Cell, Key, Row, Table, Tone, row, table
from trimtab.report.sections import Document, Section
from trimtab.report.series import Scale, bandwidth_scale, round_top

if TYPE_CHECKING:
    import altair

_WIDTH = looks.WIDTH - 50
_ROW_HEIGHT = 30
_LABEL_EXTENT = 110
_MATCH_TONES: dict[Match, Tone] = {
    Match.GIVEN: "healthy",
    Match.GIVEN_IF_ROUNDED: "info",
    Match.ASSUMED: "info",
    Match.NOT_GIVEN: "critical",
    Match.NO_INPUTS: "unclear",
}


def ladder_document(ladder: Ladder) -> Document:
    """Return the page of a ladder: the limit of each metric first."""
    answers = [ladder_text.answer_text(track) for track in ladder.tracks]
    named = any(track.limit.kind is not LimitKind.CANNOT_TELL for track in ladder.tracks)
    source = f"{text.sentence(ladder.source)} " if ladder.source else ""
    return Document(
        kind="ladder",
        heading=ladder.name,
        subtitle=f"{source}Rates are of {ladder.scale}; MB are 1,000,000 bytes.",
        tone="info" if named else "unclear",
        answer=answers[0] if answers else "Nothing is kept that a ladder is made of.",
        details=tuple(answers[1:]),
        sections=tuple(_sections(ladder)),
    )


def _sections(ladder: Ladder) -> Iterator[Section]:
    for track in ladder.tracks:
        yield Section(
            ladder_text.TRACK_TITLES[track.metric],
            lines=(
                f"Limit: {ladder_text.limit_text(track.limit)}",
                f"Largest loss: {ladder_text.loss_text(track.loss)}",
            ),
            charts=(partial(ladder_chart, ladder, track),),
            tables=(track_table(ladder, track),),
        )
    notes = [
        *ladder_text.explanations(ladder),
        *ladder.notes,
        *map(ladder_text.absent_text, ladder.absent),
    ]
    if notes:
        yield Section("Notes", notes=tuple(notes))
    if ladder.claims:
        yield Section(
            "Printed values, and what the values printed beside them give",
            tables=(claims_table(ladder.claims),),
        )


def track_table(ladder: Ladder, track: Track) -> Table | None:
    """Return the layers of one metric, the highest first, the one that limits marked."""
    columns = ("layer", "rate>", "interval>", "of what carries it", "of data sheet>", "measured by")
    rows = [_step_row(ladder, track, step) for step in reversed(track.steps)]
    return table(columns, rows)


def _step_row(ladder: Ladder, track: Track, step: Step) -> Row:
    limits = step.rung.layer == track.limit.layer
    parity = "" if step.shown is None else _parity_text(ladder, track, step, step.shown)
    beneath = ", ".join(map(ladder_text.efficiency_text, step.beneath)) or "-"
    sheet = step.of_data_sheet
    return row(
        Cell(LEVEL_NAMES[step.rung.layer], _limit_word(track.limit) if limits else ""),
        Cell(ladder_text.shown_text(step, track.unit), parity),
        ladder_text.interval_text(step.shown or step.rung.rate, track.unit),
        beneath,
        "-" if sheet is None else ladder_text.efficiency_text(sheet, named=False),
        text.one_line(ladder_text.what_text(step)) or "-",
        marked=limits,
    )


def _limit_word(limit: Limit) -> str:
    return "the rate is lost here" if limit.kind is LimitKind.LAYER else "this layer limits"


def _user_part(ladder: Ladder, track: Track, step: Step) -> float:
    """Return which part of a layer's rate is user data: less than 1 where parity is written."""
    parity = ladder.hardware.parity
    counts = track.metric == "write_bandwidth" and step.rung.layer in RAW_LEVELS
    return 1 / parity.written_per_byte if counts and parity is not None else 1.0


def _parity_text(ladder: Ladder, track: Track, step: Step, rate: Estimate) -> str:
    part = _user_part(ladder, track, step)
    if part == 1:
        return ""
    return f"{ladder_text.rate_text(part * rate.value, track.unit)} without parity"


def claims_table(claims: tuple[CheckedClaim, ...]) -> Table | None:
    """Return printed values beside what their inputs give."""
    columns = ("what", "printed>", "inputs give>", "within rounding>", "")
    return table(
        columns,
        (
            row(
                text.one_line(ladder_text.claim_text(claim)),
                ladder_text.printed_text(claim),
                *ladder_text.computed_text(claim),
                Cell(ladder_text.MATCH_WORDS[claim.match], tone=_MATCH_TONES[claim.match]),
            )
            for claim in claims
        ),
    )


def ladder_chart(ladder: Ladder, track: Track) -> Chart | None:
    """Return the rates of one metric as bars from the drives up, ``None`` where none is known.

    Where parity is written, a bar is divided into user data and parity, as the table says.
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
        title=f"{ladder_text.TRACK_TITLES[track.metric]} by layer",
        caption=f"Rates of {ladder.scale}.",
        specification=layered(layers, _WIDTH, _ROW_HEIGHT * len(rows)),
        legend=tuple(keys),
    )


def _row(ladder: Ladder, track: Track, step: Step, rate: Estimate, scale: Scale) -> dict[str, Any]:
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
    # The engine that draws measures text narrower than browsers do: labels would be cut.
    y_axis = alt.Axis(tickSize=0, domain=False, minExtent=_LABEL_EXTENT)
    y = alt.Y("layer:N", sort=order, title=None, axis=y_axis)
    x_axis = alt.Axis(tickCount=5, grid=True)
    x = alt.X("value:Q", title=scale.unit, scale=alt.Scale(domain=[0, top]), axis=x_axis)
    color = alt.Color("colour:N", scale=None)
    spans = [entry for entry in rows if entry["low"] is not None and entry["low"] != entry["high"]]
    return [
        data(rows).mark_bar(height=14, opacity=0.35).encode(x=x, y=y, color=color),
        data(rows).mark_bar(height=14).encode(x=alt.X("user:Q"), y=y, color=color),
        data(spans)
        .mark_rule(color=INK, strokeWidth=1.5)
        .encode(x=alt.X("low:Q"), x2="high:Q", y=y),
    ]
