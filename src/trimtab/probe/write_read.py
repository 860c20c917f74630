"""Measures repetitions of write and read, and places their files on Lustre.

The instrument is IOR with MPI, else fio, else the built-in benchmark. Writes and reads are
interleaved, and each repetition is checked before it counts as credible.

Files are each on one OST, equally many on every OST, or striped. A gated OST silently passes a file
on to another one (`docs/traps.md`), so every placement is read back before anything is written.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Final

from trimtab.base.error import (
    Interrupted,
    Message,
    NeverStarted,
    RefusedError,
    ToolError,
    UsageError,
    code_of,
    visible,
)
from trimtab.base.run import BANDWIDTH, Access, ProbeSpec, RawOutput, Run, RunStatus, Sample
from trimtab.base.snapshot import NotAvailable
from trimtab.base.units import RATE_NOW, format_bytes, format_bytes_per_s, plural
from trimtab.formats import phase as workload
from trimtab.formats.format_table import Tool, names, phases_of
from trimtab.formats.measurement import MeasuredPhase, Measurement, status_of, tail, with_reason
from trimtab.formats.phase import FILE_NAME, Ask, PhaseRequest, Phases
from trimtab.judge.credibility import RepetitionFacts, reason_not_to_believe
from trimtab.probe.probe import PATIENCE_S, RunningProbe
from trimtab.reach.host import DeviceBytes
from trimtab.reach.launcher import Launcher
from trimtab.reach.process import Execute, MovingRate, ProcessResult
from trimtab.site.path_access import Reach

QUESTION_TIMEOUT_S = 20.0
"""A program that takes longer to print its version is not used."""


@dataclass(frozen=True, slots=True)
class ProbeTool:
    """A benchmark that was found, with the launcher that starts its tasks."""

    benchmark: Phases
    tool: Tool
    launcher: Launcher

    def command(
        self, spec: ProbeSpec, access: Access, directory: str, size_bytes: int | None
    ) -> tuple[str, ...]:
        """Return the command of one write or read; an allocation puts the launcher's part first."""
        phase = PhaseRequest(spec, access, self.tool.path, directory, size_bytes)
        return self.benchmark.arguments(phase)

    def parse(self, output: RawOutput, repetition: int, ordinal: int) -> Measurement:
        """Return the measurement in a raw output."""
        return self.benchmark.parse(output, repetition=repetition, ordinal=ordinal)


def choose(name: str, reach: Reach, *, kind: str | None = None) -> ProbeTool:
    """Return the instrument of that name; ``auto`` takes the first usable one.

    Parameters
    ----------
    kind
        Kind of the launcher; by default the usual one of each benchmark.

    Raises
    ------
    ToolError
        It cannot be used, or with ``auto`` none can; with each reason.
    """
    reasons = []
    for candidate in names("phases") if name == "auto" else (name,):
        instrument = _instrument(candidate, reach, kind)
        if isinstance(instrument, ProbeTool):
            return instrument
        reasons.append(f"{candidate}: {instrument.reason}")
    raise ToolError(
        f"no benchmark can be used ({'; '.join(reasons)})",
        code="no-benchmark",
        hint="install fio, or use --probe builtin, which comes with Trimtab",
    )


def _instrument(name: str, reach: Reach, kind: str | None) -> ProbeTool | NotAvailable:
    benchmark = phases_of(name)
    if kind is not None and kind not in benchmark.launchers:
        return NotAvailable(f"{kind} does not start it; {' and '.join(benchmark.launchers)} do")
    tool = reach.find_tool(name, asking(reach.execute))
    if isinstance(tool, NotAvailable):
        return tool
    launcher = reach.find_launcher(kind or benchmark.launchers[0])
    if isinstance(launcher, NotAvailable):
        return launcher
    return ProbeTool(benchmark, tool, launcher)


def asking(execute: Execute) -> Ask:
    """Return a function that runs a program for a query, with a deadline."""

    def ask(argv: tuple[str, ...]) -> RawOutput:
        result = execute(argv, timeout_s=QUESTION_TIMEOUT_S, output_limit_bytes=2**20)
        return result.raw_output("version")

    return ask


_DIRECT_IS_IGNORED = {"tmpfs", "ramfs", "zfs"}
"""These accept O_DIRECT but go through memory (ZFS before 2.3, later depending on settings)."""


@dataclass(slots=True)
class WriteRead:
    """The writes and reads of one probe.

    Parameters
    ----------
    spec
        The specification; its ``benchmark`` names the chosen tool.
    written_most_bytes
        Maximum of all written bytes: a repetition that would exceed it does not begin, except the
        first.
    """

    spec: ProbeSpec
    instrument: ProbeTool
    written_most_bytes: float = math.inf
    name: str = field(init=False)
    launcher: Launcher = field(init=False)
    program: str = field(init=False)
    removes_tree: bool = field(default=False, init=False)
    _samples: list[Sample] = field(default_factory=list, init=False)
    _invalid: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Set what the life cycle records about the instrument."""
        self.name, self.launcher = self.spec.name, self.instrument.launcher
        self.program = self.instrument.tool.path

    def measure(self, probe: RunningProbe) -> None:
        """Write and read as often as the probe repeats; the first problem ends it."""
        steps = self.spec.repetitions * len(self.spec.accesses)
        repetitions = range(self.spec.repetitions)
        for step, (repetition, access) in enumerate(product(repetitions, self.spec.accesses)):
            if access == "write" and repetition and self._is_enough(probe, repetition):
                break
            text = f"{access} {repetition + 1} of {self.spec.repetitions}"
            probe.progress(text, step / steps)
            self._one_access(probe, repetition, access, text, (step, steps))
            if probe.problems:
                return
        probe.progress("done", 1.0)

    def _is_enough(self, probe: RunningProbe, repetitions: int) -> bool:
        """Return whether one more write, as large as those so far, would be too much."""
        written = _moved_bytes(probe, "write")
        if written * (repetitions + 1) / repetitions <= self.written_most_bytes:
            return False
        probe.warnings.append(
            f"{repetitions} of {plural(self.spec.repetitions, 'repetition')}: one more would have "
            f"written more than {format_bytes(self.written_most_bytes)}"
        )
        return True

    def read(self, probe: RunningProbe) -> None:
        """Do nothing: each output was read at once."""

    def _one_access(
        self,
        probe: RunningProbe,
        repetition: int,
        access: Access,
        text: str,
        position: tuple[int, int],
    ) -> None:
        size_bytes = None
        if access == "write" and repetition:
            # Every write makes new files, as IOR does, so that the allocator takes part.
            probe.remove_directory()
            probe.make_directory()
        if access == "read":
            size_bytes = workload.readable_size_bytes(_sizes(probe), self.spec)
        argv = self.instrument.command(self.spec, access, probe.directory, size_bytes)
        step, steps = position
        planned_s = self.spec.duration_s + 0.5
        moving = MovingRate(access)

        def advance(elapsed_s: float) -> None:
            rate = moving(elapsed_s)
            now = "" if rate is None else f"{RATE_NOW}{format_bytes_per_s(rate)}"
            probe.progress(text + now, (step + min(0.99, elapsed_s / planned_s)) / steps)

        counters_before = probe.around.counters()
        result = probe.execute(
            argv,
            label=f"{access} {repetition}",
            tasks=self.spec.tasks,
            timeout_s=probe.around.timeout_s or self.spec.duration_s + PATIENCE_S,
            advance=advance,
        )
        moved = _moved(access, counters_before, probe.around.counters())
        self._take(probe, result, repetition, access, moved)

    def _take(
        self,
        probe: RunningProbe,
        result: ProcessResult,
        repetition: int,
        access: Access,
        moved: dict[str, int] | None,
    ) -> None:
        output = result.raw_output(f"{access} {repetition}")
        ordinal = len(probe.outputs)
        probe.outputs.append(output)
        sizes = _sizes(probe)
        measurement = self.instrument.parse(output, repetition, ordinal)
        confirmed = workload.confirm(measurement, self.spec, sizes=sizes)
        probe.measurements.append(confirmed)
        facts = [self._facts(probe, phase, sizes, moved) for phase in confirmed.phases]
        samples = _checked(confirmed, facts)
        if confirmed.status is RunStatus.INVALID_WORKLOAD:
            text = f"another workload than requested: {confirmed.problem}"
            reason = Message("workload-differs", text)
            samples = [with_reason(sample, reason) for sample in samples]
            self._invalid = True
        self._samples += samples
        probe.unfinished = probe.unfinished or result.timed_out
        complaints = [text for text in (result.problem, confirmed.problem) if text]
        if complaints:
            code = code_of(complaints[0]) or "command-failed"
            probe.problems.append(Message(code, f"{output.label}: {'; '.join(complaints)}"))

    def _facts(
        self,
        probe: RunningProbe,
        phase: MeasuredPhase,
        sizes: dict[str, int],
        moved: dict[str, int] | None,
    ) -> RepetitionFacts:
        spec, path = self.spec, probe.around.path
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
            caches_dropped=bool(phase.caches_dropped) or probe.prepared,
            memory_bytes=probe.around.memory_bytes,
            device=", ".join(moved) if moved else None,
            device_bytes=sum(moved.values()) if moved else None,
            link_bytes_per_s=sum(filter(None, links)) if links and all(links) else None,
            shrinks_data=path.fs_type in {"btrfs", "zfs", "bcachefs"},
            # Counted at the drives: a loop device counts only if nothing is visible behind it.
            loop_through_page_cache=any(drive.direct_to_backing is False for drive in path.drives),
        )

    def runs(self, probe: RunningProbe, started_at: datetime) -> tuple[Run, ...]:
        """Return the one run of all repetitions."""
        run = probe.run(
            started_at,
            kind=self.instrument.benchmark.name,
            status=self._status(probe),
            tool_version=self.instrument.tool.version,
            parameters=self._parameters(probe),
            problem=probe.problem(),
            samples=tuple(self._samples),
            moved=(_moved_bytes(probe, "write"), _moved_bytes(probe, "read")),
        )
        return (run,)

    def charted(self, probe: RunningProbe) -> tuple[Measurement, ...]:
        """Return the measurements of all repetitions."""
        return tuple(probe.measurements)

    def _status(self, probe: RunningProbe) -> RunStatus:
        if isinstance(probe.error, NeverStarted):
            return RunStatus.NOT_STARTED
        if self._invalid:
            return RunStatus.INVALID_WORKLOAD
        if probe.unfinished:
            return RunStatus.UNFINISHED
        if isinstance(probe.error, Interrupted):
            return RunStatus.PARTIAL if self._samples else RunStatus.FAILED
        problems = probe.problems if probe.error is None else ["not whole"]
        return status_of(self._samples, problems)

    def _parameters(self, probe: RunningProbe) -> dict[str, object]:
        measurements = probe.measurements
        warnings = [*probe.warnings, *(text for m in measurements for text in m.warnings)]
        return {
            "spec": self.spec.compared_settings(self.launcher.kind),
            "repetitions": self.spec.repetitions,
            "layer": "client",
            "phases": [dataclasses.asdict(phase) for m in measurements for phase in m.phases],
            "warnings": list(dict.fromkeys(warnings)),
        }


def _sizes(probe: RunningProbe) -> dict[str, int]:
    return probe.around.directories.sizes(probe.directory)


def _moved_bytes(probe: RunningProbe, access: Access) -> int:
    return sum(measurement.moved_bytes(access) for measurement in probe.measurements)


def _checked(measurement: Measurement, facts: list[RepetitionFacts]) -> list[Sample]:
    """Return the samples, each with the reason, if any, why its repetition is not credible."""
    reasons = {
        (phase.access, phase.repetition): reason_not_to_believe(fact)
        for phase, fact in zip(measurement.phases, facts, strict=True)
    }
    metrics: dict[str, Access] = {metric: access for access, metric in BANDWIDTH.items()}
    checked = []
    for sample in measurement.samples:
        access = metrics.get(sample.metric) or ("write" if "write" in sample.metric else "read")
        reason = reasons.get((access, sample.repetition or 0))
        checked.append(sample if reason is None else with_reason(sample, reason))
    return checked


def _moved(
    access: Access,
    counters_before: Mapping[str, DeviceBytes],
    counters_after: Mapping[str, DeviceBytes],
) -> dict[str, int] | None:
    """Return the bytes that each drive moved, ``None`` unless all were read twice."""
    if not counters_before or set(counters_before) != set(counters_after):
        return None
    attribute = "written_bytes" if access == "write" else "read_bytes"
    moved = {
        name: getattr(counters, attribute) - getattr(counters_before[name], attribute)
        for name, counters in counters_after.items()
    }
    return moved if min(moved.values()) >= 0 else None


Make = Callable[[str, str], object]
"""Makes a directory, given its parent and its name."""
_TIMEOUT_S: Final = 60.0
_FILES_AT_ONCE: Final = 200
"""Names per command: far below the limit of an argument list."""
_INDEX: Final = re.compile(r"[0-9]+")


def pin(tasks: int, tasks_per_node: int, targets: Sequence[str]) -> tuple[str, ...]:
    """Return for each task the target of its file: equally many on each, also from each node.

    Tasks are numbered node by node, as MPI and Slurm number them in blocks.

    Raises
    ------
    UsageError
        The tasks cannot be spread evenly: an OST with one file more would be the slow one.

    Examples
    --------
    >>> pin(4, 2, ("OST0000", "OST0001"))
    ('OST0000', 'OST0001', 'OST0000', 'OST0001')
    >>> pin(4, 2, ("OST0000", "OST0001", "OST0002", "OST0003"))
    ('OST0000', 'OST0001', 'OST0002', 'OST0003')
    """
    if not targets:
        raise UsageError("no OST is available to place a file on", code="no-ost")
    if tasks % len(targets):
        raise UsageError(
            f"{tasks} files cannot be spread evenly over {len(targets)} OSTs",
            code="placement-uneven",
            hint=f"use a number of tasks that {len(targets)} divides",
        )
    if tasks_per_node % len(targets) and len(targets) % tasks_per_node:
        raise UsageError(
            f"{tasks_per_node} files of a node cannot be spread evenly over {len(targets)} OSTs: "
            "some would get more files from one node than from another",
            code="placement-uneven",
            hint="choose tasks_per_node as a divisor or a multiple of the number of OSTs",
        )
    return tuple(targets[task % len(targets)] for task in range(tasks))


def pin_usable(
    tasks: int, nodes: int, targets: Sequence[str], unusable: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the target of each task's file and, as text, which targets are left out and why.

    The others keep their number of files: with fewer targets there are fewer tasks.

    Parameters
    ----------
    unusable
        Target to why no file may be placed there.

    Raises
    ------
    UsageError
        As for `pin`, also with all targets.
    RefusedError
        No usable target is left.

    Examples
    --------
    >>> placed, left_out = pin_usable(4, 1, ("OST0000", "OST0001"), {"OST0001": "it is lost"})
    >>> placed
    ('OST0000', 'OST0000')
    >>> left_out
    ('OST0001 is left out of the pinning: it is lost',)
    """
    placed = pin(tasks, tasks // nodes, targets)
    reasons = {target: unusable[target] for target in targets if target in unusable}
    if not reasons:
        return placed, ()
    each, usable = tasks // len(targets), [name for name in targets if name not in reasons]
    for count in range(len(usable), 0, -1):
        try:
            placed = pin(each * count, _per_node(each * count, nodes), usable[:count])
        except UsageError:
            continue
        uneven = f"{len(usable)} OSTs cannot have as many files from each of {nodes} nodes"
        reasons |= dict.fromkeys(usable[count:], uneven)
        return placed, tuple(
            f"{target} is left out of the pinning: {reasons[target]}" for target in sorted(reasons)
        )
    first, why = next(iter(reasons.items()))
    raise RefusedError(
        f"no OST is left to place files on: {len(reasons)} of {len(targets)} are left out, the "
        f"first {first}: {why}",
        code="no-ost",
        hint="see all of them: trimtab targets SITE",
    )


def _per_node(tasks: int, nodes: int) -> int:
    if tasks % nodes:
        raise UsageError(f"{tasks} tasks cannot be spread evenly over {nodes} nodes", code="uneven")
    return tasks // nodes


@dataclass(frozen=True, slots=True)
class Pinned:
    """Makes a probe's directory with its files in it, each on its OST and empty.

    IOR and the built-in generator name the file of a task alike.

    Attributes
    ----------
    make
        Makes the directory itself.
    targets
        Target of each file, by the number of its task: ``OST0003``.
    """

    make: Make
    targets: tuple[str, ...]
    execute: Execute

    def __call__(self, parent: str, name: str) -> None:
        """Make the directory and the files.

        Raises
        ------
        ToolError
            lfs failed or did not answer.
        RefusedError
            A file went to another OST than requested: the requested one is not open for creation.
        """
        self.make(parent, name)
        directory = f"{parent.rstrip('/')}/{name}"
        files: dict[str, list[str]] = {}
        for task, target in enumerate(self.targets):
            files.setdefault(target, []).append(f"{directory}/{FILE_NAME}.{task:08d}")
        for target, paths in files.items():
            index = str(int(target.removeprefix("OST"), 16))
            for start in range(0, len(paths), _FILES_AT_ONCE):
                some = paths[start : start + _FILES_AT_ONCE]
                lfs(self.execute, "setstripe", "-c", "1", "-i", index, *some)
                for path in some:
                    self._check(path, target, index)

    def _check(self, path: str, target: str, index: str) -> None:
        answer = lfs(self.execute, "getstripe", "-i", path).stdout.decode("utf-8", "replace")
        match = _INDEX.search(answer)
        if match is None:
            raise ToolError(
                f"lfs getstripe does not show the OST of {visible(path)}", code="placement-unknown"
            )
        if match.group() != index:
            raise RefusedError(
                f"a file for {target} was placed on OST{int(match.group()):04x}: {target} is not "
                "open for creation",
                code="placement-refused",
                hint="open it, or leave it out: the figure would be of another OST",
            )


@dataclass(frozen=True, slots=True)
class Striped:
    """Makes a probe's directory with a default layout of a given number of stripes."""

    make: Make
    stripe_count: int
    execute: Execute

    def __call__(self, parent: str, name: str) -> None:
        """Make the directory and set its layout.

        Raises
        ------
        ToolError
            lfs failed, did not answer, or set another layout.
        """
        self.make(parent, name)
        directory = f"{parent.rstrip('/')}/{name}"
        lfs(self.execute, "setstripe", "-c", str(self.stripe_count), directory)
        answer = lfs(self.execute, "getstripe", "-d", "-c", directory).stdout.split()
        if answer[:1] != [str(self.stripe_count).encode()]:
            count_text = b" ".join(answer[:1]).decode("utf-8", "replace")
            raise ToolError(
                f"{visible(directory)} has a stripe count of {count_text or 'nothing'} instead of "
                f"{self.stripe_count}",
                code="stripe-count",
            )


def lfs(execute: Execute, *arguments: str) -> ProcessResult:
    """Return the answer of lfs.

    Raises
    ------
    ToolError
        It failed or did not answer in its time.
    """
    result = execute(("lfs", *arguments), timeout_s=_TIMEOUT_S, output_limit_bytes=2**20)
    if result.problem is not None:
        printed = tail((result.stderr or result.stdout).decode("utf-8", "replace"), 200)
        raise ToolError(
            f"lfs {arguments[0]}: {result.problem}" + (f": {printed}" if printed else ""),
            code="lfs-failed",
        )
    return result
