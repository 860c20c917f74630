"""What months of runs say, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from trimtab.cli.render.text import console, moment
from trimtab.cli.render.verdict import verdict_word
from trimtab.model.series import (
    ChangePoint,
    ChangeStatus,
    Dispersion,
    SeriesJudgement,
    SiteJudgement,
    SlowEnd,
    TargetTails,
)
from trimtab.model.verdict import Interval, VerdictStatus
from trimtab.units import format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

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


def _print_series(out: Console, one: SeriesJudgement) -> None:
    from rich.text import Text

    out.print(Text(series_name(one), style="bold"), soft_wrap=True)
    verdict = Text("  ").append_text(verdict_word(one.verdict.status))
    out.print(verdict.append(f"  {one.verdict.reason}"), soft_wrap=True)
    for line in _lines(one):
        out.print(f"  {visible(line)}", soft_wrap=True)
    for change in one.changes[-_SHOWN:]:
        out.print(Text("  ").append_text(_change(change, one)), soft_wrap=True)
    if len(one.changes) > _SHOWN:
        out.print(f"  {len(one.changes) - _SHOWN} earlier changes: --json", style="dim")


def series_name(one: SeriesJudgement) -> str:
    """Return the series as people tell it from others."""
    key = one.key
    kind = "" if key.kind == "file" else f" ({key.kind})"
    apart = ", ".join(f"{name} {value}" for name, value in one.asked.items())
    return f"{visible(key.metric)} of {visible(key.probe)}{kind}" + (
        f", {visible(apart)}" if apart else ""
    )


def _lines(one: SeriesJudgement) -> Iterator[str]:
    yield f"{_runs(one)}; {one.overall.reason}"
    yield f"the last window  {_spread(one.dispersion)}"
    yield f"all of it        {_spread(one.overall)}"
    over = sum(at.status is VerdictStatus.MISSED for at in one.rolling)
    if one.rolling:
        judged = sum(at.status is not VerdictStatus.CANNOT_TELL for at in one.rolling)
        yield (
            f"windows          {over:,} of {len(one.rolling):,} miss the goal, "
            f"{judged:,} can be judged"
        )
    yield f"trend            {one.trend.reason}"
    if one.invalid:
        first = one.invalid[0]
        runs = plural(len(one.invalid), "run", ",")
        yield f"not judged       {runs}; {first.run}: {first.reason}"
    if not one.changes:
        yield "changes          none found"


def _runs(one: SeriesJudgement) -> str:
    text = plural(one.overall.n, "run", ",")
    if one.overall.unfinished:
        text += f", {one.overall.unfinished:,} unfinished"
    if one.missing:
        text += f", {one.missing} of {one.expected} that were due are missing"
    mean = one.verdict.mean
    return text if mean is None else f"{text}, mean now {format_value(mean, one.key.unit)}"


def _spread(one: Dispersion) -> str:
    parts = [f"COV {_percent(one.cov)}{_interval(one.cov_interval)}"]
    if one.unfinished:
        parts.append(f"finished {_percent(one.cov_finished)}")
    for name, value in (
        ("finished within levels", one.cov_within_regimes),
        ("MAD-CV", one.mad_cv),
        ("quartile dispersion", one.quartile_dispersion),
    ):
        parts.append(f"{name} {_percent(value)}")
    return ", ".join(parts)


def _change(change: ChangePoint, one: SeriesJudgement) -> Text:
    from rich.text import Text

    worse = change.effect is not None and (change.effect < 1) == one.key.more_is_better
    style = ("red" if worse else "green") if change.status is ChangeStatus.CONFIRMED else "yellow"
    text = Text(f"{change.status.value:<9}", style=style)
    levels = ""
    if change.before is not None and change.after is not None:
        before, after = (format_value(v, one.key.unit) for v in (change.before, change.after))
        levels = f" ({before} to {after})"
    effect = "" if change.effect is None else f" {100 * (change.effect - 1):+.1f} %"
    return text.append(
        f"  since {moment(change.at)}{effect}{_ratio(change.effect_interval)}{levels}; "
        f"told {moment(change.detected_at)}"
    )


def _ratio(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f" ({100 * (interval.low - 1):+.1f} to {100 * (interval.high - 1):+.1f} %)"


def _print_tails(out: Console, tails: TargetTails) -> None:
    from rich.table import Table

    out.print(f"{tails.metric} of single targets", style="bold")
    out.print(f"  {visible(tails.reason)}", soft_wrap=True)
    ends = [*tails.by_month, *([tails.overall] if tails.overall is not None else [])]
    if ends:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("stretch", "surveys", "mean", "median", "p10", "p1", "minimum", "loses"):
            table.add_column(name, justify="left" if name == "stretch" else "right")
        for end in ends:
            table.add_row(*_end_row(end, tails.unit, whole=end is tails.overall))
        out.print(table)
        out.print("  loses: what a job striped over all of them loses to the slowest", style="dim")
    for one in tails.stragglers[:_SHOWN]:
        server = "" if one.server is None else f" on {one.server}"
        out.print(
            f"  slow again and again: {visible(one.target + server)}, at "
            f"{format_percent(one.relative)} of the others, among the slowest in {one.slow} of "
            f"{one.surveys} surveys (q {one.q_value:.2g})",
            soft_wrap=True,
        )
    if len(tails.stragglers) > _SHOWN:
        out.print(f"  {len(tails.stragglers) - _SHOWN} more: --json", style="dim")


def _end_row(end: SlowEnd, unit: str, *, whole: bool) -> Sequence[str]:
    figures = (end.mean, end.median, end.p10, end.p1, end.minimum)
    name = "all" if whole else f"{end.from_:%Y-%m}"
    values = [format_value(value, unit) for value in figures]
    return (name, str(end.surveys), *values, format_percent(end.stripe_loss))


def _percent(value: float | None) -> str:
    return "-" if value is None else format_percent(value)


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f" ({format_percent(interval.low)} to {format_percent(interval.high)})"
