"""Run one probe: repetitions of write and read, interleaved, each confirmed before it is believed.

The files stand in one directory of the probe's own. It is made and removed by throw-away children
(`launch.bounded`), and removed in every case: the end, a failure, an interruption. While the probe
makes or removes it signals wait; while a benchmark runs they stop it.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product

from trimtab import __version__
from trimtab.drivers.local.counters import DeviceBytes
from trimtab.errors import Interrupted, JobLost, NeverStarted, ToolError, TrimtabError
from trimtab.judge.credibility import RepetitionFacts, reason_not_to_believe
from trimtab.launch import bounded
from trimtab.launch.allocation import Allocation
from trimtab.launch.interruption import lifted, shielded
from trimtab.launch.process import ProcessResult
from trimtab.loop.probing.reach import Directories
from trimtab.loop.probing.tools import Instrument
from trimtab.measure import workload
from trimtab.measure.measurement import BANDWIDTH, Measurement, Phase, with_reason
from trimtab.model.filesystem import PathDescription
from trimtab.model.finding import Missing
from trimtab.model.identifier import new_identifier
from trimtab.model.run import (
    Access,
    LatencyHistogram,
    ProbeSpec,
    RawOutput,
    Run,
    RunStatus,
    Sample,
    Timeline,
)

PATIENCE_S = 120.0
"""How long past its fixed time a repetition may take, for starting, flushing and closing."""

_DIRECT_IS_IGNORED = {"tmpfs", "ramfs", "zfs"}
"""These take O_DIRECT and go through memory all the same (ZFS before 2.3, and as it is set)."""

DIRECTORY_PREFIX = bounded.PROBE_PREFIX + "probe-"

Progress = Callable[[str, float], None]
Counters = Callable[[], Mapping[str, DeviceBytes]]
"""Returns what each drive beneath the path has moved so far; empty where none can be seen."""


def no_preparation(allocation: Allocation) -> str | None:
    """Do nothing before a write or read."""
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a probe stands on and is measured against.

    Attributes
    ----------
    site
        Under which the run is kept.
    allocation
        Where the commands run; entered and left by the probe.
    prepare
        Called on the allocation before each write and read, as `drop_caches`; returns what could
        not be done.
    counters
        Of the drives beneath.
    memory_bytes
        Of this node; ``None`` if not known.
    capacity_bytes
        Of the file system, against which what is written is held; ``None`` if not known.
    timeout_s
        Longest time of one write or read; ``None`` is its fixed time and `PATIENCE_S`.
    directories
        For the probe's own directory.
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


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """A run, what it is drawn with, and why it is not whole.

    Attributes
    ----------
    others
        Runs of their own of what the same command measured besides, without its outputs.
    """

    run: Run
    timelines: tuple[Timeline, ...] = ()
    histograms: tuple[LatencyHistogram, ...] = ()
    missing: tuple[Missing, ...] = ()
    error: TrimtabError | Interrupted | None = None
    others: tuple[Run, ...] = ()


def run_probe(
    spec: ProbeSpec,
    instrument: Instrument,
    around: Surroundings,
    *,
    progress: Progress,
    keep: Callable[[Run], None],
    identifier: str | None = None,
) -> ProbeOutcome:
    """Return the run; a failure is part of the outcome, not raised.

    An interruption while a benchmark runs is part of the outcome too. One that comes later is
    raised, but only when the files are removed and the run is kept.

    Parameters
    ----------
    spec
        With ``benchmark`` naming the tool that was chosen.
    progress
        Told what is being done and the fraction of the repetitions that is done.
    keep
        Called with the run, whatever came of it, before signals may interrupt again.
    identifier
        The run's id where the caller has chosen one; what an earlier run of that id left behind
        when it was broken off is removed first. By default a new one.
    """
    started_at = around.clock()
    name = identifier or new_identifier(started_at)
    probe = _Probe(spec, instrument, around, progress, identifier=name)
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


@contextmanager
def on_nodes(allocation: Allocation, progress: Progress) -> Iterator[None]:
    """Hold an allocation: signals stop the waiting for it, and leaving gives it back."""
    with ExitStack() as stack:
        # Registered first: a job must be given back also when a signal comes while it is had.
        stack.push(allocation)
        progress("waiting for nodes", 0.0)
        with lifted():
            allocation.__enter__()
        yield


@dataclass(slots=True)
class _Probe:
    """A probe while it runs."""

    spec: ProbeSpec
    instrument: Instrument
    around: Surroundings
    progress: Progress
    identifier: str
    outputs: list[RawOutput] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    error: TrimtabError | Interrupted | None = None
    unfinished: bool = False
    invalid: bool = False
    unprepared: list[str] = field(default_factory=list)
    prepared: bool = False
    """Whether the caches of all nodes were dropped before the phase that was last run."""

    @property
    def name(self) -> str:
        return DIRECTORY_PREFIX + self.identifier

    @property
    def parent(self) -> str:
        return self.around.path.real_path

    @property
    def directory(self) -> str:
        return f"{self.parent.rstrip('/')}/{self.name}"

    def measure(self) -> None:
        with on_nodes(self.around.allocation, self.progress):
            self._measure()

    def _measure(self) -> None:
        self.around.directories.make(self.parent, self.name)
        steps = self.spec.repetitions * len(self.spec.accesses)
        repetitions = range(self.spec.repetitions)
        for step, (repetition, access) in enumerate(product(repetitions, self.spec.accesses)):
            text = f"{access} {repetition + 1} of {self.spec.repetitions}"
            self.progress(text, step / steps)
            self._step(repetition, access, text, (step, steps))
            if self.problems:
                return
        self.progress("done", 1.0)

    def _step(self, repetition: int, access: Access, text: str, place: tuple[int, int]) -> None:
        size_bytes = None
        if access == "write" and repetition:
            # Every write is of new files, as IOR does it, so that the allocator takes part.
            self.remove_directory()
            self.around.directories.make(self.parent, self.name)
        if access == "read":
            size_bytes = workload.readable_size_bytes(self._sizes(), self.spec)
        argv = self.instrument.command(self.spec, access, self.directory, size_bytes)
        step, steps = place
        planned_s = self.spec.duration_s + 0.5

        def advance(elapsed_s: float) -> None:
            self.progress(text, (step + min(0.99, elapsed_s / planned_s)) / steps)

        before = self.around.counters()
        with lifted():
            problem = self.around.prepare(self.around.allocation)
            if problem is not None:
                self.unprepared.append(problem)
            self.prepared = self.around.prepare is not no_preparation and problem is None
            try:
                result = self.around.allocation.execute(
                    argv,
                    tasks=self.spec.tasks,
                    timeout_s=self.around.timeout_s or self.spec.duration_s + PATIENCE_S,
                    on_progress=advance,
                )
            except JobLost as error:
                # Its time was over between two commands: as late as one that did not end.
                self.unfinished = self.unfinished or error.unfinished
                if isinstance(error.result, ProcessResult):  # what it had printed by then
                    self.outputs.append(error.result.raw_output(f"{access} {repetition}"))
                raise
        after = self.around.counters()
        self._take(result, repetition, access, _moved(access, before, after))

    def _take(
        self,
        result: ProcessResult,
        repetition: int,
        access: Access,
        moved: dict[str, int] | None,
    ) -> None:
        output = result.raw_output(f"{access} {repetition}")
        ordinal = len(self.outputs)
        self.outputs.append(output)
        sizes = self._sizes()
        measurement = self.instrument.parse(output, repetition, ordinal)
        confirmed = workload.confirm(measurement, self.spec, sizes=sizes)
        self.measurements.append(confirmed)
        facts = [self._facts(phase, sizes, moved) for phase in confirmed.phases]
        judged = _judged(confirmed, facts)
        if confirmed.status is RunStatus.INVALID_WORKLOAD:
            reason = f"another workload than asked: {confirmed.problem}"
            judged = [with_reason(sample, reason) for sample in judged]
        self.samples += judged
        self.unfinished = self.unfinished or result.timed_out
        self.invalid = self.invalid or confirmed.status is RunStatus.INVALID_WORKLOAD
        complaints = [text for text in (result.problem, confirmed.problem) if text]
        if complaints:
            self.problems.append(f"{output.label}: {'; '.join(complaints)}")

    def _sizes(self) -> dict[str, int]:
        return self.around.directories.sizes(self.directory)

    def _facts(
        self, phase: Phase, sizes: dict[str, int], moved: dict[str, int] | None
    ) -> RepetitionFacts:
        spec, path = self.spec, self.around.path
        links = [drive.link_bytes_per_s for drive in path.drives]
        return RepetitionFacts(
            access=phase.access,
            direct=path.fs_type not in _DIRECT_IS_IGNORED
            and (spec.direct if phase.direct is None else phase.direct),
            elapsed_s=phase.elapsed_s,
            bytes_moved=phase.moved_bytes,
            file_bytes=sum(sizes.values()),
            asked_duration_s=spec.duration_s,
            asked_tasks=spec.tasks,
            tasks=phase.tasks,
            flushed=spec.flush,
            caches_dropped=bool(phase.caches_dropped) or self.prepared,
            memory_bytes=self.around.memory_bytes,
            device=", ".join(moved) if moved else None,
            device_bytes=sum(moved.values()) if moved else None,
            link_bytes_per_s=sum(filter(None, links)) if links and all(links) else None,
            shrinks_data=path.fs_type in {"btrfs", "zfs", "bcachefs"},
            # Counted at the drives: a loop device is one only where nothing is seen behind it.
            loop_through_page_cache=any(drive.direct_to_backing is False for drive in path.drives),
        )

    def remove_files(self) -> None:
        """Remove the probe's directory; a file system that has died keeps it, and that is said."""
        try:
            self.remove_directory()
        except TrimtabError as error:
            self.problems.append(f"{self.directory} could not be removed: {error.message}")

    def remove_directory(self) -> None:
        """Remove the probe's directory; raise ToolError where something of it stays."""
        removal = self.around.directories.remove(self.parent, self.name)
        if removal.existed and not removal.removed:
            kept = "; ".join(f"{name}: {reason}" for name, reason in removal.kept)
            raise ToolError(f"{self.directory} could not be removed whole ({kept})")

    def outcome(self, started_at: datetime) -> ProbeOutcome:
        status = self._status()
        problem = "; ".join(dict.fromkeys(self.problems)) or None
        if self.error is not None:
            problem = self.error.message if problem is None else f"{self.error.message}; {problem}"
        elif status is not RunStatus.OK:
            self.error = ToolError(f"the probe is {status.value}: {problem}")
        run = Run(
            id=self.identifier,
            site=self.around.site,
            probe=self.spec.name,
            kind=self.instrument.benchmark.name,
            status=status,
            at=began_at(self.around.allocation, started_at),
            until=self.around.clock(),
            tool_version=self.instrument.tool.version,
            path=self.around.path.path,
            host=platform.node(),
            trimtab_version=__version__,
            parameters=self._parameters(),
            problem=problem,
            samples=tuple(self.samples),
            outputs=tuple(self.outputs),
        )
        return ProbeOutcome(
            run,
            timelines=tuple(one for m in self.measurements for one in m.timelines),
            histograms=tuple(one for m in self.measurements for one in m.histograms),
            missing=tuple(dict.fromkeys(one for m in self.measurements for one in m.missing)),
            error=self.error,
        )

    def _status(self) -> RunStatus:
        believed = any(sample.believed for sample in self.samples)
        if isinstance(self.error, NeverStarted):
            return RunStatus.NOT_STARTED
        if self.invalid:
            return RunStatus.INVALID_WORKLOAD
        if self.unfinished:
            return RunStatus.UNFINISHED
        if isinstance(self.error, Interrupted):
            return RunStatus.PARTIAL if self.samples else RunStatus.FAILED
        if self.error is not None or self.problems:
            return RunStatus.PARTIAL if believed else RunStatus.FAILED
        return RunStatus.OK

    def _parameters(self) -> dict[str, object]:
        moved = [phase.moved_bytes or 0 for m in self.measurements for phase in m.phases]
        written = [
            phase.moved_bytes or 0
            for measurement in self.measurements
            for phase in measurement.phases
            if phase.access == "write"
        ]
        return {
            "spec": {**self.spec.asked(), "launcher": self.instrument.launcher.kind},
            "repetitions": self.spec.repetitions,
            "layer": "client",
            "program": self.instrument.tool.path,
            "launcher": {
                "name": self.instrument.launcher.name,
                "version": self.instrument.launcher.version,
            },
            "job": self.around.allocation.facts,
            "cost": {
                "bytes_written": sum(written),
                "bytes_read": sum(moved) - sum(written),
                "node_hours": self.around.allocation.facts.get("node_hours"),
                "capacity_bytes": self.around.capacity_bytes,
            },
            "phases": [dataclasses.asdict(phase) for m in self.measurements for phase in m.phases],
            "warnings": list(
                dict.fromkeys(
                    [*self.unprepared, *(w for m in self.measurements for w in m.warnings)]
                )
            ),
        }


def began_at(allocation: Allocation, started_at: datetime) -> datetime:
    """Return when a run began to measure: a job's own start, not when it came into the queue."""
    facts = allocation.facts
    job_started = facts.get("started_at")
    if facts.get("job_id") is None or not isinstance(job_started, str):
        return started_at
    return datetime.fromisoformat(job_started)


def _judged(measurement: Measurement, facts: list[RepetitionFacts]) -> list[Sample]:
    """Return the samples, each with the reason not to believe its repetition where there is one."""
    reasons = {
        (phase.access, phase.repetition): reason_not_to_believe(fact)
        for phase, fact in zip(measurement.phases, facts, strict=True)
    }
    metrics: dict[str, Access] = {metric: access for access, metric in BANDWIDTH.items()}
    judged = []
    for sample in measurement.samples:
        access = metrics.get(sample.metric) or ("write" if "write" in sample.metric else "read")
        reason = reasons.get((access, sample.repetition or 0))
        judged.append(sample if reason is None else with_reason(sample, reason))
    return judged


def _moved(
    access: Access, before: Mapping[str, DeviceBytes], after: Mapping[str, DeviceBytes]
) -> dict[str, int] | None:
    """Return what each drive moved in between, ``None`` unless all of them were seen twice."""
    if not before or set(before) != set(after):
        return None
    attribute = "written_bytes" if access == "write" else "read_bytes"
    moved = {
        name: getattr(after[name], attribute) - getattr(before[name], attribute) for name in after
    }
    return moved if min(moved.values()) >= 0 else None
