"""The state of sites as text: a row for each series, grouped by site and probe."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from trimtab.cli.options import extent
from trimtab.cli.render.document import print_trouble
from trimtab.cli.render.kept import print_run_rows
from trimtab.cli.render.screen import ROWS, Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import (
    interval_text,
    local_times,
    moment,
    percent_text,
    site_argument,
    site_labels,
    value_text,
    verdict_word,
    zone,
)
from trimtab.model.status import ProbeCost, SeriesStatus, Status, SweepStatus
from trimtab.model.verdict import VerdictStatus
from trimtab.report.answers import effect_text
from trimtab.report.headline import headline, site_troubles
from trimtab.units import format_bytes, format_duration, format_value, plural, whole_second
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.text import Text

    from trimtab.model.finding import Finding
    from trimtab.model.standing import SiteStanding
    from trimtab.model.status import JudgedStatus, SlowestTargets

_NAMED_MOST: Final = 4
"""So many series are named before a reason that holds for them; more are counted."""
_REASONS: Final = 3
_ROWS_OF_SITE: Final = 2
"""Rows of each site at least, as far as a screen has room."""
_LINES: Final = 3
"""Incidents, suspects and slow targets of one site, each."""

_Group = tuple[SeriesStatus, ...]
Entry = TypeVar("Entry")


def print_status(status: Status, standings: Sequence[SiteStanding]) -> None:
    """Print the state of sites: the worst of all of them first.

    Parameters
    ----------
    standings
        How each site stands.
    """
    troubled = any(map(site_troubles, standings))
    if status.snapshots and not status.series and not status.last_runs and not troubled:
        _print_snapshots(status)
        return
    if not status.series and not status.last_runs and not troubled:
        print_screen(
            f"Nothing is kept yet in {visible(status.store)}.",
            lambda out: None,
            more=("measure a file system: trimtab check PATH",),
        )
        return
    more = [] if extent().everything else ["--all shows every series with its reason"]
    if status.series:
        site = _friendly(status.series[0].site)
        more.append(
            f"trimtab judge {site} shows changes over months, trimtab incidents {site} causes"
        )
    answer = headline(*standings)
    listed = {
        standing.site: [
            trouble
            for trouble in site_troubles(standing)
            if not trouble.fix.argv or visible(trouble.title) not in answer
        ]
        for standing in standings
    }
    print_screen(answer, partial(_print_body, status, listed), more=more)


def _print_snapshots(status: Status) -> None:
    """Print of sites without a run how to look at what is kept."""
    first, *others = status.snapshots
    sites = f"{visible(first.site)}{f' and {len(others)} more' if others else ''}"
    answer = f"No run of {sites} is kept, only what the targets looked like at {moment(first.at)}."
    shows = [
        f"trimtab targets {site_argument(entry.site)} --at {whole_second(entry.at)} shows it"
        for entry in status.snapshots[:_LINES]
    ]
    print_screen(answer, lambda out: None, more=shows)


def _friendly(site: str) -> str:
    return site_argument(site)


def _print_body(status: Status, listed: Mapping[str, Sequence[Finding]], out: Console) -> None:
    measured = {series.site for series in status.series}
    troubled = {site for site, troubles in listed.items() if troubles}
    sites = sorted(measured | troubled, key=partial(_site_rank, status))
    labels = site_labels(status.sites)
    left = extent().rows(ROWS)
    each = max(left // max(len(sites), 1), _ROWS_OF_SITE)
    hidden = 0
    for site in sites:
        groups = _groups([series for series in status.series if series.site == site])
        shown = _worst(groups, min(each, left))
        hidden += sum(map(len, groups)) - sum(map(len, shown))
        left -= len(shown)
        if not shown and site not in troubled:
            continue
        if len(sites) > 1:
            out.print(visible(labels.get(site, site)), style="bold")
        if shown:
            _print_groups(out, shown, reasons=len(sites) == 1)
        _print_troubles(out, status, site, listed.get(site, ()), slowest=len(sites) == 1)
    if hidden:
        out.print(f"... {hidden:,} more series: --all, or trimtab status SITE", style="dim")
    if measured:
        window = format_duration(status.window_s)
        legend = f"COV: standard deviation over mean of the {window} up to the last run"
        print_wrapped(out, f"{legend}; times are {zone(status.series[0].last_at)}", "dim")
    for rejected in status.rejected if extent().everything else status.rejected[:_REASONS]:
        print_wrapped(
            out,
            f"{labels.get(rejected.site, rejected.site)}: none of the "
            f"{plural(rejected.runs, 'run')} of {rejected.probe} ({rejected.kind}) can be judged: "
            f"{rejected.reason}",
            "yellow",
        )
    for sweep in status.sweeps:
        print_wrapped(out, _sweep(sweep), "dim")
    for cost in status.costs if extent().everything else status.costs[:1]:
        print_wrapped(out, _cost(cost, labels.get(cost.site, cost.site)), "dim")
    out.print("last runs", style="bold")
    print_run_rows(out, status.last_runs, site=len(sites) > 1)


def _site_rank(status: Status, site: str) -> tuple[bool, bool, str]:
    """Return where a site is listed: open incidents first, then missed goals."""
    open_ = any(entry.site == site and entry.state == "open" for entry in status.incidents)
    missed = any(
        series.site == site and series.verdict.status is VerdictStatus.MISSED
        for series in status.series
    )
    return not open_, not missed, site


def _groups(series: Sequence[SeriesStatus]) -> list[_Group]:
    """Return the rows of a site: series that differ in their settings alone share one."""
    if extent().everything:
        return [(entry,) for entry in series]
    groups: dict[tuple[str, str, str], list[SeriesStatus]] = {}
    for entry in series:
        groups.setdefault((entry.probe, entry.kind, entry.verdict.metric), []).append(entry)
    probes = list(dict.fromkeys(entry.probe for entry in series))
    ranked = sorted(groups.values(), key=lambda group: probes.index(group[0].probe))
    return [tuple(group) for group in ranked]


def _worst(groups: list[_Group], rows: int) -> list[_Group]:
    """Return so many rows, those that miss their goal rather than others, in their order."""
    order = (VerdictStatus.MISSED, VerdictStatus.CANNOT_TELL, VerdictStatus.MET)

    def rank(group: _Group) -> int:
        return min(order.index(entry.verdict.status) for entry in group)

    chosen = sorted(groups, key=rank)[: max(rows, 0)]
    return [group for group in groups if group in chosen]


_COLUMNS: Final = (
    Column("probe", wraps=True),
    Column("metric"),
    Column("runs", right=True, drop=5),
    Column("last", right=True),
    Column("at", drop=2),
    Column("mean", right=True, drop=4),
    Column("COV", right=True),
    Column("95 % interval", right=True, drop=3),
    Column("goal"),
)


def _print_groups(out: Console, groups: Sequence[_Group], *, reasons: bool) -> None:
    times = local_times([max(entry.last_at for entry in group) for group in groups])
    rows: list[tuple[str | Text, ...]] = []
    probe_above = ""
    for group, at in zip(groups, times, strict=True):
        row = _row(group, at)
        probe = str(row[0])
        rows.append(("" if probe == probe_above else probe, *row[1:]))
        probe_above = probe
    print_rows(out, _COLUMNS, rows)
    series = [entry for group in groups for entry in group]
    unmet = [entry for entry in series if entry.verdict.status is not VerdictStatus.MET]
    everything = extent().everything
    lines = _reasons(series if everything else unmet)
    for line in lines if everything else lines[: _REASONS if reasons else 0]:
        print_wrapped(out, line, "dim", indent=2)


def _row(group: _Group, at: str) -> tuple[str | Text, ...]:
    last = max(group, key=lambda entry: entry.last_at)
    verdict = last.verdict
    single = len(group) == 1
    runs = f"{sum(entry.runs for entry in group):,}"
    value = format_value(last.last_value, verdict.unit)
    if not single:
        name = f"{last.probe} ({last.kind}), {len(group)} settings"
        return (visible(name), verdict.metric, runs, value, at, "-", "-", "-", _goals(group))
    return (
        _probe(last),
        verdict.metric,
        runs,
        value,
        at,
        value_text(verdict.mean, verdict.unit),
        percent_text(verdict.cov),
        interval_text(verdict.cov_interval),
        verdict_word(verdict.status),
    )


def _goals(group: _Group) -> str:
    counts = Counter(entry.verdict.status for entry in group)
    return ", ".join(
        f"{counts[status]} {status.value.replace('_', ' ')}"
        for status in (VerdictStatus.MISSED, VerdictStatus.CANNOT_TELL, VerdictStatus.MET)
        if counts[status]
    )


def _reasons(series: Sequence[SeriesStatus]) -> list[str]:
    """Return each reason once, with the series that it holds for."""
    holds: dict[str, list[str]] = {}
    for entry in series:
        text = f"{entry.verdict.reason}. Trend: {entry.trend.reason}"
        holds.setdefault(text, []).append(f"{entry.verdict.metric} of {_probe(entry)}")
    return [f"{_holders(names)}: {visible(text)}." for text, names in holds.items()]


def _holders(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED_MOST else f"{len(names)} series"


def _print_troubles(
    out: Console, status: Status, site: str, troubles: Sequence[Finding], *, slowest: bool
) -> None:
    """Print what is wrong with one site, each with its repair; suspects; its slowest targets."""
    for trouble in _first(troubles):
        print_trouble(out, trouble)
    if (more := len(troubles) - _LINES) > 0 and not extent().everything:
        out.print(f"  ... {more:,} more: --all", style="dim")
    for series in _first(
        entry for entry in status.series if entry.site == site and entry.suspect is not None
    ):
        print_wrapped(out, _suspect(series), "yellow", indent=2)
    whole = slowest or extent().everything
    for line in _slowest(entry for entry in status.slowest if entry.site == site and whole):
        print_wrapped(out, line, indent=2)
    for entry in status.judged:
        if entry.site == site and whole:
            print_wrapped(out, _judged(entry), "dim", indent=2)


def _first(entries: Iterable[Entry]) -> list[Entry]:
    listed = list(entries)
    return listed if extent().everything else listed[:_LINES]


def _probe(series_status: SeriesStatus) -> str:
    """Return the probe with its benchmark, and what sets it apart from others of that name."""
    settings = [f"{name} {_set_to(name, value)}" for name, value in series_status.asked.items()]
    return visible(", ".join((series_status.verdict.probe, *settings)))


def _set_to(name: str, value: object) -> str:
    if value is None:
        return "not set"
    if name.endswith("_bytes") and isinstance(value, int):
        return format_bytes(value)
    return str(value)


def _sweep(sweep_status: SweepStatus) -> str:
    """Return in one line that there is a sweep, and where its settings are shown."""
    return (
        f"sweep {visible(sweep_status.name)} of {visible(sweep_status.site)}: "
        f"{sweep_status.runs} runs of {sweep_status.settings} "
        "settings (trimtab sweep SPEC.toml --no-run shows them)."
    )


def _cost(cost: ProbeCost, site: str) -> str:
    """Return what probing costs in one line."""
    days = (cost.to - cost.from_).total_seconds() / 86_400
    written = format_bytes(cost.bytes_written)
    runs = plural(cost.runs, "run")
    text = f"probing {visible(site)}, {days:.1f} days: {runs}, {written} written"
    if cost.node_hours is not None:
        text += f", {_plain(cost.node_hours)} node-hours"
    if cost.drive_writes_per_day is not None:
        least = "" if cost.reason is None else f"at least ({visible(cost.reason)}) "
        writes = _plain(cost.drive_writes_per_day)
        return f"{text}, {least}{writes} drive writes a day (before parity)."
    return f"{text}; drive writes a day not known: {visible(cost.reason or '')}."


def _plain(value: float) -> str:
    """Return a number with three significant figures and without an exponent."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{min(digits, 9)}f}"


def _suspect(series_status: SeriesStatus) -> str:
    change = series_status.suspect
    assert change is not None
    effect = "" if change.effect is None else f" by {effect_text(change.effect)}"
    if change.of_unit is not None:
        effect = f" ({change.of_unit})"
    return (
        f"suspect: {series_status.verdict.metric} of {_probe(series_status)} "
        f"may have changed{effect} since "
        f"{moment(change.at)}; not confirmed yet"
    )


def _slowest(slowest_targets: Iterator[SlowestTargets]) -> Iterator[str]:
    for entry in slowest_targets:
        named = ", ".join(
            f"{visible(target)} {format_value(value, entry.unit)}"
            for target, value in entry.slowest
        )
        yield (
            f"slowest of {entry.targets} targets by {entry.metric}, {moment(entry.at)}: {named} "
            f"(median {format_value(entry.median, entry.unit)})"
        )


def _judged(judged_status: JudgedStatus) -> str:
    newer = ""
    if judged_status.newer_runs:
        runs, site = plural(judged_status.newer_runs, "run"), _friendly(judged_status.site)
        newer = f", {runs} ago: trimtab incidents {site} looks again"
    return f"incidents as of {moment(judged_status.at)}{newer}"
