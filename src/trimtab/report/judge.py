"""The page of ``trimtab judge``: the answer, a row and a panel per series, then each in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.series import (
    ChangePoint,
    ChangeStatus,
    SeriesJudgement,
    SeriesKey,
    SiteJudgement,
    TargetTails,
)
from trimtab.model.verdict import VerdictStatus
from trimtab.report import judge_charts, text
from trimtab.report.answers import effect_text, is_worse, series_label
from trimtab.report.chart import Chart
from trimtab.report.headline import (
    headline,
    level_now,
    of_judgement,
    onset_text,
    series_rank,
    tone_of,
)
from trimtab.report.kit import GOAL_TONES, Cell, Row, Table, Tone, row, table
from trimtab.report.render import drawn, environment
from trimtab.report.write import write_report
from trimtab.units import format_duration, format_percent, format_value, plural

if TYPE_CHECKING:
    import polars as pl

    from trimtab.model.standing import SiteStanding

DRAWN: Final = 12
"""Series with charts: the first in the table, which holds all of them."""
_CHANGES_DRAWN: Final = 4
_CHANGES_LISTED: Final = 30
WORDS: Final = {
    VerdictStatus.MET: "met",
    VerdictStatus.MISSED: "missed",
    VerdictStatus.CANNOT_TELL: "cannot tell",
}
_LEGEND: Final = (
    "Change: the level now against the last better one (or, if none was, the last worse one). "
    "COV: standard deviation over mean in the last window, with its confidence interval below it."
)


@dataclass(frozen=True, slots=True)
class Section:
    """One series on the page, with its drawings and why others are missing."""

    title: str
    series: SeriesJudgement
    goal: Cell
    facts: str
    figures: tuple[tuple[Chart, Any], ...]
    changes: Table | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Targets:
    """Surveys of single targets on the page."""

    title: str
    reason: str
    figures: tuple[tuple[Chart, Any], ...]
    months: Table | None
    slow: Table | None


def write_judge_report(
    path: str,
    judgement: SiteJudgement,
    frames: Mapping[SeriesKey, pl.DataFrame],
    surveys: pl.DataFrame | None,
    standing: SiteStanding | None = None,
) -> str:
    """Write the page and return its path; see `trimtab.report.write.write_report` for errors."""
    target = Path(path)
    write_report(target, render_judgement(judgement, frames, surveys, standing))
    return str(target)


def render_judgement(
    judgement: SiteJudgement,
    frames: Mapping[SeriesKey, pl.DataFrame],
    surveys: pl.DataFrame | None = None,
    standing: SiteStanding | None = None,
) -> str:
    """Return a self-contained HTML page: no network, no script, equal for equals."""
    ranked = sorted(judgement.series, key=series_rank)
    shown = ranked[:DRAWN]
    standing = standing or of_judgement(judgement)
    return (
        environment()
        .get_template("judge.html.j2")
        .render(
            judgement=judgement,
            tone=tone_of(standing),
            answer=headline(standing),
            summary=summary_table(ranked),
            panels=drawn(
                judge_charts.panel_chart(series, f"panel{place}")
                for place, series in enumerate(shown)
            ),
            panel_keys=judge_charts.PANEL_KEYS,
            sections=[_section(series, frames, place) for place, series in enumerate(shown)],
            hidden=len(ranked) - len(shown),
            tails=[_targets(tail, surveys, place) for place, tail in enumerate(judgement.tails)],
        )
    )


def summary_table(ranked: list[SeriesJudgement]) -> Table | None:
    """Return a row for each series in the order given."""
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
        series_label(series),
        f"{series.overall.n:,}",
        _value(verdict.mean, series.key.unit),
        effect,
        since,
        Cell(_value(verdict.cov, "1"), "" if interval is None else text.range_text(interval, "1")),
        _goal(series),
    )


def _goal(series: SeriesJudgement) -> Cell:
    status = series.verdict.status
    return Cell(WORDS[status], tone=GOAL_TONES[status])


def _value(value: float | None, unit: str) -> str:
    return "-" if value is None else format_value(value, unit)


def _section(
    series: SeriesJudgement, frames: Mapping[SeriesKey, pl.DataFrame], place: int
) -> Section:
    charts, notes = _change_charts(series, frames.get(series.key), f"change{place}")
    cov = judge_charts.cov_chart(series, f"series{place}")
    if cov is None:
        notes.append(f"COV over time is not drawn: {_why_no_cov(series)}")
    return Section(
        title=_title(series),
        series=series,
        goal=_goal(series),
        facts=_facts(series),
        figures=drawn([*charts, cov]),
        changes=_changes_table(series),
        notes=tuple(map(text.sentence, notes)),
    )


def _title(series: SeriesJudgement) -> str:
    key = series.key
    kind = "" if key.kind == "file" else f" ({key.kind})"
    parameters = [f"{name} {value}" for name, value in series.asked.items()]
    return ", ".join([f"{text.metric_title(key.metric)} of {key.probe}{kind}", *parameters])


def _facts(series: SeriesJudgement) -> str:
    runs = plural(series.overall.n, "run", ",")
    if series.overall.unfinished:
        runs += f", {series.overall.unfinished:,} unfinished"
    if series.missing:
        runs += f", {series.missing} of {series.expected} missing"
    return " ".join(map(text.sentence, (runs, series.overall.reason, series.trend.reason)))


def _why_no_cov(series: SeriesJudgement) -> str:
    if not series.rolling:
        return "there is no window of runs"
    return f"none of {plural(len(series.rolling), 'window', ',')} can be judged"


def _change_charts(
    series: SeriesJudgement, frame: pl.DataFrame | None, name: str
) -> tuple[list[Chart], list[str]]:
    """Return the runs before and after each of the latest confirmed changes, or why not."""
    confirmed = [change for change in series.changes if change.status is ChangeStatus.CONFIRMED]
    charts, notes = [], []
    for number, change in enumerate(confirmed[-_CHANGES_DRAWN:]):
        chart = (
            None
            if frame is None or change.of_unit is not None
            else judge_charts.before_after_chart(frame, change, series, f"{name}-{number}")
        )
        if chart is not None:
            charts.append(chart)
            continue
        why = change.of_unit or (
            "its runs are not at hand"
            if frame is None
            else f"no finished run on one side within {_BESIDE}"
        )
        notes.append(f"Before and after {text.moment_text(change.at)} is not drawn: {why}")
    if len(confirmed) > _CHANGES_DRAWN:
        notes.append(
            f"Before and after is drawn of the last {_CHANGES_DRAWN} of {len(confirmed)} changes"
        )
    return charts, notes


_BESIDE: Final = format_duration(judge_charts.BESIDE_CHANGE / timedelta(seconds=1))


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
        Cell(_value(change.before, unit), plural(change.n_before, "run", ",")),
        Cell(_value(change.after, unit), plural(change.n_after, "run", ",")),
        text.moment_text(change.detected_at),
        note=change.reason,
    )


def _effect(change: ChangePoint) -> Cell:
    if change.effect is None:
        return Cell("not known")
    if (unit := change.of_unit) is not None:
        return Cell(unit)
    interval = change.effect_interval
    if interval is None:
        return Cell(effect_text(change.effect))
    low, high = (f"{100 * (ratio - 1):+.1f}" for ratio in (interval.low, interval.high))
    return Cell(effect_text(change.effect), f"{low} to {high} %")


def _targets(tails: TargetTails, surveys: pl.DataFrame | None, place: int) -> Targets:
    charts = []
    if surveys is not None:
        charts = [
            judge_charts.survey_chart(surveys, tails.metric, tails.unit, f"survey{place}"),
            judge_charts.months_chart(surveys, tails.metric, tails.unit, f"months{place}"),
        ]
    months = table(
        ("month", "surveys>", "mean>", "median>", "p10>", "p1>", "minimum>", "a job loses>"),
        (
            row(
                f"{end.from_:%Y-%m}",
                str(end.surveys),
                *(
                    format_value(value, tails.unit)
                    for value in (end.mean, end.median, end.p10, end.p1, end.minimum)
                ),
                format_percent(end.stripe_loss),
            )
            for end in tails.by_month
        ),
        "p10 and p1: the slowest tenth and hundredth of all figures. The last column is what a job "
        "striped over all targets loses to the slowest of them.",
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
    title = f"{text.metric_title(tails.metric)} of single targets"
    return Targets(title, text.sentence(tails.reason), drawn(charts), months, slow)
