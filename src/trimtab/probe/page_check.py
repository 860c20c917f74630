"""The pages of one check and of one probe: what was seen, measured and concluded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from trimtab.base import text
from trimtab.base.error import shell_text
from trimtab.base.finding import Finding, Missing, Severity, Tone
from trimtab.base.plain import as_dict
from trimtab.base.run import Access, LatencyHistogram, RawOutput, Run, RunStatus, Timeline
from trimtab.base.snapshot import NotAvailable, Setting, TargetSnapshot
from trimtab.base.units import (
    enumerated,
    format_bytes,
    format_duration,
    format_percent,
    format_value,
    plural,
)
from trimtab.base.verdict import Comparison, HistoryPoint, Interval, Scope, Verdict, VerdictStatus
from trimtab.judge.spread import OCCASIONS_MINIMUM, is_vague
from trimtab.probe.page_check_detail import (
    history_chart,
    latency_chart,
    layer_table,
    layers_text,
    repetition_chart,
    timeline_chart,
)
from trimtab.show.chart import Chart
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

if TYPE_CHECKING:
    from trimtab.probe.check_result import CheckResult

Trace = TypeVar("Trace", Timeline, LatencyHistogram)
Draw = Callable[[], Chart | None]
_ACCESSES: Final[tuple[Access, ...]] = ("write", "read")
_METRICS: Final = tuple(f"{access}_bandwidth" for access in _ACCESSES)
_OF_TARGETS: Final = ("servers", "targets")
"""Missing parts of a parallel file system, reported first since they may hide troubles."""
_PROBLEMS: Final = {
    RunStatus.PARTIAL: "The probe ended early; its measurements are valid",
    RunStatus.UNFINISHED: "The probe did not finish in time, which counts as bandwidth 0",
    RunStatus.FAILED: "The probe failed",
    RunStatus.NOT_STARTED: "The probe could not be started",
    RunStatus.INVALID_WORKLOAD: "The probe ran another workload than requested: not judged",
}
_NOT_FOUND: Final = "No misconfiguration found in the settings and states that could be read."


def check_document(result: CheckResult) -> Document:
    """Return the page of a check: how healthy, how fast, how steady, then the evidence."""
    tone, answer = health(result, result.findings)
    hidden = (gap for gap in result.not_available if gap.what in _OF_TARGETS)
    details = (_problem(result.run), *(f"{gap.what}: {gap.reason}" for gap in hidden))
    at = text.moment_text(result.at)
    return Document(
        kind="check",
        heading=result.path.path,
        subtitle=f"{layers_text(result.path, result.snapshot)}; {result.site}, {result.host}, {at}",
        tone=tone,
        answer=answer,
        details=tuple(filter(None, details)),
        sections=tuple(_sections(result)),
    )


def probe_document(
    runs: Sequence[Run],
    verdicts: Sequence[Verdict],
    comparisons: Sequence[Comparison],
    notes: Sequence[str],
) -> Document:
    """Return the page of a probe: its outcome, then its numbers.

    Parameters
    ----------
    runs
        The one that was asked for, then further ones measured by the same command.
    notes
        What else could not be done.
    """
    run, *others = runs
    rest = (Section("Also measured", lines=tuple(map(_other, others))),) if others else ()
    return Document(
        kind="probe",
        heading=run.site,
        subtitle=f"run {run.id}",
        tone="info" if run.status is RunStatus.OK else "warning",
        answer=f"{run.site}: probe {run.probe} ({run.kind}), {run.status.value}, "
        f"{text.local_moment(run.at)}",
        details=tuple(filter(None, (_problem(run), _job(run), *notes))),
        sections=(_numbers(run, verdicts, comparisons), *rest, _run_section(run)),
    )


def _sections(result: CheckResult) -> Iterator[Section]:
    yield from map(_finding, result.findings)
    if not result.findings:
        yield Section("Findings", lines=(_NOT_FOUND,))
    targets = result.snapshot.targets
    free = targets[0].number("available_bytes") if len(targets) == 1 else None
    yield _numbers(result.run, result.verdicts, result.comparisons, free)
    if result.run is not None and result.run.samples:
        yield Section("Charts", charts=tuple(_number_charts(result)))
    missing = _missing(result)
    if missing:
        names = enumerated(dict.fromkeys(gap.what for gap in missing), 6)
        gaps = table(("what", "why"), (row(gap.what, gap.reason) for gap in missing))
        yield Section(f"Not seen: {names}", tables=(gaps,), folded=True)
    if result.timelines or result.histograms:
        yield Section("Within the repetitions", charts=tuple(_traces(result)), folded=True)
    layers = layer_table(result.path)
    yield Section("Layers beneath the path", tables=(layers,), folded=True)
    yield Section(
        "Readings and settings",
        lines=() if result.snapshot.targets else ("No target answered.",),
        folds=(
            *map(_readings, result.snapshot.targets),
            *(_settings(name, settings) for name, settings in result.settings.items() if settings),
        ),
        folded=True,
    )
    if result.run is not None:
        yield _run_section(result.run)


def _numbers(
    run: Run | None,
    verdicts: Sequence[Verdict],
    comparisons: Sequence[Comparison],
    free_bytes: float | None = None,
) -> Section:
    """Return the results of a run by itself, over time and against earlier ones, and its gaps."""
    none = "No number was judged." if run else "Nothing was measured."
    missing = () if verdicts else (none,)
    lines = (*missing, *map(_against_earlier, comparisons), cost_text(run, free_bytes))
    return Section(
        "Numbers",
        lines=tuple(filter(None, lines)),
        tables=(
            table(
                ("metric", "mean>", "median>", "COV>", "verdict"),
                map(_verdict_row, verdicts),
                "COV is the standard deviation over the mean, MAD-CV the same without the few bad "
                "events (1.4826 times the median absolute deviation over the median). Ranges are "
                "confidence intervals at 95 %.",
            ),
        ),
        notes=tuple(_not_believed(run)),
    )


def _verdict_row(verdict: Verdict) -> Row:
    over_time = verdict.scope is Scope.HISTORY
    count = plural(verdict.n, "run" if over_time else "repetition")
    reason = str(verdict.reason)
    interval = verdict.cov_interval
    cov = [] if interval is None or is_vague(interval) else [_range(interval, "1")]
    name = f"{text.metric_text(verdict.metric)} {verdict.target or ''}".rstrip()
    if verdict.unfinished:
        count += f", {verdict.unfinished} unfinished"
        reason += f"; COV of the finished ones {format_value(verdict.cov_finished, '1')}"
    if verdict.mad_cv is not None:
        cov.append(f"MAD-CV {format_percent(verdict.mad_cv)}")
    return row(
        Cell(f"{name}, over time" if over_time else name, count),
        Cell(format_value(verdict.mean, verdict.unit), _range(verdict.mean_interval, verdict.unit)),
        Cell(
            format_value(verdict.median, verdict.unit),
            f"slowest {format_value(verdict.slowest, verdict.unit)}",
        ),
        Cell(format_value(verdict.cov, "1"), ", ".join(cov)),
        Cell(
            text.VERDICT_WORDS[verdict.status],
            "" if verdict.goal is None else f"goal {format_percent(verdict.goal)}",
            GOAL_TONES[verdict.status],
        ),
        note=reason,
    )


def _range(interval: Interval | None, unit: str) -> str:
    return "" if interval is None else text.range_text(interval, unit)


def _against_earlier(comparison: Comparison) -> str:
    words = f"{text.metric_text(comparison.metric)}: {comparison.reason}"
    if comparison.ratio is None:
        return text.sentence(words)
    interval = comparison.ratio_interval
    shown = "" if interval is None else f", interval {text.ratio_text(interval)}"
    median = format_value(comparison.earlier_median, comparison.unit)
    runs = plural(comparison.n_earlier, "earlier run")
    return f"{words}: {comparison.ratio:.3f} of {median}, the median of {runs}{shown}."


def _not_believed(run: Run | None) -> Iterator[str]:
    """Yield the figures that are not judged, grouped by reason."""
    figures: dict[str, list[str]] = {}
    for sample in () if run is None else run.samples:
        if sample.statistic == "total" and sample.reason is not None:
            name = f"{sample.metric.split('_')[0]} {sample.repetition}"
            value = format_value(sample.value, sample.unit)
            figures.setdefault(sample.reason, []).append(f"{name} {value}")
    for why, names in figures.items():
        yield f"not credible: {', '.join(names)} ({why})."


def _finding(finding: Finding) -> Section:
    seen = replace(finding.seen, source=finding.source or finding.seen.source)
    target = f" of {finding.target}" if finding.target else ""
    evidence = (
        row(each.what, format_value(each.value, each.unit), each.source or "-")
        for each in (seen, *finding.evidence)
    )
    return Section(
        f"{finding.severity.value}, {finding.id}: {finding.title}",
        lines=(
            f"Seen{target}: {seen.what} {format_value(seen.value, seen.unit)}",
            f"Do: {finding.fix.prose}",
        ),
        commands=(shell_text(finding.fix.argv),) if finding.fix.argv else (),
        folds=(
            (
                f"Why ({format_percent(finding.confidence, 0)} sure): {finding.why}",
                table(("seen", "value>", "source"), evidence),
            ),
        ),
        tone=SEVERITY_TONES[finding.severity],
    )


def _readings(target: TargetSnapshot) -> tuple[str, Table | None]:
    known = sum(reading.value is not None for reading in target.readings)
    full = "" if target.fullness() is None else f"{format_value(target.fullness(), '1')} full, "
    count = f"{full}{known} of {len(target.readings)} readings have a value"
    rows = (
        row(
            f"{reading.name} {reading.label or ''}".rstrip(),
            Cell(text.reading_text(reading), text.exact_text(reading.value, reading.unit)),
            reading.source or reading.reason or "source unknown",
        )
        for reading in target.readings
    )
    columns = ("reading", "value>", "source, or why it is missing")
    return f"{target.target.name}: {count}", table(columns, rows)


def _settings(target: str, settings: dict[str, Setting | NotAvailable]) -> tuple[str, Table | None]:
    rows = (
        row(name, text.NOT_KNOWN, setting.reason)
        if isinstance(setting, NotAvailable)
        else row(name, setting.value, setting.source)
        for name, setting in sorted(settings.items())
    )
    columns = ("setting", "value>", "source, or why it is missing")
    return f"{target}: {plural(len(settings), 'setting')}", table(columns, rows)


def _missing(result: CheckResult) -> list[Missing]:
    notes = [Missing("layers beneath the path", note) for note in result.path.notes]
    incomplete = [
        Missing("snapshot", "not every target answered: its readings are not complete")
    ] * (not result.snapshot.complete)
    return list(dict.fromkeys([*result.not_available, *notes, *incomplete]))


def _run_section(run: Run) -> Section:
    parameters = sorted(run.parameters.items())
    rows = (row(name, text.parameter_text(name, value)) for name, value in parameters)
    return Section(
        f"The run: trimtab show {run.id[:13]}",
        lines=(
            f"{run.probe}, {run.kind} {run.tool_version or '(version not known)'}, "
            f"{run.status.value}, {text.moment_text(run.at)} to {text.moment_text(run.until)}.",
        ),
        folds=(
            ("Parameters", table(("parameter", "value"), rows)),
            (
                "Commands",
                table(("command", "how it ended", "raw output"), map(_command_row, run.outputs)),
            ),
        ),
        folded=True,
    )


def _command_row(output: RawOutput) -> Row:
    code = output.exit_code
    outcome = "ended without an exit code" if code is None else f"exit {code}"
    if output.elapsed_s is not None:
        outcome += f" after {format_value(output.elapsed_s, 's')}"
    if output.truncated:
        outcome += ", output cut at its limit"
    digest = f"sha256:{hashlib.sha256(output.stdout).hexdigest()}"
    return row(output.label, outcome, digest, note=shell_text(output.argv))


def _job(run: Run) -> str:
    """Return where a probe ran, if that is a job."""
    job = as_dict(run.parameters.get("job"))
    if job.get("job_id") is None:
        return ""
    waited = job.get("queued_s")
    queue = "" if waited is None else f", {format_duration(waited)} in the queue"
    return f"{job.get('launcher')} job {job['job_id']} on {job.get('node_list')}{queue}"


def _other(run: Run) -> str:
    """Return the outcome of another run, with its figures for the whole file system."""
    figures = [
        f"{sample.metric} {sample.value:.6g} {sample.unit if sample.unit != '1' else ''}".rstrip()
        for sample in run.samples
        if sample.believed and sample.statistic == "total" and sample.target is None
    ]
    why = "" if run.problem is None else f" ({run.problem})"
    return f"{run.probe}: {run.status.value}{why}  {', '.join(figures)}".rstrip()


def _problem(run: Run | None) -> str:
    words = "" if run is None else _PROBLEMS.get(run.status, "")
    if run is None or not words:
        return ""
    return text.sentence(f"{words}: {run.problem}" if run.problem else words)


def _number_charts(result: CheckResult) -> Iterator[Draw]:
    samples = result.run.samples if result.run else ()
    within = _verdicts_by_metric(result.verdicts, Scope.REPETITIONS)
    across = _verdicts_by_metric(result.verdicts, Scope.HISTORY)
    for metric in _METRICS:
        yield partial(repetition_chart, samples, metric, within.get(metric))
    for metric in _METRICS:
        this = _this_point(result, within.get(metric))
        verdict = across.get(metric)
        yield partial(history_chart, result.history, metric, this=this, verdict=verdict)


def _traces(result: CheckResult) -> Iterator[Draw]:
    for access in _ACCESSES:
        yield partial(_trace_chart, timeline_chart, result, result.timelines, access)
    for access in _ACCESSES:
        yield partial(_trace_chart, latency_chart, result, result.histograms, access)


def _trace_chart(
    draw: Callable[[Sequence[Trace], Access], Chart | None],
    result: CheckResult,
    traces: Sequence[Trace],
    access: Access,
) -> Chart | None:
    """Draw the traces of credible repetitions, or all if none is credible; say which."""
    believed = {
        sample.repetition
        for sample in (result.run.samples if result.run else ())
        if sample.metric == f"{access}_bandwidth" and sample.believed
    }
    all_traces = [trace for trace in traces if trace.access == access]
    credible = [trace for trace in all_traces if trace.repetition in believed]
    chart = draw(credible or all_traces, access)
    if chart is None or len(credible) == len(all_traces):
        return chart
    words = (
        "Repetitions that are not credible are left out."
        if credible
        else "None of these repetitions is credible: they show the program's view, not the drives'."
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


# The outcome in one sentence. Healthy refers only to what was seen and measured


def health(result: CheckResult, findings: Sequence[Finding]) -> tuple[Tone, str]:
    """Return tone and sentence; healthy only if nothing contradicts it.

    Parameters
    ----------
    findings
        Worst first.
    """
    tone, state = _state(result, findings)
    figures = [words for words in (_speed(result), _steadiness(result)) if words]
    joint = ": " if state.startswith("Healthy") else "; "
    return tone, joint.join([state, "; ".join(figures)] if figures else [state])


def _state(result: CheckResult, findings: Sequence[Finding]) -> tuple[Tone, str]:
    """Return tone and text of the result, without figures."""
    count = plural(len(findings), "finding")
    worst = findings[0] if findings else None
    if worst and worst.severity is not Severity.INFO:
        rank = "" if len(findings) == 1 else "the worst is "
        return SEVERITY_TONES[
            worst.severity
        ], f"{count}, {rank}{worst.severity.value}: {worst.title}"
    known = f"{count} (info)" if worst else "no findings"
    missed = [
        text.metric_text(metric)
        for metric, verdict in _verdicts_by_metric(result.verdicts, Scope.HISTORY).items()
        if verdict.status is VerdictStatus.MISSED
    ]
    if missed:
        return "warning", f"Not steady: {' and '.join(missed)} missed the goal; {known}"
    missing = "; ".join(_not_seen(result))
    if not _is_measured(result):
        seen = f"; {missing}" if missing else ""
        return "unclear", f"Not measured: {known} in what could be seen{seen}"
    if missing:
        return "unclear", f"Partly seen: {known} in what could be seen; {missing}"
    if worst:
        return "info", f"Healthy, with {count} to note (info)"
    return "healthy", "Healthy"


_VERBS = {"write_bandwidth": "writes", "read_bandwidth": "reads"}


def _speed(result: CheckResult) -> str:
    """Return the rates of a check with its tasks; empty if none was measured."""
    rates = [
        f"{_VERBS[metric]} {format_value(verdict.mean, verdict.unit)}"
        for metric, verdict in _verdicts_by_metric(result.verdicts, Scope.REPETITIONS).items()
        if metric in _VERBS and verdict.mean is not None
    ]
    tasks = None if result.run is None else _spec_number(result.run, "tasks")
    at = "" if tasks is None else f" at {plural(tasks, 'task')}"
    return f"{', '.join(rates)}{at}" if rates else ""


def _steadiness(result: CheckResult) -> str:
    """Return the variability of runs over time, or what is missing to judge it."""
    history = _verdicts_by_metric(result.verdicts, Scope.HISTORY).values()
    if not history or any(verdict.status is VerdictStatus.MISSED for verdict in history):
        return ""
    lacking = [verdict for verdict in history if verdict.status is VerdictStatus.CANNOT_TELL]
    if not lacking:
        cov = max(verdict.cov for verdict in history if verdict.cov is not None)
        return f"steady, COV {format_percent(cov)}"
    runs = OCCASIONS_MINIMUM - min(verdict.n for verdict in lacking)
    if runs <= 0:
        return "steadiness not known yet"
    return f"steadiness needs {plural(runs, 'more run')}"


def cost_text(run: Run | None, free_bytes: float | None = None) -> str:
    """Return what a probe wrote and read, and the space of its files; empty: nothing."""
    cost = as_dict(None if run is None else run.parameters.get("cost"))
    if run is None or not cost:
        return ""
    moved = [
        f"{word} {format_bytes(cost[key])}"
        for key, word in (("bytes_written", "wrote"), ("bytes_read", "read"))
        if cost.get(key) is not None
    ]
    words = ", ".join(moved) or "bytes written not known"
    if (hours := cost.get("node_hours")) is not None:
        words += f", {hours:.3g} node-hours"
    tasks, block = _spec_number(run, "tasks"), _spec_number(run, "block_size_bytes")
    if not (tasks and block and cost.get("bytes_written")):
        return f"{words}."
    size = tasks * block
    share = f", {format_percent(size / free_bytes)} of the free space" if free_bytes else ""
    return f"{words}; its files took {format_bytes(size)} at a time{share}, and are removed."


def _spec_number(run: Run, name: str) -> int | None:
    value = as_dict(run.parameters.get("spec")).get(name)
    return value if isinstance(value, int) else None


def _is_measured(result: CheckResult) -> bool:
    run = result.run
    return (
        run is not None
        and run.status in {RunStatus.OK, RunStatus.PARTIAL}
        and any(sample.believed for sample in run.samples)
    )


def _not_seen(result: CheckResult) -> Iterator[str]:
    """Yield what was not seen, the nearest to the drives last."""
    run = result.run
    if run is not None and not _is_measured(result):
        yield "the probe gave no usable measurement"
    elif doubted := [
        _VERBS[metric]
        for metric, verdict in _verdicts_by_metric(result.verdicts, Scope.REPETITIONS).items()
        if metric in _VERBS and verdict.mean is None
    ]:
        yield f"no figure of {enumerated(doubted)} is credible"
    if not result.snapshot.complete:
        yield "not every target answered"
    if result.path.kind in {"local", "opaque"} and not result.path.devices:
        yield "no device is visible beneath the path"
    if result.path.kind == "network":
        yield "the servers of a network file system are not visible from here"
    settings = [setting for rows in result.settings.values() for setting in rows.values()]
    unread = [setting for setting in settings if isinstance(setting, NotAvailable)]
    if 2 * len(unread) > len(settings) or not settings:
        yield f"{len(unread)} of {plural(len(settings), 'setting')} could not be read"


def _verdicts_by_metric(verdicts: Sequence[Verdict], scope: Scope) -> dict[str, Verdict]:
    """Return the verdicts on the whole file system by metric."""
    return {
        verdict.metric: verdict
        for verdict in verdicts
        if verdict.scope is scope and verdict.target is None
    }
