"""``trimtab judge``: what months of runs say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.output import show
from trimtab.cli.render.text import (
    change_interval_text,
    change_text,
    console,
    moment,
    percent_text,
    table,
    verdict_word,
)
from trimtab.errors import UsageError
from trimtab.model.series import ChangeStatus
from trimtab.model.verdict import VerdictStatus
from trimtab.units import format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from trimtab.model.series import (
        ChangePoint,
        Dispersion,
        SeriesJudgement,
        SiteJudgement,
        SlowEnd,
        TargetTails,
    )
    from trimtab.model.verdict import Interval


@click.command("judge")
@click.argument("where", metavar="[SITE]", required=False)
@click.option(
    "--csv",
    "file",
    metavar="FILE",
    help="Read a table instead of a store: CSV or Parquet; - is standard input.",
)
@click.option("--time", metavar="COL", help="With --csv: column of times. Default: detected.")
@click.option("--value", metavar="COL", help="With --csv: column of values. Default: detected.")
@click.option("--by", metavar="COL", help="With --csv: column that names the series.")
@click.option(
    "--less-is-better",
    is_flag=True,
    help="With --csv: lower values are better, as for times and latencies.",
)
@click.option(
    "--timezone", metavar="ZONE", help="With --csv: zone of times without one. Default: UTC."
)
@options.since("Report only from this time. Default: start of the record.")
@options.until
@options.series
@options.cov_goal
@options.window
@options.report
@options.fail_on
@options.as_json
@options.store
def command(where: str | None, file: str | None, **settings: Any) -> None:
    """Analyse months of runs: verdicts, change points, daily figures and slow targets.

    For a SITE, every kept series is judged. With --csv, judge any time series: one column of
    times, one of values.
    """
    if (where is None) == (file is None):
        raise UsageError(
            "name a SITE or a --csv FILE to judge",
            code="series-missing",
            hint="trimtab judge SITE, or trimtab judge --csv FILE",
        )
    report, fail_on = settings.pop("report"), settings.pop("fail_on")
    judged = _of_file(file, settings) if file is not None else _of_site(str(where), settings)
    _answer(judged, report)
    missed = any(series.verdict.status.value == "missed" for series in judged.judgement.series)
    if missed and fail_on:
        raise click.exceptions.Exit(10)


def _of_site(where: str, settings: dict[str, Any]) -> Any:
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.site_judgement import Terms, judge_site

    for name in ("time", "value", "by", "timezone", "less_is_better"):
        if settings.pop(name):
            problem, hint = f"--{name.replace('_', '-')} is of --csv", "a site's store knows it"
            raise UsageError(problem, code="option-needs-csv", hint=hint)
    store_url, goal = settings.pop("store_url"), settings.pop("cov_goal")
    with opened(where, store_url) as record, progress_bar() as progress:
        terms = Terms(**settings, goal=goal)
        return judge_site(record.store, record.place, terms, progress=progress)


def _of_file(file: str, settings: dict[str, Any]) -> Any:
    from trimtab.loop.series_file import Columns, FileTerms, judge_file

    if any(settings.pop(name) is not None for name in ("probe", "metric", "store_url")):
        problem = "--probe, --metric and --store are of a site, not of a file"
        raise UsageError(problem, code="option-needs-site")
    columns = Columns(*(settings.pop(name) for name in ("time", "value", "by")))
    limits = {"goal": settings.pop("cov_goal"), "window_s": settings.pop("window_s")}
    settings["timezone"] = settings["timezone"] or "UTC"
    return judge_file(file, FileTerms(columns=columns, **settings), **limits)


def _answer(judged: Any, report: str | None) -> None:
    from trimtab.report import documents

    written = None
    if report is not None:
        from trimtab.report.judge import write_judge_report

        written = write_judge_report(report, judged.judgement, judged.frames, judged.surveys)
    show(
        lambda: documents.judged.JudgeDocument(
            judged.judgement, judged.store, judged.file, written
        ),
        lambda: print_judgement(judged.judgement, written),
    )


_SHOWN = 12
"""Changes, stragglers and invalid runs that are printed; the JSON has all of them."""


def print_judgement(judgement: SiteJudgement, report: str | None = None) -> None:
    """Print what is said of a site, or of a file's series, and where its page is."""
    out = console()
    stretch = f"{moment(judgement.from_)} to {moment(judgement.to)}"
    out.print(f"{visible(judgement.site)}, {stretch}", style="bold")
    for note in judgement.notes:
        out.print(f"note  {visible(note)}", style="dim", soft_wrap=True)
    for series in judgement.series:
        out.print()
        _print_series(out, series)
    for tails in judgement.tails:
        out.print()
        _print_tails(out, tails)
    if report is not None:
        click.echo(f"report    {report}")


def _print_series(out: Console, series_judgement: SeriesJudgement) -> None:
    from rich.text import Text

    out.print(Text(series_name(series_judgement), style="bold"), soft_wrap=True)
    verdict = Text("  ").append_text(verdict_word(series_judgement.verdict.status))
    out.print(verdict.append(f"  {series_judgement.verdict.reason}"), soft_wrap=True)
    for line in _lines(series_judgement):
        out.print(f"  {visible(line)}", soft_wrap=True)
    for change in series_judgement.changes[-_SHOWN:]:
        out.print(Text("  ").append_text(_change(change, series_judgement)), soft_wrap=True)
    if (more := len(series_judgement.changes) - _SHOWN) > 0:
        out.print(f"  {more} earlier changes: --json", style="dim")


def series_name(series_judgement: SeriesJudgement) -> str:
    """Return the series as people tell it from others."""
    key = series_judgement.key
    kind = "" if key.kind == "file" else f" ({key.kind})"
    apart = ", ".join(f"{name} {value}" for name, value in series_judgement.asked.items())
    return f"{visible(key.metric)} of {visible(key.probe)}{kind}" + (
        f", {visible(apart)}" if apart else ""
    )


def _lines(series_judgement: SeriesJudgement) -> Iterator[str]:
    yield f"{_runs(series_judgement)}; {series_judgement.overall.reason}"
    yield f"the last window  {_spread(series_judgement.dispersion)}"
    yield f"all of it        {_spread(series_judgement.overall)}"
    over = sum(at.status is VerdictStatus.MISSED for at in series_judgement.rolling)
    if series_judgement.rolling:
        judged = sum(at.status is not VerdictStatus.CANNOT_TELL for at in series_judgement.rolling)
        yield (
            f"windows          {over:,} of {len(series_judgement.rolling):,} miss the goal, "
            f"{judged:,} can be judged"
        )
    yield f"trend            {series_judgement.trend.reason}"
    if series_judgement.invalid:
        first = series_judgement.invalid[0]
        runs = plural(len(series_judgement.invalid), "run", ",")
        yield f"not judged       {runs}; {first.run}: {first.reason}"
    if not series_judgement.changes:
        yield "changes          none found"


def _runs(series_judgement: SeriesJudgement) -> str:
    text = plural(series_judgement.overall.n, "run", ",")
    if series_judgement.overall.unfinished:
        text += f", {series_judgement.overall.unfinished:,} unfinished"
    if series_judgement.missing:
        due = series_judgement.expected
        text += f", {series_judgement.missing} of {due} that were due are missing"
    mean, unit = series_judgement.verdict.mean, series_judgement.key.unit
    return text if mean is None else f"{text}, mean now {format_value(mean, unit)}"


def _spread(dispersion: Dispersion) -> str:
    parts = [f"COV {percent_text(dispersion.cov)}{_interval(dispersion.cov_interval)}"]
    if dispersion.unfinished:
        parts.append(f"finished {percent_text(dispersion.cov_finished)}")
    parts.append(f"finished within levels {percent_text(dispersion.cov_within_regimes)}")
    parts.append(f"MAD-CV {percent_text(dispersion.mad_cv)}")
    parts.append(f"quartile dispersion {percent_text(dispersion.quartile_dispersion)}")
    return ", ".join(parts)


def _change(change: ChangePoint, series_judgement: SeriesJudgement) -> Text:
    from rich.text import Text

    worse = change.effect is not None and (change.effect < 1) == series_judgement.key.more_is_better
    style = ("red" if worse else "green") if change.status is ChangeStatus.CONFIRMED else "yellow"
    unit_change = change.of_unit
    word = change.status.value if unit_change is None else "unit?"
    text = Text(f"{word:<9}", style=style if unit_change is None else "yellow")
    levels = ""
    if change.before is not None and change.after is not None:
        unit = series_judgement.key.unit
        levels = f" ({format_value(change.before, unit)} to {format_value(change.after, unit)})"
    effect = "" if change.effect is None else f" {change_text(change.effect)}"
    interval = change_interval_text(change.effect_interval)
    if unit_change is not None:
        effect, interval = f" {unit_change}", None
    return text.append(
        f"  since {moment(change.at)}{effect}{f' ({interval})' if interval else ''}{levels}; "
        f"detected {moment(change.detected_at)}"
    )


def _print_tails(out: Console, tails: TargetTails) -> None:

    out.print(f"{tails.metric} of single targets", style="bold")
    out.print(f"  {visible(tails.reason)}", soft_wrap=True)
    ends = [*tails.by_month, *([tails.overall] if tails.overall is not None else [])]
    if ends:
        numbers = ("surveys>", "mean>", "median>", "p10>", "p1>", "minimum>", "loses>")
        made = table("stretch", *numbers)
        for end in ends:
            made.add_row(*_end_row(end, tails.unit, whole=end is tails.overall))
        out.print(made)
        out.print("  loses: what a job striped over all of them loses to the slowest", style="dim")
    for straggler in tails.stragglers[:_SHOWN]:
        server = "" if straggler.server is None else f" on {straggler.server}"
        out.print(
            f"  slow again and again: {visible(straggler.target + server)}, at "
            f"{format_percent(straggler.relative)} of the others, "
            f"among the slowest in {straggler.slow} of "
            f"{straggler.surveys} surveys (q {straggler.q_value:.2g})",
            soft_wrap=True,
        )
    if len(tails.stragglers) > _SHOWN:
        out.print(f"  {len(tails.stragglers) - _SHOWN} more: --json", style="dim")


def _end_row(end: SlowEnd, unit: str, *, whole: bool) -> Sequence[str]:
    figures = (end.mean, end.median, end.p10, end.p1, end.minimum)
    name = "all" if whole else f"{end.from_:%Y-%m}"
    values = [format_value(value, unit) for value in figures]
    return (name, str(end.surveys), *values, format_percent(end.stripe_loss))


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f" ({format_percent(interval.low)} to {format_percent(interval.high)})"
