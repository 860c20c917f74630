"""The page of one check: everything that was seen, measured and concluded, in one HTML file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from trimtab.model.check import CheckResult, HistoryPoint
from trimtab.model.finding import Finding, Missing
from trimtab.model.run import Access, LatencyHistogram, Run, RunStatus, Timeline
from trimtab.model.telemetry import NotAvailable, Setting
from trimtab.model.verdict import Scope, Verdict, VerdictStatus
from trimtab.report import text
from trimtab.report.chart import Chart
from trimtab.report.charts import history_chart, repetition_chart
from trimtab.report.health import by_metric, health
from trimtab.report.kit import GOAL_TONES
from trimtab.report.layers import layers_of
from trimtab.report.render import drawn, environment
from trimtab.report.traces import latency_chart, timeline_chart
from trimtab.units import format_percent, format_value
from trimtab.visible import shell_text

Trace = TypeVar("Trace", Timeline, LatencyHistogram)
_ACCESSES: Final[tuple[Access, ...]] = ("write", "read")


@dataclass(frozen=True, slots=True)
class Answer:
    """The check in one sentence, and what stands behind it.

    Attributes
    ----------
    tone
        ``critical``, ``warning``, ``info``, ``unclear`` or ``healthy``: the colour, always beside
        a word.
    sentence
        Healthy or not, and the worst finding.
    details
        Speed, steadiness and what went wrong with the probe, one sentence each.
    """

    tone: str
    sentence: str
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting as the page lists it: value and source, or the reason why there is none."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the run with what came of it; ``sha256`` names its kept standard output."""

    label: str
    line: str
    outcome: str
    sha256: str


def render_check(result: CheckResult) -> str:
    """Return the report of one check as a self-contained HTML page.

    The page needs no network and runs no script; every text in it is escaped. Equal results give
    equal pages.
    """
    page = environment().get_template("check.html.j2")
    return page.render(
        result=result,
        answer=answer(result),
        findings=sorted_findings(result.findings),
        verdict_groups=_verdict_groups(result.verdicts),
        levels=_levels(result.verdicts),
        figures=drawn(charts_of(result)),
        layers=layers_of(result.path),
        targets=result.snapshot.targets,
        fullness={target.target.name: target.fullness() for target in result.snapshot.targets},
        settings={name: _setting_rows(rows) for name, rows in result.settings.items()},
        missing=_missing(result),
        commands=_commands(result),
        flash=_medium(result),
        goal_tones=GOAL_TONES,
        shell_text=shell_text,
        percent=format_percent,
        value=format_value,
    )


def answer(result: CheckResult) -> Answer:
    """Return the answer of a check: how healthy, how fast, how steady."""
    findings = sorted_findings(result.findings)
    details = (_probe_sentence(result.run), _speed_sentence(result), _steady_sentence(result))
    tone, sentence = health(result, findings)
    return Answer(tone, sentence, tuple(detail for detail in details if detail))


def sorted_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings worst first, the surest first among equals."""
    return sorted(findings, key=lambda f: (f.severity.rank, -f.confidence, f.id))


def charts_of(result: CheckResult) -> list[Chart]:
    """Return the charts that the result has the data for, in the order of the page."""
    samples = result.run.samples if result.run else ()
    within = by_metric(result.verdicts, Scope.REPETITIONS)
    across = by_metric(result.verdicts, Scope.HISTORY)
    metrics = [f"{access}_bandwidth" for access in _ACCESSES]
    charts = [
        *(repetition_chart(samples, metric, within.get(metric)) for metric in metrics),
        *(_trace_chart(timeline_chart, result, result.timelines, each) for each in _ACCESSES),
        *(_trace_chart(latency_chart, result, result.histograms, each) for each in _ACCESSES),
        *(
            history_chart(
                result.history,
                metric,
                this=_this_point(result, within.get(metric)),
                verdict=across.get(metric),
            )
            for metric in metrics
        ),
    ]
    return [chart for chart in charts if chart is not None]


def _probe_sentence(run: Run | None) -> str:
    if run is None:
        return "Nothing was measured in this check."
    words = {
        RunStatus.OK: "",
        RunStatus.PARTIAL: "The probe ended early; what was measured stands",
        RunStatus.UNFINISHED: "The probe did not finish in its time, which counts as bandwidth 0",
        RunStatus.FAILED: "The probe failed",
        RunStatus.NOT_STARTED: "The probe could not be started",
        RunStatus.INVALID_WORKLOAD: "The probe did not do what was asked, so it is not judged",
    }[run.status]
    if not words:
        return ""
    return text.sentence(f"{words}: {run.problem}" if run.problem else words)


def _speed_sentence(result: CheckResult) -> str:
    within = by_metric(result.verdicts, Scope.REPETITIONS)
    parts = []
    for metric, verdict in within.items():
        figure = "not known" if verdict.mean is None else format_value(verdict.mean, verdict.unit)
        parts.append(f"{text.metric_text(metric)} {figure}")
    if not parts:
        return ""
    words = ", ".join(parts)
    return f"{words[:1].upper()}{words[1:]} (mean of the repetitions)."


def _steady_sentence(result: CheckResult) -> str:
    across = by_metric(result.verdicts, Scope.HISTORY)
    if not across:
        return ""
    goals = {verdict.goal for verdict in across.values() if verdict.goal is not None}
    goal = f" (goal: COV at most {format_percent(goals.pop())})" if len(goals) == 1 else ""
    words = ", ".join(
        f"{text.metric_text(metric)} {text.VERDICT_WORDS[verdict.status]}"
        for metric, verdict in across.items()
    )
    unsure = {v.reason for v in across.values() if v.status is VerdictStatus.CANNOT_TELL}
    because = f" ({unsure.pop()})" if len(unsure) == 1 else ""
    return f"Steadiness over time{goal}: {words}{because}."


def _levels(verdicts: Sequence[Verdict]) -> str:
    intervals = [interval for v in verdicts for interval in (v.mean_interval, v.cov_interval)]
    levels = sorted({interval.level for interval in intervals if interval})
    if not levels:
        return ""
    words = " and ".join(f"{level * 100:g} %" for level in levels)
    return f"The ranges beneath the figures are confidence intervals at {words}."


def _verdict_groups(verdicts: Sequence[Verdict]) -> list[tuple[str, list[Verdict]]]:
    titles = {
        Scope.REPETITIONS: "Within this run: repetitions back to back",
        Scope.HISTORY: "Over time: runs of this probe",
    }
    groups = [
        (title, [verdict for verdict in verdicts if verdict.scope is scope])
        for scope, title in titles.items()
    ]
    return [(title, group) for title, group in groups if group]


def _believed(result: CheckResult, access: Access) -> set[int | None]:
    samples = result.run.samples if result.run else ()
    return {
        sample.repetition
        for sample in samples
        if sample.metric == f"{access}_bandwidth" and sample.believed
    }


def _trace_chart(
    draw: Callable[[Sequence[Trace], Access], Chart | None],
    result: CheckResult,
    traces: Sequence[Trace],
    access: Access,
) -> Chart | None:
    """Draw the traces of believed repetitions, or all where none is believed; say which."""
    believed = _believed(result, access)
    all_traces = [trace for trace in traces if trace.access == access]
    credible = [trace for trace in all_traces if trace.repetition in believed]
    chart = draw(credible or all_traces, access)
    if chart is None or len(credible) == len(all_traces):
        return chart
    words = (
        "Repetitions that are not believed are left out."
        if credible
        else "None of these repetitions is believed: it is what the program saw, not the drives."
    )
    return replace(chart, caption=f"{chart.caption} {words}")


def _this_point(result: CheckResult, verdict: Verdict | None) -> HistoryPoint | None:
    run = result.run
    if run is None or run.at is None or verdict is None:
        return None
    if run.status is RunStatus.UNFINISHED:
        return HistoryPoint(run.at, verdict.metric, 0.0, True, run.id)
    if verdict.median is None:
        return None
    return HistoryPoint(run.at, verdict.metric, verdict.median, False, run.id)


def _setting_rows(settings: dict[str, Setting | NotAvailable]) -> list[SettingRow]:
    return [
        SettingRow(name, None, setting.reason)
        if isinstance(setting, NotAvailable)
        else SettingRow(name, setting.value, setting.source)
        for name, setting in sorted(settings.items())
    ]


def _missing(result: CheckResult) -> list[Missing]:
    notes = [Missing("layers beneath the path", note) for note in result.path.notes]
    incomplete = [
        Missing("snapshot", "not every target answered: its readings are not complete")
    ] * (not result.snapshot.complete)
    return list(dict.fromkeys([*result.not_available, *notes, *incomplete]))


def _commands(result: CheckResult) -> list[Command]:
    outputs = result.run.outputs if result.run else ()
    commands = []
    for output in outputs:
        sha256 = hashlib.sha256(output.stdout).hexdigest()
        outcome = (
            "ended without an exit code" if output.exit_code is None else f"exit {output.exit_code}"
        )
        if output.elapsed_s is not None:
            outcome += f" after {format_value(output.elapsed_s, 's')}"
        if output.truncated:
            outcome += ", output cut at its limit"
        commands.append(Command(output.label, shell_text(output.argv), outcome, sha256))
    return commands


def _medium(result: CheckResult) -> str:
    is_flash = result.path.is_flash
    return text.NOT_KNOWN if is_flash is None else "flash" if is_flash else "rotating"
