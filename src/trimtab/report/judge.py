"""The page of ``trimtab judge``: verdicts, changes and charts of every series, in one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from trimtab.report.chart import Chart
from trimtab.report.render import drawn, environment
from trimtab.report.write import write_report
from trimtab.units import format_percent, format_value

if TYPE_CHECKING:
    import polars as pl

DRAWN: Final = 12
"""Series with charts: those with most runs. The tables hold all of them."""
_CHANGES_DRAWN: Final = 4
WORDS: Final = {
    VerdictStatus.MET: "met",
    VerdictStatus.MISSED: "missed",
    VerdictStatus.CANNOT_TELL: "cannot tell",
}


@dataclass(frozen=True, slots=True)
class Section:
    """One series on the page, with its drawings."""

    title: str
    series: SeriesJudgement
    figures: tuple[tuple[Chart, Any], ...]


def write_judge_report(
    path: str,
    judgement: SiteJudgement,
    frames: Mapping[SeriesKey, pl.DataFrame],
    surveys: pl.DataFrame | None,
) -> str:
    """Write the page and return its path; see `trimtab.report.write.write_report` for errors."""
    target = Path(path)
    write_report(target, render_judgement(judgement, frames, surveys))
    return str(target)


def render_judgement(
    judgement: SiteJudgement,
    frames: Mapping[SeriesKey, pl.DataFrame],
    surveys: pl.DataFrame | None = None,
) -> str:
    """Return a self-contained HTML page: no network, no script, equal for equals."""
    sections = [
        Section(_title(series), series, drawn(_charts(series, frames, place)))
        for place, series in enumerate(judgement.series)
    ]
    tails = [
        (tail, drawn(_tail_charts(tail, surveys, place)))
        for place, tail in enumerate(judgement.tails)
    ]
    return (
        environment()
        .get_template("judge.html.j2")
        .render(
            judgement=judgement,
            sections=sections,
            tails=tails,
            words=WORDS,
            text=text,
            value=format_value,
            percent=format_percent,
            effect=_effect,
        )
    )


def _title(series: SeriesJudgement) -> str:
    key = series.key
    kind = "" if key.kind == "file" else f" ({key.kind})"
    parameters = [f"{name} {value}" for name, value in series.asked.items()]
    return ", ".join([f"{text.metric_title(key.metric)} of {key.probe}{kind}", *parameters])


def _charts(
    series: SeriesJudgement, frames: Mapping[SeriesKey, pl.DataFrame], place: int
) -> Iterator[Chart | None]:
    if place >= DRAWN:
        return
    yield judge_charts.daily_chart(series, f"series{place}")
    yield judge_charts.cov_chart(series, f"series{place}")
    frame = frames.get(series.key)
    confirmed = [change for change in series.changes if change.status is ChangeStatus.CONFIRMED]
    for number, change in enumerate(confirmed[-_CHANGES_DRAWN:]):
        if frame is not None:
            name = f"change{place}-{number}"
            yield judge_charts.before_after_chart(frame, change, series, name)


def _tail_charts(
    tails: TargetTails, surveys: pl.DataFrame | None, place: int
) -> Iterator[Chart | None]:
    if surveys is None:
        return
    yield judge_charts.survey_chart(surveys, tails.metric, tails.unit, f"survey{place}")
    yield judge_charts.months_chart(surveys, tails.metric, tails.unit, f"months{place}")


def _effect(change: ChangePoint) -> str:
    if change.effect is None:
        return "not known"
    if (unit := change.of_unit) is not None:
        return unit
    effect = f"{100 * (change.effect - 1):+.1f} %"
    interval = change.effect_interval
    if interval is None:
        return effect
    return f"{effect} ({100 * (interval.low - 1):+.1f} to {100 * (interval.high - 1):+.1f} %)"
