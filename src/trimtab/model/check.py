"""Everything that one `trimtab check` saw, measured and concluded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.model.filesystem import PathDescription
from trimtab.model.finding import Finding, Missing
from trimtab.model.run import LatencyHistogram, Run, Timeline
from trimtab.model.telemetry import NotAvailable, Setting, Snapshot
from trimtab.model.verdict import Comparison, Verdict


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One earlier run of the same probe on the same site, one metric.

    ``value`` is the median over the believed repetitions, 0 for a run that did not finish.
    """

    at: datetime
    metric: str
    value: float
    unfinished: bool
    run: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, from which JSON, terminal text and report are made.

    Attributes
    ----------
    settings
        Target name to setting name to value or reason.
    run
        ``None`` with ``--no-probe`` or when the probe could not be started.
    report
        Where the HTML report was written.
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
