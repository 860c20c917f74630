"""``trimtab compare``: two systems, two dates, two settings."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import (
    change_interval_text,
    change_text,
    moment,
    percent_text,
    print_indented,
)
from trimtab.model.compare import Basis, Change
from trimtab.report.answers import size_of
from trimtab.report.text import levels_text, metric_text
from trimtab.units import format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from trimtab.model.compare import CompareResult, Effect, SeriesComparison, Side


@click.command("compare", cls=options.GroupedCommand)
@click.argument("names", metavar="A B", nargs=-1)
@options.extent_options
@options.as_json
@options.store
@click.option("--site", metavar="SITE", help="Site of a side that is a time range or a setting.")
@click.option("--metric", metavar="METRIC", help="Only this metric. Default: all that both have.")
@click.option("--probe", metavar="NAME", help="Only this probe. Default: all that both have.")
@click.option(
    "--margin",
    type=options.FRACTION,
    default="5%",
    show_default=True,
    help="Ignore differences smaller than this.",
)
@click.option(
    "--wash-out",
    "wash_out_s",
    type=options.DURATION,
    default="0s",
    show_default=True,
    help="Time to leave out at the start of the later side.",
)
@click.option(
    "--targets",
    nargs=2,
    type=options.COUNT,
    metavar="A B",
    help="How many targets either side had, and what that alone may make of a rate. Taken out "
    "where --target-rate shows that the targets limit.",
)
@click.option(
    "--files",
    type=options.COUNT,
    help="Files of the whole job, with --targets. Default: one per task, or one shared file.",
)
@click.option(
    "--target-rate",
    "target_bytes_per_s",
    type=options.LARGE_RATE,
    help="Rate of one target alone: 15GB/s. Below it, targets do not limit the job.",
)
@click.option(
    "--autocorrelation",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Autocorrelation of neighbouring runs, for published results.",
)
def command(names: tuple[str, ...], store_url: str | None, **sides: Any) -> None:
    """Estimate how much B differs from A, for each metric of each series that both have.

    A and B are each a SITE, a stretch of its time (SITE@2026-10-01..2026-11-01, which excludes the
    last date; SITE@2026-11-01, that day; or @2026-10-01.. with --site), a setting
    (SITE:nodes=4,tasks=64), a run's id or several joined by commas, result files of a tool, or a
    published result: '673320±31779/240 MB/s' (mean, deviation, number of runs), or a TOML file of
    those.

    Result files of either side are joined by commas (fio-1.json,fio-2.json), or lie in a directory
    each: trimtab compare before/*.json after/*.json.
    """
    from trimtab.errors import UsageError
    from trimtab.judge.compare import CompareTerms
    from trimtab.loop.comparing.compare import Request, compare_sides
    from trimtab.loop.comparing.files import sides_of

    margin, wash_out_s = sides.pop("margin"), sides.pop("wash_out_s")
    if not 0 < margin < 1:
        problem = "--margin must be greater than 0 and less than 100%"
        raise UsageError(problem, code="margin-out-of-range")
    terms = CompareTerms(margin=margin, wash_out_s=wash_out_s)
    before, after = sides_of(names)
    request = Request(before, after, store_url=store_url, terms=terms, **sides)
    result = compare_sides(request)
    show(lambda: result, lambda: print_compare(result))


_WORDS = {
    Change.BETTER: ("better", "green"),
    Change.WORSE: ("worse", "bold red"),
    Change.NO_DIFFERENCE: ("no difference", "green"),
    Change.CANNOT_TELL: ("cannot tell", "yellow"),
}


def print_compare(result: CompareResult) -> None:
    """Print by how much the second side differs, the metric that differs most first."""
    print_screen(_answer(result), partial(_print_sides, result))


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
        f"{_WORDS[effect.change][0]} {name} {change_text(effect.ratio)}".rstrip()
        for name, effect in effects
        if effect.change in (Change.WORSE, Change.BETTER)
    ]
    more = len(parts) - _NAMED
    parts[_NAMED:] = [f"{more} more differ"] if more > 0 else []
    if not parts and effects and effects[0][1].change is Change.CANNOT_TELL:
        name, effect = effects[0]
        parts.append(f"cannot tell: {name} {change_text(effect.ratio)}, {effect.reason}")
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
    """Return a metric of a series in words, with what sets the series apart from the others."""
    apart = _apart(series, compared)
    return f"{series.probe} {metric_text(metric)}" + (f" ({apart})" if apart else "")


def _apart(series: SeriesComparison, compared: Sequence[SeriesComparison]) -> str:
    alike = [other.asked for other in compared if other.probe == series.probe]
    return visible(
        levels_text(
            {
                name: value
                for name, value in series.asked.items()
                if any(other.get(name) != value for other in alike)
            }
        )
    )


def _rank(effect: Effect) -> tuple[int, float]:
    """Return where a metric is listed: worse first, then by the size of the difference."""
    return _ORDER.index(effect.change), -size_of(effect.ratio)


_ORDER = (Change.WORSE, Change.BETTER, Change.CANNOT_TELL, Change.NO_DIFFERENCE)
_NAMED = 3


def _print_sides(result: CompareResult, out: Console) -> None:
    print_wrapped(out, f"A  {_side_text(result.before)}", hang=3)
    print_wrapped(out, f"B  {_side_text(result.after)}", hang=3)
    titles = set[str]()
    for series in sorted(result.series, key=lambda series: min(map(_rank, series.effects))):
        out.print()
        titles |= _print_series(out, series, result.series)
    out.print()
    if "detectable" in titles:
        print_wrapped(out, "detectable: the smallest difference that so many runs can show", "dim")
    for line in _lines(result.series):
        print_wrapped(out, line, "dim")
    for name, alone in (("A", result.only_before), ("B", result.only_after)):
        for name_alone in alone:
            out.print(f"only {name} has  {visible(name_alone)}", style="dim")
    for note in result.notes:
        out.print(f"note  {visible(note)}", style="dim")


def _side_text(text: str) -> str:
    names = text.split(",")
    return text if len(names) <= _NAMED else f"{names[0]} to {names[-1]}, {len(names)} in all"


def _print_series(
    out: Console, series: SeriesComparison, compared: Sequence[SeriesComparison]
) -> frozenset[str]:
    """Print a series, and return the titles of its columns."""
    apart = _apart(series, compared)
    out.print(_title(series) + (f", {apart}" if apart else ""), style="bold")
    for difference in series.differences:
        before, after = (_plain(value) for value in (difference.before, difference.after))
        print_indented(out, f"{visible(difference.name)}: {before} against {after}")
    effects = sorted(series.effects, key=_rank)
    return print_rows(out, _COLUMNS, [_row(effect) for effect in effects])


_COLUMNS = (
    Column("metric"),
    Column("A", right=True, drop=1),
    Column("B", right=True, drop=1),
    Column("B over A", right=True),
    Column("interval", right=True),
    Column("detectable", right=True, drop=3),
    Column("COV A | B", right=True, drop=4),
    Column("n A | B", right=True, drop=2),
    Column("answer"),
)


def _title(series: SeriesComparison) -> str:
    probe = visible(series.probe)
    if series.probe_after != series.probe:
        probe = f"{probe} against {visible(series.probe_after)}"
    layer = "" if series.layer is None else f", layer {series.layer}"
    return f"{probe} ({visible(series.kind)}){layer}"


def _row(effect: Effect) -> tuple[str | Text, ...]:
    from rich.text import Text

    word, style = _WORDS[effect.change]
    return (
        effect.metric or "-",
        format_value(effect.before.middle, effect.unit),
        format_value(effect.after.middle, effect.unit),
        change_text(effect.ratio) or "-",
        change_interval_text(effect.ratio_interval) or "-",
        percent_text(effect.detectable),
        f"{percent_text(effect.before.cov)} | {percent_text(effect.after.cov)}",
        f"{effect.before.n} | {effect.after.n}",
        Text(word + (" *" if _is_provisional(effect) else ""), style=style, no_wrap=True),
    )


def _is_provisional(effect: Effect) -> bool:
    """Return whether runs are not known to cover a week on either side."""
    return effect.basis is Basis.RUNS and effect.provisional is not False


def _lines(compared: Sequence[SeriesComparison]) -> list[str]:
    """Return what holds for rows, each line once, with the metrics that it is of."""
    holds: dict[str, list[str]] = {}
    count = 0
    for series in compared:
        for effect in series.effects:
            count += 1
            for text in _texts(effect):
                name = _name(series, effect.metric or effect.unit, compared)
                holds.setdefault(text, []).append(name)
    return [
        f"{text}." if len(names) == count else f"{', '.join(names)}: {text}."
        for text, names in holds.items()
    ]


def _texts(effect: Effect) -> Iterator[str]:
    if _is_provisional(effect):
        yield "* provisional: a side is not known to have lasted a week"
    if effect.change is Change.CANNOT_TELL:
        yield effect.reason
    if effect.taken_out is not None:
        yield effect.taken_out.reason
        if (remaining := effect.taken_out.remaining) is not None:
            interval = change_interval_text(effect.taken_out.remaining_interval)
            text = f"were it so, {change_text(remaining)} would be left beside it"
            yield f"{text} ({interval})" if interval else text
    if effect.ratio != effect.ratio_measured and effect.ratio_measured is not None:
        yield f"as measured {change_text(effect.ratio_measured)}"
    yield effect.method
    for label, side in (("A", effect.before), ("B", effect.after)):
        if (about := _of_side(side)) is not None:
            yield f"{label}: {about}"
    if effect.weighted is not None:
        yield effect.weighted


def _of_side(side: Side) -> str | None:
    parts = []
    if side.from_ is not None:
        parts.append(f"{moment(side.from_)} to {moment(side.to)}")
    if side.n_effective is not None and side.n_effective < 0.9 * side.n:
        parts.append(f"counts as {side.n_effective:.0f} independent runs")
    if side.unfinished:
        parts.append(f"{side.unfinished} unfinished, counted as 0")
    if side.washed_out:
        parts.append(f"{side.washed_out} left out after the change")
    return ", ".join(parts) or None


def _plain(value: object) -> str:
    return "not set" if value is None else visible(str(value))
