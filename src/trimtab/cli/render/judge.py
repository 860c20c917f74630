"""What months of runs say, as text: the answer, a row for each series, and each in full."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.cli.options import extent
from trimtab.cli.render.screen import ROWS, Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import (
    change_interval_text,
    change_text,
    moment,
    percent_text,
    value_text,
    verdict_word,
)
from trimtab.explain.troubles import slow_trouble
from trimtab.message import code_of
from trimtab.model.series import DIRECTION, RUNS_LEFT_OUT, ChangeStatus
from trimtab.model.verdict import VerdictStatus
from trimtab.report.answers import effect_text, is_worse, series_label
from trimtab.report.headline import (
    headline,
    level_now,
    of_judgement,
    onset_text,
    series_rank,
)
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
    from trimtab.model.standing import SiteStanding
    from trimtab.model.verdict import Interval

_SHOWN: Final = 12
"""Changes and stragglers of one series that are printed."""
_IN_FULL: Final = 1
"""So many series are shown in full without ``--all``."""
_NOTES: Final = 3


def print_judgement(
    judgement: SiteJudgement, report: str | None = None, standing: SiteStanding | None = None
) -> None:
    """Print what is said of a site, or of a file's series, and where its page is.

    Parameters
    ----------
    standing
        How the site stands; ``None``: nothing but the judgement is known.
    """
    standing = standing or of_judgement(judgement)
    more = []
    if len(judgement.series) > _IN_FULL and not extent().everything:
        more.append("--all shows each series in full, --probe and --metric one of them")
    if report is not None:
        more.append(f"report: {report}")
    more += [note for note in judgement.notes if code_of(note) == RUNS_LEFT_OUT]
    print_screen(headline(standing), partial(_print_body, judgement, standing), more=more)


def _print_body(judgement: SiteJudgement, standing: SiteStanding, out: Console) -> None:
    requested = extent()
    place = visible(judgement.site)
    stretch = f"{place}, {moment(judgement.from_)} to {moment(judgement.to)}"
    print_wrapped(out, stretch, "dim")
    ranked = sorted(judgement.series, key=series_rank)
    rows = requested.rows(ROWS)
    print_rows(out, _COLUMNS, [_series_row(series) for series in ranked[:rows]])
    if (hidden := len(ranked) - rows) > 0:
        out.print(f"... {hidden:,} more series: --all", style="dim")
    if ranked:
        print_wrapped(out, _LEGEND, "dim")
    notes = [note for note in judgement.notes if code_of(note) != RUNS_LEFT_OUT]
    for note in notes if requested.everything else notes[:_NOTES]:
        print_wrapped(out, f"note: {note}", "dim")
    whole = requested.everything or len(ranked) <= _IN_FULL
    for series in ranked if whole else ():
        out.print()
        _print_series(out, series)
    for tails in judgement.tails:
        if requested.everything:
            out.print()
            _print_tails(out, tails)
        else:
            _print_tails_shortly(out, tails)
    for slow in standing.slow:
        text = f"{slow.target}: {slow_trouble(slow).text}"
        print_wrapped(out, text, "yellow")


_COLUMNS: Final = (
    Column("series", wraps=True),
    Column("runs", right=True, drop=4),
    Column("level", right=True, drop=1),
    Column("change", right=True),
    Column("since"),
    Column("COV", right=True),
    Column("95 % interval", right=True, drop=3),
    Column("goal"),
)
_LEGEND: Final = (
    "change: the level now against the last better one (or, if none was, the last worse one); COV: "
    "standard deviation over mean in the last window, with its 95 % interval"
)


def _series_row(series_judgement: SeriesJudgement) -> tuple[str | Text, ...]:
    from rich.text import Text

    verdict, level = series_judgement.verdict, level_now(series_judgement)
    if level is None:
        last = series_judgement.changes[-1] if series_judgement.changes else None
        suspected = last is not None and last.status is ChangeStatus.SUSPECT
        effect = Text("suspected", style="yellow") if suspected else "-"
        since = f"{last.at:%Y-%m-%d}" if last is not None and suspected else "-"
    else:
        style = "red" if is_worse(level.from_last, series_judgement.key) else "green"
        effect = Text(effect_text(level.from_last), style=style)
        since = onset_text(level.since, level.between).removeprefix("since ")
    return (
        series_label(series_judgement),
        f"{series_judgement.overall.n:,}",
        value_text(verdict.mean, series_judgement.key.unit),
        effect,
        since,
        percent_text(verdict.cov),
        _interval(verdict.cov_interval).strip(" ()") or "-",
        verdict_word(verdict.status),
    )


def _print_series(out: Console, series_judgement: SeriesJudgement) -> None:
    from rich.text import Text

    print_wrapped(out, series_name(series_judgement), "bold")
    verdict = Text().append_text(verdict_word(series_judgement.verdict.status))
    print_wrapped(out, verdict.append(f"  {series_judgement.verdict.reason}"), indent=2)
    for line in _lines(series_judgement):
        print_wrapped(out, line, indent=2, hang=_NAME_WIDTH)
    changes = series_judgement.changes
    shown = changes if extent().everything else changes[-_SHOWN:]
    for change in shown:
        print_wrapped(out, _change(change, series_judgement), indent=2, hang=11)
    if (more := len(changes) - len(shown)) > 0:
        out.print(f"  {more} earlier changes: --all", style="dim")


_NAME_WIDTH: Final = 17
"""Of the names before the facts of a series."""


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
        yield f"changes          {series_judgement.untested or 'none found'}"


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

    style = (
        ("red" if is_worse(change.effect, series_judgement.key) else "green")
        if change.status is ChangeStatus.CONFIRMED
        else "yellow"
    )
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
    since = f"since {moment(change.at)}"
    if change.between is not None:
        since = f"between {moment(change.between[0])} and {moment(change.between[1])}"
    if code_of(change.reason) == DIRECTION:
        effect = " direction not known"
    return text.append(
        f"  {since}{effect}{f' ({interval})' if interval else ''}{levels}; "
        f"detected {moment(change.detected_at)}"
    )


def _print_tails(out: Console, tails: TargetTails) -> None:
    out.print(f"{tails.metric} of single targets", style="bold")
    print_wrapped(out, tails.reason, indent=2)
    ends = [*tails.by_month, *([tails.overall] if tails.overall is not None else [])]
    if ends:
        rows = [_end_row(end, tails.unit, whole=end is tails.overall) for end in ends]
        print_rows(out, _END_COLUMNS, rows, indent=2)
        legend = (
            "p10, p1: the slowest tenth and hundredth; loses: what a job striped over all loses"
        )
        print_wrapped(out, f"{legend} to the slowest", "dim", indent=2)
    for line in _straggler_lines(tails):
        print_wrapped(out, line, indent=2)


def _print_tails_shortly(out: Console, tails: TargetTails) -> None:
    """Print single targets in a line, and those that are slow again and again."""
    loss = (
        ""
        if tails.overall is None
        else f"; a job striped over all loses {format_percent(tails.overall.stripe_loss)}"
    )
    print_wrapped(out, f"{tails.metric} of single targets: {tails.reason}{loss}")
    for line in _straggler_lines(tails):
        print_wrapped(out, line, "yellow", indent=2)


_END_COLUMNS: Final = (
    Column("stretch"),
    Column("surveys", right=True, drop=3),
    Column("mean", right=True),
    Column("median", right=True, drop=2),
    Column("p10", right=True, drop=1),
    Column("p1", right=True, drop=4),
    Column("minimum", right=True),
    Column("loses", right=True),
)


def _straggler_lines(tails: TargetTails) -> Iterator[str]:
    shown = tails.stragglers[: extent().rows(_SHOWN)]
    for straggler in shown:
        server = "" if straggler.server is None else f" on {straggler.server}"
        yield (
            f"{straggler.target}{server}: now at {format_percent(straggler.relative)} of the "
            "others, "
            f"among the slowest in {straggler.slow} of {straggler.surveys} surveys "
            f"(q {straggler.q_value:.2g})"
        )
    if len(tails.stragglers) > len(shown):
        yield f"{len(tails.stragglers) - len(shown):,} more: --all"
    if shown:
        yield "q: expected share of false alarms among targets listed as slow"


def _end_row(end: SlowEnd, unit: str, *, whole: bool) -> Sequence[str]:
    figures = (end.mean, end.median, end.p10, end.p1, end.minimum)
    name = "all" if whole else f"{end.from_:%Y-%m}"
    values = [format_value(value, unit) for value in figures]
    return (name, str(end.surveys), *values, format_percent(end.stripe_loss))


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f" ({format_percent(interval.low)} to {format_percent(interval.high)})"
