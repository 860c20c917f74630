"""How a check went, in one sentence: healthy is said only of what was seen and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trimtab.model.check import CheckResult
from trimtab.model.finding import Finding, Severity
from trimtab.model.run import RunStatus
from trimtab.model.telemetry import NotAvailable
from trimtab.model.verdict import Scope, Verdict, VerdictStatus
from trimtab.report import text
from trimtab.units import plural


def health(result: CheckResult, findings: Sequence[Finding]) -> tuple[str, str]:
    """Return tone and sentence; healthy is said only where nothing speaks against it.

    Parameters
    ----------
    findings
        Worst first.
    """
    count = plural(len(findings), "finding")
    worst = findings[0] if findings else None
    if worst and worst.severity is not Severity.INFO:
        rank = "" if len(findings) == 1 else "the worst is "
        return worst.severity.value, f"{count}, {rank}{worst.severity.value}: {worst.title}"
    known = f"{count} (info)" if worst else "no findings"
    missed = [
        text.metric_text(metric)
        for metric, verdict in by_metric(result.verdicts, Scope.HISTORY).items()
        if verdict.status is VerdictStatus.MISSED
    ]
    if missed:
        return "warning", f"Not steady: {' and '.join(missed)} missed the goal; {known}."
    missing = "; ".join(_missing(result))
    if not _is_measured(result):
        seen = f"; {missing}" if missing else ""
        return "unclear", f"Not measured: {known} in what could be seen{seen}."
    if missing:
        return "unclear", f"Partly seen: {known} in what could be seen; {missing}."
    if worst:
        return "info", f"Healthy, with {count} to note (info)."
    return "healthy", "Healthy: nothing was found that is set up badly."


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
