"""The page of the state of sites: troubles with their repair, a row per series, runs. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.judge.level import WORST_GOALS, effect_text
from trimtab.model.finding import Finding
from trimtab.model.status import (
    JudgedStatus,
    ProbeCost,
    RejectedSeries,
    SeriesStatus,
    SlowestTargets,
    Status,
    SweepStatus,
)
from trimtab.model.verdict import VerdictStatus
from trimtab.report.headline import headline, site_troubles, tone_of
from trimtab.report.kit import GOAL_TONES, SEVERITY_TONES, Cell, Row, Table, Tone, row, table
from trimtab.report.runs import runs_table
from trimtab.report.sections import Document, Section
from trimtab.report.text import (
    VERDICT_WORDS,
    levels_text,
    metric_text,
    minute_text,
    range_text,
    sentence,
    site_labels,
)
from trimtab.units import (
    enumerated,
    format_bytes,
    format_duration,
    format_value,
    percent_or_dash,
    plural,
    value_or_dash,
    whole_second,
)
from trimtab.visible import shell_text, site_word

if TYPE_CHECKING:
    from trimtab.model.standing import SiteStanding

_NAMED_MOST: Final = 4
"""Number of series named before a reason they share; further ones are counted."""


def status_document(status: Status, standings: Sequence[SiteStanding], where: str = "") -> Document:
    """Return the state of sites, starting with the worst.

    Parameters
    ----------
    standings
        State of each site.
    where
        The site as the next command takes it; empty: by its name.
    """
    answer = headline(*standings)
    tone: Tone = tone_of(standings[0]) if len(standings) == 1 else "unclear"
    troubles = [trouble for standing in standings for trouble in site_troubles(standing)]
    details: tuple[str, ...] = ()
    if not (status.series or status.last_runs or troubles):
        answer, details = _nothing(status, where)
    window = format_duration(status.window_s)
    return Document(
        kind="status",
        heading=enumerated(site_labels(status.sites).values()) or "no site",
        subtitle=f"COV is the standard deviation over the mean of the {window} up to the last run",
        tone=tone,
        answer=answer,
        details=details,
        sections=tuple(_sections(status, troubles)),
    )


def _nothing(status: Status, where: str) -> tuple[str, tuple[str, ...]]:
    """Return how to look at the stored data of sites without a run."""
    if not status.snapshots:
        advice = "measure a file system: trimtab check PATH"
        return f"Nothing is stored yet in {status.store}.", (advice,)
    first, sites = status.snapshots[0], enumerated((each.site for each in status.snapshots), 1)
    only = f"only a snapshot of the targets at {minute_text(first.at)}"
    shows = tuple(
        f"trimtab targets {where or site_word(each.site)} --at {whole_second(each.at)} shows it"
        for each in status.snapshots
    )
    return f"No run of {sites} is stored, {only}.", shows


def _sections(status: Status, troubles: Sequence[Finding]) -> Iterator[Section]:
    labels = site_labels(status.sites) if len(status.sites) > 1 else {}
    yield Section("Troubles and their repair", tables=(troubles_table(troubles),))
    ranked = sorted(status.series, key=lambda entry: WORST_GOALS.index(entry.verdict.status))
    met = [entry for entry in ranked if entry.verdict.status is VerdictStatus.MET]
    reasons = table(("series", "reason and trend"), (row(*each) for each in _reasons(met)))
    yield Section(
        "Series",
        lines=tuple(_suspects(ranked)),
        tables=(series_table(ranked, labels=labels),),
        notes=tuple(map(": ".join, _reasons(ranked[: len(ranked) - len(met)]))),
        folds=() if reasons is None else (("goal met", reasons),),
    )
    yield Section("Last runs", tables=(runs_table(status.last_runs, labels),))
    yield Section("Runs without a verdict", notes=tuple(map(_rejected, status.rejected)))
    rest = (
        *map(_judged, status.judged),
        *map(_cost, status.costs),
        *map(_sweep, status.sweeps),
        *map(_slowest, status.slowest),
    )
    yield Section("Also", notes=rest)


def troubles_table(troubles: Iterable[Finding]) -> Table | None:
    """Return a row per trouble, with its repair."""
    return table(
        ("trouble", "severity", "what to do"),
        (
            row(
                trouble.title,
                Cell(trouble.severity.value, tone=SEVERITY_TONES[trouble.severity]),
                Cell(trouble.fix.prose, shell_text(trouble.fix.argv)),
            )
            for trouble in troubles
        ),
    )


def series_table(
    series: Iterable[SeriesStatus],
    link: Callable[[SeriesStatus], str] = lambda entry: "",
    labels: Mapping[str, str] | None = None,
) -> Table | None:
    """Return a row per series.

    Parameters
    ----------
    link
        Address of its own page.
    labels
        Site to its display name; ``None`` or empty: all are of one.
    """
    columns = ("series", "runs>?", "last run", "mean>", "COV>", "goal")
    sites = labels or {}
    return table(
        columns, (_series_row(entry, link(entry), sites.get(entry.site, "")) for entry in series)
    )


def _series_row(entry: SeriesStatus, link: str, site: str) -> Row:
    verdict = entry.verdict
    interval = verdict.cov_interval
    apart = ", ".join(filter(None, (site, levels_text(entry.asked))))
    return row(
        Cell(_name(entry), apart, link=link),
        f"{entry.runs:,}",
        Cell(format_value(entry.last_value, verdict.unit), minute_text(entry.last_at)),
        value_or_dash(verdict.mean, verdict.unit),
        Cell(
            percent_or_dash(verdict.cov),
            "" if interval is None else range_text(interval, "1"),
        ),
        Cell(
            VERDICT_WORDS[verdict.status],
            "change suspected" if entry.suspect else "",
            tone=GOAL_TONES[verdict.status],
        ),
    )


def _name(entry: SeriesStatus) -> str:
    return f"{entry.verdict.probe} {metric_text(entry.verdict.metric)}"


def _reasons(series: Iterable[SeriesStatus]) -> Iterator[tuple[str, str]]:
    """Yield each reason once, after the series that share it."""
    holds: dict[str, list[str]] = {}
    for entry in series:
        text = f"{sentence(entry.verdict.reason)} Trend: {sentence(entry.trend.reason)}"
        levels = levels_text(entry.asked)
        holds.setdefault(text, []).append(f"{_name(entry)} {levels}".rstrip())
    for text, names in holds.items():
        many = f"{len(names)} series"
        yield ", ".join(names) if len(names) <= _NAMED_MOST else many, text


def _suspects(series: Iterable[SeriesStatus]) -> Iterator[str]:
    for entry in series:
        change = entry.suspect
        if change is not None:
            effect = "" if change.effect is None else f" by {effect_text(change.effect)}"
            effect = effect if change.of_unit is None else f" ({change.of_unit})"
            yield (
                f"suspect: {_name(entry)} may have changed{effect} since "
                f"{minute_text(change.at)}; not confirmed yet"
            )


def _slowest(entry: SlowestTargets) -> str:
    named = ", ".join(f"{name} {format_value(value, entry.unit)}" for name, value in entry.slowest)
    return (
        f"slowest of {entry.targets} targets by {metric_text(entry.metric)}, "
        f"{minute_text(entry.at)}: {named} (median {format_value(entry.median, entry.unit)})"
    )


def _judged(judged: JudgedStatus) -> str:
    newer = ""
    if judged.newer_runs:
        runs = plural(judged.newer_runs, "run")
        newer = f", {runs} ago: trimtab incidents {site_word(judged.site)} searches again"
    return f"incidents as of {minute_text(judged.at)}{newer}"


def _rejected(rejected: RejectedSeries) -> str:
    return (
        f"{rejected.site}: none of the {plural(rejected.runs, 'run')} of {rejected.probe} "
        f"({rejected.kind}) can be judged: {rejected.reason}"
    )


def _sweep(sweep: SweepStatus) -> str:
    """Return a line about a sweep, and how to show its settings."""
    return (
        f"sweep {sweep.name} of {sweep.site}: {sweep.runs} runs of {sweep.settings} settings "
        "(trimtab sweep SPEC.toml --no-run shows them)"
    )


def _cost(cost: ProbeCost) -> str:
    """Return the cost of probing in one line."""
    days = (cost.to - cost.from_).total_seconds() / 86_400
    runs, written = plural(cost.runs, "run"), format_bytes(cost.bytes_written)
    text = f"probing {cost.site}, {days:.1f} days: {runs}, {written} written"
    if cost.node_hours is not None:
        text += f", {plain(cost.node_hours)} node-hours"
    if cost.drive_writes_per_day is None:
        return f"{text}; drive writes per day not known: {cost.reason or ''}"
    least = "" if cost.reason is None else f"at least ({cost.reason}) "
    return f"{text}, {least}{plain(cost.drive_writes_per_day)} drive writes a day (before parity)"


def plain(value: float) -> str:
    """Return a number with three significant digits and without an exponent."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{min(digits, 9)}f}"
