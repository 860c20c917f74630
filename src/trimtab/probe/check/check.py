"""Checks one file system: inspects, measures, stores, judges, explains, reports.

A later failure never loses what was seen: if the probe cannot run or the store cannot be written,
the result is shown all the same, together with the error.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.base.code_version import __version__
from trimtab.base.error import (
    Interrupted,
    Message,
    RefusedError,
    ToolError,
    TrimtabError,
    UsageError,
    install_command,
)
from trimtab.base.filesystem import PathDescription
from trimtab.base.finding import Finding, Missing
from trimtab.base.plain import as_dict
from trimtab.base.run import ProbeSpec, Run
from trimtab.base.site import LIMITS, Site, SiteLimits
from trimtab.base.snapshot import NotAvailable, Snapshot
from trimtab.base.verdict import HistoryPoint
from trimtab.base.visible import visible
from trimtab.explain.finding_table import find_all
from trimtab.explain.observed_target import ObservedTarget
from trimtab.judge.run_verdict import comparisons, verdicts
from trimtab.probe.check.check_plan import WRITTEN_SHARE, CheckRequest, plan_probe
from trimtab.probe.documents_probe import CheckResult
from trimtab.probe.probe import ProbeOutcome, ProbeSurroundings, Progress, left_behind, run_probe
from trimtab.probe.verdict.site_standing import site_beneath
from trimtab.probe.write_read import ProbeTool, WriteRead, choose
from trimtab.reach.allocation import NodeDemand
from trimtab.reach.interruption import interruptible, shielded
from trimtab.reach.report_file import report_of, report_path, write_report
from trimtab.site.lookup import open_store
from trimtab.site.path_access import THIS_HOST, PathDriver, Reach

if TYPE_CHECKING:
    from trimtab.store.store import Store

RUNS_LOOKED_AT = 50
"""For the parameters to keep: so many runs of other parameters may lie in between."""
PROBE = "check"
"""The name under which the probe that `check` makes up is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions(CheckRequest):
    """What a person asked for; see ``trimtab check --help``."""

    path: str
    store_url: str | None = None
    site: str | None = None
    report: str | None = None
    no_probe: bool = False
    timeout_s: float | None = None
    fullness_limit: float | None = None
    cov_goal: float | None = None
    allocator_statistics: bool = True

    @property
    def limits(self) -> SiteLimits:
        """What the file system is held to."""
        requested = {"fullness": self.fullness_limit, "cov": self.cov_goal}
        return replace(LIMITS, **{k: v for k, v in requested.items() if v is not None})


def of_site(site: Site, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a check with what the site file says where a person said nothing."""
    from_site = {
        "path": site.path,
        "site": options.get("site") or site.name,
        "store_url": options.get("store_url") or site.store.url,
    }
    for name, value in (("fullness_limit", site.limits.fullness), ("cov_goal", site.limits.cov)):
        from_site[name] = value if options.get(name) is None else options[name]
    return {**options, **from_site}


def check(
    wanted: CheckOptions,
    *,
    page: Callable[[CheckResult], str],
    known: Site | None = None,
    progress: Progress = lambda step, fraction: None,
    reach: Reach = THIS_HOST,
) -> tuple[CheckResult, TrimtabError | None]:
    """Return what one check saw, measured and concluded, and what kept it from being whole.

    Parameters
    ----------
    page
        The report of a check, as HTML.
    known
        The site that was named; ``None``: of a parallel file system, the one site file whose path
        has the checked one, if there is just one.
    reach
        How the path is reached: this host's, or as a client of the twin.

    Raises
    ------
    UsageError
        The path is missing, not a directory, or an option makes no sense.
    UnreadableError
        The store cannot be opened: nothing is measured that could not be kept.
    Interrupted
        By SIGINT, SIGTERM or SIGHUP; the probe's files are removed, and what it had measured is
        kept as a partial run.
    """
    with interruptible(), ExitStack() as stack:
        progress("looking", 0.0)
        driver = reach.open_path(wanted.path, reach.execute, reach.clock)
        _refuse_what_is_no_directory(wanted.path, reach)
        store = stack.enter_context(open_store(wanted.store_url, create=True))
        # Refused at once, what could not be written in the end.
        real_path = driver.description.real_path
        reports = store.location.raw.parent / "reports"
        report = report_path(wanted.report, reports, site=wanted.site, path=real_path)
        return _Check(wanted, driver, store, page, progress, reach, known).run(report)


@dataclass(slots=True)
class _Check:
    """A check under way."""

    wanted: CheckOptions
    driver: PathDriver
    store: Store
    page: Callable[[CheckResult], str]
    progress: Progress
    reach: Reach
    known: Site | None = None
    missing: list[Missing] = field(default_factory=list)
    before: Snapshot | None = None
    outcome: ProbeOutcome | None = None
    now: Snapshot | None = None
    error: TrimtabError | None = None

    @property
    def site(self) -> str:
        return self.wanted.site or self.driver.description.identity

    @property
    def target(self) -> str:
        return self.driver.description.mount_point

    def run(self, report: Path) -> tuple[CheckResult, TrimtabError | None]:
        self._know_site()
        at = self.reach.clock()
        try:
            self._look_and_measure(at)
        except ToolError as error:
            if self.now is None:
                raise
            self.error = self.error or error  # everything is there but a setting put back
        if self.outcome is not None and isinstance(self.outcome.error, Interrupted):
            raise self.outcome.error
        assert self.now is not None
        view = site_beneath(self.driver.description, self.wanted.path, self.known, self.reach.clock)
        self.missing += view.missing
        now = view.snapshot or self.now
        # A client's view of a parallel file system must not hide what is known of its targets.
        if view.snapshot is not None or view.site is None:
            self._keep(lambda: self.store.add_snapshot(self.site, now))
        self.progress("judging", 1.0)
        try:
            troubles = view.troubles(self.store, self.site)
        except TrimtabError as error:
            self.error, troubles = self.error or error, ()
        result = self._result(at, self.now, troubles)
        return self._write_report(result, report), self.error

    def _look_and_measure(self, at: datetime) -> None:
        """Look, measure and look again, with the allocator counting meanwhile if it may."""
        allowed = self.wanted.allocator_statistics and not self.wanted.no_probe
        with self.driver.allocator_counting(self.target, allowed=allowed) as why_not_counting:
            if not self.wanted.no_probe:
                self.before = self.driver.snapshot(at)
                self._probe()
            self.now = self.driver.snapshot(self.reach.clock())
        if isinstance(why_not_counting, NotAvailable):
            self.missing.append(Missing("allocator statistics", why_not_counting.reason))

    def _result(self, at: datetime, now: Snapshot, of_site: tuple[Finding, ...]) -> CheckResult:
        outcome = self.outcome
        run = None if outcome is None else outcome.run
        history = () if run is None else self._history(run)
        notes = self.driver.description.notes
        findings = (*of_site, *find_all([self._observed(now)]))
        return CheckResult(
            site=self.site,
            at=at,
            host=platform.node(),
            trimtab_version=__version__,
            path=self._path_with_notes(),
            snapshot=now,
            settings={self.target: self.driver.settings(self.target)},
            run=run,
            verdicts=() if run is None else verdicts(run, history, goal=self.wanted.limits.cov),
            comparisons=() if run is None else comparisons(run, history),
            findings=tuple(sorted(findings, key=lambda finding: finding.severity.rank)),
            not_available=(*self.missing, *_missing(notes, now, outcome)),
            timelines=() if outcome is None else outcome.timelines,
            histograms=() if outcome is None else outcome.histograms,
            history=history,
        )

    def _path_with_notes(self) -> PathDescription:
        """Return the path, with a word where the store shares the disk that is measured."""
        path, store_path = self.driver.description, self.store.location.path
        if store_path is None or path.device_number is None:
            return path
        device = os.stat(store_path).st_dev  # noqa: PTH116 (beside the path's major:minor)
        if path.device_number != f"{os.major(device)}:{os.minor(device)}":
            return path
        note = f"the store {store_path} is on this file system too"
        return replace(path, notes=(*path.notes, note))

    def _probe(self) -> None:
        """Run the probe; where it cannot even be started say so and go on looking."""
        try:
            step = self._plan()
        except (RefusedError, ToolError) as error:
            self.error = error
            self.missing.append(Missing("probe", error.message))
            return
        self.outcome = run_probe(
            step,
            self._surroundings(step.spec, step.instrument),
            progress=self.progress,
            keep=lambda run: self._keep(lambda: self.store.add_run(run)),
        )
        if not isinstance(self.outcome.error, Interrupted):
            self.error = self.error or self.outcome.error

    def _plan(self) -> WriteRead:
        path = self.driver.description.real_path
        hint = "name a directory that you may write in, or check without a probe: --no-probe"
        space = self.reach.writable_space(path, hint=hint)
        instrument = choose(self.wanted.benchmark, self.reach)
        spec = plan_probe(
            self.wanted,
            available_bytes=space.available_bytes,
            processors=self.reach.processors,
            earlier=self._earlier_specs(),
        )
        named = replace(spec, benchmark=instrument.benchmark.name)
        return WriteRead(named, instrument, WRITTEN_SHARE * space.available_bytes)

    def _earlier_specs(self) -> list[ProbeSpec]:
        """Return what earlier runs of this probe were asked, the last first.

        A spec of another version of Trimtab, with other fields, is passed over.
        """
        names = {field_.name for field_ in fields(ProbeSpec)}
        specs = []
        for run in self.store.runs(site=self.site, probe=PROBE, limit=RUNS_LOOKED_AT):
            recorded = as_dict(run.parameters.get("spec"))
            known = {name: value for name, value in recorded.items() if name in names}
            with suppress(TypeError):
                specs.append(ProbeSpec(repetitions=1, **known))
        return specs

    def _surroundings(self, spec: ProbeSpec, instrument: ProbeTool) -> ProbeSurroundings:
        demand = NodeDemand("trimtab-check", tasks_per_node=spec.tasks)
        return ProbeSurroundings(
            site=self.site,
            path=self.driver.description,
            allocation=instrument.launcher.allocate(demand, run=self.reach.execute),
            counters=self.driver.drive_bytes,
            clock=self.reach.clock,
            timeout_s=self.wanted.timeout_s,
            memory_bytes=self.reach.memory_bytes,
            directories=self.reach.directories,
        )

    def _know_site(self) -> None:
        """Name the site in the store before anything is measured, so that the result can be kept.

        Raises
        ------
        UsageError
            The name stands for another file system.
        """
        path = self.driver.description
        self.store.ensure_site(
            self.site, driver=self.driver.name, identity=path.identity, path=path.mount_point
        )

    def _keep(self, write: Callable[[], object]) -> None:
        """Write to the store; one that fails now is an error beside the result."""
        try:
            with shielded():
                write()
        except TrimtabError as error:
            self.error = self.error or error

    def _history(self, run: Run) -> tuple[HistoryPoint, ...]:
        """Return the runs of the same probe that are kept, this one among them."""
        from trimtab.base.run import comparability_key

        try:
            return self.store.history(self.site, comparability_key(run))
        except TrimtabError as error:
            self.error = self.error or error
            return ()

    def _observed(self, now: Snapshot) -> ObservedTarget:
        practice = self.driver.trim_practice(self.target)
        return ObservedTarget(
            path=self.driver.description,
            now=now.targets[0],
            before=None if self.before is None else self.before.targets[0],
            trim=None if isinstance(practice, NotAvailable) else practice,
            samples=() if self.outcome is None else self.outcome.run.samples,
            limits=self.wanted.limits,
            direct=self.wanted.direct,
            left_behind=left_behind(
                self.driver.description.real_path, self.reach.clock(), self.reach
            ),
        )

    def _write_report(self, result: CheckResult, report: Path) -> CheckResult:
        if self.wanted.report is None and find_spec("altair") is None:
            reason = Message("charts-missing", f"it needs charts: {install_command('charts')}")
            not_seen = (*result.not_available, Missing("report", reason))
            return replace(result, not_available=not_seen, report=None)
        self.progress("writing the report", 1.0)
        report = report_of(report, result.run, named=self.wanted.report is not None)
        result = replace(result, report=str(report))
        try:
            write_report(report, self.page(result))
        except TrimtabError as error:
            self.error = self.error or error
            return replace(result, report=None)
        return result


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


def _refuse_what_is_no_directory(path: str, reach: Reach) -> None:
    state = reach.describe(path)
    if state.kind != "directory":
        raise UsageError(
            f"{visible(path)} is not a directory", code="not-a-directory", hint="name a directory"
        )
