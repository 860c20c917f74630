"""Surveys OSTs from this client: files of one stripe on each OST, one OST after another.

Each OST is a separate probe (`trimtab.probe.probe`): it has a directory of its own, is checked, and
is always cleaned up. The figures become the samples of one run.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trimtab.base.code_version import __version__
from trimtab.base.error import Interrupted, RefusedError, TrimtabError
from trimtab.base.event import new_identifier
from trimtab.base.plain import as_dict
from trimtab.base.run import ProbeSpec, RawOutput, Run, Sample
from trimtab.base.site import Site
from trimtab.base.units import format_bytes, plural
from trimtab.probe.probe import DIRECTORY_PREFIX, PATIENCE_S, ProbeSurroundings, Progress, run_probe
from trimtab.probe.survey_plan import (
    Candidate,
    Surveyed,
    SurveyOutcome,
    SurveyPlan,
    TargetResult,
    status_of,
)
from trimtab.probe.write_read import Pinned, ProbeTool, WriteRead
from trimtab.reach.allocation import NodeDemand
from trimtab.site.path_access import THIS_HOST, PathDriver, Reach, why_wrong_mount

PROBE_NAME: Final = "survey-client"


@dataclass(frozen=True, slots=True)
class Here:
    """Surroundings of a survey from this client.

    Attributes
    ----------
    identity
        Identity of the file system stored under the site's name; no other is surveyed.
    """

    site: Site
    identity: str | None
    clock: Callable[[], datetime]
    reach: Reach = THIS_HOST


def steps_of(spec: ProbeSpec, instrument: ProbeTool, site: Site) -> tuple[str, ...]:
    """Return the steps on each target, as text."""
    files = f"{plural(spec.tasks, 'file')} of {format_bytes(spec.block_size_bytes)}"
    again = f", {spec.repetitions} times" if spec.repetitions > 1 else ""
    return (
        f"make a directory {DIRECTORY_PREFIX}... in {site.path}, and in it {files} of one stripe,"
        " on the target",
        "check where they were placed: a target that is closed to new files is not measured",
        f"write and read them with {instrument.tool.name} {instrument.tool.version},"
        f" for {spec.duration_s:g} s each{again}",
        "remove the files and the directory, whatever happens",
    )


def survey_from_client(
    plan: SurveyPlan, spec: ProbeSpec, instrument: ProbeTool, here: Here, *, progress: Progress
) -> Surveyed:
    """Return the result of every target of a plan.

    Raises
    ------
    RefusedError
        Another file system is mounted at the site's path.
    """
    driver = here.reach.open_path(here.site.path, here.reach.execute, here.clock)
    why = why_wrong_mount(here.site, driver.description, here.identity, execute=here.reach.execute)
    if why is not None:
        raise RefusedError(why)
    spec = replace(
        spec, benchmark=instrument.benchmark.name, processes=instrument.launcher.processes
    )
    survey = _ClientSurvey(plan, spec, instrument, here, driver)
    return survey.carry_out(progress)


@dataclass(slots=True)
class _ClientSurvey:
    plan: SurveyPlan
    spec: ProbeSpec
    instrument: ProbeTool
    here: Here
    driver: PathDriver
    samples: list[Sample] = field(default_factory=list)
    outputs: list[RawOutput] = field(default_factory=list)
    results: list[TargetResult] = field(default_factory=list)
    written_bytes: int = 0
    read_bytes: int = 0

    def carry_out(self, progress: Progress) -> Surveyed:
        started_at = self.here.clock()
        identifier = new_identifier(started_at)
        targets = self.plan.targets
        interrupted: Interrupted | None = None
        for place, target in enumerate(targets):
            if interrupted is not None:
                reason = "the survey was stopped before its turn"
                self.results.append(target.result(SurveyOutcome.SKIPPED, reason))
                continue
            interrupted = self._measure_target(
                target, _part(progress, place, len(targets), target.target)
            )
        self.results += [refused.refused for refused in self.plan.refused]
        run = self._run(identifier, started_at)
        return Surveyed(run, tuple(self.results), interrupted=interrupted)

    def _measure_target(self, candidate: Candidate, progress: Progress) -> Interrupted | None:
        """Measure one target; return the interruption that ended it."""
        runs: list[Run] = []
        error: TrimtabError | Interrupted | None
        try:
            outcome = run_probe(
                WriteRead(self.spec, self.instrument),
                self._around(candidate.target),
                progress=progress,
                keep=runs.append,
            )
            error = outcome.error
        except Interrupted as stopped:  # it came while files were removed: they are gone now
            error = stopped
        except TrimtabError as failed:
            error = failed
        for run in runs:
            self._take(candidate.target, run)
        self.results.append(_result(candidate, runs, error))
        return error if isinstance(error, Interrupted) else None

    def _around(self, target: str) -> ProbeSurroundings:
        here, spec = self.here, self.spec
        targets = (target,) * spec.tasks
        reach = here.reach
        make = Pinned(reach.directories.make, targets, reach.execute)
        demand = NodeDemand("trimtab-survey", tasks_per_node=spec.tasks)
        return ProbeSurroundings(
            site=here.site.name,
            path=self.driver.description,
            allocation=self.instrument.launcher.allocate(demand, run=reach.execute),
            counters=self.driver.drive_bytes,
            clock=here.clock,
            memory_bytes=reach.memory_bytes,
            timeout_s=spec.duration_s + PATIENCE_S,
            directories=replace(reach.directories, make=make),
        )

    def _take(self, target: str, run: Run) -> None:
        first = len(self.outputs)
        self.outputs += [
            replace(output, label=f"{target} {output.label}") for output in run.outputs
        ]
        self.samples += [
            replace(
                sample,
                target=target,
                output=None if sample.output is None else first + sample.output,
            )
            for sample in run.samples
        ]
        cost = as_dict(run.parameters.get("cost"))
        self.written_bytes += int(cost.get("bytes_written") or 0)
        self.read_bytes += int(cost.get("bytes_read") or 0)

    def _run(self, identifier: str, started_at: datetime) -> Run:
        status, problem = status_of(self.results)
        return Run(
            id=identifier,
            site=self.here.site.name,
            probe=PROBE_NAME,
            kind=self.instrument.benchmark.name,
            status=status,
            at=started_at,
            until=self.here.clock(),
            tool_version=self.instrument.tool.version,
            path=self.here.site.path,
            host=platform.node(),
            trimtab_version=__version__,
            parameters={
                "spec": self.spec.compared_settings(self.instrument.launcher.kind),
                "repetitions": self.spec.repetitions,
                "layer": "client",
                "program": self.instrument.tool.path,
                "targets": [result.target for result in self.results],
                "cost": {"bytes_written": self.written_bytes, "bytes_read": self.read_bytes},
            },
            problem=problem,
            samples=tuple(self.samples),
            outputs=tuple(self.outputs),
        )


def _result(
    candidate: Candidate, runs: list[Run], error: TrimtabError | Interrupted | None
) -> TargetResult:
    believed = any(sample.believed for run in runs for sample in run.samples)
    if isinstance(error, RefusedError):
        return candidate.result(SurveyOutcome.CLOSED, error.message)
    outcome = SurveyOutcome.MEASURED if believed else SurveyOutcome.FAILED
    if error is not None:
        return candidate.result(outcome, error.message)
    reasons = (sample.reason for run in runs for sample in run.samples if sample.reason)
    return candidate.result(outcome, None if believed else next(reasons, "nothing was measured"))


def _part(progress: Progress, place: int, count: int, target: str) -> Progress:
    def advance(text: str, fraction: float) -> None:
        progress(f"{target} ({place + 1} of {count}): {text}", (place + fraction) / count)

    return advance
