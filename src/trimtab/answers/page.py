"""The pages of status, targets and correlations, and of a stored snapshot. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trimtab.base.error import shell_text, site_word, visible
from trimtab.base.finding import Finding, Tone
from trimtab.base.snapshot import NotAvailable, Reading, Setting, TargetSnapshot
from trimtab.base.text import (
    VERDICT_WORDS,
    joined_sentences,
    key_label,
    levels_text,
    local_moment,
    metric_text,
    minute_text,
    range_text,
    sentence,
    site_labels,
)
from trimtab.base.units import (
    enumerated,
    format_bytes,
    format_duration,
    format_percent,
    format_value,
    percent_or_dash,
    plural,
    value_or_dash,
    whole_second,
)
from trimtab.base.verdict import VerdictStatus
from trimtab.explain.headline import headline, site_troubles, targets_headline, tone_of
from trimtab.explain.space_forecast import day_text
from trimtab.explain.status import (
    BENCHMARK,
    FullWhen,
    JudgedStatus,
    ProbeCost,
    RejectedSeries,
    SeriesStatus,
    SlowestTargets,
    Status,
    SweepStatus,
)
from trimtab.explain.trouble import trim_state
from trimtab.judge.correlation import Correlated, CorrelatedSeries, Correlation
from trimtab.judge.crossing import AHEAD_DAYS
from trimtab.judge.series_level import WORST_GOALS, effect_text
from trimtab.judge.spread import is_vague
from trimtab.show import command_options
from trimtab.show.document import (
    GOAL_TONES,
    SEVERITY_TONES,
    Cell,
    Document,
    Row,
    Section,
    Table,
    row,
    table,
)
from trimtab.store.page import runs_table

if TYPE_CHECKING:
    from trimtab.explain.status import SiteStanding, SiteState, TargetState


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
    apart = ", ".join(filter(None, (site, _apart(entry))))
    return row(
        Cell(_name(entry), apart, link=link),
        f"{entry.runs:,}",
        Cell(format_value(entry.last_value, verdict.unit), minute_text(entry.last_at)),
        value_or_dash(verdict.mean, verdict.unit),
        Cell(
            percent_or_dash(verdict.cov),
            "" if interval is None or is_vague(interval) else range_text(interval, "1"),
        ),
        Cell(
            VERDICT_WORDS[verdict.status],
            "change suspected" if entry.suspect else "",
            tone=GOAL_TONES[verdict.status],
        ),
    )


def _name(entry: SeriesStatus) -> str:
    return f"{entry.verdict.probe} {metric_text(entry.verdict.metric)}"


def _apart(entry: SeriesStatus) -> str:
    """Return what distinguishes a series, besides the benchmark, which `_name` has."""
    return levels_text({name: entry.asked[name] for name in entry.asked if name != BENCHMARK})


def _full_name(entry: SeriesStatus) -> str:
    return f"{_name(entry)} {_apart(entry)}".rstrip()


def _reasons(series: Iterable[SeriesStatus]) -> Iterator[tuple[str, str]]:
    """Yield each reason once, after the series that share it."""
    holds: dict[str, list[str]] = {}
    for entry in series:
        text = f"{sentence(entry.verdict.reason)} Trend: {sentence(entry.trend.reason)}"
        holds.setdefault(text, []).append(_full_name(entry))
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
                f"suspect: {_full_name(entry)} may have changed{effect} since "
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


_UNKNOWN: Final = "?"
"""Not known: never a dash, which reads as none."""
_LABELS: Final = 2
_ROWS: Final = 25
"""Rows of targets, or of readings of one, on a screen."""
_NOT_AVAILABLE: Final = "not available"


def targets_document(standing: SiteStanding) -> Document:
    """Return the troubled targets first, and the machines with troubles of their own."""
    state = standing.state
    assert state is not None  # a look and a recall both have it
    machines = [f"{host.name}: {trouble.text}" for host in state.hosts for trouble in host.troubles]
    return Document(
        kind="targets",
        heading=state.site,
        subtitle=_seen(state),
        tone=tone_of(standing),
        answer=targets_headline(standing),
        sections=(
            Section("Machines", notes=tuple(machines)),
            Section("Targets", tables=(targets_table(state.targets),)),
        ),
    )


def _seen(state: SiteState) -> str:
    return f"{minute_text(state.snapshot.at)} ({'stored snapshot' if state.kept else 'now'})"


def targets_table(
    targets: Iterable[TargetState], link: Callable[[str], str] = lambda name: ""
) -> Table | None:
    """Return a row per target.

    Parameters
    ----------
    link
        Address of a target's own page.
    """
    columns = ("target", "full>", "inodes>", "full on?", "new files", "trim?", "trouble")
    return table(columns, (_target_row(each, link(each.name)) for each in targets), first=_ROWS)


def chosen_targets(
    whole: Table | None, numbers: Iterable[int], trimmed: Mapping[int, str]
) -> Table | None:
    """Return some rows of a table of targets, each with the age of its last trim as text."""
    if whole is None:
        return None
    trim = whole.columns.index("trim?")

    def chosen(number: int) -> Row:
        cells = list(whole.rows[number].cells)
        cells[trim] = replace(cells[trim], small=trimmed.get(number, ""))
        return replace(whole.rows[number], cells=tuple(cells))

    return table(whole.columns, map(chosen, numbers), first=whole.first)


def _target_row(target_state: TargetState, link: str) -> Row:
    seen, name, troubles = target_state.seen, target_state.name, target_state.troubles
    size = seen.number("capacity_bytes")
    return row(
        Cell(name, seen.target.server or _UNKNOWN, link=link),
        Cell(_percent(seen.fullness()), "" if size is None else f"of {format_bytes(size)}"),
        _percent(_inodes(seen)),
        _full_on(target_state.full_when),
        _creation(seen),
        Cell(trim_state(seen)),
        Cell(
            ", ".join(dict.fromkeys(trouble.id for trouble in troubles)),
            tone=SEVERITY_TONES[troubles[0].severity] if troubles else None,
        ),
        note="; ".join(trouble.text for trouble in troubles),
    )


def _percent(fraction: float | None) -> str:
    return _UNKNOWN if fraction is None else format_percent(fraction)


def _inodes(seen: TargetSnapshot) -> float | None:
    total, free = seen.number("inodes_total"), seen.number("inodes_free")
    return None if not total or free is None else 1 - free / total


def _full_on(forecasts: Sequence[FullWhen]) -> Cell:
    """Return the first day on which something of a target is full, and on which it is at a limit.

    Empty without a record of days.
    """
    if all(each.full.reason is not None for each in forecasts):
        return Cell(_UNKNOWN if forecasts else "")
    full = min((each.full.at for each in forecasts if each.full.at), default=None)
    limit = min((each.limit.at for each in forecasts if each.limit.at), default=None)
    return Cell(
        f"not in {AHEAD_DAYS} d" if full is None else f"{full:%Y-%m-%d}",
        "" if limit is None else f"limit {limit:%Y-%m-%d}",
    )


def _creation(seen: TargetSnapshot) -> str:
    """Return whether new files are accepted: a local file system is never closed to them alone."""
    match seen.value("create_enabled"):
        case True if seen.value("read_only") is True:
            return "read-only"
        case True:
            readings = [r for r in seen.readings if r.name == "create_enabled"]
            closed = sum(reading.value is False for reading in readings)
            return f"not {plural(closed, 'MDT')}" if closed else "open"
        case False:
            return "closed"
        case _:
            local = seen.target.kind == "file-system"
            return "open" if local and seen.value("read_only") is False else _UNKNOWN


def target_document(state: SiteState, target_state: TargetState) -> Document:
    """Return everything known about one target, problems first."""
    troubles = target_state.troubles
    sources = tuple(
        f"{trouble.id} ({trouble.severity.value}) is read from {trouble.source}"
        for trouble in troubles
        if trouble.source is not None
    )
    return Document(
        kind="target",
        heading=target_state.name,
        subtitle=_seen(state),
        tone=SEVERITY_TONES[troubles[0].severity] if troubles else "healthy",
        answer=target_answer(state, target_state),
        sections=(
            Section("Troubles", notes=sources),
            Section("Full when", notes=tuple(map(_full_when, target_state.full_when))),
            Section("Telemetry", tables=(_facts(_reading_rows(target_state.seen.readings)),)),
            Section("Settings", tables=(_facts(_setting_rows(target_state.seen.settings)),)),
        ),
    )  # fmt: skip


def _full_when(each: FullWhen) -> str:
    limit = format_percent(each.limit.level, 0)
    return f"{each.kind}: limit of {limit} {day_text(each.limit)}; full {day_text(each.full)}"


def _facts(facts: Iterable[tuple[str, str, str]]) -> Table | None:
    """Return names with their values; unavailable ones come last, with their reason."""
    known_first = sorted(facts, key=lambda fact: fact[1] == _NOT_AVAILABLE)
    return table(("name", "value>", "from"), (row(*fact) for fact in known_first), first=_ROWS)


def _reading_rows(readings: Iterable[Reading]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and source; labels of one name with equal values share a row."""
    labels: dict[tuple[str, str, str], list[str]] = {}
    for reading in readings:
        if reading.value is None:
            fact = reading.name, _NOT_AVAILABLE, reading.reason or ""
        else:
            value = format_value(reading.value, reading.unit)
            fact = reading.name, value, reading.source or ""
        labels.setdefault(fact, []).extend([] if reading.label is None else [reading.label])
    for (name, value, source), names in labels.items():
        yield f"{name} {enumerated(names, _LABELS)}".rstrip(), value, source


def _setting_rows(
    settings: Mapping[str, Setting | NotAvailable],
) -> Iterator[tuple[str, str, str]]:
    for name, setting in sorted(settings.items()):
        if isinstance(setting, NotAvailable):
            yield name, _NOT_AVAILABLE, setting.reason
        else:
            yield name, setting.value, setting.source


def target_answer(state: SiteState, target_state: TargetState) -> str:
    """Return the problem of one target of a site, or the statement that it has none."""
    target = target_state.seen.target
    where = visible(target.server or "an unknown server")
    words = "; ".join(visible(trouble.text) for trouble in target_state.troubles) or "no trouble"
    return joined_sentences(
        f"{visible(target_state.name)} of {visible(state.site)}, on {where}: {words}"
    )


_LEGEND: Final = (
    "rho: rank correlation, -1 to 1; q: expected share of false positives among those of this q or "
    "less; effective: number of independent runs; beside: rho that remains after allowing for the "
    "telemetry named"
)


def correlated_document(correlated: Correlated) -> Document:
    """Return the telemetry that moves with each series, strongest first."""
    pairs = [
        (series, correlation)
        for series in correlated.series
        for correlation in series.correlations
        if correlation.moves_with
    ]
    pairs.sort(key=lambda pair: -abs(pair[1].rho or 0.0))
    moved = len({id(series) for series, _ in pairs})
    answer = f"{moved} of {len(correlated.series)} series of {correlated.site} move with telemetry"
    if pairs:
        series, strongest = pairs[0]
        label, rho = key_label(series.key), strongest.rho or 0.0
        answer += f"; strongest: {strongest.name} with {label} ({rho:+.2f})"
    columns = ("series", "rho>", "telemetry", "q>", "runs>", "beside")
    strongest_first = table(columns, (_correlation_row(*pair) for pair in pairs), _LEGEND)
    snapshots = plural(correlated.snapshots, "snapshot", ",")
    return Document(
        kind="correlate",
        heading=correlated.site,
        subtitle=f"{snapshots}. Correlation is not cause: the same load may move both.",
        tone="info",
        answer=f"{answer}.",
        sections=(
            Section("Telemetry that moves with them", tables=(strongest_first,)),
            Section("Series", notes=tuple(map(_tested, correlated.series))),
        ),
    )


def _correlation_row(series: CorrelatedSeries, correlation: Correlation) -> Row:
    beside = ""
    if correlation.beside is not None and correlation.rho_beside is not None:
        beside = f"{correlation.rho_beside:+.2f} after {correlation.beside}"
    alike = f"the same as {', '.join(correlation.alike)}" if correlation.alike else ""
    effective = correlation.n_effective
    return row(
        key_label(series.key),
        "-" if correlation.rho is None else f"{correlation.rho:+.2f}",
        Cell(correlation.name, alike),
        "-" if correlation.q_value is None else f"{correlation.q_value:.2g}",
        Cell(f"{correlation.n:,}", "" if effective is None else f"{effective:,.0f} effective"),
        beside,
    )


def _tested(series: CorrelatedSeries) -> str:
    tested = plural(len(series.correlations), "reading")
    stretch = f"{minute_text(series.from_)} to {minute_text(series.to)}"
    return f"{key_label(series.key)}: {series.runs:,} runs, {stretch}, against {tested}"


_SHORT_ID: Final = 13


def snapshot_document(identifier: str, store: str, standing: SiteStanding) -> Document:
    """Return the page of a stored snapshot."""
    state = standing.state
    assert state is not None  # it was stored just now
    answered = sum(host.answered for host in state.snapshot.hosts)
    count = plural(len(state.snapshot.hosts), "machine")
    hosts = "" if answered == len(state.snapshot.hosts) else f"; {answered} of {count} answered"
    return Document(
        f"Snapshot kept. {targets_headline(standing).rstrip('.')}{hosts}.",
        more=(
            f"snapshot {identifier[:_SHORT_ID]}, {local_moment(state.snapshot.at)}",
            f"stored in {store}",
            f"trimtab targets {command_options.site_argument(state.site)} lists each target",
        ),
    )
