"""What is kept, as text: ``status``, ``runs`` and ``show``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.text import (
    console,
    interval_text,
    moment,
    percent_text,
    print_facts,
    print_indented,
    table,
    value_text,
    verdict_word,
)
from trimtab.model.run import Run, Sample
from trimtab.model.status import ProbeCost, SeriesStatus, Status, SweepStatus
from trimtab.units import format_bytes, format_duration, format_percent, format_value, plural
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.table import Table

    from trimtab.loop.show import Shown
    from trimtab.model.status import (
        IncidentStatus,
        JudgedStatus,
        SeriesStatus,
        SlowestTargets,
        SlowTargetStatus,
        Status,
    )

_NAMED_MOST = 4
"""So many series are named before a reason that holds for them; more are counted."""


def print_status(status: Status) -> None:
    """Print where things stand."""
    from rich.text import Text

    out = console()
    if not status.series and not status.last_runs:
        out.print(f"Nothing is kept yet in {visible(status.store)}.")
        out.print("hint: measure a file system: trimtab check PATH")
        return
    for site in dict.fromkeys(series.site for series in status.series):
        window = format_duration(status.window_s)
        out.print(f"{visible(site)}, the {window} up to the last run", style="bold")
        of_site = [series for series in status.series if series.site == site]
        out.print(_series_table(of_site))
        for line in _reasons(of_site):
            print_indented(out, line, "dim")
        print_standing(out, status, site)
        out.print()
    for rejected in status.rejected:
        out.print(
            f"{visible(rejected.site)}: none of the {plural(rejected.runs, 'run')} of "
            f"{visible(rejected.probe)} ({visible(rejected.kind)}) can be judged: "
            f"{visible(rejected.reason)}",
            style="yellow",
            soft_wrap=True,
        )
    for sweep in status.sweeps:
        out.print(Text(_sweep(sweep), style="dim"), soft_wrap=True)
    for cost in status.costs:
        out.print(Text(_cost(cost), style="dim"), soft_wrap=True)
    out.print("last runs", style="bold")
    out.print(_runs_table(status.last_runs))


def print_runs(runs: Sequence[Run]) -> None:
    """Print runs, the newest first."""
    out = console()
    if not runs:
        out.print("No run is kept.")
        return
    out.print(_runs_table(runs))


def print_show(shown: Shown) -> None:
    """Print a run with its samples, and the command and raw output behind each."""
    out, run = console(), shown.run
    out.print(f"run {run.id}", style="bold")
    print_facts(out, _facts(run, shown.store))
    out.print()
    out.print(_samples_table(run.samples))
    out.print()
    _print_outputs(out, shown)


def _facts(run: Run, store: str) -> list[tuple[str, str]]:
    status = run.status.value if run.problem is None else f"{run.status.value}: {run.problem}"
    at = moment(run.at) if run.at is not None else f"not known: {run.at_reason}"
    facts = [
        ("site", run.site),
        ("path", run.path or "-"),
        ("host", run.host or "-"),
        ("probe", run.probe),
        ("benchmark", f"{run.kind} {run.tool_version or '(version not known)'}"),
        ("at", f"{at} to {moment(run.until)}"),
        ("status", status),
        ("trimtab", run.trimtab_version or "-"),
        ("store", store),
    ]
    spec = run.parameters.get("spec")
    if isinstance(spec, dict):
        facts.insert(5, ("asked", ", ".join(f"{key} {value}" for key, value in spec.items())))
    return facts


def _print_outputs(out: Console, shown: Shown) -> None:
    out.print("raw outputs (trimtab show RUN --output N prints one)", style="bold")
    for output in shown.outputs:
        took = "-" if output.elapsed_s is None else format_duration(output.elapsed_s)
        out.print(
            f"  {output.ordinal}  {visible(output.label)}: exit code {output.exit_code}, {took}, "
            f"{format_bytes(output.stdout_bytes)}, sha256 {output.stdout_sha256[:16]}"
        )
        out.print(f"     {shell_text(output.argv)}", style="cyan", soft_wrap=True)
        out.print(f"     {visible(shown.files[output.ordinal])}", style="dim", soft_wrap=True)


def _sweep(sweep_status: SweepStatus) -> str:
    """Return in one line that there is a sweep, and where its settings are shown."""
    return (
        f"sweep {visible(sweep_status.name)} of {visible(sweep_status.site)}: "
        f"{sweep_status.runs} runs of {sweep_status.settings} "
        "settings (trimtab sweep SPEC.toml --no-run shows them)."
    )


def _cost(cost: ProbeCost) -> str:
    """Return what probing costs in one line."""
    days = (cost.to - cost.from_).total_seconds() / 86_400
    written = format_bytes(cost.bytes_written)
    text = f"probing {visible(cost.site)}, {days:.1f} days: {cost.runs} runs, {written} written"
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


def _series_table(series: Sequence[SeriesStatus]) -> Table:
    made = table(
        "metric", "probe", "runs>", "last>", "at", "mean>", "COV>", "95 % interval>", "verdict"
    )
    for entry in series:
        verdict = entry.verdict
        made.add_row(
            verdict.metric,
            _probe(entry),
            f"{entry.runs:,}",
            format_value(entry.last_value, verdict.unit),
            moment(entry.last_at),
            value_text(verdict.mean, verdict.unit),
            percent_text(verdict.cov),
            interval_text(verdict.cov_interval),
            verdict_word(verdict.status),
        )
    return made


def _reasons(series: Sequence[SeriesStatus]) -> list[str]:
    """Return each reason once, with the series that it holds for."""
    holds: dict[str, list[str]] = {}
    for entry in series:
        text = f"{entry.verdict.reason}. Trend: {entry.trend.reason}"
        holds.setdefault(text, []).append(f"{entry.verdict.metric} of {_probe(entry)}")
    return [f"{_holders(names)}: {visible(text)}." for text, names in holds.items()]


def _holders(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED_MOST else f"{len(names)} series"


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


def _runs_table(runs: Sequence[Run]) -> Table:
    made = table("run", "at", "site", "probe", "benchmark", "status", "write>", "read>")
    length = _telling_length([run.id for run in runs])
    for run in runs:
        made.add_row(
            run.id[:length],
            moment(run.at),
            visible(run.site),
            visible(run.probe),
            visible(f"{run.kind} {run.tool_version or ''}".strip()),
            run.status.value,
            _median(run, "write_bandwidth"),
            _median(run, "read_bandwidth"),
        )
    return made


def _telling_length(identifiers: Sequence[str]) -> int:
    """Return how many characters tell these ids apart, at least as many as hold their time."""
    for length in (13, 18, 23, 28):
        if len({identifier[:length] for identifier in identifiers}) == len(identifiers):
            return length
    return 36


def _samples_table(samples: Sequence[Sample]) -> Table:
    names = ("metric", "target", "repetition>", "statistic", "value>", "output>", "line>", "note")
    made = table(*names)
    for sample in samples:
        made.add_row(
            sample.metric,
            visible(sample.target or "-"),
            "-" if sample.repetition is None else str(sample.repetition),
            sample.statistic,
            format_value(sample.value, sample.unit),
            "-" if sample.output is None else str(sample.output),
            "-" if sample.line is None else str(sample.line),
            visible(sample.reason or ""),
        )
    return made


def _median(run: Run, metric: str) -> str:
    from statistics import median

    values = run.believed(metric)
    return format_value(median(values), "B/s") if values else "-"


def print_standing(out: Console, status: Status, site: str) -> None:
    """Print what is not well with one site: incidents, suspects, its slowest targets."""
    for incident in status.incidents:
        if incident.site == site:
            style = "bold red" if incident.state == "open" else "yellow"
            out.print(f"  {_incident(incident)}", style=style, soft_wrap=True)
    for series in status.series:
        if series.site == site and series.suspect is not None:
            out.print(f"  {_suspect(series)}", style="yellow", soft_wrap=True)
    for target in status.slow_targets:
        if target.site == site:
            out.print(f"  {_slow_target(target)}", style="bold red", soft_wrap=True)
    for line in _slowest(entry for entry in status.slowest if entry.site == site):
        out.print(f"  {line}", soft_wrap=True)
    for entry in status.judged:
        if entry.site == site:
            out.print(f"  {_judged(entry)}", style="dim", soft_wrap=True)


def _incident(incident_status: IncidentStatus) -> str:
    if incident_status.cause is None or incident_status.confidence is None:
        why = "unexplained"
    else:
        why = f"{visible(incident_status.cause)} ({format_percent(incident_status.confidence)})"
    return f"{incident_status.state} incident: {visible(incident_status.summary)}: {why}"


def _suspect(series_status: SeriesStatus) -> str:
    change = series_status.suspect
    assert change is not None
    effect = "" if change.effect is None else f" by {100 * (change.effect - 1):+.0f} %"
    if change.of_unit is not None:
        effect = f" ({change.of_unit})"
    return (
        f"suspect: {series_status.verdict.metric} of {visible(series_status.probe)} "
        f"may have changed{effect} since "
        f"{moment(change.at)}; not confirmed yet"
    )


def _slow_target(slow: SlowTargetStatus) -> str:
    return (
        f"slow target: {visible(slow.target)} since {moment(slow.since)}, "
        f"{format_percent(slow.share, 0)} of its usual {slow.metric} "
        f"({plural(slow.surveys, 'survey')})"
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
        newer = f", {plural(judged_status.newer_runs, 'run')} ago: trimtab incidents looks again"
    return f"incidents as of {moment(judged_status.at)}{newer}"
