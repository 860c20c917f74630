"""How a check went, in one sentence: how healthy, how fast and how steady.

Healthy is said only of what was seen and measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trimtab.judge.occasions import OCCASIONS_MINIMUM
from trimtab.measure.plain import as_dict
from trimtab.model.check import CheckResult
from trimtab.model.finding import Finding, Severity
from trimtab.model.run import Run, RunStatus
from trimtab.model.telemetry import NotAvailable
from trimtab.model.verdict import Scope, Verdict, VerdictStatus
from trimtab.report import text
from trimtab.report.kit import SEVERITY_TONES, Tone
from trimtab.units import enumerated, format_bytes, format_percent, format_value, plural


def health(result: CheckResult, findings: Sequence[Finding]) -> tuple[Tone, str]:
    """Return tone and sentence; healthy is said only where nothing speaks against it.

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
    """Return tone and words for what was found, without the figures."""
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
        for metric, verdict in by_metric(result.verdicts, Scope.HISTORY).items()
        if verdict.status is VerdictStatus.MISSED
    ]
    if missed:
        return "warning", f"Not steady: {' and '.join(missed)} missed the goal; {known}"
    missing = "; ".join(_missing(result))
    if not _is_measured(result):
        seen = f"; {missing}" if missing else ""
        return "unclear", f"Not measured: {known} in what could be seen{seen}"
    if missing:
        return "unclear", f"Partly seen: {known} in what could be seen; {missing}"
    if worst:
        return "info", f"Healthy, with {count} to note (info)"
    return "healthy", "Healthy"


_ACCESSES = {"write_bandwidth": "writes", "read_bandwidth": "reads"}


def _speed(result: CheckResult) -> str:
    """Return the rates of a check with its tasks; nothing where none was measured."""
    rates = [
        f"{_ACCESSES[metric]} {format_value(verdict.mean, verdict.unit)}"
        for metric, verdict in by_metric(result.verdicts, Scope.REPETITIONS).items()
        if metric in _ACCESSES and verdict.mean is not None
    ]
    tasks = None if result.run is None else _spec_number(result.run, "tasks")
    at = "" if tasks is None else f" at {plural(tasks, 'task')}"
    return f"{', '.join(rates)}{at}" if rates else ""


def _steadiness(result: CheckResult) -> str:
    """Return how variable runs over time are, or what it takes to say so."""
    history = by_metric(result.verdicts, Scope.HISTORY).values()
    if not history or any(verdict.status is VerdictStatus.MISSED for verdict in history):
        return ""
    lacking = [verdict for verdict in history if verdict.status is VerdictStatus.CANNOT_TELL]
    if not lacking:
        cov = max(verdict.cov for verdict in history if verdict.cov is not None)
        return f"steady, COV {format_percent(cov)}"
    runs = OCCASIONS_MINIMUM - min(verdict.n for verdict in lacking)
    if runs <= 0:
        return "steadiness cannot be told yet"
    return f"steadiness needs {plural(runs, 'more run')}"


def cost_text(run: Run | None, free_bytes: float | None = None) -> str:
    """Return what a probe wrote and read, and how much room its files took; empty: nothing."""
    cost = as_dict(None if run is None else run.parameters.get("cost"))
    if run is None or not cost:
        return ""
    moved = [
        f"{word} {format_bytes(cost[key])}"
        for key, word in (("bytes_written", "wrote"), ("bytes_read", "read"))
        if cost.get(key) is not None
    ]
    words = ", ".join(moved) or "how much it wrote is not known"
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


def _missing(result: CheckResult) -> Iterator[str]:
    """Yield what was not seen, the nearest to the drives last."""
    run = result.run
    if run is not None and not _is_measured(result):
        yield "the probe gave nothing to judge"
    elif doubted := [
        _ACCESSES[metric]
        for metric, verdict in by_metric(result.verdicts, Scope.REPETITIONS).items()
        if metric in _ACCESSES and verdict.mean is None
    ]:
        yield f"no figure of {enumerated(doubted)} is believed"
    if not result.snapshot.complete:
        yield "not every target answered"
    if result.path.kind in {"local", "opaque"} and not result.path.devices:
        yield "no device could be seen beneath the path"
    if result.path.kind == "network":
        yield "the servers of a network file system cannot be seen from here"
    settings = [setting for rows in result.settings.values() for setting in rows.values()]
    unread = [setting for setting in settings if isinstance(setting, NotAvailable)]
    if 2 * len(unread) > len(settings) or not settings:
        yield f"{len(unread)} of {plural(len(settings), 'setting')} could not be read"


def by_metric(verdicts: Sequence[Verdict], scope: Scope) -> dict[str, Verdict]:
    """Return the verdicts on the whole file system by metric."""
    return {
        verdict.metric: verdict
        for verdict in verdicts
        if verdict.scope is scope and verdict.target is None
    }
