"""The life cycle of a probe, whatever it measures.

::

    remove leftovers ─> nodes ─> directory ─> measure ─> nodes back ─> read ─> remove ─> run ─> keep

A `ProbeStep` decides what is measured: repetitions of write and read (`write_read`) or one command
(`site_command`). The files are in a directory of the probe's own. Disposable children
(`trimtab.reach.bounded`) make and remove it, and it is always removed: at the end, after a failure,
after an interruption. Meanwhile signals wait; they stop a benchmark that is running.
"""

from __future__ import annotations

import platform
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from trimtab.base.code_version import __version__
from trimtab.base.error import Interrupted, JobLost, Message, ToolError, TrimtabError, code_of
from trimtab.base.event import identifier_of, new_identifier
from trimtab.base.filesystem import PathDescription
from trimtab.base.finding import Missing
from trimtab.base.interruption import lifted, shielded
from trimtab.base.run import LatencyHistogram, RawOutput, Run, RunStatus, Sample, Timeline
from trimtab.base.site import SiteProbe
from trimtab.formats.measurement import Measurement
from trimtab.reach import bounded
from trimtab.reach.allocation import Allocation
from trimtab.reach.host import DeviceBytes
from trimtab.reach.launcher import Launcher
from trimtab.reach.process import ProcessResult
from trimtab.site.path_access import THIS_HOST, Directories, Reach

PATIENCE_S = 120.0
"""Time that a repetition may exceed its fixed time, for starting, flushing and closing."""
DIRECTORY_PREFIX = bounded.PROBE_PREFIX + "probe-"
STALE_AGE = timedelta(days=1)
"""A younger directory may belong to a probe that is running, here or on another host."""
_REMAINING_LISTED = 5

Progress = Callable[[str, float], None]
"""Called with the current activity and the fraction completed."""
Counters = Callable[[], Mapping[str, DeviceBytes]]
"""Returns the bytes that each drive below the path has moved so far; empty if none is visible."""


def no_preparation(allocation: Allocation) -> str | None:
    """Do nothing before a measurement."""
    return None


@dataclass(frozen=True, slots=True)
class ProbeSurroundings:
    """Surroundings in which a probe runs, and quantities it is compared with.

    Attributes
    ----------
    site
        Site under which the run is stored.
    allocation
        Nodes on which the commands run; entered and left by the probe.
    counters
        Counters of the drives below; read around each write and read.
    memory_bytes
        Memory of this node; ``None`` if unknown.
    capacity_bytes
        Capacity of the file system, with which the bytes written are compared; ``None`` if unknown.
    timeout_s
        Longest time of one write or read; ``None`` is its fixed time and `PATIENCE_S`. A command
        has a timeout of its own.
    directories
        Make and remove the probe's own directory.
    prepare
        Called on the allocation before each measurement, such as
        `trimtab.probe.site_probe.drop_caches`; returns what could not be done.
    warnings
        Warnings stored with the run from the start: targets that were left out.
    """

    site: str
    path: PathDescription
    allocation: Allocation
    counters: Counters
    clock: Callable[[], datetime]
    memory_bytes: int | None = None
    capacity_bytes: int | None = None
    timeout_s: float | None = None
    directories: Directories = field(default_factory=Directories)
    prepare: Callable[[Allocation], str | None] = no_preparation
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """A run, the data of its charts, and why it is not complete.

    Attributes
    ----------
    others
        Separate runs for further results of the same command, without its outputs.
    """

    run: Run
    timelines: tuple[Timeline, ...] = ()
    histograms: tuple[LatencyHistogram, ...] = ()
    missing: tuple[Missing, ...] = ()
    error: TrimtabError | Interrupted | None = None
    others: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run that is to be made.

    Attributes
    ----------
    run_id
        The run's id, the same as of an interrupted run of this slot.
    at
        Start of the run.
    """

    run_id: str
    at: datetime
    progress: Progress


def further_run_id(run: Run, number: int) -> str:
    """Return the id of another result of the same run: always the same, so it is stored once."""
    assert run.at is not None
    return identifier_of(run.at, run.id, str(number))


class ProbeRunner(Protocol):
    """Runs the probes of a site: for real, or in a test."""

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        """Return the outcome of a probe; leftovers of an interrupted one are removed first.

        Raises
        ------
        TrimtabError
            It could not be started.
        """
        ...

    def clean_up(self, probe: SiteProbe, run_id: str) -> None:
        """Remove what an interrupted run left behind, if anything."""
        ...


class ProbeStep(Protocol):
    """The measurement of a probe, between making its directory and removing it."""

    name: str
    """The probe's name."""
    launcher: Launcher
    program: str
    removes_tree: bool
    """Whether anything may lie in the directory; else only files of the probe's own names."""

    def measure(self, probe: RunningProbe) -> None:
        """Run the commands, while the nodes are held."""
        ...

    def read(self, probe: RunningProbe) -> None:
        """Read the results, once the nodes are released."""
        ...

    def runs(self, probe: RunningProbe, started_at: datetime) -> tuple[Run, ...]:
        """Return the run and, for one command, the runs of its further results."""
        ...

    def charted(self, probe: RunningProbe) -> tuple[Measurement, ...]:
        """Return the measurements whose timelines and histograms are charted."""
        ...


def run_probe(
    step: ProbeStep,
    around: ProbeSurroundings,
    *,
    progress: Progress,
    keep: Callable[[Run], None] = lambda run: None,
    identifier: str | None = None,
) -> ProbeOutcome:
    """Return the outcome of a probe; a failure is part of the outcome, not raised.

    An interruption while a benchmark runs is part of the outcome too. One that comes later is
    raised, but only once the files are removed and the run is stored.

    Parameters
    ----------
    progress
        Called with the current activity and the completed fraction of the work.
    keep
        Called with the run, whatever its status, before signals may interrupt again.
    identifier
        The run's id if the caller has chosen one; leftovers of an interrupted run with that id
        are removed first. By default a new one.
    """
    started_at = around.clock()
    probe = RunningProbe(step, around, progress, identifier or new_identifier(started_at))
    probe.warnings += around.warnings
    with shielded():
        try:
            if identifier is not None:
                probe.remove_directory()
            probe.measure()
        except (TrimtabError, Interrupted) as error:
            probe.error = error
        finally:
            probe.remove_files()
        outcome = probe.outcome(started_at)
        keep(outcome.run)
    return outcome


def remove_directory(directories: Directories, parent: str, name: str, *, tree: bool) -> None:
    """Remove the directory of a probe.

    Parameters
    ----------
    tree
        Whether to remove everything in it; else only files with names that probes use.

    Raises
    ------
    ToolError
        Something in it could not be removed, or the file system does not answer.
    """
    removal = (directories.remove_tree if tree else directories.remove)(parent, name)
    if removal.existed and not removal.removed:
        remaining = "; ".join(f"{path}: {why}" for path, why in removal.kept[:_REMAINING_LISTED])
        raise ToolError(
            f"{parent.rstrip('/')}/{name} could not be removed completely ({remaining})",
            code="directory-not-removed",
        )


@dataclass(slots=True)
class RunningProbe:
    """A probe while it runs, and what its step has collected so far."""

    step: ProbeStep
    around: ProbeSurroundings
    progress: Progress
    identifier: str
    outputs: list[RawOutput] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: TrimtabError | Interrupted | None = None
    unfinished: bool = False
    prepared: bool = False
    """Whether the caches of all nodes were dropped before the last command."""

    @property
    def name(self) -> str:
        """The name of the probe's directory."""
        return DIRECTORY_PREFIX + self.identifier

    @property
    def parent(self) -> str:
        """The directory in which the probe makes its own."""
        return self.around.path.real_path

    @property
    def directory(self) -> str:
        """The path of the probe's directory."""
        return f"{self.parent.rstrip('/')}/{self.name}"

    def make_directory(self) -> None:
        """Make the probe's directory."""
        self.around.directories.make(self.parent, self.name)

    def remove_directory(self) -> None:
        """Remove the probe's directory; raise ToolError if part of it remains."""
        remove_directory(
            self.around.directories, self.parent, self.name, tree=self.step.removes_tree
        )

    def measure(self) -> None:
        """Measure on the allocated nodes, then read the results."""
        with _on_nodes(self.around.allocation, self.progress):
            self.make_directory()
            self.step.measure(self)
        # Only now, with the nodes released: reading needs none of them.
        self.step.read(self)

    def execute(
        self,
        argv: tuple[str, ...],
        *,
        label: str,
        tasks: int,
        timeout_s: float,
        advance: Callable[[float], None],
    ) -> ProcessResult:
        """Prepare the nodes, run one command on them and return its result; signals stop it.

        Parameters
        ----------
        label
            Label of its raw output.
        advance
            Called with the seconds since it began.

        Raises
        ------
        JobLost
            The batch job ended first; the output so far is kept.
        """
        allocation, prepare = self.around.allocation, self.around.prepare
        with lifted():
            problem = prepare(allocation)
            if problem is not None:
                self.warnings.append(problem)
            self.prepared = prepare is not no_preparation and problem is None
            try:
                return allocation.execute(
                    argv, tasks=tasks, timeout_s=timeout_s, on_progress=advance
                )
            except JobLost as error:
                # Its time was over between two commands: it counts as one that did not end.
                self.unfinished = self.unfinished or error.unfinished
                if isinstance(error.result, ProcessResult):  # its output up to then
                    self.outputs.append(error.result.raw_output(label))
                raise

    def remove_files(self) -> None:
        """Remove the probe's directory; where that fails, record the problem."""
        try:
            self.remove_directory()
        except TrimtabError as error:
            text = f"{self.directory} could not be removed: {error.message}"
            self.problems.append(Message("directory-not-removed", text))

    def outcome(self, started_at: datetime) -> ProbeOutcome:
        """Return the outcome; without an error, the first run that is incomplete supplies one."""
        run, *others = self.step.runs(self, started_at)
        error = self.error
        for made in (run, *others):
            if error is None and made.status is not RunStatus.OK:
                status = made.status.value
                error = ToolError(
                    f"probe {made.probe} is {status}: {made.problem}",
                    code=f"probe-{status.replace('_', '-')}",
                )
        charted = self.step.charted(self)
        return ProbeOutcome(
            run,
            timelines=tuple(line for result in charted for line in result.timelines),
            histograms=tuple(counts for result in charted for counts in result.histograms),
            missing=tuple(dict.fromkeys(gap for m in self.measurements for gap in m.missing)),
            error=error,
            others=tuple(others),
        )

    def run(
        self,
        started_at: datetime,
        *,
        kind: str,
        status: RunStatus,
        tool_version: str | None,
        parameters: Mapping[str, object],
        problem: str | None,
        samples: tuple[Sample, ...],
        moved: tuple[int | None, int | None],
    ) -> Run:
        """Return the run: the step's measurements, where it ran and what it cost.

        Parameters
        ----------
        moved
            Bytes written and bytes read; ``None`` if the results do not say.
        """
        step, allocation = self.step, self.around.allocation
        return Run(
            id=self.identifier,
            site=self.around.site,
            probe=step.name,
            kind=kind,
            status=status,
            at=_began_at(allocation, started_at),
            until=self.around.clock(),
            tool_version=tool_version,
            path=self.around.path.path,
            host=platform.node(),
            trimtab_version=__version__,
            parameters={
                **parameters,
                "program": step.program,
                "launcher": {"name": step.launcher.name, "version": step.launcher.version},
                "job": allocation.facts,
                "cost": {
                    "bytes_written": moved[0],
                    "bytes_read": moved[1],
                    "node_hours": allocation.facts.get("node_hours"),
                    "capacity_bytes": self.around.capacity_bytes,
                },
            },
            problem=problem,
            samples=samples,
            outputs=tuple(self.outputs),
        )

    def problem(self, *more: str | None) -> Message | None:
        """Return the problems as one text with the code of the first; ``None`` without problems."""
        problems = [*self.problems, *(text for text in more if text is not None)]
        if self.error is not None:
            problems.insert(0, Message(self.error.code, self.error.message))
        if not problems:
            return None
        code = code_of(problems[0]) or "command-failed"
        return Message(code, "; ".join(dict.fromkeys(problems)))


def left_behind(path: str, now: datetime, reach: Reach = THIS_HOST) -> tuple[str, ...]:
    """Return the directories under ``path`` that earlier probes left behind, oldest first.

    Their age is in their name, which ends with the run's UUIDv7.
    """
    try:
        names = reach.list_names(path, DIRECTORY_PREFIX)
    except TrimtabError:
        # The snapshot has already reported a path that does not answer.
        return ()
    return tuple(f"{path.rstrip('/')}/{name}" for name in names if is_stale(name, now))


def is_stale(name: str, now: datetime) -> bool:
    """Return whether a name is that of a probe's directory which began over a day ago.

    Examples
    --------
    >>> from datetime import UTC
    >>> name = ".trimtab-probe-01a1f640-bc00-7cd6-aba0-e8bc4756b9c4"
    >>> is_stale(name, datetime(2026, 11, 20, 12, tzinfo=UTC))
    False
    >>> is_stale(name, datetime(2026, 11, 21, 1, tzinfo=UTC))
    True
    """
    try:
        identifier = uuid.UUID(name.removeprefix(DIRECTORY_PREFIX))
    except ValueError:
        return False
    began_s = (identifier.int >> 80) / 1000
    return now.timestamp() - began_s > STALE_AGE.total_seconds()


@contextmanager
def _on_nodes(allocation: Allocation, progress: Progress) -> Iterator[None]:
    """Hold an allocation: signals stop waiting for it, and leaving releases it."""
    with ExitStack() as stack:
        # Registered first: a job must be released even if a signal comes while it is obtained.
        stack.push(allocation)
        progress("waiting for nodes", 0.0)
        with lifted():
            allocation.__enter__()
        yield


def _began_at(allocation: Allocation, started_at: datetime) -> datetime:
    """Return when a run began to measure: a job's own start, not when it was submitted."""
    facts = allocation.facts
    job_started = facts.get("started_at")
    if facts.get("job_id") is None or not isinstance(job_started, str):
        return started_at
    return datetime.fromisoformat(job_started)
