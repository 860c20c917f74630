"""The result of a check: what was seen and measured, and what follows from it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.base.code_version import __version__
from trimtab.base.encode import Problem, shape
from trimtab.base.filesystem import PathDescription
from trimtab.base.finding import Finding, Missing
from trimtab.base.run import LatencyHistogram, Run, Timeline, comparability_key
from trimtab.base.snapshot import NotAvailable, Setting, Snapshot, TargetSnapshot
from trimtab.base.verdict import Comparison, HistoryPoint, Scope, Verdict, VerdictStatus
from trimtab.explain.drive_finding import ObservedTarget
from trimtab.explain.finding_table import find_all
from trimtab.judge.run_verdict import comparisons, verdicts
from trimtab.probe.probe import ProbeOutcome, left_behind

if TYPE_CHECKING:
    from trimtab.probe.check_plan import CheckOptions
    from trimtab.site.path_access import PathDriver, Reach
    from trimtab.store.store import Store


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


def comparable_runs(store: Store, site: str, run: Run) -> tuple[HistoryPoint, ...]:
    """Return the stored runs of the same probe, this one among them."""
    return store.history(site, comparability_key(run))


def observed_target(
    driver: PathDriver,
    wanted: CheckOptions,
    reach: Reach,
    *,
    now: Snapshot,
    before: Snapshot | None,
    outcome: ProbeOutcome | None,
) -> ObservedTarget:
    """Return the data in which findings are searched; reads how it is trimmed, and leftovers."""
    path = driver.description
    practice = driver.trim_practice(path.mount_point)
    return ObservedTarget(
        path=path,
        now=now.targets[0],
        before=None if before is None else before.targets[0],
        trim=None if isinstance(practice, NotAvailable) else practice,
        samples=() if outcome is None else outcome.run.samples,
        limits=wanted.limits,
        direct=wanted.direct,
        left_behind=left_behind(path.real_path, reach.clock(), reach),
    )


def noted_beside_store(path: PathDescription, store_path: Path | None) -> PathDescription:
    """Return the path, with a note if the store shares the disk that is measured."""
    if store_path is None or path.device_number is None:
        return path
    device = os.stat(store_path).st_dev  # noqa: PTH116 (beside the path's major:minor)
    if path.device_number != f"{os.major(device)}:{os.minor(device)}":
        return path
    note = f"the store {store_path} is on this file system too"
    return replace(path, notes=(*path.notes, note))


def concluded(
    observed: ObservedTarget,
    snapshot: Snapshot,
    *,
    site: str,
    at: datetime,
    path: PathDescription,
    settings: dict[str, dict[str, Setting | NotAvailable]],
    outcome: ProbeOutcome | None,
    history: tuple[HistoryPoint, ...],
    troubles: tuple[Finding, ...],
    missing: Iterable[Missing],
) -> CheckResult:
    """Return the result of a check: its verdicts, comparisons and findings.

    Parameters
    ----------
    path
        As described, with notes of the check itself.
    troubles
        Findings about the site's targets, beside those about this path.
    missing
        What the check could not do.
    """
    run = None if outcome is None else outcome.run
    findings = (*troubles, *find_all([observed]))
    return CheckResult(
        site=site,
        at=at,
        host=platform.node(),
        trimtab_version=__version__,
        path=path,
        snapshot=snapshot,
        settings=settings,
        run=run,
        verdicts=() if run is None else verdicts(run, history, goal=observed.limits.cov),
        comparisons=() if run is None else comparisons(run, history),
        findings=tuple(sorted(findings, key=lambda finding: finding.severity.rank)),
        not_available=(*missing, *_missing(observed.path.notes, snapshot, outcome)),
        timelines=() if outcome is None else outcome.timelines,
        histograms=() if outcome is None else outcome.histograms,
        history=history,
    )


def _missing(
    notes: tuple[str, ...], now: Snapshot, outcome: ProbeOutcome | None
) -> tuple[Missing, ...]:
    """Return everything that could not be seen, each with its reason, once."""
    readings = (
        Missing(reading.name if reading.label is None else f"{reading.name} {reading.label}", text)
        for target in now.targets
        for reading in target.readings
        if (text := reading.reason) is not None
    )
    of_path = (Missing("layers", note) for note in notes)
    of_probe = () if outcome is None else outcome.missing
    return tuple(dict.fromkeys((*of_path, *readings, *of_probe)))


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
