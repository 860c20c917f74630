"""Pages of a sweep (best settings, maps, curves) and of a survey (plan, speed of targets)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trimtab.base import text
from trimtab.base.run import doubts_text
from trimtab.base.text import levels_text
from trimtab.base.units import (
    enumerated,
    format_bytes_per_s,
    format_percent,
    format_value,
    percent_or_dash,
    plural,
    value_or_dash,
)
from trimtab.judge.sweep_result import (
    BestSetting,
    FactorEffect,
    HeatMap,
    Level,
    Scaling,
    SettingResult,
    SweepAnalysis,
)
from trimtab.probe.survey_plan import METRICS, SLOW, Candidate, Spread, Standing, Survey, SurveyPlan
from trimtab.show import chart as looks
from trimtab.show.chart import (
    ACCENT,
    INK,
    MUTED,
    Chart,
    Key,
    axis_title,
    data,
    layered,
    round_top,
    value_scale,
)
from trimtab.show.document import Cell, Document, Row, Section, Table, row, table

if TYPE_CHECKING:
    import altair

    from trimtab.probe.sweep import SweepState


_ROW_HEIGHT = 30
_LABEL_EXTENT = 60


def sweep_document(
    name: str, site: str, analysis: SweepAnalysis, extent: Iterable[Section] = ()
) -> Document:
    """Return the page of a sweep: the best setting of each metric first.

    Parameters
    ----------
    extent
        Progress of a sweep that is still being measured.
    """
    answers = [_best_answer(best) for best in analysis.best]
    return Document(
        kind="sweep",
        heading=name,
        subtitle=f"{text.one_line(site)}: {plural(analysis.points, 'point')}, "
        f"{plural(analysis.rounds, 'round')}",
        tone="info" if any(best.best is not None for best in analysis.best) else "unclear",
        answer=answers[0] if answers else "No setting can be compared yet.",
        details=tuple(answers[1:]),
        sections=(*extent, *_sections(analysis)),
    )


def _sections(analysis: SweepAnalysis) -> Iterator[Section]:
    if analysis.maps:
        yield Section(
            "Maps",
            charts=tuple(partial(heat_chart, heat_map) for heat_map in analysis.maps),
            folds=tuple((_map_title(heat_map), map_table(heat_map)) for heat_map in analysis.maps),
        )
    if analysis.scaling:
        yield Section(
            "Scaling",
            charts=tuple(partial(scaling_chart, scaling) for scaling in analysis.scaling),
            lines=tuple(_scaling_text(scaling) for scaling in analysis.scaling),
        )
    if analysis.effects:
        yield Section("What matters", tables=(effects_table(analysis.effects),))
    for best in analysis.best:
        workload = f", {text.levels_text(best.workload)}" if best.workload else ""
        yield Section(
            f"{text.metric_title(best.metric)}{workload}",
            lines=(text.sentence(best.reason),),
            tables=(settings_table(best),),
        )
    if analysis.notes:
        yield Section("Notes", notes=tuple(map(text.sentence, analysis.notes)))


def _map_title(heat_map: HeatMap) -> str:
    fixed = f", {text.levels_text(heat_map.fixed)}" if heat_map.fixed else ""
    return f"{text.metric_title(heat_map.metric)}{fixed}"


def map_table(heat_map: HeatMap) -> Table | None:
    """Return a metric over two factors as a table."""
    return table(
        (
            f"{heat_map.row_factor} / {heat_map.column_factor}",
            *(f"{level}>" for level in heat_map.columns),
        ),
        (
            row(
                str(level),
                *(value_or_dash(cell, heat_map.unit) for cell in cells),
            )
            for level, cells in zip(heat_map.rows, heat_map.cells, strict=True)
        ),
    )


def _scaling_text(scaling: Scaling) -> str:
    fixed = f" ({text.levels_text(scaling.fixed)})" if scaling.fixed else ""
    points = ", ".join(
        f"{point.amount:g}: {format_value(point.middle, scaling.unit)}" for point in scaling.points
    )
    head = f"{text.metric_title(scaling.metric)} against {scaling.factor}{fixed}"
    return f"{head}: {points}; {text.sentence(scaling.reason)}"


def _best_answer(best: BestSetting) -> str:
    """Return the best setting of one metric in one sentence."""
    head = text.metric_title(best.metric)
    if best.workload:
        head += f" with {text.levels_text(best.workload)}"
    if best.best is None:
        return f"{head}: {text.sentence(best.reason)}"
    middle = best.settings[0].middle
    value = "" if middle is None else f", {format_value(middle, best.unit)}"
    tied = len(best.runners_up)
    rest = f"; statistically tied with {tied} other{'s' * (tied != 1)}" if tied else ""
    return f"{head}: best with {text.levels_text(best.best)}{value}{rest}."


def settings_table(best: BestSetting) -> Table | None:
    """Return all settings of one metric, with the best marked and tied ones named."""
    return table(
        ("setting", "", "rounds>", f"{text.metric_text(best.metric)}>", "of the best>"),
        (_setting_row(setting, best) for setting in best.settings if setting.n),
        best.method,
    )


def _setting_row(setting: SettingResult, best: BestSetting) -> Row:
    is_best = best.best is not None and dict(setting.levels) == dict(best.best)
    standing = Cell("best", tone="healthy") if is_best else Cell("")
    if not is_best and setting.may_be_best:
        standing = Cell("tied", tone="info")
    interval = setting.of_best_interval
    return row(
        text.levels_text(setting.levels),
        Cell(setting.reason) if setting.reason else standing,
        str(setting.n),
        value_or_dash(setting.middle, best.unit),
        Cell(
            percent_or_dash(setting.of_best),
            "" if interval is None else text.range_text(interval, "1"),
        ),
        marked=is_best,
    )


def effects_table(effects: Mapping[str, Sequence[FactorEffect]]) -> Table | None:
    """Return the share of the scatter explained by each factor and pair."""
    words = {True: "matters", False: "not significant", None: "cannot tell"}
    return table(
        ("factor", "metric", "of the scatter>", "best over worst level>", ""),
        (
            row(
                " x ".join(effect.factors),
                text.metric_text(metric),
                format_percent(effect.share),
                "-" if effect.ratio is None else f"{effect.ratio:.3g}",
                Cell(words[effect.matters], tone="info" if effect.matters else None),
            )
            for metric, of_metric in effects.items()
            for effect in of_metric
        ),
        "Share of the scatter between runs (log scale) explained by a factor or a pair of them.",
    )


def heat_chart(heat_map: HeatMap) -> Chart:
    """Return a metric over two factors as a map: the darker, the better; the best is framed."""
    import altair as alt

    known = [cell for cells in heat_map.cells for cell in cells if cell is not None]
    scale = value_scale(max(known, default=0.0), heat_map.unit)
    best = max(known, default=0.0)
    rows = [
        _cell(level, column, cell, scale.divisor, best)
        for level, cells in zip(heat_map.rows, heat_map.cells, strict=True)
        for column, cell in zip(heat_map.columns, cells, strict=True)
    ]
    base = data(rows).encode(
        x=alt.X(
            "column:N",
            sort=[str(c) for c in heat_map.columns],
            title=heat_map.column_factor,
            axis=alt.Axis(labelAngle=0),
        ),
        y=alt.Y(
            "row:N",
            sort=[str(r) for r in heat_map.rows],
            title=heat_map.row_factor,
            axis=alt.Axis(minExtent=_LABEL_EXTENT),
        ),
    )
    cells = base.mark_rect(color=ACCENT).encode(
        opacity=alt.Opacity(
            "of_best:Q", scale=alt.Scale(domain=[0, 1], range=[0.05, 0.5]), legend=None
        ),
    )
    frame = base.transform_filter("datum.of_best >= 1").mark_rect(
        filled=False, stroke=INK, strokeWidth=2
    )
    words = base.mark_text(color=INK).encode(text="shown:N")
    fixed = f" With {text.levels_text(heat_map.fixed)}." if heat_map.fixed else ""
    unit = f" in {scale.unit}" if scale.unit else ""
    return Chart(
        name=f"map-{heat_map.metric}",
        title=f"{text.metric_title(heat_map.metric)}{unit}",
        caption="Geometric mean over rounds; the stronger the colour, the nearer to the framed one."
        + fixed,
        specification=layered(
            (cells, frame, words), looks.WIDTH - _LABEL_EXTENT, _ROW_HEIGHT * len(heat_map.rows)
        ),
    )


def _cell(
    level: Level, column: Level, value: float | None, divisor: float, best: float
) -> dict[str, Any]:
    return {
        "row": str(level),
        "column": str(column),
        "value": None if value is None else value / divisor,
        "shown": "-" if value is None else f"{value / divisor:.3g}",
        "of_best": 0.0 if not value or not best else value / best,
    }


def scaling_chart(scaling: Scaling) -> Chart:
    """Return a rate against an amount, with the knee if there is one."""
    import altair as alt

    scale = value_scale(max(point.middle for point in scaling.points), scaling.unit)
    rows = [{"amount": p.amount, "value": p.middle / scale.divisor} for p in scaling.points]
    amounts = [point.amount for point in scaling.points]
    x = alt.X(
        "amount:Q",
        title=f"{scaling.factor} (log scale)",
        scale=alt.Scale(type="log", base=2, domain=[min(amounts), max(amounts)]),
        axis=alt.Axis(values=amounts),
    )
    top = round_top(max(row["value"] for row in rows) * 1.02)
    title = axis_title(scaling.metric, scale)
    y = alt.Y("value:Q", title=title, scale=alt.Scale(domain=[0, top]), axis=alt.Axis(tickCount=5))
    base = data(rows).encode(x=x, y=y)
    layers: list[altair.Chart] = [
        base.mark_line(color=MUTED),
        base.mark_point(color=ACCENT, size=50),
    ]
    keys = [Key("dot", "accent", "geometric mean over rounds")]
    if scaling.knee is not None:
        knee = data([{"amount": scaling.knee}]).mark_rule(color=INK, strokeDash=[4, 3])
        layers.append(knee.encode(x=x))
        keys.append(Key("dashed", "ink", f"knee at {scaling.knee:.3g} {scaling.factor}"))
    fixed = f" With {text.levels_text(scaling.fixed)}." if scaling.fixed else ""
    return Chart(
        name=f"scaling-{scaling.metric}-{scaling.factor}",
        title=f"{text.metric_title(scaling.metric)} against {scaling.factor}",
        caption=text.sentence(scaling.reason) + fixed,
        specification=layered(layers),
        legend=tuple(keys),
    )


_SETTINGS_SHOWN = 8


def extent_sections(state: SweepState) -> tuple[Section, ...]:
    """Return the progress of a sweep, which of its runs count, and what the user must do."""
    sweep = state.sweep
    measured = f"{state.measured} of {len(state.points)} runs measured, "
    count = sum(doubt.runs for doubt in state.doubts)
    doubts = (
        f"{count} of them hold{'s' * (count == 1)} no credible figure: {doubts_text(state.doubts)}"
    )
    other = f"{state.left_out} stored runs are left out: they belong to another probe"
    waiting = (
        f"{levels_text(levels)}: then add "
        + " ".join(f"--now {key}={value}" for key, value in levels.items())
        for levels in state.waiting[:_SETTINGS_SHOWN]
    )
    return (
        Section(
            "Measured so far",
            lines=(
                f"{measured}{len(sweep.points)} points, {sweep.rounds} rounds",
                *((f"always {levels_text(sweep.fixed)}",) if sweep.fixed else ()),
                *((doubts,) if state.doubts else ()),
                *((other,) if state.left_out else ()),
                *(f"failed: {failure}" for failure in state.failures),
            ),
        ),
        Section("to be set by hand before the rest can be measured", lines=tuple(waiting)),
    )


_NAMED: Final = 4
_WAYS: Final = {"client": "from this client", "server": "on its servers"}


def plan_document(plan: SurveyPlan) -> Document:
    """Return the page of a planned survey: its waves, one after the other."""
    targets = plural(len(plan.targets), "OST")
    settings = (
        row(name, "none" if value is None else text.parameter_text(name, value))
        for name, value in plan.parameters.items()
    )
    steps = (f"{number}. {step}" for number, step in enumerate(plan.steps, start=1))
    waves = (
        f"wave {number}: {', '.join(map(_where, wave))}"
        for number, wave in enumerate(plan.waves, start=1)
    )
    refused = (row(each.target, each.refusal or "") for each in plan.refused)
    return Document(
        kind="survey",
        heading=plan.site,
        subtitle=f"planned {_WAYS[plan.way]}",
        tone="info",
        answer=f"survey of {plan.site} {_WAYS[plan.way]}: {targets}",
        sections=(
            Section("Settings", tables=(table(("setting", "value"), settings),)),
            Section("For each wave, one after the other", lines=(*steps, *waves)),
            Section("Left out", tables=(table(("target", "why"), refused),)),
        ),
    )


def _where(candidate: Candidate) -> str:
    return f"{candidate.target} on {candidate.server}" if candidate.server else candidate.target


def survey_document(survey: Survey) -> Document:
    """Return the page of a survey: every target, slowest first, and their spread."""
    run = survey.run
    metrics = [spread.metric for spread in survey.spreads] or list(METRICS[:1])
    columns = ("target", "server", *(f"{_title(metric)}>" for metric in metrics), "result")
    return Document(
        kind="survey",
        heading=run.site,
        subtitle=f"survey {_WAYS[survey.plan.way]} ({run.kind}), {run.status.value}, "
        f"{text.moment_text(run.at)}; trimtab show {run.id[:13]}",
        tone="warning" if any(standing.slow for standing in survey.standings) else "info",
        answer=_answer(survey),
        sections=(
            Section(
                "Targets, the slowest first",
                lines=tuple(map(_spread, survey.spreads)),
                tables=(table(columns, (_row(each, metrics) for each in survey.standings)),),
                notes=survey.notes,
            ),
        ),
    )


def _answer(survey: Survey) -> str:
    """Return which targets are slow."""
    slow = [standing.result.target for standing in survey.standings if standing.slow]
    under, count = format_percent(SLOW, 0), plural(len(survey.standings), "OST")
    if not survey.spreads:
        return f"No rate of {count} was measured."
    if not slow:
        return f"None of {count} is below {under} of the median."
    return f"{len(slow)} of {count} below {under} of the median: {enumerated(slow, _NAMED)}."


def _row(standing: Standing, metrics: list[str]) -> Row:
    result, rates, ratios = standing.result, standing.rates, standing.ratios
    return row(
        Cell(result.target, tone="warning" if standing.slow else None),
        result.server or "?",
        *(
            Cell(
                format_bytes_per_s(rates[metric]) if metric in rates else "?",
                f"{format_percent(ratios[metric])} of median" if metric in ratios else "",
            )
            for metric in metrics
        ),
        result.outcome.value + ("" if result.reason is None else f": {result.reason}"),
    )


def _spread(spread: Spread) -> str:
    cov = "" if spread.cov is None else f", COV {format_percent(spread.cov)}"
    return (
        f"{_title(spread.metric)}: median {format_bytes_per_s(spread.median_bytes_per_s)},"
        f" {format_bytes_per_s(spread.least_bytes_per_s)} to"
        f" {format_bytes_per_s(spread.most_bytes_per_s)} over"
        f" {plural(spread.targets, 'OST')}{cov}"
    )


def _title(metric: str) -> str:
    return metric.removesuffix("_bandwidth")
