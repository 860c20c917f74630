"""Checks one file system: inspects, measures, stores, judges, explains, reports.

A later failure never loses what was seen: if the probe cannot run or the store cannot be written,
the result is shown all the same, together with the error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.base.error import (
    Interrupted,
    Message,
    RefusedError,
    ToolError,
    TrimtabError,
    UsageError,
    install_command,
    visible,
)
from trimtab.base.finding import Finding, Missing
from trimtab.base.interruption import interruptible, shielded
from trimtab.base.site import Site
from trimtab.base.snapshot import NotAvailable, Snapshot
from trimtab.probe.check_plan import WRITTEN_SHARE, CheckOptions, earlier_specs, plan_probe
from trimtab.probe.check_result import (
    CheckResult,
    comparable_runs,
    concluded,
    noted_beside_store,
    observed_target,
)
from trimtab.probe.probe import ProbeOutcome, ProbeSurroundings, Progress, run_probe
from trimtab.probe.site_look import site_beneath
from trimtab.probe.write_read import WriteRead, choose
from trimtab.reach.allocation import NodeDemand
from trimtab.reach.bounded import report_of, report_path, write_report
from trimtab.site.lookup import open_store
from trimtab.site.path_access import THIS_HOST, PathDriver, Reach

if TYPE_CHECKING:
    from trimtab.store.store import Store

RUNS_LOOKED_AT = 50
"""Maximum of runs with other parameters in between, for keeping a probe's parameters."""
PROBE = "check"
"""Name under which the probe of a `check` is stored."""


def check(
    wanted: CheckOptions,
    *,
    page: Callable[[CheckResult], str],
    known: Site | None = None,
    progress: Progress = lambda step, fraction: None,
    reach: Reach = THIS_HOST,
) -> tuple[CheckResult, TrimtabError | None]:
    """Return what one check saw, measured and concluded, and why it is incomplete.

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
        # Refuse at once what could not be written in the end.
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
            self.error = self.error or error  # complete, except that a setting was not restored
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
        return self._write_report(self._concluded(at, self.now, troubles), report), self.error

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

    def _concluded(self, at: datetime, now: Snapshot, troubles: tuple[Finding, ...]) -> CheckResult:
        """Read what is not known yet, and return the result."""
        history = ()
        if self.outcome is not None:
            try:
                history = comparable_runs(self.store, self.site, self.outcome.run)
            except TrimtabError as error:
                self.error = self.error or error
        observed = observed_target(
            self.driver, self.wanted, self.reach, now=now, before=self.before, outcome=self.outcome
        )
        return concluded(
            observed,
            now,
            site=self.site,
            at=at,
            path=noted_beside_store(self.driver.description, self.store.location.path),
            settings={self.target: self.driver.settings(self.target)},
            outcome=self.outcome,
            history=history,
            troubles=troubles,
            missing=self.missing,
        )

    def _probe(self) -> None:
        """Run the probe; if it cannot even be started, report that and continue."""
        try:
            step = self._plan()
        except (RefusedError, ToolError) as error:
            self.error = error
            self.missing.append(Missing("probe", error.message))
            return
        self.outcome = run_probe(
            step,
            self._surroundings(step),
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
            earlier=earlier_specs(
                self.store.runs(site=self.site, probe=PROBE, limit=RUNS_LOOKED_AT)
            ),
        )
        named = replace(spec, benchmark=instrument.benchmark.name)
        return WriteRead(named, instrument, WRITTEN_SHARE * space.available_bytes)

    def _surroundings(self, step: WriteRead) -> ProbeSurroundings:
        demand = NodeDemand("trimtab-check", tasks_per_node=step.spec.tasks)
        return ProbeSurroundings(
            site=self.site,
            path=self.driver.description,
            allocation=step.instrument.launcher.allocate(demand, run=self.reach.execute),
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
            The name belongs to another file system.
        """
        path = self.driver.description
        self.store.ensure_site(
            self.site, driver=self.driver.name, identity=path.identity, path=path.mount_point
        )

    def _keep(self, write: Callable[[], object]) -> None:
        """Write to the store; a failure now is an error reported with the result."""
        try:
            with shielded():
                write()
        except TrimtabError as error:
            self.error = self.error or error

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


def _refuse_what_is_no_directory(path: str, reach: Reach) -> None:
    state = reach.describe(path)
    if state.kind != "directory":
        raise UsageError(
            f"{visible(path)} is not a directory", code="not-a-directory", hint="name a directory"
        )
