"""The result of a check, and what it prints as ``--json``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from trimtab.base.filesystem import PathDescription
from trimtab.base.finding import Finding, Missing
from trimtab.base.run import LatencyHistogram, Run, Timeline
from trimtab.base.snapshot import NotAvailable, Setting, Snapshot, TargetSnapshot
from trimtab.base.verdict import Comparison, HistoryPoint, Scope, Verdict, VerdictStatus
from trimtab.show.encode import Problem, shape


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, the source of JSON, terminal text and report.

    Attributes
    ----------
    site
        Name of the site, or the identity of a path without one.
    at
        Start of the check, aware UTC.
    host
        The host on which the check ran.
    settings
        Target name to setting name to value or reason.
    run
        ``None`` with ``--no-probe`` or when the probe could not be started.
    not_available
        What could not be checked, with the reasons.
    history
        Earlier runs of the same probe.
    report
        Path of the HTML report; ``None`` if none was written.
    """

    site: str
    at: datetime
    host: str
    trimtab_version: str
    path: PathDescription
    snapshot: Snapshot
    settings: dict[str, dict[str, Setting | NotAvailable]]
    run: Run | None = None
    verdicts: tuple[Verdict, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_available: tuple[Missing, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    histograms: tuple[LatencyHistogram, ...] = ()
    history: tuple[HistoryPoint, ...] = ()
    report: str | None = None

    @property
    def missed_history(self) -> bool:
        """Whether a verdict over history is missed."""
        return any(
            verdict.scope is Scope.HISTORY and verdict.status is VerdictStatus.MISSED
            for verdict in self.verdicts
        )


@dataclass(frozen=True, slots=True)
class CheckDocument:
    """``trimtab check --json``."""

    result: CheckResult
    error: Problem | None = None


def _checked_targets(check: CheckResult) -> tuple[TargetSnapshot, ...]:
    """Return the targets with the settings that the check read."""
    return tuple(
        replace(seen, settings=dict(sorted(check.settings.get(seen.target.name, {}).items())))
        for seen in check.snapshot.targets
    )


shape(
    CheckResult,
    omit=["snapshot", "settings", "run", "timelines", "histograms", "history"],
    derive={
        "targets": (tuple[TargetSnapshot, ...], _checked_targets),
        "runs": (tuple[Run, ...], lambda check: () if check.run is None else (check.run,)),
    },
)
shape(CheckDocument, inline={"result": ()})
