"""The page of ``trimtab judge``: the answer, a row and a panel per series, then each in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.answers import series_chart
from trimtab.base import text
from trimtab.base.finding import Tone
from trimtab.base.series import (
    ChangePoint,
    ChangeStatus,
    Dispersion,
    SeriesJudgement,
    SeriesKey,
    SiteJudgement,
    TargetTails,
)
from trimtab.base.units import format_percent, format_value, percent_or_dash, plural, value_or_dash
from trimtab.base.verdict import VerdictStatus
from trimtab.explain.headline import headline, of_judgement, tone_of
from trimtab.explain.trouble import slow_trouble
from trimtab.judge.series_level import effect_text, is_worse, level_now, onset_text, series_rank
from trimtab.judge.spread import is_vague
from trimtab.show.chart import Chart
from trimtab.show.document import GOAL_TONES, Cell, Document, Row, Section, Table, row, table

if TYPE_CHECKING:
    import polars as pl

    from trimtab.explain.status import SiteStanding

DRAWN: Final = 12
"""Number of series with charts: the first in the table, which lists all of them."""
_CHANGES_DRAWN: Final = 4
_CHANGES_LISTED: Final = 30
WORDS: Final = {
    VerdictStatus.MET: "met",
    VerdictStatus.MISSED: "missed",
    VerdictStatus.CANNOT_TELL: "cannot tell",
}
_LEGEND: Final = (
    "Change: the current level relative to the last better one (or, if none, the last worse one). "
    "COV: standard deviation over mean in the last window, with its confidence interval below."
)


def judge_document(
    judgement: SiteJudgement,
    frames: Mapping[SeriesKey, pl.DataFrame],
    surveys: pl.DataFrame | None = None,
    standing: SiteStanding | None = None,
) -> Document:
    """Return the page of a judgement.

    Parameters
    ----------
    frames
        Runs of each series; without them less is drawn.
    standing
        State of the site; ``None``: only the judgement is known.
    """
    standing = standing or of_judgement(judgement)
    return Document(
        kind="judge",
        heading=judgement.site,
        subtitle=f"{text.moment_text(judgement.from_)} to {text.moment_text(judgement.to)}",
        tone=tone_of(standing),
        answer=headline(standing),
        sections=tuple(_sections(judgement, frames, surveys, standing)),
    )


def _sections(
    judgement: SiteJudgement,
    frames: Mapping[SeriesKey, pl.DataFrame],
    surveys: pl.DataFrame | None,
    standing: SiteStanding,
) -> Iterator[Section]:
    ranked = sorted(judgement.series, key=series_rank)
    shown = ranked[:DRAWN]
    left = len(ranked) - len(shown)
    yield Section(
        "All series",
        tables=(summary_table(ranked),),
        charts=tuple(partial(panel, series, place) for place, series in enumerate(shown)),
        notes=(
            *judgement.notes,
            *(f"{slow.target}: {slow_trouble(slow).text}" for slow in standing.slow),
            *((f"{plural(left, 'more series')} in the table only",) if left else ()),
        ),
    )
    for place, series in enumerate(shown):
        yield _section(series, frames.get(series.key), place)
    for place, tail in enumerate(judgement.tails):
        yield _targets(tail, surveys, place)


def panel(series: SeriesJudgement, place: int) -> Chart | None:
    """Return the chart of a series' levels; the first has the legend shared by all."""
    chart = series_chart.panel_chart(series, f"panel{place}")
    return chart and replace(chart, legend=chart.legend if place else series_chart.PANEL_KEYS)


def summary_table(ranked: list[SeriesJudgement]) -> Table | None:
    """Return a row per series in the order given."""
    columns = ("series", "runs>", "level now>", "change>", "since", "COV>", "goal")
    return table(columns, map(_summary_row, ranked), _LEGEND)


def _summary_row(series: SeriesJudgement) -> Row:
    verdict, level = series.verdict, level_now(series)
    effect, since = Cell("-"), "-"
    if level is not None:
        worse = is_worse(level.from_last, series.key)
        effect = Cell(effect_text(level.from_last), tone="critical" if worse else "healthy")
        since = onset_text(level.since, level.between).removeprefix("since ")
    elif series.changes and series.changes[-1].status is ChangeStatus.SUSPECT:
        effect, since = Cell("suspected", tone="warning"), f"{series.changes[-1].at:%Y-%m-%d}"
    interval = verdict.cov_interval
    return row(
        text.key_label(series.key),
        f"{series.overall.n:,}",
        value_or_dash(verdict.mean, series.key.unit),
        effect,
        since,
        Cell(
            percent_or_dash(verdict.cov),
            "" if interval is None or is_vague(interval) else text.range_text(interval, "1"),
        ),
        _goal(series),
    )


def _goal(series: SeriesJudgement) -> Cell:
    status = series.verdict.status
    return Cell(WORDS[status], tone=GOAL_TONES[status])


def _section(series: SeriesJudgement, frame: pl.DataFrame | None, place: int) -> Section:
    charts, notes = _change_charts(series, frame, f"change{place}")
    if not series.rolling:
        notes.append("COV over time is not drawn: no window has runs")
    elif all(at.status is VerdictStatus.CANNOT_TELL for at in series.rolling):
        count = plural(len(series.rolling), "window", ",")
        notes.append(f"COV over time is not drawn: none of {count} can be judged")
    verdict = series.verdict
    return Section(
        title=_title(series),
        lines=(f"{WORDS[verdict.status]}: {text.sentence(verdict.reason)}", *_facts(series)),
        charts=(*charts, partial(series_chart.cov_chart, series, f"series{place}")),
        tables=(_changes_table(series),),
        notes=tuple(notes),
    )


def _title(series: SeriesJudgement) -> str:
    key = series.key
    kind = "" if key.kind == "file" else f" ({key.kind})"
    parameters = [f"{name} {value}" for name, value in series.asked.items()]
    return ", ".join([f"{text.metric_title(key.metric)} of {key.probe}{kind}", *parameters])


def _facts(series: SeriesJudgement) -> Iterator[str]:
    runs = plural(series.overall.n, "run", ",")
    if series.overall.unfinished:
        runs += f", {series.overall.unfinished:,} unfinished"
    if series.missing:
        runs += f", {series.missing} of {series.expected} due runs are missing"
    if series.verdict.mean is not None:
        runs += f", mean now {format_value(series.verdict.mean, series.key.unit)}"
    yield f"{runs}; {text.sentence(series.overall.reason)}"
    yield f"In the last window: {_spread(series.dispersion)}"
    yield f"Overall: {_spread(series.overall)}"
    if series.rolling:
        over = sum(at.status is VerdictStatus.MISSED for at in series.rolling)
        judged = sum(at.status is not VerdictStatus.CANNOT_TELL for at in series.rolling)
        windows = f"{over:,} of {len(series.rolling):,} windows miss the goal"
        yield f"{windows}, {judged:,} can be judged."
    yield f"Trend: {text.sentence(series.trend.reason)}"
    if series.invalid:
        first, count = series.invalid[0], plural(len(series.invalid), "run", ",")
        yield f"Not judged: {count}; {first.run}: {text.sentence(first.reason)}"
    if not series.changes:
        yield f"Changes: {text.sentence(series.untested or 'none found')}"


def _spread(dispersion: Dispersion) -> str:
    interval = dispersion.cov_interval
    shown = ""
    if interval is not None and not is_vague(interval):
        shown = f" ({text.range_text(interval, '1')})"
    parts = [f"COV {percent_or_dash(dispersion.cov)}{shown}"]
    if dispersion.unfinished:
        parts.append(f"of the finished ones {percent_or_dash(dispersion.cov_finished)}")
    parts.append(f"within levels {percent_or_dash(dispersion.cov_within_regimes)}")
    parts.append(f"MAD-CV {percent_or_dash(dispersion.mad_cv)}")
    parts.append(f"quartile dispersion {percent_or_dash(dispersion.quartile_dispersion)}")
    return f"{', '.join(parts)}."


def _change_charts(
    series: SeriesJudgement, frame: pl.DataFrame | None, name: str
) -> tuple[list[Callable[[], Chart | None]], list[str]]:
    """Return charts of the runs before and after the latest confirmed changes, or why not."""
    confirmed = [change for change in series.changes if change.status is ChangeStatus.CONFIRMED]
    charts: list[Callable[[], Chart | None]] = []
    notes: list[str] = []
    for number, change in enumerate(confirmed[-_CHANGES_DRAWN:]):
        why = change.of_unit or ("its runs are not available" if frame is None else None)
        if frame is None or why is not None:
            notes.append(f"Before and after {text.moment_text(change.at)} is not drawn: {why}")
            continue
        draw = series_chart.before_after_chart
        charts.append(partial(draw, frame, change, series, f"{name}-{number}"))
    if len(confirmed) > _CHANGES_DRAWN:
        notes.append(
            f"Before and after is drawn for the last {_CHANGES_DRAWN} of {len(confirmed)} changes"
        )
    return charts, notes


def _changes_table(series: SeriesJudgement) -> Table | None:
    columns = ("change since", "status", "effect>", "before>", "after>", "detected")
    listed = series.changes[-_CHANGES_LISTED:]
    left = len(series.changes) - len(listed)
    caption = f"The last {len(listed)} of {len(series.changes)} changes." if left else ""
    return table(columns, (_change_row(change, series) for change in listed), caption)


def _change_row(change: ChangePoint, series: SeriesJudgement) -> Row:
    tone: Tone = "warning"
    if change.status is ChangeStatus.CONFIRMED and change.of_unit is None:
        tone = "critical" if is_worse(change.effect, series.key) else "healthy"
    unit = series.key.unit
    return row(
        text.moment_text(change.at),
        Cell(change.status.value, tone=tone),
        _effect(change),
        Cell(value_or_dash(change.before, unit), plural(change.n_before, "run", ",")),
        Cell(value_or_dash(change.after, unit), plural(change.n_after, "run", ",")),
        text.moment_text(change.detected_at),
        note=change.reason,
    )


def _effect(change: ChangePoint) -> Cell:
    if change.effect is None:
        return Cell("not known")
    if (unit := change.of_unit) is not None:
        return Cell(unit)
    return Cell(effect_text(change.effect), text.change_range_text(change.effect_interval))


def _targets(tails: TargetTails, surveys: pl.DataFrame | None, place: int) -> Section:
    charts: tuple[Callable[[], Chart | None], ...] = ()
    if surveys is not None:
        survey, of_months = series_chart.survey_chart, series_chart.months_chart
        of = (surveys, tails.metric, tails.unit)
        charts = partial(survey, *of, f"survey{place}"), partial(of_months, *of, f"months{place}")
    ends = [*tails.by_month, *([tails.overall] if tails.overall is not None else [])]
    months = table(
        ("month", "surveys>", "mean>", "median>", "p10>", "p1>", "minimum>", "a job loses>"),
        (
            row(
                "all" if end is tails.overall else f"{end.from_:%Y-%m}",
                str(end.surveys),
                *(
                    format_value(value, tails.unit)
                    for value in (end.mean, end.median, end.p10, end.p1, end.minimum)
                ),
                format_percent(end.stripe_loss),
            )
            for end in ends
        ),
        "p10 and p1: the slowest tenth and hundredth of all figures. The last column is the loss "
        "of a job striped over all targets to the slowest of them.",
    )
    slow = table(
        ("slow target", "server", "of the others>", "among the slowest in", "q>"),
        (
            row(
                target.target,
                target.server or "-",
                format_percent(target.relative),
                f"{target.slow} of {target.surveys} surveys",
                f"{target.q_value:.2g}",
            )
            for target in tails.stragglers
        ),
        "q: expected share of false alarms among the targets listed as slow.",
    )
    return Section(
        f"{text.metric_title(tails.metric)} of single targets",
        lines=(text.sentence(tails.reason),),
        charts=charts,
        tables=(months, slow),
    )
