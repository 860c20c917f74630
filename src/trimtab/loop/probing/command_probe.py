"""Run one probe that is one command: a benchmark of the site's own, or mdtest.

::

    directory of its own ─> nodes ─> the command, once ─> nodes back ─> read ─> remove everything

What was measured is what the output shows; the exit code only says that something went wrong.
Nothing is known of what the command does, so a whole tree is removed after it.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab import __version__
from trimtab.errors import Interrupted, JobLost, NeverStarted, ToolError, TrimtabError
from trimtab.launch.interruption import lifted, shielded
from trimtab.launch.launchers import Launcher
from trimtab.launch.process import ProcessResult
from trimtab.loop.probing.command_output import Files, Found, read_left, read_printed
from trimtab.loop.probing.probe import (
    DIRECTORY_PREFIX,
    ProbeOutcome,
    Progress,
    Surroundings,
    began_at,
    on_nodes,
)
from trimtab.loop.probing.reach import Directories
from trimtab.measure.measurement import Measurement, tail, with_reason
from trimtab.measure.table import Tool
from trimtab.model.identifier import identifier_of
from trimtab.model.run import RawOutput, Run, RunStatus
from trimtab.model.site import COMMAND_TIMEOUT_S
from trimtab.record.comparability import ASKED
from trimtab.site.command import filled

DIRECTORY_WORD = "{directory}"


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """What one run of such a probe is asked to do.

    Attributes
    ----------
    benchmark
        The format that the output is to be of; ``auto``: whatever it is.
    command
        Words, with the places of `trimtab.site.command`.
    output
        Pattern of the files that hold the result; ``None``: it is printed.
    tool
        The program, where it was looked up and told its version.
    expected
        Parameters that the output must say were used: of a benchmark that Trimtab asks itself.
    """

    name: str
    benchmark: str
    command: tuple[str, ...]
    tasks: int = 1
    nodes: int = 1
    output: str | None = None
    timeout_s: float = COMMAND_TIMEOUT_S
    stripe_count: int | None = None
    tool: Tool | None = None
    expected: Mapping[str, object] = field(default_factory=dict)

    def argv(self, directory: str) -> tuple[str, ...]:
        """Return the command with its places filled in."""
        values = {"directory": directory, "tasks": str(self.tasks), "nodes": str(self.nodes)}
        return filled(self.command, values)

    def asked(self, launcher: str) -> dict[str, object]:
        """Return what makes two runs comparable, before anything is known of their output."""
        # Of Trimtab's own command all is said by what is expected of it; where the program lies,
        # and how often it repeats, makes no other series.
        words = list(self.command) if self.tool is None else [self.tool.name]
        values: dict[str, object] = {
            "words": words,
            "output": self.output,
            "tasks": self.tasks,
            "nodes": self.nodes,
            "launcher": launcher,
        }
        if self.stripe_count is not None:
            values["stripe_count"] = self.stripe_count
        return {"command": {**values, **self.expected}}


def run_command_probe(
    spec: CommandSpec,
    launcher: Launcher,
    around: Surroundings,
    *,
    progress: Progress,
    identifier: str,
) -> ProbeOutcome:
    """Return the run, and runs of what else the command measured; a failure is part of it.

    Parameters
    ----------
    around
        Its ``timeout_s`` and ``counters`` are not used: the command has a time of its own, and
        reads and writes in it cannot be told apart at the drives.
    identifier
        The run's id; what an earlier run of that id left behind is removed first.
    """
    started_at = around.clock()
    probe = _CommandProbe(spec, launcher, around, progress, identifier)
    with shielded():
        try:
            remove_tree(around.directories, probe.parent, probe.name)
            probe.measure()
        except (TrimtabError, Interrupted) as error:
            probe.error = error
        finally:
            probe.remove_files()
        return probe.outcome(started_at)


def remove_tree(directories: Directories, parent: str, name: str) -> None:
    """Remove the directory of a probe with everything in it.

    Raises
    ------
    TrimtabError
        The file system does not answer, or does not let all of it go.
    """
    removal = directories.remove_tree(parent, name)
    if removal.existed and not removal.removed:
        kept = "; ".join(f"{path}: {reason}" for path, reason in removal.kept[:5])
        raise ToolError(f"{parent.rstrip('/')}/{name} could not be removed whole ({kept})")


@dataclass(slots=True)
class _CommandProbe:
    """A probe while it runs."""

    spec: CommandSpec
    launcher: Launcher
    around: Surroundings
    progress: Progress
    identifier: str
    outputs: list[RawOutput] = field(default_factory=list)
    found: list[Measurement] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: TrimtabError | Interrupted | None = None
    unfinished: bool = False

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
            self.around.directories.make(self.parent, self.name)
            self._execute()
        # Only now that the nodes are given back: reading needs none of them.
        self._read()
        self.progress("done", 1.0)

    def _execute(self) -> None:
        spec, allocation = self.spec, self.around.allocation

        def advance(elapsed_s: float) -> None:
            self.progress(spec.name, min(0.99, elapsed_s / spec.timeout_s))

        with lifted():
            unprepared = self.around.prepare(allocation)
            self.warnings += [] if unprepared is None else [unprepared]
            try:
                result = allocation.execute(
                    spec.argv(self.directory),
                    tasks=spec.tasks,
                    timeout_s=spec.timeout_s,
                    on_progress=advance,
                )
            except JobLost as error:
                self.unfinished = error.unfinished
                if isinstance(error.result, ProcessResult):  # what it had printed by then
                    self.outputs.append(error.result.raw_output("command"))
                raise
        self.outputs.append(result.raw_output("command"))
        self.unfinished = result.timed_out
        if result.problem is not None:
            said = tail(result.stderr.decode("utf-8", "replace"), 200)
            self.problems.append(result.problem + (f" ({said})" if said else ""))

    def _read(self) -> None:
        """Read what shows what was measured; that the command was killed says why it does not."""
        spec, around = self.spec, self.around
        if spec.output is None:
            found = read_printed(self.outputs[0].stdout, spec.benchmark)
        else:
            made = around.directories
            files = Files(self.parent, self.name, made.find, made.read)
            found = self._left(spec.output, files)
        self.outputs += found.outputs
        self.found = [self._confirmed(one) for one in found.measurements]
        if found.problem is not None and not self.unfinished:
            self.problems.append(found.problem)

    def _left(self, pattern: str, files: Files) -> Found:
        try:
            return read_left(pattern, files, self.spec.benchmark, first_output=len(self.outputs))
        except TrimtabError as error:  # the run is kept with what the command printed
            return Found(problem=error.message)

    def _confirmed(self, measurement: Measurement) -> Measurement:
        """Return the measurement, as invalid where it shows another workload than was asked for."""
        wrong = [
            f"{name} is {measurement.asked.get(name)} instead of {value}"
            for name, value in self.spec.expected.items()
            if measurement.asked.get(name) != value
        ]
        asked = _without(self.directory, measurement.asked)
        if not wrong:
            return dataclasses.replace(measurement, asked=asked)
        problem = f"another workload than asked: {'; '.join(wrong)}"
        return dataclasses.replace(
            measurement,
            asked=asked,
            status=RunStatus.INVALID_WORKLOAD,
            problem=problem,
            samples=tuple(with_reason(sample, problem) for sample in measurement.samples),
        )

    def remove_files(self) -> None:
        """Remove the probe's directory; a file system that has died keeps it, and that is said."""
        try:
            remove_tree(self.around.directories, self.parent, self.name)
        except TrimtabError as error:
            self.problems.append(f"{self.directory} could not be removed: {error.message}")

    def outcome(self, started_at: datetime) -> ProbeOutcome:
        """Return the run of the first result that has no name of its own, and those of others."""
        place = next((number for number, one in enumerate(self.found) if one.name is None), 0)
        main = self.found[place] if self.found else None
        run = self._run(main, started_at)
        others = tuple(
            self._other(one, number, run)
            for number, one in enumerate(self.found)
            if number != place
        )
        error = self.error
        for one in (run, *others):
            if error is None and one.status is not RunStatus.OK:
                error = ToolError(f"probe {one.probe} is {one.status.value}: {one.problem}")
        return ProbeOutcome(
            run,
            timelines=main.timelines if main else (),
            histograms=main.histograms if main else (),
            missing=tuple(dict.fromkeys(one for m in self.found for one in m.missing)),
            error=error,
            others=others,
        )

    def _run(self, main: Measurement | None, started_at: datetime) -> Run:
        tool, around = self.spec.tool, self.around
        kind = main.kind if main is not None else self.spec.benchmark
        return Run(
            id=self.identifier,
            site=around.site,
            probe=self.spec.name,
            kind=kind,
            status=self._status(main),
            at=began_at(around.allocation, started_at),
            until=around.clock(),
            tool_version=(main.tool_version if main else None) or (tool.version if tool else None),
            path=around.path.path,
            host=platform.node(),
            trimtab_version=__version__,
            parameters={
                **self._parameters(main),
                "program": tool.path if tool is not None else self.spec.command[0],
                "launcher": {"name": self.launcher.name, "version": self.launcher.version},
                "job": around.allocation.facts,
                "cost": self._cost(),
            },
            problem=self._problem(main),
            samples=main.samples if main is not None else (),
            outputs=tuple(self.outputs),
        )

    def _other(self, measurement: Measurement, number: int, run: Run) -> Run:
        assert run.at is not None
        name = measurement.name or f"result {number + 1}"
        return dataclasses.replace(
            run,
            # The same id at every try, so that it is kept once.
            id=identifier_of(run.at, run.id, str(number)),
            probe=f"{self.spec.name}: {name}",
            kind=measurement.kind,
            status=self._status_of(measurement),
            tool_version=measurement.tool_version or run.tool_version,
            parameters={**self._parameters(measurement), "of": run.id},
            problem=self._problem(measurement),
            samples=measurement.samples,
            outputs=(),
        )

    def _status(self, main: Measurement | None) -> RunStatus:
        if isinstance(self.error, NeverStarted):
            return RunStatus.NOT_STARTED
        if self.unfinished:
            return RunStatus.UNFINISHED
        return RunStatus.FAILED if main is None else self._status_of(main)

    def _status_of(self, measurement: Measurement) -> RunStatus:
        """Return what the output proves; it is not whole where something else went wrong."""
        whole = self.error is None and not self.problems
        if whole or measurement.status is not RunStatus.OK:
            return measurement.status
        believed = any(sample.believed for sample in measurement.samples)
        return RunStatus.PARTIAL if believed else RunStatus.FAILED

    def _problem(self, measurement: Measurement | None) -> str | None:
        told = [self.error.message] if self.error is not None else []
        told += self.problems
        if measurement is not None and measurement.problem is not None:
            told.append(measurement.problem)
        return "; ".join(dict.fromkeys(told)) or None

    def _parameters(self, measurement: Measurement | None) -> dict[str, object]:
        """Return what a result rests on; what was asked goes before what its output says of it."""
        one = measurement
        asked: dict[str, object] = dict(one.asked) if one is not None else {}
        if one is not None and one.name is not None:
            asked["result"] = one.name
        return {
            ASKED: asked | self.spec.asked(self.launcher.kind),
            "layer": one.layer if one is not None else None,
            "told": dict(one.told) if one is not None else {},
            "phases": [dataclasses.asdict(phase) for phase in one.phases] if one else [],
            "warnings": list(dict.fromkeys([*self.warnings, *(one.warnings if one else ())])),
        }

    def _cost(self) -> dict[str, object]:
        """Return what the run cost; how much was written only where the results tell."""
        return {
            "bytes_written": _moved(self.found, "write"),
            "bytes_read": _moved(self.found, "read"),
            "node_hours": self.around.allocation.facts.get("node_hours"),
            "capacity_bytes": self.around.capacity_bytes,
        }


def _moved(found: Iterable[Measurement], access: str) -> int | None:
    """Return the bytes that all results moved; ``None`` where none of them tells."""
    metric = "bytes_written" if access == "write" else "bytes_read"
    moved: list[float] = []
    for one in found:
        if one.phases:
            phases = [phase.moved_bytes for phase in one.phases if phase.access == access]
        else:
            phases = [
                sample.value
                for sample in one.samples
                if sample.metric == metric and sample.statistic == "total" and not sample.target
            ]
        moved += [value for value in phases if value is not None]
    return int(sum(moved)) if moved else None


def _without(directory: str, asked: Mapping[str, object]) -> dict[str, object]:
    """Return parameters in which the directory, another in each run, is a place again."""

    def plain(value: object) -> object:
        if isinstance(value, str):
            return value.replace(directory, DIRECTORY_WORD)
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return value

    return {name: plain(value) for name, value in asked.items()}
